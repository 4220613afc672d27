"""Warm ranks as a user of a notebook sees them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.processes import read_at_once
from nbdist.store import RunStore, snapshot
from tests.magics.conftest import Kernel, kernel, leaves_nothing_in, same_kernel
from tests.programs import until
from tests.warm.conftest import SLOW

__all__ = ["kernel", "leaves_nothing_in", "same_kernel"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks wait on Linux alone")

# the program cannot tell, but the system can
CELL = "{}\nprint('waited', '--wait' in open('/proc/self/cmdline').read())\nimport torch"

FIRST = "import sys; sys.path.insert(0, {!r})"
UNTIL = """%%distributed -n 1 --no-panel
import os, time, torch
while not os.path.exists({!r}):
    time.sleep(0.05)"""


def waited(kernel: Kernel, line: str) -> tuple[set[str], str]:
    """Return whether the ranks of a cell had waited, and its output."""
    reply = kernel.run(CELL.format(f"%%distributed {line} --no-panel"))
    assert reply.status == "ok", reply.traceback
    return set(re.findall(r"waited (\w+)", reply.stdout)), reply.stdout


def until_ready(kernel: Kernel) -> str:
    status = ""

    def ready() -> bool:
        nonlocal status
        status = kernel.run("%dist_warm").stdout
        return re.search("(is|are) ready for the next run", status) is not None

    until(ready, 60.0)
    return status


def test_after_the_first_run_the_next_one_finds_its_ranks_ready(kernel: Kernel, light_torch: Path) -> None:
    kernel.run("import nbdist.warm.pool\nnbdist.warm.pool._TAKE = 20.0")  # others take the processors
    kernel.run(FIRST.format(str(light_torch)))
    assert "no ranks are ready" in kernel.run("%dist_warm auto").stdout
    go_on = kernel.home.parent / "go on"
    request = kernel.submit(UNTIL.format(str(go_on)))
    # its ranks begin when processors are idle, or the run has ended
    until(lambda: standbys_of(kernel), 60.0)
    beside = standbys_of(kernel)
    go_on.touch()
    assert kernel.collect(request).status == "ok"
    assert standbys_of(kernel) == beside

    status = until_ready(kernel)
    assert re.search(r"1 rank of torch is ready .* \((\d+) MB of memory, (\d+) MB of them private", status)
    assert "1 rank of torch for the next run" in kernel.run("%dist_status").data[0]["text/plain"]

    assert waited(kernel, "-n 1")[0] == {"True"}

    until_ready(kernel)
    ranks, output = waited(kernel, "-n 1 --env KINETO_LOG_LEVEL=5")
    assert ranks == {"False"}
    assert "warm ranks were not used: KINETO_LOG_LEVEL has changed since torch was imported" in output

    until_ready(kernel)
    assert waited(kernel, "-n 1 --cold")[0] == {"False"}
    kernel.run("import nbdist.warm.pool as w; pid = w.ranks._standby.supervisor.process.pid")
    pid = int(kernel.run("print(pid)").stdout)
    started = [processes.identify(pid), *processes.descendants(pid)]
    assert len(started) == 3

    assert "no ranks are ready" in kernel.run("%dist_warm off").stdout

    until(lambda: not [process for process in started if process is not None and processes.alive(process)])
    assert waited(kernel, "-n 1")[0] == {"False"}
    assert "no ranks are ready" in kernel.run("%dist_warm").stdout


IMPORTING = """
%dist_warm 2 --framework torch
standby = __import__("nbdist.warm.pool").warm.pool.ranks._standby
while not standby.up:
    standby.look(0.1)
"""


def test_a_cell_whose_ranks_still_import_shows_its_panel_and_is_stopped_by_an_interrupt(
    kernel: Kernel, leaves_nothing_in
) -> None:
    (kernel.home.parent / "sitecustomize.py").write_text(SLOW)
    kernel.run(f"%env PYTHONPATH={kernel.home.parent}")
    kernel.run(IMPORTING)
    request = kernel.submit("%%distributed -n 2\nimport torch\nprint('begun')", metadata={"cellId": "a1"})

    kernel.collect(request, until=lambda reply: bool(reply.data))
    (directory,) = RunStore(kernel.home).directories()
    until(lambda: snapshot(directory).importing == (0, 1))
    kernel.interrupt()
    reply = kernel.collect(request, limit=20)

    assert reply.error.startswith("RunStopped")
    assert "nbdist/" not in reply.traceback
    assert snapshot(directory).elapsed(0) > 0
    assert directory.rank(0).log.read_bytes() == b""
    leaves_nothing_in(kernel.home)


def standbys_of(kernel: Kernel) -> set[int]:
    """Return the pids of the processes between the kernel and its waiting ranks."""
    pid = kernel.manager.provisioner.pid
    rows = [row for row in processes.process_table() if row.parent == pid and not row.zombie]
    pids = {row.process.pid for row in rows}
    return {pid for pid in pids if b"warm.standby" in read_at_once(f"/proc/{pid}/cmdline")}


def test_every_process_that_the_kernel_has_started_is_waited_for(kernel: Kernel, light_torch: Path) -> None:
    kernel.run(FIRST.format(str(light_torch)))

    def children() -> list[int]:
        """Return the children of a process, zombies too."""
        rows = processes.process_table()
        return [row.process.pid for row in rows if row.parent == kernel.manager.provisioner.pid]

    for page in ({}, {"cellId": "a1"}, {"cellId": "a1"}):
        assert kernel.run("%%distributed -n 2\npass", metadata=page).status == "ok"
    kernel.run("%dist_warm 2 --framework torch")
    assert len(children()) >= 1

    kernel.run("%dist_warm off")

    until(lambda: not children())


@pytest.mark.parametrize("line", ["many", "0", "2 --framework mxnet"])
def test_a_mistake_is_answered_with_how_it_is_written(same_kernel: Kernel, line: str) -> None:
    assert "%dist_warm [N|auto|off]" in same_kernel.run(f"%dist_warm {line}").stderr
