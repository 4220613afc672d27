"""Mean, lowest and highest over the ranks: each point comes once, whenever it is read."""

from __future__ import annotations

import math
import random

import pytest

from nbdist.board import scalars
from nbdist.board.scalars import RankAggregate

T0 = 1_763_712_345_000
LATER = T0 / 1000 + 3600


def rows_of(
    points: RankAggregate, *, ranks: int | None = 2, horizon: float = 0, ended: bool = False
) -> list[tuple[int, float, float, float]]:
    settled = points.settle(ranks=ranks, horizon=horizon, ended=ended)
    return [(point.step, point.mean, point.lowest, point.highest) for point in settled]


def test_ranks_that_never_log_a_tag_are_not_waited_for() -> None:
    points = RankAggregate()
    for rank in (6, 7):
        points.add(rank, T0, "loss", 0, rank)
    assert rows_of(points, ranks=8, horizon=T0 / 1000 + scalars.WINDOW) == []

    assert rows_of(points, ranks=8, horizon=T0 / 1000 + scalars.WINDOW + 0.1) == [(0, 6.5, 6.0, 7.0)]


def test_who_begins_too_late_does_not_count_whenever_it_is_read() -> None:
    late = T0 + round(scalars.WINDOW * 1000) + 1
    rows = [(0, T0, 0, 1.0), (1, T0, 0, 3.0), (0, late, 1, 1.0), (1, late, 1, 3.0), (2, late, 0, 99.0)]

    at_once = RankAggregate()
    for rank, at, step, value in rows:
        at_once.add(rank, at, "loss", step, value)
    bit_by_bit, collected = RankAggregate(), []
    for rank, at, step, value in rows:
        bit_by_bit.add(rank, at, "loss", step, value)
        collected += rows_of(bit_by_bit, ranks=3, horizon=at / 1000)
    collected += rows_of(bit_by_bit, ranks=3, horizon=LATER)

    assert rows_of(at_once, ranks=3, horizon=LATER) == collected == [(0, 2.0, 1.0, 3.0), (1, 2.0, 1.0, 3.0)]


def test_steps_that_go_back_do_not_count() -> None:
    points = RankAggregate()
    for step in (0, 5, 3, 5, 6):
        points.add(0, T0, "loss", step, step)
        points.add(1, T0, "loss", step, step)

    assert [step for step, *_ in rows_of(points)] == [0, 5, 6]


@pytest.mark.parametrize(
    ("values", "mean", "lowest", "highest"),
    [
        pytest.param((math.nan, 2.0), math.nan, 2.0, 2.0, id="one that is no number"),
        pytest.param((math.nan, math.nan), math.nan, math.nan, math.nan, id="none that is a number"),
        pytest.param((math.inf, -math.inf), math.nan, -math.inf, math.inf, id="both infinities"),
        pytest.param((1e308, 1e308), math.inf, 1e308, 1e308, id="a sum that no float holds"),
    ],
)
def test_every_float_has_a_place(
    values: tuple[float, float], mean: float, lowest: float, highest: float
) -> None:
    points = RankAggregate()
    for rank, value in enumerate(values):
        points.add(rank, T0, "loss", 0, value)

    assert repr(rows_of(points)) == repr([(0, mean, lowest, highest)])


def test_what_is_told_does_not_depend_on_when_it_is_read() -> None:
    chance = random.Random(1)
    lines = {
        rank: [(T0 + step * 10, tag, step, chance.random()) for step in range(200) for tag in ("a", "b")]
        for rank in range(4)
    }
    results = []
    for _ in range(5):
        points, collected = RankAggregate(), []
        at = dict.fromkeys(lines, 0)
        while any(at[rank] < len(lines[rank]) for rank in lines):
            rank = chance.choice(list(lines))
            for milliseconds, tag, step, value in lines[rank][at[rank] : at[rank] + 37]:
                points.add(rank, milliseconds, tag, step, value)
            at[rank] += 37
            collected += list(points.settle(ranks=4, horizon=0, ended=False))
        collected += list(points.settle(ranks=4, horizon=0, ended=True))
        results.append({tag: [point for point in collected if point.tag == tag] for tag in ("a", "b")})

    assert all(result == results[0] for result in results)
    assert [point.step for point in results[0]["a"]] == list(range(200))


def test_a_rank_that_falls_far_behind_is_not_waited_for() -> None:
    points = RankAggregate()
    for rank in range(3):
        points.add(rank, T0, "loss", 0, rank)
    for step in range(1, scalars.MOST_ROWS + 2):
        points.add(0, T0, "loss", step, 1.0)
        points.add(1, T0, "loss", step, 3.0)

    collected = rows_of(points, ranks=3)

    assert len(collected) == scalars.MOST_ROWS + 2
    assert collected[-1] == (scalars.MOST_ROWS + 1, 2.0, 1.0, 3.0)
