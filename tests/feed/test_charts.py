"""The charts of a run: bounded, however long the run is."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from nbdist.feed.charts import ROWS, TAGS, Chart, Charts
from nbdist.store import MetricPoint

CREATED = 1_000.0


def a_point(step: int | None, time: float | None = None, /, **values: float) -> MetricPoint:
    return MetricPoint(time=CREATED + (step or 0 if time is None else time), step=step, values=values)


def measured(time: float, **values: float) -> MetricPoint:
    return MetricPoint(time=CREATED + time, step=None, values=values)


def charts_of(points: Mapping[int, Sequence[MetricPoint]], ranks: int = 2) -> Charts:
    charts = Charts(created=CREATED, ranks=range(ranks))
    for rank, own in points.items():
        charts.take(rank, own)
    return charts


def rows_of(chart: Chart) -> list[tuple[float, ...]]:
    return list(zip(*chart.columns, strict=True))


def test_a_band_is_over_ranks_at_each_step() -> None:
    charts = charts_of({0: [a_point(0, loss=1.0), a_point(1, loss=0.5)], 1: [a_point(0, 9.0, loss=3.0)]})

    (chart,) = charts.all()

    assert (chart.tag, chart.kind, chart.group, chart.unit) == ("loss", "band", "metric", "")
    assert chart.ranks == (0, 1), "a page says of how many ranks a band is"
    assert rows_of(chart) == [(0, 9, 2, 1, 3), (1, 1, 0.5, 0.5, 0.5)]
    assert chart.last == (1.75, 0.5, 3.0), "of each rank the last value"


def test_a_long_band_ends_with_the_last_values_of_the_ranks() -> None:
    steps = 3 * ROWS
    charts = charts_of(
        {rank: [a_point(step, loss=steps - step + rank) for step in range(steps)] for rank in (0, 1)}
    )

    (chart,) = charts.all()

    assert chart.last == (1.5, 1, 2)
    assert rows_of(chart)[-1] == (steps - 1, steps - 1, 1.5, 1, 2)


@pytest.mark.parametrize(
    ("ranks", "last"),
    [pytest.param(2, (10.0, 30.0), id="a line each"), pytest.param(9, (20.0, 10.0, 30.0), id="a band")],
)
def test_the_highest_is_that_of_the_whole_run(ranks: int, last: tuple[float, ...]) -> None:
    charts = charts_of({}, ranks)
    for rank, values in enumerate([(10.0, 400.0, 10.0), (20.0, 20.0, 30.0)]):
        charts.take_system(rank, [measured(2.0 * at, cpu=value) for at, value in enumerate(values)])

    (chart,) = charts.all()

    assert (chart.last[: len(last)], chart.highest) == (last, (400.0, 0))


def test_steps_that_are_left_out_are_counted_on() -> None:
    charts = charts_of({0: [a_point(5, loss=1.0), a_point(None, loss=2.0), a_point(None, loss=3.0)]})

    assert [row[0] for row in rows_of(charts.all()[0])] == [5, 6, 7]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=["nan", "inf", "-inf"])
def test_what_is_not_finite_is_in_no_statistic(value: float) -> None:
    charts = charts_of({0: [a_point(0, loss=1.0)], 1: [a_point(0, loss=value)]})

    assert rows_of(charts.all()[0]) == [(0, 0, 1, 1, 1)]


@pytest.mark.parametrize("stride", [1, 7, 1000], ids=lambda stride: f"every {stride}")
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "in any order"])
def test_a_long_run_keeps_its_extremes_its_mean_and_its_last_step(stride: int, shuffled: bool) -> None:
    source = random.Random(3)
    values = [source.random() for _ in range(5_000)]
    points = [a_point(number * stride, loss=value) for number, value in enumerate(values)]
    if shuffled:
        source.shuffle(points)

    rows = rows_of(charts_of({0: points}).all()[0])

    steps, _, means, lows, highs = zip(*rows, strict=True)
    assert ROWS // 2 - 1 <= len(rows) <= ROWS
    assert steps == tuple(sorted(steps))
    assert steps[-1] == 4_999 * stride
    assert min(lows) == pytest.approx(min(values))
    assert max(highs) == pytest.approx(max(values))
    assert sum(means) / len(means) == pytest.approx(sum(values) / len(values), abs=0.01)


def test_many_steps_of_a_rank_weigh_as_much_as_they_are() -> None:
    ones = [a_point(step, loss=1.0) for step in range(0, 800, 2)]
    threes = [a_point(step, loss=4.0) for step in range(1, 800, 2)]

    rows = rows_of(charts_of({0: ones, 1: [*threes, *threes]}).all()[0])

    assert {row[2] for row in rows[:-1]} == {3.0}


def test_charts_stand_as_they_first_appeared_and_what_is_used_behind_them() -> None:
    charts = charts_of({0: [a_point(0, loss=1.0), a_point(1, memory=2.0, loss=1.0)]})
    charts.take_system(0, [measured(2.0, gpu=50.0, memory=5e8, power=300.0)])

    assert [(chart.group, chart.tag, chart.unit) for chart in charts.all()] == [
        ("metric", "loss", ""),
        ("metric", "memory", ""),
        ("system", "memory", "GB"),
        ("system", "gpu", "%"),
    ]


def test_each_of_few_ranks_has_its_line_of_what_it_uses() -> None:
    charts = Charts(created=CREATED, ranks=[0, 1])
    charts.take_system(0, [measured(2.0, memory=5e8), measured(4.0, memory=7.5e8)])
    charts.take_system(1, [measured(4.1, memory=1e9)])

    (chart,) = charts.all()

    assert (chart.kind, chart.ranks) == ("ranks", (0, 1))
    assert all(math.isnan(step) for step in chart.columns[0])
    assert list(chart.columns[1]) == pytest.approx([2.0, 4.1])
    assert list(chart.columns[2]) == [0.5, 0.75]
    assert (math.isnan(chart.columns[3][0]), chart.columns[3][1]) == (True, 1.0)


def test_many_ranks_are_a_band() -> None:
    charts = Charts(created=CREATED, ranks=range(9))
    for rank in range(9):
        charts.take_system(rank, [measured(2.0 + rank / 100, cpu=float(rank))])

    (chart,) = charts.all()

    assert (chart.kind, len(chart.ranks), len(chart.columns), chart.rows) == ("band", 9, 5, 1)
    assert [column[0] for column in chart.columns[2:]] == [4.0, 0.0, 8.0]


def test_days_of_measuring_are_bounded() -> None:
    charts = Charts(created=CREATED, ranks=[0, 1])
    for rank in (0, 1):
        charts.take_system(rank, [measured(2.0 * n, cpu=100.0 + rank) for n in range(100_000)])

    (chart,) = charts.all()

    assert ROWS // 2 - 1 <= chart.rows <= ROWS
    assert chart.columns[1][-1] == 199_998
    assert set(chart.columns[3]) == {101.0}


def test_a_chart_that_changed_has_a_higher_mark() -> None:
    charts = charts_of({0: [a_point(0, loss=1.0, acc=0.5)]})
    before = charts.marks

    charts.take(0, [a_point(1, loss=0.9)])

    after = charts.marks
    assert [key.tag for key in after if after[key] > before[key]] == ["loss"]


def test_tags_that_go_on_keep_their_charts_and_new_ones_find_no_room() -> None:
    many = {f"tag{number}": 1.0 for number in range(TAGS + 10)}

    charts = charts_of({0: [a_point(step, **many) for step in range(200)]})

    assert [chart.tag for chart in charts.all()] == list(many)[:TAGS]
    assert charts.all()[0].rows == 200
    assert list(charts.dropped) == list(many)[TAGS:]


def test_a_tag_that_was_given_up_makes_room() -> None:
    many = {f"tag{number}": 1.0 for number in range(1, TAGS)}
    points = [a_point(0, once=1.0), *(a_point(step, **many) for step in range(100))]

    charts = charts_of({0: [*points, a_point(100, late=1.0)]})

    tags = [chart.tag for chart in charts.all()]
    assert len(tags) == TAGS
    assert ("once" in tags, tags[-1]) == (False, "late")
    assert list(charts.dropped) == ["once"]


def test_the_steps_of_a_new_attempt_begin_again() -> None:
    charts = charts_of({0: [a_point(7, loss=1.0)]})
    before = charts.marks

    charts.clear()
    charts.take(0, [a_point(None, loss=2.0)])

    assert rows_of(charts.all()[0])[0][0] == 0
    assert all(mark > before[key] for key, mark in charts.marks.items())


def test_what_float32_cannot_hold_does_not_fail() -> None:
    charts = charts_of({0: [a_point(10**12, loss=1e300), a_point(-5, loss=-1e-300)]})

    assert charts.all()[0].rows == 2
