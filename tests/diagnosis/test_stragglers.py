"""The rank with the longest own time holds the others up."""

from __future__ import annotations

import pytest

from nbdist.diagnosis.stragglers import Pace, Paces, Slow, slowest
from nbdist.store import MetricPoint


def paces(*waited: float, starved: float = 0.0) -> dict[int, Pace]:
    """Return paces in which rank 1 may wait for a core."""
    return {
        rank: Pace(waited=share, starved=starved if rank == 1 else 0.0) for rank, share in enumerate(waited)
    }


def beside(*shares: float) -> dict[int, Pace]:
    """Return ranks whose main threads hardly wait, and whose collectives continue beside them."""
    return {rank: Pace(waited=0.01, exchanged=share) for rank, share in enumerate(shares)}


@pytest.mark.parametrize(
    ("paces", "rates", "slow"),
    [
        pytest.param(paces(0.5, 0.0, 0.5), {}, (1, 2.0, None), id="it alone does not wait"),
        pytest.param(
            paces(0.5, 0.0, 0.5), dict.fromkeys(range(3), 10.0), (1, 2.0, 0.05), id="by how much, in seconds"
        ),
        pytest.param(paces(0.0, 0.0), {0: 10.0, 1: 5.0}, (1, 2.0, 0.1), id="ranks that never wait"),
        pytest.param(paces(0.1, 0.05, 0.12), {}, None, id="what chance makes of the looks"),
        pytest.param(paces(0.97, 0.94, 0.97), {}, None, id="nearly all the time goes into communication"),
        pytest.param(paces(0.5, 0.0), {0: 0.1, 1: 0.1}, None, id="too few steps"),
        pytest.param(paces(0.0), {}, None, id="one rank"),
        pytest.param(beside(0.6, 0.1, 0.6), {}, (1, 2.25, None), id="the others wait beside their programs"),
        pytest.param(beside(1.0, 1.0, 1.0), {}, None, id="collectives are queued on all the time"),
    ],
)
def test_the_rank_that_waits_least_is_named_when_it_is_clear(
    paces: dict[int, Pace], rates: dict[int, float], slow: tuple[int, float, float | None] | None
) -> None:
    named = slowest(paces, rates)

    if slow is None:
        assert named is None
    else:
        rank, factor, over = slow
        assert named == Slow(
            rank=rank, factor=pytest.approx(factor), over=None if over is None else pytest.approx(over)
        )


@pytest.mark.parametrize(
    ("pace", "reason"),
    [
        pytest.param(
            Pace(waited=0.0, starved=0.34), "it waits for a CPU core 34% of the time", id="no core for it"
        ),
        pytest.param(
            Pace(waited=0.0, throttled=True), "its GPU is throttled by heat or power", id="a hot GPU"
        ),
        pytest.param(Pace(waited=0.0), "", id="nothing"),
    ],
)
def test_what_its_device_says_is_said(pace: Pace, reason: str) -> None:
    named = slowest({0: Pace(waited=0.5), 1: pace}, {})

    assert named.reason == reason


def points(*waits: float, begin: float = 0.0) -> list[MetricPoint]:
    return [
        MetricPoint(time=begin + 2 * number, step=None, values={"wait": wait, "cpu": 1.0})
        for number, wait in enumerate(waits)
    ]


def test_a_rank_is_named_after_ten_seconds_of_looks() -> None:
    known = Paces()
    for seconds in (4, 8, 10):
        known = Paces()
        known.take(0, points(*[60.0] * (seconds // 2 + 1)))
        known.take(1, points(*[5.0] * (seconds // 2 + 1)))
        assert (known.slowest([0, 1], {}, seconds) is not None) == (seconds == 10)


def test_nothing_is_said_while_one_rank_is_not_known() -> None:
    known = Paces()
    known.take(0, points(*[60.0] * 10))
    known.take(1, points(*[5.0] * 10))

    assert known.slowest([0, 1], {}, 18) is not None
    assert known.slowest([0, 1, 2], {}, 18) is None
