"""One run, looked at again and again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from nbdist.model import RunState
from nbdist.store import RunReader
from tests.fakes import runs
from tests.fakes.directories import WrittenRun


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path).happened(runs.supervisor_started(), runs.attempt_started())


def test_every_event_is_seen_at_the_next_look(written: WrittenRun) -> None:
    reader = RunReader(written.directory)
    states = [reader.look().state]

    for event in (runs.rank_started(0), runs.rank_started(1), runs.run_ended(RunState.FINISHED, "")):
        written.happened(event)
        states.append(reader.look().state)

    assert states == [RunState.STARTING, RunState.STARTING, RunState.RUNNING, RunState.FINISHED]


def test_files_are_read_only_when_the_journal_has_changed(written: WrittenRun) -> None:
    reader = RunReader(written.directory, alive=lambda _: True)
    first = reader.look()
    written.directory.spec.write_text("no spec any more")

    again = reader.look()
    written.happened(runs.rank_started(0))
    changed = reader.look()

    assert again is first
    assert changed is None
    shutil.rmtree(written.directory.path)
    assert reader.look() is None


def test_a_supervisor_that_vanishes_is_seen_though_no_file_changes(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(runs.supervisor_started(host=os.uname().nodename))
    lives = [True]
    reader = RunReader(written.directory, alive=lambda _: lives[0])
    before = reader.look()

    lives[0] = False
    after = reader.look()

    assert (before.state, after.state) == (RunState.STARTING, RunState.LOST)
