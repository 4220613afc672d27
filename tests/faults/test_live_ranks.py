"""Ranks that live on, in rounds: they come back from where they wait for each other, outlive a kernel that is
killed in the middle of a cell, though not for ever, and leave nothing when they end. Of a supervisor that was
killed, and of ranks that it cannot reach any more, the next cell says so."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from nbdist import processes, runner
from nbdist.model import CellStarted
from nbdist.store import RunDirectory, RunStore, read_events
from nbdist.text import reason_text
from tests.faults.test_stuck_ranks import MODEL, TORCH, TORCH_JOIN
from tests.magics.conftest import Kernel, by_rank
from tests.programs import until

WAITING = 0.5
"""Seconds in which ranks have come to where they wait."""

MANY = int(os.environ.get("NBDIST_LIVE_ROUNDS", "0"))
"""Sessions that are started and ended, and cells of one (``make test-live``)."""

SESSIONS, CELLS = MANY or 3, MANY or 100

MOST_GROWN = 5_000_000
"""Bytes of memory by which a rank may grow in its cells."""

HELD = "%%ranks\nint(open('/proc/self/statm').read().split()[1]) * 4096"

COUNTS = """%%ranks -n 2 --framework none --name live
import time
for number in range(400):
    print("number", number, flush=True)
    time.sleep(0.002)
kept = "kept"
"""


def cells_of(directory: RunDirectory) -> int:
    return sum(isinstance(event, CellStarted) for event in read_events(directory.journal))


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Yield a kernel with a session of torch, for all situations of all rounds."""
    kernel = Kernel(tmp_path_factory.mktemp("stuck") / "home")
    joined = kernel.run(
        f"%%ranks -n 2\nimport os, time\nrank = int(os.environ['RANK'])\n{TORCH_JOIN}{MODEL}kept = 41"
    )
    assert joined.status == "ok", joined.stdout + joined.error
    yield kernel
    kernel.run("%dist_session end")
    kernel.close()


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("situation", TORCH)
def test_an_interrupt_gets_ranks_of_a_session_back(situation: str, stuck: Kernel) -> None:
    (directory,) = RunStore(stuck.home).directories()
    before = cells_of(directory)
    cell = stuck.submit(f"%%ranks\ntry:\n    {TORCH[situation]}\nfinally:\n    kept += 1\n    print('left')")
    until(lambda: cells_of(directory) > before)
    time.sleep(WAITING)

    begun = time.monotonic()
    stuck.interrupt()
    reply = stuck.collect(cell, limit=30)
    seconds = time.monotonic() - begun
    again = stuck.run(
        "%%ranks\ntensor = torch.ones(4)\ndist.all_reduce(tensor)\npair = dist.new_group([0, 1])\n"
        "model = torch.nn.parallel.DistributedDataParallel(model.module)\n"
        "store = dist.distributed_c10d._get_default_store()\n"
        "print('met', int(tensor[0]), kept)\nkept = 41"
    )

    print(f"back after {seconds:.2f} s")
    assert reply.error.startswith("KeyboardInterrupt: cell "), reply.stdout + reply.error
    # torch's own native code may have said something before
    assert [lines[-1] for lines in by_rank(reply.stdout).values()] == ["left"] * 2
    assert [lines[-1] for lines in by_rank(again.stdout).values()] == ["met 2 42"] * 2, (
        again.stdout + again.error
    )


def test_a_session_outlives_a_kernel_that_is_killed_in_the_middle_of_a_cell(kernel: Kernel) -> None:
    kernel.submit(COUNTS)
    until(lambda: bool(RunStore(kernel.home).directories()) and live(kernel).socket.exists())
    directory = live(kernel)
    until(lambda: cells_of(directory) == 1)
    time.sleep(random.random())
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    kernel.run("%load_ext nbdist")

    begun = time.monotonic()
    reply = kernel.run("%%ranks\nkept")
    seconds = time.monotonic() - begun
    kernel.run("%dist_session end")

    print(f"found after {seconds:.2f} s")
    assert by_rank(reply.stdout) == {0: ["'kept'"], 1: ["'kept'"]}, reply.stdout + reply.error
    for rank in (0, 1):
        text = directory.rank(rank).log.read_text()
        assert re.findall(r"number (\d+)", text) == [str(number) for number in range(400)]


def live(kernel: Kernel) -> RunDirectory:
    return RunStore(kernel.home).directories()[0]


@pytest.mark.timeout(120 + 5 * MANY)
def test_sessions_that_end_leave_nothing(kernel: Kernel) -> None:
    """Leave it to the kernel's fixture to find what is left."""
    for number in range(SESSIONS):
        made = kernel.run(f"%%ranks -n 2 --framework none\n{number}")
        ended = kernel.run("%dist_session end")

        assert by_rank(made.stdout) == {0: [str(number)], 1: [str(number)]}, made.stdout + made.error
        assert "has ended" in ended.stdout
    assert not any(directory.socket.exists() for directory in RunStore(kernel.home).directories())


@pytest.mark.timeout(120 + MANY)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_cells_leave_no_memory_behind(kernel: Kernel) -> None:
    kernel.run("%%ranks -n 2 --framework none\ntotal = 0")
    for number in range(CELLS // 10):
        kernel.run(f"%%ranks\ntotal += {number}")
    before = by_rank(kernel.run(HELD).stdout)
    for number in range(CELLS):
        kernel.run(f"%%ranks\ntotal += {number}\nrow = [total] * 1000\nprint(total)")
    after = by_rank(kernel.run(HELD).stdout)
    kernel.run("%dist_session end")

    grown = [int(after[rank][0]) - int(before[rank][0]) for rank in (0, 1)]
    print(f"a rank grew by {max(grown) / 1e6:.2f} MB in {CELLS} cells")
    assert max(grown) < MOST_GROWN


ENDLESS = "import time\nwhile True: time.sleep(0.1)"


def handle_of(kernel: Kernel, cells: int = 1) -> runner.RunHandle:
    """Return the session, once so many of its cells have begun."""
    until(lambda: bool(RunStore(kernel.home).directories()) and live(kernel).socket.exists())
    handle = runner.RunHandle(live(kernel))
    until(lambda: cells_of(handle.directory) == cells)
    return handle


def test_a_busy_session_goes_its_idle_time_after_its_kernel(kernel: Kernel) -> None:
    kernel.submit(f"%%ranks -n 2 --framework none --idle 2s\n{ENDLESS}")
    handle = handle_of(kernel)

    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)

    assert handle.wait(1.0) == "running"
    assert handle.wait(20.0) == "stopped"
    assert reason_text(handle.run.reason) == (
        "the kernel ended, and the cell ran on for 2 s without it (--idle)"
    )


def test_a_cell_whose_supervisor_is_killed_names_that_and_the_next_one_starts_a_session(
    kernel: Kernel,
) -> None:
    cell = kernel.submit(f"%%ranks -n 2 --framework none\n{ENDLESS}")
    supervisor = handle_of(kernel).run.supervisor

    os.kill(supervisor.pid, signal.SIGKILL)
    reply = kernel.collect(cell, limit=20)
    anew = kernel.run("%%ranks -n 2 --framework none\n'anew'")

    assert f"has ended: its supervisor (pid {supervisor.pid}) was killed" in reply.error
    assert by_rank(anew.stdout) == {0: ["'anew'"], 1: ["'anew'"]}, anew.stderr + anew.error
    kernel.run("%dist_session end")


def test_a_session_whose_supervisor_was_killed_between_two_cells_is_followed_by_another(
    kernel: Kernel,
) -> None:
    kernel.run("%%ranks -n 2 --framework none\nkept = 41")
    supervisor = handle_of(kernel).run.supervisor

    os.kill(supervisor.pid, signal.SIGKILL)
    until(lambda: not processes.alive(supervisor))
    anew = kernel.run("%%ranks -n 2 --framework none\n'kept' in globals()")
    second = handle_of(kernel).run.supervisor
    os.kill(second.pid, signal.SIGKILL)
    until(lambda: not processes.alive(second))
    refused = kernel.run("%%ranks\nkept")

    assert by_rank(anew.stdout) == {0: ["False"], 1: ["False"]}, anew.stderr + anew.error
    assert f"has ended (its supervisor (pid {second.pid}) was killed" in refused.stderr


def test_ranks_of_which_one_has_ended_do_not_rejoin(kernel: Kernel) -> None:
    kernel.run("%%ranks -n 2 --framework none\nimport os")
    kernel.run("%%ranks 1\nos._exit(3)")

    begun = time.monotonic()
    refused = kernel.run("%dist_session rejoin")

    assert time.monotonic() - begun < 5
    assert "%dist_session reset" in refused.stderr
    kernel.run("%dist_session end")


@pytest.mark.parametrize("then", ["pass", ENDLESS], ids=["and returns", "and goes on"])
def test_a_rank_that_closes_its_sockets_is_ended_and_named(kernel: Kernel, then: str) -> None:
    kernel.run("%%ranks -n 2 --framework none\nimport os\nkept = 41")

    reply = kernel.run(f"%%ranks 1\nos.closerange(0, 256)\n{then}", limit=20)
    alone = kernel.run("%%ranks\nkept")

    assert "rank 1 closed the connection to nbdist and was ended" in reply.error
    assert alone.stdout.endswith("[0] 41\n"), alone.error
    kernel.run("%dist_session end")
