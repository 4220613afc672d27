"""A rank that saves its work when its run ends has time for it, and one that does not react has none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.feed.summary import facts_of, remarks
from nbdist.model import Reason, RunState
from nbdist.store import RunStore
from tests.magics.conftest import Kernel
from tests.programs import until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

# it saves for 8 s, more than a rank has that does not save
SAVE = """
import os, signal, sys, time
rank = os.environ["RANK"]
def save():
    with open(f"half-{rank}", "w") as file:
        for part in range(80):
            time.sleep(0.1)
            file.write("x" * 1000)
            file.flush()
    os.rename(f"half-{rank}", f"saved-{rank}")
def work():
    while True:
        time.sleep(0.1)
"""
IN_FINALLY = f"""{SAVE}
print("ready", flush=True)
try:
    work()
finally:
    save()
"""
IN_A_HANDLER = f"""{SAVE}
def leave(number, frame):
    save()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
work()
"""
BY_A_FLAG = f"""{SAVE}
asked = []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: asked.append(1))
print("ready", flush=True)
while not asked:
    time.sleep(0.1)
save()
"""
WITH_A_FAILURE = IN_A_HANDLER.replace(
    "\nwork()", "\nif rank == '1':\n    raise ValueError('no data')\nwork()"
)
IN_A_BLOCK = f"""{SAVE}
import nbdist
print("ready", flush=True)
with nbdist.saving():
    save()
work()
"""


def by_stop(handle: runner.RunHandle) -> None:
    handle.request_stop(Reason.said("enough"))


def by_sigterm(handle: runner.RunHandle) -> None:
    os.kill(handle.run.supervisor.pid, signal.SIGTERM)


def by_the_limit(_: runner.RunHandle) -> None:
    """It ends by itself."""


ENDS: dict[str, tuple[str, Callable[[runner.RunHandle], None], str]] = {
    "finally, a stop": (IN_FINALLY, by_stop, ""),
    "finally, the limit": (IN_FINALLY, by_the_limit, "--timeout 6s"),
    "a handler, SIGTERM": (IN_A_HANDLER, by_sigterm, ""),
    "a flag, a stop": (BY_A_FLAG, by_stop, ""),
    "a block that writes for longer than the grace": (IN_A_BLOCK, by_stop, "--grace 2s"),
    "a handler, the failure of another": (WITH_A_FAILURE, by_the_limit, ""),
}


def test_what_a_rank_saves_at_the_end_is_whole(start_cell, tmp_path: Path) -> None:
    handles = {}
    for name, (program, end, options) in ENDS.items():
        folder = tmp_path / name
        folder.mkdir()
        handles[name] = start_cell(f"-n 2 --framework none {options}", program, folder)
        until_ready(handles[name])
        end(handles[name])

    for handle in handles.values():
        handle.wait(60)

    saved = {name: sorted(file.stat().st_size for file in (tmp_path / name).glob("saved-*")) for name in ENDS}
    assert saved == {name: [80_000] * (1 if "failure" in name else 2) for name in ENDS}


def test_two_stops_at_once_are_one_and_a_later_one_cuts_the_save(start_cell, tmp_path: Path) -> None:
    handle = until_ready(start_cell("-n 2 --framework none", IN_FINALLY))

    handle.stop("enough", timeout=0.0)
    handle.stop("enough", timeout=2.5)
    saves = [rank.saves is not None for rank in handle.run.ranks]
    handle.stop("enough")

    run = handle.run
    assert saves == [True, True]
    assert run.state is RunState.STOPPED
    assert not (tmp_path / "saved-0").exists()
    assert "rank 1 was ended while it saved half-1" in "\n".join(
        remarks(facts_of(run, handle.directory), "en", [])
    )


def test_signals_of_a_scheduler_reach_the_ranks_and_end_nothing(home: Path, tmp_path: Path) -> None:
    program = tmp_path / "told.py"
    program.write_text(
        "import os, signal, time\ntold = []\n"
        "if os.environ['RANK'] == '0':\n"
        "    for name in ('SIGUSR1', 'SIGUSR2'):\n"
        "        signal.signal(getattr(signal, name), lambda n, _: told.append(n))\n"
        "print('ready', flush=True)\n"
        "deadline = time.time() + 60\n"
        "while len(told) < 2 and time.time() < deadline and not os.path.exists('end'):\n"
        "    time.sleep(0.05)\n"
        "open('end', 'w').close()\nprint(sorted(told), flush=True)\n"
    )
    command = [sys.executable, "-m", "nbdist", "run", "-n", "2", "--framework", "none", program.name]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any("ready" in line for line in process.stdout)
    until(lambda: "ready" in runner.attach().logs(0))

    process.send_signal(signal.SIGUSR1)
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR2)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "[0] [10, 12]" in output


def test_at_a_limit_all_ranks_leave_at_one_call_and_nothing_has_failed(run_cell) -> None:
    program = (
        "import nbdist, os, time\nstep = 0\n"
        "pause = 0.05 + 0.01 * int(os.environ['RANK'])\n"
        "while not nbdist.should_stop():\n    step += 1\n    time.sleep(pause)\n"
        "print('left at', step, flush=True)\n"
    )

    handle = run_cell("-n 2 --framework none --until 3s", program)

    left = {handle.logs(rank) for rank in range(2)}
    assert (handle.run.state, handle.run.reason) == (RunState.FINISHED, Reason("at-limit", limit="3s"))
    assert len(left) == 1
    assert "left at" in left.pop()


def test_at_a_limit_ranks_that_never_ask_are_interrupted_and_nothing_has_failed(
    run_cell, tmp_path: Path
) -> None:
    handle = run_cell("-n 2 --framework none --until 3s", IN_FINALLY.replace("range(80)", "range(5)"))

    assert handle.run.state is RunState.FINISHED
    assert (tmp_path / "saved-1").exists()


def test_a_cell_of_live_ranks_saves_after_two_quick_interrupts_and_when_its_session_is_stopped(
    tmp_path: Path,
) -> None:
    kernel = Kernel(tmp_path / "home")
    try:
        kernel.run(f"import os\nos.chdir({str(tmp_path)!r})")
        kernel.run("%%ranks -n 2 --framework none\npass")
        (directory,) = RunStore(kernel.home).directories()
        handle = runner.RunHandle(directory)
        cell = kernel.submit(f"%%ranks\n{IN_FINALLY}")
        until(lambda: all("ready" in handle.logs(rank) for rank in (0, 1)))
        kernel.interrupt()
        time.sleep(0.3)
        kernel.interrupt()
        reply = kernel.collect(cell, limit=40)
        by_interrupts = sorted(file.stat().st_size for file in tmp_path.glob("saved-*"))
        [file.unlink() for file in tmp_path.glob("saved-*")]
        kernel.submit(f"%%ranks\n{IN_FINALLY}")
        until(lambda: all(handle.logs(rank).count("ready") == 2 for rank in (0, 1)))

        handle.stop("enough", timeout=40)
    finally:
        kernel.close()

    assert "KeyboardInterrupt" in reply.error
    assert by_interrupts == [80_000, 80_000]
    assert sorted(file.stat().st_size for file in tmp_path.glob("saved-*")) == [80_000, 80_000]
