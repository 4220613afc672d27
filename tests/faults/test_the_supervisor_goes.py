"""The supervisor is killed, or its keeper, or both: the run reads LOST and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist import processes, runner
from nbdist.model import ProcessId, RankStarted
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec, attempt_started, supervisor_started
from tests.programs import (
    FAMILY,
    MEMBERS,
    SLEEP,
    STUBBORN,
    family_of,
    left_of,
    rank_states,
    ranks_of,
    until,
    until_ready,
)

pytestmark = pytest.mark.usefixtures("leaves_nothing")

WAITS = f"{FAMILY}\ntime.sleep(600)"


def keeper_of(handle: runner.RunHandle) -> int:
    stat = processes.read_stat(handle.run.supervisor.pid)
    assert stat is not None
    return stat.parent


def kill_the_supervisor(handle: runner.RunHandle) -> None:
    os.kill(handle.run.supervisor.pid, signal.SIGKILL)


def kill_both(handle: runner.RunHandle) -> None:
    """At one moment, as a person does it who kills all that has nbdist in its name."""
    supervisor, keeper = handle.run.supervisor.pid, keeper_of(handle)
    # what is suspended cannot act between the two
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(keeper, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)


def test_a_killed_supervisor_leaves_nothing_and_the_run_says_so(start_cell) -> None:
    handle = start_cell("-n 2", WAITS)
    until_ready(handle)
    family = family_of(handle)
    supervisor = handle.run.supervisor.pid
    assert len(family) == 2 * (1 + MEMBERS)

    kill_the_supervisor(handle)

    # by the keeper, and not by this test's own look at the run
    until(lambda: left_of(handle, family) == [], limit=10)
    until(lambda: b"RunLost" in handle.directory.journal.read_bytes(), limit=10)
    run = handle.run
    assert (run.state.value, run.reason) == (
        "lost",
        f"its supervisor (pid {supervisor}) was killed by SIGKILL",
    )
    assert rank_states(handle) == ["lost", "lost"]
    assert run.leftover >= 2 * MEMBERS


def test_a_supervisor_that_is_killed_while_it_starts_its_ranks_leaves_nothing(start_cell) -> None:
    handle = start_cell("-n 8", SLEEP)
    until(lambda: handle.run.supervisor)

    kill_the_supervisor(handle)

    assert handle.wait(10) == "lost"
    until(lambda: left_of(handle, []) == [], limit=10)


@pytest.mark.parametrize("cell", [SLEEP, STUBBORN], ids=["willing", "unwilling"])
def test_ranks_die_with_their_supervisor_within_a_second(start_cell, cell: str) -> None:
    handle = start_cell("-n 4", cell)
    until_ready(handle)
    ranks = ranks_of(handle)

    kill_the_supervisor(handle)

    until(lambda: not any(processes.alive(rank) for rank in ranks), limit=5)
    assert handle.wait(5) == "lost"


def test_a_run_whose_keeper_is_killed_is_stopped_by_its_supervisor(start_cell) -> None:
    handle = start_cell("-n 2", WAITS)
    until_ready(handle)
    family = family_of(handle)

    os.kill(keeper_of(handle), signal.SIGKILL)

    assert handle.wait(15) == "cancelled"
    assert left_of(handle, family) == []
    assert handle.run.leftover == 2 * MEMBERS


def test_whoever_looks_next_ends_what_is_left_when_keeper_and_supervisor_are_killed(start_cell) -> None:
    handle = start_cell("-n 2", WAITS)
    until_ready(handle)
    family = [process for process in family_of(handle) if has_environment(process)]
    assert len(family) == 2 * MEMBERS
    ranks = ranks_of(handle)

    kill_both(handle)
    until(lambda: not any(processes.alive(rank) for rank in ranks), limit=10)
    run = nbdist.attach(handle.run_id).run

    assert run.state.value == "lost"
    assert "gone without a word" in run.reason
    assert left_of(handle, family) == []
    assert run.leftover == 2 * (MEMBERS - 1)
    # what was done is written down, and is not done again
    assert handle.directory.journal.read_bytes().count(b"RunLost") == 1
    assert nbdist.attach(handle.run_id).run.leftover == run.leftover
    end_those_without_a_mark(handle)


def has_environment(process: ProcessId) -> bool:
    """Whether a process still says whose it is: the one limit of what can be found without a parent."""
    return bool(Path(f"/proc/{process.pid}/environ").read_bytes())


def end_those_without_a_mark(handle: runner.RunHandle) -> None:
    processes.send_all(family_of(handle), signal.SIGKILL)


def test_many_who_look_at_once_write_the_end_down_once(start_cell) -> None:
    handle = start_cell("-n 2", SLEEP)
    until_ready(handle)
    kill_both(handle)
    until(lambda: not any(processes.alive(rank) for rank in ranks_of(handle)), limit=10)

    script = "import nbdist, sys; print(nbdist.attach(sys.argv[1]).run.state.value)"
    lookers = [
        subprocess.Popen([sys.executable, "-c", script, handle.run_id], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]

    assert [looker.communicate(timeout=30)[0].strip() for looker in lookers] == ["lost"] * 4
    assert handle.directory.journal.read_bytes().count(b"RunLost") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("whom", ["supervisor", "keeper"])
def test_a_supervisor_that_is_told_to_end_stops_its_run(
    start_cell, whom: str, number: signal.Signals
) -> None:
    handle = start_cell("-n 1", SLEEP)
    until_ready(handle)

    os.kill(handle.run.supervisor.pid if whom == "supervisor" else keeper_of(handle), number)

    assert handle.wait(15) == "cancelled"
    assert handle.run.reason == f"the supervisor got {number.name}"


@pytest.fixture
def stranger() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process that has nothing to do with a run, whatever it looks like."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *words]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_process_that_merely_has_the_pid_of_a_rank_is_left_alone(home: Path, stranger) -> None:
    now = time.time()
    looks_like_a_rank = stranger("nbdist/worker/__main__.py", "20261120-141503-lenet-k3f9", "0")
    known = processes.identify(looks_like_a_rank.pid)
    earlier = ProcessId(pid=known.pid, start_time=known.start_time - 1, boot_id=known.boot_id)
    written = WrittenRun(home, a_spec(ranks=1, created=now)).happened(
        supervisor_started(earlier, host=os.uname().nodename, time=now),
        attempt_started(time=now),
        RankStarted(
            time=now, rank=0, pid=earlier.pid, start_time=earlier.start_time, boot_id=earlier.boot_id
        ),
    )

    run = nbdist.attach(written.directory.run_id).run

    assert (run.state.value, run.leftover) == ("lost", 0)
    assert processes.alive(known)


def test_a_killed_supervisor_of_one_run_harms_no_other(start_cell) -> None:
    other = start_cell("-n 2", WAITS)
    handle = start_cell("-n 2", WAITS)
    until_ready(other)
    until_ready(handle)
    family = family_of(other)

    kill_the_supervisor(handle)

    assert handle.wait(10) == "lost"
    assert all(processes.alive(process) for process in family)
    assert other.status == "running"
