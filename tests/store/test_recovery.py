"""A run that has lost supervisor and reaper is mended by whoever looks next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.model import RunLost, RunState
from nbdist.store import RunDirectory, look, read_events
from nbdist.store.journal import Journal
from tests.fakes import runs
from tests.fakes.directories import WrittenRun

IGNORES_SIGTERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); "
SLEEPS = IGNORES_SIGTERM + "time.sleep(600)"


@pytest.fixture
def lost(tmp_path: Path) -> WrittenRun:
    """A run whose supervisor is no process of this machine."""
    written = WrittenRun(tmp_path)
    host = os.uname().nodename
    written.happened(runs.supervisor_started(host=host), runs.attempt_started(), runs.rank_started(0))
    return written


@pytest.fixture
def orphan(lost: WrittenRun) -> Iterator[subprocess.Popen[str]]:
    """A process that a rank of the lost run had started."""
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPS],
        env=os.environ | {"NBDIST_RUN_DIR": str(lost.directory.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


def lost_events(directory: RunDirectory) -> list[RunLost]:
    return [event for event in read_events(directory.journal) if isinstance(event, RunLost)]


def test_what_is_left_is_ended_and_the_loss_is_written_down_once(
    lost: WrittenRun, orphan: subprocess.Popen[str]
) -> None:
    run = look(lost.directory)

    assert (run.state, run.leftover) == (RunState.LOST, 1)
    assert orphan.wait(5) == -signal.SIGKILL
    look(lost.directory)
    assert len(lost_events(lost.directory)) == 1


def test_a_process_of_another_run_is_left_alone(lost: WrittenRun, tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", SLEEPS],
        env=os.environ | {"NBDIST_RUN_DIR": f"{lost.directory.path}-other"},
        stdout=subprocess.DEVNULL,
    )
    try:
        look(lost.directory)

        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_nothing_is_touched_while_somebody_writes_the_journal(
    lost: WrittenRun, orphan: subprocess.Popen[str]
) -> None:
    writer = Journal(lost.directory.journal)
    try:
        run = look(lost.directory)
    finally:
        writer.close()

    assert run.state is RunState.LOST
    assert lost_events(lost.directory) == []
    assert processes.identify(orphan.pid) is not None


def test_a_run_that_goes_on_is_left_alone(lost: WrittenRun, orphan: subprocess.Popen[str]) -> None:
    run = look(lost.directory, alive=lambda _: True)

    assert not run.state.terminal
    assert processes.identify(orphan.pid) is not None
