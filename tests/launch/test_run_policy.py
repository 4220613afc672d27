"""The policy of a run, replayed: what happened when, and what follows, without a process.

A history is a list of lines: a second, and what happens in it. Time passes between them as it does
in the supervisor, deadline by deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from nbdist import config
from nbdist.launch.escalation import KILL, ON_OWN_ERROR, Escalation
from nbdist.launch.run_policy import Outcome, RunPolicy
from nbdist.model import (
    Escalated,
    Event,
    RankCut,
    RankState,
    Reason,
    Run,
    RunEnded,
    RunSpec,
    RunState,
    StopRequested,
)
from tests.fakes.runs import CREATED, a_spec, process_of, stop_requested, supervisor_started

K = RankState
Sent = tuple[float, int, str]
Happening = Callable[["Replay"], None]
History = Sequence[tuple[float, Happening]]


class Replay:
    """A policy with two ranks that have just started, a clock, and a note of every signal sent. Of the ranks
    only those that are ``stuck`` can be asked to come back from a wait."""

    def __init__(self, spec: RunSpec, stuck: frozenset[int] = frozenset()) -> None:
        self.now = 0.0
        self.stuck = stuck
        self.writes = True
        self.sent: list[Sent] = []
        self.journal: list[Event] = []
        self.policy = RunPolicy(
            spec,
            record=self.journal.append,
            send=lambda rank, number: self.sent.append((round(self.now, 3), rank, number.name)),
            wall_clock=lambda: CREATED + self.now,
            free=self.free,
            written=lambda _: int(self.now) if self.writes else 0,
            look_at_save=lambda rank: RankCut(time=CREATED + self.now, rank=rank, line=7),
        )
        self.policy.record(supervisor_started())
        self.policy.attempt_started(1, "127.0.0.1", 20_001, self.now)
        for rank in spec.ranks:
            self.policy.rank_started(rank.rank, process_of(rank.rank))

    def free(self, ranks: Collection[int], _patience: float) -> list[int]:
        self.sent += [(round(self.now, 3), rank, "free") for rank in ranks if rank in self.stuck]
        return [rank for rank in ranks if rank not in self.stuck]

    def play(self, history: History) -> Replay:
        for second, happening in history:
            self.let_pass(until=second)
            happening(self)
        return self

    def let_pass(self, until: float) -> None:
        """Tick at every deadline, as the supervisor does, then at ``until``."""
        while (deadline := self.policy.next_deadline()) is not None and self.now < deadline < until:
            self.now = deadline
            self.policy.tick(self.now)
        self.now = until
        self.policy.tick(self.now)

    @property
    def over(self) -> bool:
        return self.policy.over(self.now)

    @property
    def ranks(self) -> list[RankState]:
        return [rank.state for rank in self.policy.run.ranks]


def finishes(rank: int) -> Happening:
    return lambda replay: replay.policy.rank_finished(rank)


def errors(rank: int, *, answered: bool = True) -> Happening:
    """Its program raises; the others say at once where they are, or do not."""

    def happens(replay: Replay) -> None:
        replay.policy.rank_errored(rank, replay.now)
        if answered:
            replay.policy.peers_answered(replay.now)
            replay.policy.tick(replay.now)

    return happens


def comes_back(rank: int) -> Happening:
    return lambda replay: replay.policy.rank_freed(rank)


def stays(rank: int) -> Happening:
    """Answer that the rank does not wait for others, or that its wait cannot be ended."""

    def happens(replay: Replay) -> None:
        replay.policy.rank_kept(rank, replay.now)
        replay.policy.tick(replay.now)

    return happens


def saves(rank: int, **how: bool) -> Happening:
    return lambda replay: replay.policy.rank_leaves(rank, replay.now, **how)


def goes_on(rank: int) -> Happening:
    return lambda replay: replay.policy.rank_stays(rank, replay.now)


def writes_no_more(replay: Replay) -> None:
    replay.writes = False


def exits(rank: int, code: int = 0) -> Happening:
    return lambda replay: replay.policy.rank_exited(rank, code, replay.now)


def stop(reason: str = "stopped by ada") -> Happening:
    return lambda replay: replay.policy.stop(Reason.said(reason), replay.now)


def another_attempt(replay: Replay) -> None:
    """Start another attempt, as the supervisor does after a failed one."""
    replay.policy.next_attempt(replay.policy.outcome().reason, 0)
    replay.policy.attempt_started(2, "127.0.0.1", 20_002, replay.now)
    for rank in replay.policy.run.spec.ranks:
        replay.policy.rank_started(rank.rank, process_of(rank.rank))


def nothing(_: Replay) -> None:
    """Let time pass."""


def replay(history: History, **changes: Any) -> Replay:
    return Replay(a_spec(**changes)).play(history)


SUCCESS = Outcome(state=RunState.FINISHED, reason=Reason())
STOP = Outcome(state=RunState.STOPPED, reason=Reason.said("stopped by ada"))
LIMIT = Outcome(state=RunState.FAILED, reason=Reason("time-limit", seconds=60.0))


def failure(code: str, *ranks: int) -> Outcome:
    return Outcome(state=RunState.FAILED, reason=Reason(code, ranks=ranks))


End = tuple[list[RankState], Outcome]
ALL_FINISHED: End = ([K.FINISHED, K.FINISHED], SUCCESS)
ALL_STOPPED: End = ([K.STOPPED, K.STOPPED], STOP)
ALL_TIMED_OUT: End = ([K.STOPPED, K.STOPPED], LIMIT)
RANK_1_FAILED: End = ([K.STOPPED, K.FAILED], failure("ranks-failed", 1))


def expect(policy: Replay, sent: list[Sent], end: End) -> None:
    """Assert what was sent and how the run ended, for its supervisor and for a reader of its journal."""
    ranks, outcome = end
    assert policy.over
    assert policy.sent == sent
    assert (policy.ranks, policy.policy.outcome()) == end
    ended = RunEnded(time=CREATED + 99, state=outcome.state, reason=outcome.reason)
    read = Run.of(policy.policy.run.spec, [*policy.journal, ended])
    assert [rank.state for rank in read.ranks] == ranks
    assert (read.state, read.reason) == (outcome.state, outcome.reason)


HISTORIES = [
    pytest.param(
        [(10, exits(0, 1)), (10.1, exits(1, -15)), (11, another_attempt), (20, exits(0)), (20, exits(1))],
        [(10, 1, "SIGTERM")],
        ALL_FINISHED,
        id="success at the second attempt, though the first was cut short",
    ),
    pytest.param(
        [(10, finishes(0)), (10, finishes(1)), (11, exits(0)), (12, exits(1))], [], ALL_FINISHED, id="success"
    ),
    pytest.param(
        [(10, exits(0)), (11, exits(1))], [], ALL_FINISHED, id="success of programs that leave by os._exit(0)"
    ),
    pytest.param(
        [(10, finishes(0)), (10, finishes(1)), (12, exits(0, -6)), (12, exits(1, -11))],
        [],
        ALL_FINISHED,
        id="native code aborts after the last statements",
    ),
    pytest.param(
        [(10, finishes(0)), (500, exits(0)), (9000, finishes(1)), (9001, exits(1))],
        [],
        ALL_FINISHED,
        id="one rank goes on long after the other",
    ),
    pytest.param(
        [(5, errors(1)), (5.2, exits(0, -15)), (6.5, exits(1, 1))],
        [(5, 0, "SIGTERM")],
        RANK_1_FAILED,
        id="one rank raises: the other is told to end, the first leaves by itself",
    ),
    pytest.param(
        [(5, errors(1)), (5.71, exits(0, -9)), (6.5, exits(1, 1))],
        [(5, 0, "SIGTERM"), (5.7, 0, "SIGKILL")],
        RANK_1_FAILED,
        id="the other waits in a collective and is killed",
    ),
    pytest.param(
        [(5, errors(1)), (5.2, exits(0, -15)), (20, exits(1, -9))],
        [(5, 0, "SIGTERM"), (13, 1, "SIGTERM"), (16, 1, "SIGKILL")],
        RANK_1_FAILED,
        id="the rank that raised hangs on its way out",
    ),
    pytest.param(
        [(5, errors(1)), (5.1, errors(0)), (5.3, exits(0, 1)), (6.5, exits(1, 1))],
        [(5, 0, "SIGTERM")],
        RANK_1_FAILED,
        id="what the other raises after it was told is our doing",
    ),
    pytest.param(
        [(5, errors(1, answered=False)), (5.01, errors(0)), (5.02, exits(0, 1)), (6.5, exits(1, 1))],
        [],
        RANK_1_FAILED,
        id="and so is what it raises while it is asked where it is",
    ),
    pytest.param(
        [(5, exits(1, -9)), (5.2, exits(0, -15))],
        [(5, 0, "SIGTERM")],
        RANK_1_FAILED,
        id="somebody kills a rank",
    ),
    pytest.param(
        [(5, exits(1, 3)), (5.2, exits(0, 0))],
        [(5, 0, "SIGTERM")],
        ([K.FINISHED, K.FAILED], failure("ranks-failed", 1)),
        id="one rank leaves by os._exit(3), the other takes SIGTERM well",
    ),
    pytest.param(
        [(5, exits(0)), (7, exits(1, -11))],
        [],
        ([K.FINISHED, K.FAILED], failure("ranks-failed", 1)),
        id="one rank crashes after the other is done",
    ),
    pytest.param(
        [(5, exits(0, 1)), (5, exits(1, 1))],
        [(5, 1, "SIGTERM")],
        ([K.FAILED, K.STOPPED], failure("ranks-failed", 0)),
        id="both leave in the same moment",
    ),
    pytest.param(
        [(5, errors(0)), (5, exits(1, 1)), (6, exits(0, 1))],
        [(5, 1, "SIGTERM")],
        ([K.FAILED, K.STOPPED], failure("ranks-failed", 0)),
        id="both fail, one is heard first",
    ),
    pytest.param(
        [(5, stop()), (5.1, errors(0)), (5.1, errors(1)), (6, exits(0, 1)), (6, exits(1, 1))],
        [(5, 0, "SIGINT"), (5, 1, "SIGINT")],
        ALL_STOPPED,
        id="a stop, and the KeyboardInterrupt of each rank",
    ),
    pytest.param(
        [(5, stop()), (6, finishes(0)), (6, finishes(1)), (7, exits(0)), (7, exits(1))],
        [(5, 0, "SIGINT"), (5, 1, "SIGINT")],
        ([K.FINISHED, K.FINISHED], STOP),
        id="a stop that the programs take as a wish to save and leave",
    ),
    pytest.param(
        [(5, stop()), (5.1, exits(0, -2)), (11.1, exits(1, -9))],
        [(5, 0, "SIGINT"), (5, 1, "SIGINT"), (8, 1, "SIGTERM"), (11, 1, "SIGKILL")],
        ALL_STOPPED,
        id="a stop that one rank does not hear",
    ),
    pytest.param(
        [(5, stop()), (6.5, stop()), (8, stop()), (8.1, exits(0, -9)), (8.1, exits(1, -9))],
        [(at, rank, s) for at, s in ((5, "SIGINT"), (6.5, "SIGTERM"), (8, "SIGKILL")) for rank in (0, 1)],
        ALL_STOPPED,
        id="every further stop hastens",
    ),
    pytest.param(
        [(5, stop()), (5.2, stop()), (6.4, stop()), (7, exits(0, -2)), (7, exits(1, -2))],
        [(5, 0, "SIGINT"), (5, 1, "SIGINT")],
        ALL_STOPPED,
        id="stops within a moment are one",
    ),
    pytest.param(
        [(5, errors(1)), (6, stop()), (6, exits(0, -9)), (7.5, stop()), (7.6, exits(1, -15))],
        [(5, 0, "SIGTERM"), (5.7, 0, "SIGKILL"), (6, 1, "SIGTERM"), (7.5, 1, "SIGKILL")],
        RANK_1_FAILED,
        id="a stop after a failure is still a failure",
    ),
    pytest.param(
        [(10, exits(0)), (10, exits(1)), (10, stop())],
        [],
        ALL_FINISHED,
        id="a stop after everything has exited",
    ),
    pytest.param(
        [(10, finishes(0)), (10, finishes(1)), (10.5, stop()), (11, exits(0)), (11, exits(1, -2))],
        [(10.5, 0, "SIGINT"), (10.5, 1, "SIGINT")],
        ALL_FINISHED,
        id="a stop after everything has finished",
    ),
    pytest.param(
        [(10, finishes(0)), (10.5, stop()), (11, exits(0, -2)), (11, exits(1, -2))],
        [(10.5, 0, "SIGINT"), (10.5, 1, "SIGINT")],
        ([K.FINISHED, K.STOPPED], STOP),
        id="a stop after one of two has finished",
    ),
    pytest.param(
        [(5, errors(1)), (5.2, exits(0, -15)), (6, exits(1, 0))],
        [(5, 0, "SIGTERM")],
        RANK_1_FAILED,
        id="an exception counts, whatever the exit code says then",
    ),
    pytest.param(
        [(5, finishes(0)), (5.5, errors(1)), (5.6, exits(0, -15)), (6, exits(1, 1))],
        [(5.5, 0, "SIGTERM")],
        ([K.FINISHED, K.FAILED], failure("ranks-failed", 1)),
        id="a rank that was done when the other raised",
    ),
]


@pytest.mark.parametrize(("history", "sent", "end"), HISTORIES)
def test_a_run_takes_its_course(history: History, sent: list[Sent], end: End) -> None:
    expect(replay(history), sent, end)


@pytest.mark.parametrize(
    ("history", "sent", "end"),
    [
        pytest.param(
            [(5, errors(1)), (5.1, comes_back(0)), (5.2, errors(0)), (5.4, exits(0, 1)), (6, exits(1, 1))],
            [(5, 0, "free")],
            RANK_1_FAILED,
            id="another rank failed: what this one raises when it is freed is our doing",
        ),
        pytest.param(
            [(5, exits(1, -9)), (5.1, comes_back(0)), (8.5, exits(0, -15))],
            [(5, 0, "free"), (5.7, 0, "free"), (8, 0, "SIGTERM")],
            RANK_1_FAILED,
            id="it saves its work for a long time",
        ),
        pytest.param(
            [(5, exits(1, -9)), (5.1, comes_back(0)), (5.8, stays(0)), (6, exits(0, -15))],
            [(5, 0, "free"), (5.7, 0, "free"), (5.8, 0, "SIGTERM")],
            RANK_1_FAILED,
            id="it goes on as if nothing had happened",
        ),
        pytest.param(
            [(5, exits(1, -9)), (5.1, stays(0)), (5.9, exits(0, -9))],
            [(5, 0, "free"), (5.1, 0, "SIGTERM"), (5.8, 0, "SIGKILL")],
            RANK_1_FAILED,
            id="it does not wait for others",
        ),
        pytest.param(
            [(5, stop()), (5.6, comes_back(0)), (6, exits(0, 1)), (6, exits(1, -2))],
            [(5, 0, "SIGINT"), (5, 1, "SIGINT"), (5.5, 0, "free")],
            ALL_STOPPED,
            id="a stop, and a rank that comes back when it is freed",
        ),
        pytest.param(
            [(5, stop()), (5.2, exits(1, -2)), (5.6, stays(0)), (9, exits(0, -15))],
            [(5, 0, "SIGINT"), (5, 1, "SIGINT"), (5.5, 0, "free"), (8, 0, "SIGTERM")],
            ALL_STOPPED,
            id="a stop, and a rank that takes its time",
        ),
        pytest.param(
            [(5, stop()), (5.1, exits(1, -2)), (6.5, stop()), (7, exits(0, -15))],
            [(5, 0, "SIGINT"), (5, 1, "SIGINT"), (5.5, 0, "free"), (6.5, 0, "SIGTERM")],
            ALL_STOPPED,
            id="a second stop does not wait for that",
        ),
    ],
)
def test_a_rank_that_waits_for_others_is_freed_before_it_is_ended(
    history: History, sent: list[Sent], end: End
) -> None:
    expect(Replay(a_spec(), stuck=frozenset({0})).play(history), sent, end)


# rank 0 saves after a stop, and rank 1 has gone
_STOP: History = [(5, stop()), (5.1, exits(1, -2)), (5.1, saves(0))]
_WRITES: History = [*_STOP[:2], (5.1, saves(0, writes=True))]
_BOTH: History = [(5, stop()), (5.1, saves(0)), (5.1, saves(1)), (9, saves(1, waits=True))]
_SENT: list[Sent] = [(5, 0, "SIGINT"), (5, 1, "SIGINT")]
SAVES: dict[str, tuple[History, list[Sent], bool]] = {
    "it has its grace": ([*_STOP, (34, exits(0, -2))], _SENT, False),
    "and no more": ([*_STOP, (38, exits(0, -15))], [*_SENT, (35.1, 0, "free"), (37.6, 0, "SIGTERM")], True),
    "it goes on to write": ([*_WRITES, (300, exits(0, -2))], _SENT, False),
    "it opens the next file": (
        [*_WRITES, (90, saves(0)), (91, saves(0, writes=True)), (110, saves(0)), (130, exits(0, -2))],
        _SENT,
        False,
    ),
    "it writes no more": (
        [*_WRITES, (60, writes_no_more), (68, exits(0, -15))],
        [*_SENT, (65.1, 0, "free"), (67.6, 0, "SIGTERM")],
        True,
    ),
    "it writes for ever": (
        [*_WRITES, (608, exits(0, -15))],
        [*_SENT, (605.1, 0, "free"), (607.6, 0, "SIGTERM")],
        True,
    ),
    "it goes on with its work": (
        [*_STOP, (5.3, goes_on(0)), (9, exits(0, -15))],
        [*_SENT, (5.5, 0, "free"), (8, 0, "SIGTERM")],
        False,
    ),
    "a second stop cuts it": (
        [*_STOP, (10, stop()), (10.1, exits(0, -15))],
        [*_SENT, (10, 0, "SIGTERM")],
        True,
    ),
    "the other waits for it": ([*_BOTH, (20, exits(0, -2)), (20.1, exits(1, -2))], _SENT, False),
    "both wait for each other": (
        [*_BOTH, (9.5, saves(0, waits=True)), (9.6, exits(0, -2)), (9.7, exits(1, -2))],
        [*_SENT, (9.6, 0, "free"), (9.6, 1, "free")],
        False,
    ),
    "it left its wait by itself": (
        [(5, errors(1)), (5, saves(0)), (5, stays(0)), (6, exits(1, 1)), (34, exits(0, 1))],
        [(5, 0, "free")],
        False,
    ),
    "another has failed": (
        [(5, errors(1)), (5.2, saves(0)), (6, exits(1, 1)), (34, exits(0, 1))],
        [(5, 0, "free")],
        False,
    ),
}


@pytest.mark.parametrize(("history", "sent", "cut"), SAVES.values(), ids=SAVES)
def test_a_rank_on_its_way_out_may_save(history: History, sent: list[Sent], cut: bool) -> None:
    policy = Replay(a_spec(), stuck=frozenset({0, 1})).play(history)

    assert policy.over
    assert policy.sent == sent
    assert any(isinstance(event, RankCut) for event in policy.journal) is cut


@pytest.mark.parametrize(
    ("history", "sent", "end"),
    [
        pytest.param(
            [(61, exits(0, -2)), (61, exits(1, -2))],
            [(60, 0, "SIGINT"), (60, 1, "SIGINT")],
            ALL_TIMED_OUT,
            id="the ranks go when they are told",
        ),
        pytest.param(
            [(60.5, errors(0)), (61, exits(0, 1)), (67, exits(1, -9))],
            [(60, 0, "SIGINT"), (60, 1, "SIGINT"), (63, 1, "SIGTERM"), (66, 1, "SIGKILL")],
            ALL_TIMED_OUT,
            id="one rank has to be killed",
        ),
        pytest.param(
            [(61, finishes(0)), (61, finishes(1)), (62, exits(0)), (62, exits(1))],
            [(60, 0, "SIGINT"), (60, 1, "SIGINT")],
            ([K.FINISHED, K.FINISHED], LIMIT),
            id="the ranks save their work, and yet it took too long",
        ),
        pytest.param([(59, exits(0)), (59, exits(1)), (61, nothing)], [], ALL_FINISHED, id="just in time"),
        pytest.param(
            [(59, stop()), (61, exits(0, -2)), (61, exits(1, -2))],
            [(59, 0, "SIGINT"), (59, 1, "SIGINT")],
            ALL_STOPPED,
            id="stopped before the limit, gone after it",
        ),
        pytest.param(
            [(59.5, errors(1)), (61, exits(1, 1)), (61, exits(0, -9))],
            [(59.5, 0, "SIGTERM"), (60.2, 0, "SIGKILL")],
            RANK_1_FAILED,
            id="failed before the limit, gone after it",
        ),
    ],
)
def test_a_time_limit_ends_a_run(history: History, sent: list[Sent], end: End) -> None:
    expect(replay(history, timeout=60.0), sent, end)


def test_a_run_is_not_over_while_a_rank_runs() -> None:
    assert not replay([(10, exits(0)), (10_000, nothing)]).over


def test_a_rank_that_even_sigkill_does_not_end_is_given_up() -> None:
    policy = Replay(a_spec())

    policy.play([(5, stop()), (6, exits(0, -2)), (12.9, nothing)])
    before = policy.over
    policy.let_pass(until=13)

    assert (before, policy.over) == (False, True)
    assert policy.ranks == [K.STOPPED, K.RUNNING]
    assert policy.policy.outcome() == failure("rank-stuck", 1)


def test_signals_are_in_the_journal_as_they_were_sent() -> None:
    policy = replay([(5, stop()), (5.1, exits(0, -2)), (9, nothing)])

    recorded = [
        (event.time - CREATED, event.ranks, event.signal)
        for event in policy.journal
        if isinstance(event, Escalated)
    ]
    assert recorded == [(5.0, (0, 1), "SIGINT"), (8.0, (1,), "SIGTERM")]


def test_a_stop_is_in_the_journal_once_with_the_first_reason() -> None:
    policy = replay([(5, stop("stopped by ada")), (6, stop("the notebook's kernel ended"))])

    stops = [event for event in policy.journal if isinstance(event, StopRequested)]
    assert stops == [stop_requested("stopped by ada", time=CREATED + 5)]


@pytest.mark.parametrize(
    ("history", "limit", "deadline"),
    [
        pytest.param([], None, None, id="nothing is waited for"),
        pytest.param([], 60.0, 60.0, id="the time limit"),
        pytest.param([(5, stop())], 60.0, 5.5, id="the wait of a rank that may be stuck"),
        pytest.param([(5, stop()), (5.6, nothing)], 60.0, 8.0, id="the next signal"),
        pytest.param([(5, errors(1))], None, 5.7, id="the next signal of the rank that is next"),
        pytest.param([(5, errors(1, answered=False))], None, 5.03, id="the others are asked where they are"),
        pytest.param([(5, errors(1)), (5.1, exits(0, -15))], None, 13.0, id="an exit ends its waiting"),
    ],
)
def test_the_supervisor_knows_how_long_it_may_wait(
    history: History, limit: float | None, deadline: float | None
) -> None:
    assert replay(history, timeout=limit).policy.next_deadline() == pytest.approx(deadline)


def test_a_rank_that_raises_in_the_same_moment_has_time_to_report_it() -> None:
    both = [(1, errors(0, answered=False)), (1.01, errors(1, answered=False)), (3.5, nothing)]

    assert [sent for sent in replay(both).sent if sent[1] == 1] == []


def test_a_late_look_takes_one_step_and_gives_its_whole_grace() -> None:
    escalation = Escalation(ON_OWN_ERROR, 100.0)
    escalation.due(100.0)

    escalation.due(160.0)

    assert escalation.due(160.0) is None
    assert escalation.deadline == 160.0 + config.TERMINATE_GRACE


def test_haste_after_the_last_step_leaves_it_its_time() -> None:
    escalation = Escalation((KILL,), 100.0)
    escalation.due(100.0)

    escalation.hasten(100.01)

    assert not escalation.exhausted(100.02)
    assert escalation.exhausted(100.0 + KILL.grace)
