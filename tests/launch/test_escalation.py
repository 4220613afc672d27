"""Which signal a rank gets when, until nothing is left of it."""

from __future__ import annotations

import pytest

from nbdist import config
from nbdist.launch.run_policy import KILL, ON_OWN_ERROR, ON_PEER_FAILURE, ON_STOP, Escalation, Step

BEGIN = 100.0


def timetable(escalation: Escalation) -> list[tuple[float, str | None]]:
    """Every step, with the seconds after the beginning at which it is due."""
    steps = []
    while True:
        at = escalation.deadline
        if (step := escalation.due(at)) is None:
            return steps
        does = "free" if step.free is not None else step.signal and step.signal.name
        steps.append((round(at - BEGIN, 3), does))


@pytest.mark.parametrize(
    ("steps", "expected", "exhausted"),
    [
        pytest.param(
            ON_STOP,
            [(0.0, "SIGINT"), (0.5, "free"), (3.0, "SIGTERM"), (6.0, "SIGKILL")],
            8.0,
            id="stopped: time to save, then time to flush",
        ),
        pytest.param(
            ON_PEER_FAILURE,
            [(0.0, "free"), (0.7, "free"), (3.0, "SIGTERM"), (3.7, "SIGKILL")],
            5.7,
            id="another rank failed: time for those that were freed",
        ),
        pytest.param(
            ON_OWN_ERROR,
            [(0.0, None), (8.0, "SIGTERM"), (11.0, "SIGKILL")],
            13.0,
            id="its own program raised: time to leave by itself",
        ),
    ],
)
def test_a_rank_is_ended_by_a_timetable(
    steps: tuple[Step, ...], expected: list[tuple[float, str | None]], exhausted: float
) -> None:
    escalation = Escalation(steps, BEGIN)

    assert timetable(escalation) == expected
    assert not escalation.exhausted(BEGIN + exhausted - 0.01)
    assert escalation.exhausted(BEGIN + exhausted)


def test_a_late_look_takes_one_step_and_gives_its_whole_grace() -> None:
    escalation = Escalation(ON_OWN_ERROR, BEGIN)
    escalation.due(BEGIN)

    escalation.due(BEGIN + 60)

    assert escalation.due(BEGIN + 60) is None
    assert escalation.deadline == BEGIN + 60 + config.TERMINATE_GRACE


def test_haste_after_the_last_step_leaves_it_its_time() -> None:
    escalation = Escalation((KILL,), BEGIN)
    escalation.due(BEGIN)

    escalation.hasten(BEGIN + 0.01)

    assert not escalation.exhausted(BEGIN + 0.02)
    assert escalation.exhausted(BEGIN + KILL.grace)
