"""The state of a run, read from its directory alone."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.model import Event, ProcessId, RankState, Run, RunState, encode_event
from nbdist.store import RunDirectory, snapshot
from nbdist.store.run_store import is_run_locked, take_run_lock
from nbdist.text import reason_text
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, SUPERVISOR, exited, finished, run_ended, supervisor_started

HERE = supervisor_started(host=os.uname().nodename)
NOW = CREATED + 60


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path / "home")


def look(written: WrittenRun, *, alive: bool = True, now: float = NOW) -> Run:
    run = snapshot(written.directory, alive=lambda _: alive, clock=lambda: now)
    assert run is not None
    return run


def test_a_running_run_is_running(written: WrittenRun) -> None:
    written.happened(HERE, *STARTED[1:], finished(0))

    run = look(written)

    assert run.state is RunState.RUNNING
    assert run.spec == written.spec


def test_a_run_whose_supervisor_has_gone_is_lost(written: WrittenRun) -> None:
    written.happened(HERE, *STARTED[1:], exited(0))
    before = written.directory.journal.read_bytes()

    run = look(written, alive=False)

    assert (run.state, run.ended) == (RunState.LOST, NOW)
    assert reason_text(run.reason) == f"its supervisor (pid {SUPERVISOR.pid}) disappeared"
    assert [rank.state for rank in run.ranks] == [RankState.FINISHED, RankState.LOST]
    assert written.directory.journal.read_bytes() == before


def test_a_pid_that_another_process_was_given_is_no_supervisor(written: WrittenRun) -> None:
    me = processes.identify(os.getpid())
    impostor = ProcessId(pid=me.pid, start_time=me.start_time - 1, boot_id=me.boot_id)
    written.happened(supervisor_started(impostor, host=os.uname().nodename), *STARTED[1:])

    run = snapshot(written.directory)

    assert run.state is RunState.LOST


def test_a_supervisor_on_another_machine_is_not_missed_here(written: WrittenRun) -> None:
    written.happened(*STARTED)

    run = look(written, alive=False)

    assert run.state is RunState.RUNNING


def test_a_run_that_has_ended_needs_no_supervisor(written: WrittenRun) -> None:
    written.happened(HERE, *STARTED[1:], exited(0), exited(1), run_ended(RunState.FINISHED))

    run = look(written, alive=False)

    assert (run.state, run.ended) == (RunState.FINISHED, CREATED + 12)


def test_a_run_that_ended_between_the_two_looks_is_not_lost(written: WrittenRun) -> None:
    written.happened(HERE, *STARTED[1:])

    def ends_while_it_is_looked_for(_: ProcessId) -> bool:
        written.happened(exited(0), exited(1), run_ended(RunState.FINISHED))
        return False

    run = snapshot(written.directory, alive=ends_while_it_is_looked_for)

    assert run.state is RunState.FINISHED


@pytest.mark.parametrize(
    ("age", "state"),
    [
        pytest.param(0.5, RunState.PENDING, id="it may still come"),
        pytest.param(29.0, RunState.PENDING, id="on a slow machine"),
        pytest.param(31.0, RunState.LOST, id="it does not come any more"),
    ],
)
def test_a_supervisor_that_never_came_is_missed_after_a_while(
    written: WrittenRun, age: float, state: RunState
) -> None:
    run = look(written, now=CREATED + age)

    assert run.state is state


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="that has not started its supervisor, and the clock is ahead"),
        pytest.param([HERE, *STARTED[1:]], id="that cleans up after its supervisor"),
    ],
)
def test_a_run_is_not_lost_while_its_reaper_is_at_work(written: WrittenRun, events: list[Event]) -> None:
    written.happened(*events)
    with custody_of_another_process(written.directory):
        assert not look(written, alive=False).state.terminal

    assert look(written, alive=False).state is RunState.LOST


@contextlib.contextmanager
def custody_of_another_process(directory: RunDirectory) -> Iterator[None]:
    pid, ours = os.getpid(), socket.socketpair()
    child = os.fork()
    if child == 0:
        take_run_lock(directory)
        ours[1].send(b".")
        ours[1].recv(1)
        os._exit(0)
    assert os.getpid() == pid
    try:
        ours[0].recv(1)
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in ours:
            end.close()


def test_two_who_look_at_once_do_not_take_each_other_for_the_reaper(written: WrittenRun) -> None:
    with open(written.directory.spec) as spec:
        fcntl.flock(spec, fcntl.LOCK_SH)

        assert not is_run_locked(written.directory)


def test_an_end_that_cannot_follow_is_not_waited_for(written: WrittenRun) -> None:
    # the beginning of the journal is gone: success cannot follow from nothing
    written.happened(run_ended(RunState.FINISHED))

    run = look(written, alive=False)

    assert run.state is RunState.LOST


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b'{"kind": "RankExi', id="a torn line"),
        pytest.param(b"\x00" * 512, id="a block that the disk lost"),
        pytest.param(b'{"kind": "Paused", "time": 1}', id="a newer version's event"),
        pytest.param(encode_event(exited(7)).encode(), id="a rank that does not exist"),
        pytest.param(encode_event(exited(-1)).encode(), id="a rank below zero"),
        pytest.param(b'{"kind": "RankFinished", "time": 1, "rank": "0"}', id="a rank that is a word"),
        pytest.param(encode_event(STARTED[0]).encode(), id="a second supervisor"),
        pytest.param(b"[" * 5000, id="a deep nest"),
    ],
)
def test_a_damaged_journal_is_read_as_far_as_it_makes_sense(written: WrittenRun, noise: bytes) -> None:
    written.happened(HERE, *STARTED[1:])
    with written.directory.journal.open("ab") as journal:
        journal.write(noise + b"\n")
    written.happened(exited(0), exited(1), run_ended(RunState.FINISHED))

    run = look(written)

    assert run.state is RunState.FINISHED
    assert [rank.state for rank in run.ranks] == [RankState.FINISHED] * 2


def test_a_journal_of_nothing_but_garbage_is_a_run_that_waits(written: WrittenRun) -> None:
    written.directory.journal.write_bytes(os.urandom(4096))

    run = look(written, now=CREATED + 1)

    assert run.state is RunState.PENDING


def test_a_spec_of_a_newer_version_is_read(written: WrittenRun) -> None:
    newer = json.loads(written.directory.spec.read_text()) | {"format": 2, "priority": "high"}
    written.directory.spec.write_text(json.dumps(newer))
    written.happened(HERE, *STARTED[1:])

    run = look(written)

    assert (run.state, run.spec.format) == (RunState.RUNNING, 2)
