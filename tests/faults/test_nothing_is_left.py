"""However a run ends, no process of it is left, and the report says how many were ended."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from nbdist import config, runner
from nbdist.model import Escalated, Reason
from nbdist.store import read_events
from nbdist.text import reason_text
from tests.programs import FAMILY, MEMBERS, family_of, left_of, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

# in a rank, the last line of a program; rank 1 goes on until it is ended
WAIT_FOR_EVER = "time.sleep(600)"
IGNORE = "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def last_step(handle: runner.RunHandle) -> float:
    """Return the time of the last signal to the ranks, or of the last rank's exit, whichever is later."""
    times = [event.time for event in read_events(handle.directory.journal) if isinstance(event, Escalated)]
    return max([*times, *(rank.exited for rank in handle.run.ranks)])


@pytest.mark.parametrize(
    ("line", "last_line", "status"),
    [
        pytest.param("", "pass", "finished", id="the end of the program"),
        pytest.param("", "raise ValueError('no data')", "failed", id="an exception in every rank"),
        pytest.param("", "1 / int(os.environ['RANK']); " + WAIT_FOR_EVER, "failed", id="one exception"),
        pytest.param("", "os._exit(3)", "failed", id="os._exit"),
        pytest.param("", "os.kill(os.getpid(), signal.SIGKILL)", "failed", id="SIGKILL from outside"),
        pytest.param("", "os.abort()", "failed", id="abort"),
        pytest.param("--timeout 5s", WAIT_FOR_EVER, "failed", id="the time limit"),
        pytest.param("--timeout 5s", f"{IGNORE}; {WAIT_FOR_EVER}", "failed", id="the time limit, ignored"),
    ],
)
def test_nothing_is_left_when_a_run_ends_by_itself(
    start_cell, line: str, last_line: str, status: str
) -> None:
    # the members are counted before the end: the ranks wait for the word to go on
    program = f"{FAMILY}\nwhile not os.path.exists('go'): time.sleep(0.01)\n{last_line}"
    handle = until_ready(start_cell(f"-n 2 {line}", program))
    family = family_of(handle)
    assert len(family) == 2 * (1 + MEMBERS)
    (handle.directory.path.parents[2] / "go").touch()

    assert handle.wait(30) == status

    assert left_of(handle, family) == []
    assert handle.run.leftover == 2 * MEMBERS
    assert handle.run.ended - last_step(handle) < 10.0


@pytest.mark.parametrize(
    "last_line", [WAIT_FOR_EVER, f"{IGNORE}; {WAIT_FOR_EVER}"], ids=["willing", "unwilling"]
)
def test_nothing_is_left_when_a_run_is_stopped(start_cell, last_line: str) -> None:
    handle = until_ready(start_cell("-n 2", f"{FAMILY}\n{last_line}"))
    family = family_of(handle)
    assert len(family) == 2 * (1 + MEMBERS)

    assert handle.stop("enough") == "stopped"

    assert left_of(handle, family) == []
    assert (reason_text(handle.run.reason), handle.run.leftover) == ("enough", 2 * MEMBERS)
    assert handle.run.ended - last_step(handle) < 10.0


def test_nothing_is_left_of_a_program_that_makes_a_new_process_for_each_that_ends(start_cell) -> None:
    cell = """
import os, time
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sleep", "600"])
        os.wait()
while len(open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()) < 1: pass
print("ready")
time.sleep(600)
"""
    handle = until_ready(start_cell("-n 1", cell))

    assert handle.stop() == "stopped"

    assert left_of(handle, []) == []
    assert handle.run.leftover >= 2


@pytest.mark.parametrize("number", ["SIG_DFL", "SIG_IGN"], ids=["willing", "unwilling"])
@pytest.mark.parametrize("end", ["stop", "killed supervisor"])
def test_nothing_is_left_of_a_process_that_becomes_another_one_all_the_time(
    start_cell, tmp_path: Path, number: str, end: str
) -> None:
    # no look at the process table finds it for sure; the lock tells when the last one has gone
    cell = f"""
import fcntl, os, signal, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.{number})
    print("ready")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
    os._exit(0)
lock.close()
time.sleep(600)
"""
    handle = until_ready(start_cell("-n 1", cell))
    assert is_locked(tmp_path / "lock")

    if end == "stop":
        assert handle.stop() == "stopped"
    else:
        os.kill(handle.run.supervisor.pid, signal.SIGKILL)
        until(lambda: b"RunLost" in handle.directory.journal.read_bytes(), limit=10)

    assert not is_locked(tmp_path / "lock")


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_nothing_is_left_of_ranks_that_are_stopped_while_they_start(start_cell) -> None:
    handle = start_cell("-n 8", "import time\ntime.sleep(600)")
    until(lambda: any(rank.process is not None for rank in handle.run.ranks))

    assert handle.stop("too early") == "stopped"

    assert left_of(handle, []) == []
    assert all(rank.state.terminal for rank in handle.run.ranks)


def test_a_second_request_to_stop_hastens_the_end(start_cell) -> None:
    handle = start_cell("-n 2", f"{FAMILY}\n{IGNORE}\nprint('deaf')\n{WAIT_FOR_EVER}")
    until(lambda: "deaf" in handle.logs(0) and "deaf" in handle.logs(1))

    handle.request_stop(Reason.said("enough"))
    until(lambda: handle.run.stop_reason)
    time.sleep(config.AS_ONE)  # requests within it count as one
    handle.request_stop(Reason.said("enough, really"))
    until(lambda: any(event.signal == "SIGTERM" for event in escalations(handle)))
    time.sleep(config.AS_ONE)
    assert handle.stop("now") == "stopped"

    steps = escalations(handle)
    assert [step.signal for step in steps] == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert steps[-1].time - steps[0].time < config.INTERRUPT_GRACE + config.TERMINATE_GRACE
    assert [rank.code for rank in handle.run.ranks] == [-signal.SIGKILL] * 2


def escalations(handle: runner.RunHandle) -> list[Escalated]:
    return [event for event in read_events(handle.directory.journal) if isinstance(event, Escalated)]
