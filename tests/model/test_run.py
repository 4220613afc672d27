"""A run is the fold of its events: histories, and a reader's view of each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nbdist.errors import IllegalTransition
from nbdist.model import Event, RankState, Reason, Run, RunState
from tests.fakes.runs import (
    CREATED,
    STARTED,
    SUPERVISOR,
    a_spec,
    attempt_started,
    cell_ended,
    cell_started,
    errored,
    escalated,
    exited,
    finished,
    process_of,
    rank_started,
    rejoined,
    resumed,
    run_ended,
    run_lost,
    stalled,
    stop_requested,
    supervisor_started,
)

R, K = RunState, RankState

HISTORIES = [
    pytest.param([], R.PENDING, [K.PENDING, K.PENDING], id="nothing has happened"),
    pytest.param([supervisor_started()], R.STARTING, [K.PENDING, K.PENDING], id="the supervisor is there"),
    pytest.param(STARTED[:3], R.STARTING, [K.RUNNING, K.PENDING], id="one rank is there"),
    pytest.param(STARTED, R.RUNNING, [K.RUNNING, K.RUNNING], id="every rank is there"),
    pytest.param(
        [*STARTED, finished(0), finished(1)],
        R.RUNNING,
        [K.RUNNING, K.RUNNING],
        id="programs are done, processes not",
    ),
    pytest.param(
        [*STARTED, finished(0), exited(0), finished(1), exited(1), run_ended(R.FINISHED)],
        R.FINISHED,
        [K.FINISHED, K.FINISHED],
        id="success",
    ),
    pytest.param(
        [*STARTED, exited(0), exited(1), run_ended(R.FINISHED)],
        R.FINISHED,
        [K.FINISHED, K.FINISHED],
        id="success of programs that leave by os._exit(0)",
    ),
    pytest.param(
        [
            *STARTED,
            errored(1),
            escalated(0),
            exited(0, -15, ended=True),
            exited(1, 1),
            run_ended(R.FAILED, "rank 1 failed"),
        ],
        R.FAILED,
        [K.STOPPED, K.FAILED],
        id="one rank raised and the other was ended",
    ),
    pytest.param(
        [*STARTED, exited(1, -9), escalated(0), exited(0, -15, ended=True), run_ended(R.FAILED)],
        R.FAILED,
        [K.STOPPED, K.FAILED],
        id="one rank was killed from outside",
    ),
    pytest.param(
        [*STARTED, exited(0), exited(1, 3), run_ended(R.FAILED)],
        R.FAILED,
        [K.FINISHED, K.FAILED],
        id="one rank failed after the other was done",
    ),
    pytest.param(
        [
            *STARTED,
            stop_requested(),
            escalated(0, 1, signal="SIGINT"),
            errored(0),
            exited(0, 1, ended=True),
            exited(1, -2, ended=True),
            run_ended(R.STOPPED, "stopped by ada"),
        ],
        R.STOPPED,
        [K.STOPPED, K.STOPPED],
        id="a stop, and a KeyboardInterrupt that follows from it",
    ),
    pytest.param(
        [*STARTED, stop_requested(), escalated(0, 1), exited(0, 0, ended=True)],
        R.STOPPING,
        [K.FINISHED, K.RUNNING],
        id="in the middle of a stop, one rank has saved its work and left",
    ),
    pytest.param(
        [
            *STARTED,
            escalated(0, 1, signal="SIGINT"),
            exited(0, -2, ended=True),
            exited(1, -2, ended=True),
            run_ended(R.FAILED, "the time limit of 5 s was reached"),
        ],
        R.FAILED,
        [K.STOPPED, K.STOPPED],
        id="the time limit",
    ),
    pytest.param(
        [*STARTED, exited(0), run_lost()], R.LOST, [K.FINISHED, K.LOST], id="the supervisor was lost"
    ),
    pytest.param([run_lost()], R.LOST, [K.LOST, K.LOST], id="the supervisor never came"),
    pytest.param(
        [*STARTED, finished(0), exited(0, -6), finished(1), exited(1), run_ended(R.FINISHED)],
        R.FINISHED,
        [K.FINISHED, K.FINISHED],
        id="gloo aborts after the last statement",
    ),
    pytest.param(
        [*STARTED, exited(0, -6), exited(1), run_ended(R.FAILED)],
        R.FAILED,
        [K.FAILED, K.FINISHED],
        id="an abort before the last statement",
    ),
    pytest.param(
        [*STARTED, finished(0), errored(1), exited(0, -15, ended=True), exited(1, 1), run_ended(R.FAILED)],
        R.FAILED,
        [K.FINISHED, K.FAILED],
        id="a rank was ended that was done",
    ),
    pytest.param(
        [*STARTED, errored(0), exited(0, 0), exited(1), run_ended(R.FAILED)],
        R.FAILED,
        [K.FAILED, K.FINISHED],
        id="an exception, and yet an exit code of 0",
    ),
    pytest.param(
        [*STARTED, finished(0), exited(0, -9), exited(1), run_ended(R.FAILED)],
        R.FAILED,
        [K.FAILED, K.FINISHED],
        id="a kill after the last statement",
    ),
    pytest.param(
        [*STARTED, exited(1, 1), exited(0, -15, ended=True), attempt_started(2)],
        R.STARTING,
        [K.PENDING, K.PENDING],
        id="the next attempt begins with fresh ranks",
    ),
    pytest.param(
        [
            *STARTED,
            escalated(0),
            exited(1, 1),
            exited(0, -15, ended=True),
            attempt_started(2),
            rank_started(0),
            rank_started(1),
        ],
        R.RUNNING,
        [K.RUNNING, K.RUNNING],
        id="the next attempt runs",
    ),
]


@pytest.mark.parametrize(("events", "state", "ranks"), HISTORIES)
def test_a_history_leads_to_a_state(events: Sequence[Event], state: RunState, ranks: list[RankState]) -> None:
    run = Run.of(a_spec(), events)

    assert run.state is state
    assert [rank.state for rank in run.ranks] == ranks


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([rank_started(0)] * 2 + [exited(0), rank_started(0)], id="a rank starts after its exit"),
        pytest.param([exited(0)], id="a rank exits that never started"),
        pytest.param([*STARTED, run_ended(R.FAILED), attempt_started(2)], id="an attempt after the end"),
        pytest.param([*STARTED, run_lost(), stop_requested()], id="a stop of what is lost"),
        pytest.param([run_ended(R.FINISHED)], id="success before anything ran"),
    ],
)
def test_what_cannot_have_happened_is_refused(events: Sequence[Event]) -> None:
    with pytest.raises(IllegalTransition):
        Run.of(a_spec(), events)


def test_a_run_knows_who_keeps_it_and_where() -> None:
    run = Run.of(a_spec(), STARTED)

    assert (run.supervisor, run.supervisor_host, run.port) == (SUPERVISOR, "another-machine", 20_001)
    assert [rank.process for rank in run.ranks] == [process_of(0), process_of(1)]


def test_a_rank_keeps_when_it_did_what_and_how_it_left() -> None:
    run = Run.of(a_spec(), [*STARTED, errored(1, time=CREATED + 7), exited(1, 1, time=CREATED + 9)])

    rank = run.ranks[1]
    assert (rank.started, rank.errored, rank.exited) == (CREATED + 0.2, CREATED + 7, CREATED + 9)
    assert (rank.finished, rank.code) == (None, 1)


def test_the_end_says_why_and_what_was_left_over() -> None:
    end = run_ended(R.STOPPED, "stopped by ada", leftover=3, time=CREATED + 9)

    run = Run.of(a_spec(), [*STARTED, stop_requested("enough"), end])

    assert (run.reason, run.stop_reason, run.leftover, run.ended) == (
        Reason.said("stopped by ada"),
        Reason.said("enough"),
        3,
        CREATED + 9,
    )


def test_time_is_counted_from_the_first_attempt_to_the_end() -> None:
    begin = attempt_started(time=CREATED + 1)
    again = attempt_started(2, time=CREATED + 50)
    waiting = Run.of(a_spec())
    running = Run.of(a_spec(), [supervisor_started(), begin, again])
    ended = running.after(run_ended(R.FAILED, time=CREATED + 61))

    assert waiting.elapsed(now=CREATED + 100) == 0
    assert running.elapsed(now=CREATED + 31) == 30
    assert ended.elapsed(now=CREATED + 1000) == 60
    assert running.elapsed(now=CREATED) == 0, "it does not run backwards with the clock"


def test_the_next_attempt_has_its_own_port_and_number() -> None:
    run = Run.of(a_spec(), [*STARTED, exited(0, 1), exited(1, 1), attempt_started(2)])

    assert (run.attempt, run.port) == (2, 20_002)
    assert [rank.process for rank in run.ranks] == [None, None]


def test_the_label_is_the_name_and_the_end_of_the_id() -> None:
    assert Run.of(a_spec()).label == "lenet-k3f9"


def test_a_run_that_has_stalled_still_runs_until_it_goes_on() -> None:
    run = Run.of(a_spec(), [*STARTED, stalled(since=CREATED + 10)])

    assert (run.state, run.stalled) == (RunState.RUNNING, CREATED + 10)
    assert run.after(resumed()).stalled is None
    assert run.after(stop_requested()).stalled == CREATED + 10


def test_a_session_knows_its_cell_and_who_executes_it() -> None:
    begun = Run.of(
        a_spec(session=60.0), [*STARTED, cell_started(3, 0, 1), cell_ended(3, 1), rejoined(20_007)]
    )

    ended = begun.after(cell_ended(3, 0, "error"))

    assert (begun.cell, begun.busy, begun.port) == (3, (0,), 20_007)
    assert (ended.cell, ended.busy, ended.active) == (3, (), CREATED + 7)
    assert ended.state is R.RUNNING
