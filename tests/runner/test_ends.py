"""However a run ends, it is recorded as it was, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist import processes, runner
from nbdist.model import RankState
from nbdist.options import Options

pytestmark = pytest.mark.usefixtures("leaves_nothing")

SLEEP = "import time\nprint('ready')\ntime.sleep(600)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready")
time.sleep(600)
"""
WITH_CHILDREN = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("ready")
time.sleep(600)
"""


def until(condition: Callable[[], object], limit: float = 20.0) -> None:
    """Wait for a condition; fails the test when it does not come."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def until_ready(handle: runner.RunHandle) -> None:
    world_size = handle.run.spec.world_size
    until(lambda: all("ready" in handle.logs(rank) for rank in range(world_size)))


def rank_states(handle: runner.RunHandle) -> list[str]:
    return [rank.state.value for rank in handle.run.ranks]


def test_a_stopped_run_is_cancelled_with_the_reason(start_cell) -> None:
    handle = start_cell("-n 2", SLEEP)
    until_ready(handle)

    status = handle.stop("enough")

    assert (status, handle.run.reason) == ("cancelled", "enough")
    assert rank_states(handle) == ["ended", "ended"]
    assert [rank.code for rank in handle.run.ranks] == [-signal.SIGINT] * 2


def test_a_program_may_save_its_work_when_it_is_stopped(start_cell) -> None:
    cell = """
import time
try:
    print("ready")
    time.sleep(600)
except KeyboardInterrupt:
    print("saved")
"""
    handle = start_cell("-n 1", cell)
    until_ready(handle)

    status = handle.stop()

    assert status == "cancelled"
    assert handle.logs(0) == "ready\nsaved\n"


def test_a_rank_that_ignores_every_request_is_ended_all_the_same(start_cell) -> None:
    handle = start_cell("-n 2", STUBBORN)
    until_ready(handle)
    runner.request_stop_of(handle, "enough")

    status = handle.stop("enough, really")

    assert status == "cancelled"
    assert [rank.code for rank in handle.run.ranks] == [-signal.SIGKILL] * 2


def test_a_rank_that_was_suspended_is_ended_all_the_same(start_cell) -> None:
    handle = start_cell("-n 1", SLEEP)
    until_ready(handle)
    os.kill(handle.run.ranks[0].process.pid, signal.SIGSTOP)
    runner.request_stop_of(handle, "enough")

    assert handle.stop("enough, really") == "cancelled"


def test_children_in_sessions_of_their_own_are_ended_too(start_cell) -> None:
    handle = start_cell("-n 2", WITH_CHILDREN)
    until_ready(handle)
    mark = str(handle.directory.path)
    assert len(processes.marked("NBDIST_RUN_DIR", mark)) == 2 * 4

    handle.stop()

    assert processes.marked("NBDIST_RUN_DIR", mark) == []
    assert handle.run.leftover == 2 * 3


def test_children_that_a_successful_program_leaves_behind_are_ended(run_cell) -> None:
    cell = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"

    handle = run_cell("-n 1", cell)

    assert (handle.status, handle.run.leftover) == ("succeeded", 1)


def test_the_others_are_ended_within_a_second_when_one_rank_fails(run_cell) -> None:
    cell = "import os, time\nif os.environ['RANK'] == '2':\n    raise ValueError('mine')\ntime.sleep(600)"

    handle = run_cell("-n 3", cell)

    run = handle.run
    assert (run.state.value, run.reason) == ("failed", "rank 2 failed")
    assert rank_states(handle) == ["ended", "ended", "failed"]
    assert max(rank.exited for rank in run.ranks[:2]) - run.ranks[2].errored < 1.0


@pytest.mark.parametrize(
    ("how", "code"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", -9, id="SIGKILL"),
        pytest.param("ctypes.string_at(0)", -11, id="a segmentation fault"),
        pytest.param("os._exit(3)", 3, id="os._exit"),
    ],
)
def test_a_rank_that_dies_without_a_word_is_the_one_that_failed(run_cell, how: str, code: int) -> None:
    cell = f"import ctypes, os, signal, time\nif os.environ['RANK'] == '0':\n    {how}\ntime.sleep(600)"

    handle = run_cell("-n 2", cell)

    assert rank_states(handle) == ["failed", "ended"]
    assert handle.run.ranks[0].code == code


def test_a_run_ends_at_its_time_limit(run_cell) -> None:
    handle = run_cell("-n 2 --timeout 1s", SLEEP)

    assert (handle.status, handle.run.reason) == ("failed", "the time limit of 1 s was reached")


def test_a_run_whose_supervisor_was_killed_is_lost_and_its_ranks_are_gone(start_cell) -> None:
    handle = start_cell("-n 2", SLEEP)
    until_ready(handle)
    ranks = [rank.process for rank in handle.run.ranks]

    os.kill(handle.run.supervisor.pid, signal.SIGKILL)

    until(lambda: not any(processes.alive(rank) for rank in ranks), limit=5)
    runner.collect_supervisors()
    assert handle.status == "lost"
    assert all(rank.state is RankState.LOST for rank in handle.run.ranks)


def test_a_supervisor_that_is_told_to_end_stops_its_run(start_cell) -> None:
    handle = start_cell("-n 1", SLEEP)
    until_ready(handle)

    os.kill(handle.run.supervisor.pid, signal.SIGTERM)

    assert handle.wait(15) == "cancelled"
    assert handle.run.reason == "the supervisor got SIGTERM"


OWNER = """
import sys
from nbdist import options, runner
plan = runner.plan(options.parse(sys.argv[1]), cell=sys.argv[2], cwd=".", python_path=sys.path)
print(runner.start(plan).run_id, flush=True)
sys.stdin.read()
"""


def _owner(line: str, cell: str, folder: Path) -> tuple[subprocess.Popen[str], runner.RunHandle]:
    """A process that starts a run, as a kernel does, and then waits."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, line, cell],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    return owner, runner.attach(owner.stdout.readline().strip())


def _kill(owner: subprocess.Popen[str]) -> None:
    owner.kill()
    owner.communicate()


def test_a_foreground_run_ends_with_its_kernel(home: Path, tmp_path: Path) -> None:
    owner, handle = _owner("-n 2", SLEEP, tmp_path)
    until_ready(handle)

    _kill(owner)

    assert handle.wait(15) == "cancelled"
    assert handle.run.reason == "the notebook's kernel ended"


def test_a_foreground_run_ends_with_its_kernel_though_a_fork_of_it_lives(home: Path, tmp_path: Path) -> None:
    cell = SLEEP
    script = OWNER.replace(
        "sys.stdin.read()", "import os\nif os.fork() == 0: import time; time.sleep(30)\nsys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, "-n 1", cell],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    handle = runner.attach(owner.stdout.readline().strip())
    until_ready(handle)

    owner.kill()

    try:
        assert handle.wait(15) == "cancelled"
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        owner.communicate()


def test_a_detached_run_outlives_its_kernel(home: Path, tmp_path: Path) -> None:
    owner, handle = _owner("-n 1 -d", "import time\nprint('ready')\ntime.sleep(1)\nprint('done')", tmp_path)
    until_ready(handle)

    _kill(owner)

    assert handle.wait(15) == "succeeded"
    assert handle.logs(0) == "ready\ndone\n"


def test_ten_runs_at_once_do_not_collide(start_cell) -> None:
    cell = "import os\nprint(os.environ['MASTER_PORT'])"
    handles = [start_cell("-n 2", cell) for _ in range(10)]

    assert [handle.wait(60) for handle in handles] == ["succeeded"] * 10
    assert len({handle.logs(0) for handle in handles}) == 10
    assert all(handle.logs(0) == handle.logs(1) for handle in handles)


def test_a_program_that_cannot_be_started_says_why(start_cell, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    plan = runner.plan(Options(nproc=1, cwd=str(folder)), cell="print(1)", cwd=str(tmp_path), python_path=[])
    folder.rmdir()

    handle = runner.start(plan)

    assert handle.wait(15) == "failed"
    assert "rank 0 could not be started" in handle.logs(0)
