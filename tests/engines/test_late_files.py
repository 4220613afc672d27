"""Runs on an engine whose files arrive late: the end is recorded after the last of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nbdist.engines.ending import LATE, Ending, JobStop, LateLogs
from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.merged_journal import NodeJournals
from nbdist.model import Event, RankExited, Reason, Run, RunEnded, RunState, encode_event
from nbdist.store.control import StopRequest, take_requests
from nbdist.store.paths import NodeDirectory, make_private
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, exited, on_two_nodes, run_ended

SAID = b"step 1\nthe last line\n"


class KnowingClerk:
    """Poller with one answer, which collects orders."""

    signals, linger = True, 1.0

    def __init__(self, **status: object) -> None:
        self.status = JobStatus(**status)  # type: ignore[arg-type]
        self.orders: list[bool] = []

    def hurry(self) -> None:
        pass

    def stop(self, *, gently: bool) -> None:
        self.orders.append(gently)


class Watched:
    """Run of two ranks on two nodes, with the ending of its watcher."""

    def __init__(self, home: Path, poller: KnowingClerk) -> None:
        spec = on_two_nodes("slurm")
        self.written = WrittenRun(home, spec)
        self.directory = self.written.directory
        self.run = Run.of(spec)
        self.nodes = NodeJournals(self.directory, run=lambda: self.run, record=self._record)
        stop = JobStop(None, poller, self.nodes, run=lambda: self.run)  # type: ignore[arg-type]
        self.ending = Ending(self.directory, spec, run=lambda: self.run, stop=stop)

    def _record(self, event: Event) -> None:
        self.run = self.run.after(event)

    def wrote(self, node: int, *, log: int, state: RunState = RunState.FINISHED) -> None:
        """Write the whole journal of a node."""
        own = NodeDirectory(self.directory.path, f"0-{node}")
        own.own.mkdir(parents=True)
        mine: list[Event] = [event for event in STARTED if getattr(event, "rank", node) == node]
        mine += [dataclasses.replace(exited(node), log=log), run_ended(state)]
        own.journal.write_text("".join(encode_event(event) + "\n" for event in mine))

    def outcome(self, now: float) -> str:
        self.nodes.find()
        self.nodes.poll()
        decided = self.ending.decide(now)
        return "" if decided is None else decided.state.value


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path, KnowingClerk(phase=Phase.OVER, reason=Reason("completed"), completed=True))


def test_journals_that_are_seen_after_the_job_is_over_are_waited_for(watched: Watched) -> None:
    assert watched.outcome(100.0) == ""
    assert watched.outcome(130.0) == ""

    watched.wrote(0, log=0)
    watched.wrote(1, log=0)

    assert watched.outcome(131.0) == "finished"
    assert all(rank.state.terminal for rank in watched.run.ranks)


def test_the_last_lines_of_a_node_are_waited_for(watched: Watched) -> None:
    for node in (0, 1):
        watched.wrote(node, log=len(SAID))
    watched.written.printed(0, SAID)

    assert watched.outcome(100.0) == ""
    watched.written.printed(1, SAID[:7])
    assert watched.outcome(110.0) == ""
    watched.written.printed(1, SAID[7:])

    assert watched.outcome(111.0) == "finished"


def test_what_does_not_come_is_not_waited_for_for_ever(watched: Watched) -> None:
    for node in (0, 1):
        watched.wrote(node, log=len(SAID))

    assert watched.outcome(100.0) == ""
    assert watched.outcome(100.0 + LATE - 1) == ""
    assert watched.outcome(100.0 + LATE + 1) == "finished"


def test_a_job_that_ended_badly_without_a_word_is_believed_soon(tmp_path: Path) -> None:
    watched = Watched(tmp_path, KnowingClerk(phase=Phase.OVER, reason=Reason.said("exit code 1:0")))

    assert watched.outcome(100.0) == ""
    assert watched.outcome(103.0) == "failed"


def test_an_engine_that_still_ends_the_job_is_waited_for(tmp_path: Path) -> None:
    poller = KnowingClerk(phase=Phase.RUNNING)  # Slurm says so while an epilog runs
    watched = Watched(tmp_path, poller)
    for node in (0, 1):
        watched.wrote(node, log=0, state=RunState.STOPPED)

    assert watched.outcome(100.0) == ""
    assert watched.outcome(160.0) == ""
    poller.status = JobStatus(phase=Phase.WAITING)  # put into the queue again
    assert watched.outcome(161.0) == ""


def test_an_engine_that_does_not_answer_is_waited_for_a_moment(tmp_path: Path) -> None:
    watched = Watched(tmp_path, KnowingClerk(phase=Phase.UNKNOWN))
    for node in (0, 1):
        watched.wrote(node, log=0, state=RunState.STOPPED)

    assert watched.outcome(100.0) == ""
    assert watched.outcome(107.0) == "failed"


def test_who_wants_an_end_waits_a_moment_alone(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(
        *STARTED, RankExited(time=0.0, rank=0, code=0, ended=True, log=5), exited(1)
    )
    late = LateLogs(run.directory)

    assert late.awaited(run.run, 100.0, hurry=True)
    assert not late.awaited(run.run, 106.0, hurry=True)


def test_a_run_without_a_word_about_its_logs_is_not_waited_for(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(
        *STARTED, exited(0), exited(1), RunEnded(time=0.0, state=RunState.FINISHED, reason=Reason())
    )

    assert not LateLogs(run.directory).awaited(run.run, 100.0, hurry=False)


def test_nodes_that_are_there_after_all_are_told_that_the_run_was_given_up(tmp_path: Path) -> None:
    watched = Watched(tmp_path, KnowingClerk(phase=Phase.UNKNOWN, reason=Reason("slurm-silent")))
    own = NodeDirectory(watched.directory.path, "0-1")
    make_private(own.control)
    own.journal.write_text("".join(encode_event(event) + "\n" for event in STARTED))

    decided = [watched.outcome(now) for now in (100.0, 130.0, 699.0, 701.0)]

    assert decided == ["", "", "", "lost"]
    (request,) = take_requests(own)
    assert isinstance(request, StopRequest)
    assert (request.reason.code, request.reason.origin) == ("nodes-silent", Reason("slurm-silent"))
