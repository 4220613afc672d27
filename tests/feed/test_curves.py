"""Metrics as small curves of any number of points."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from nbdist.feed.curves import Curve, curve_svg, read_curves
from nbdist.store.metrics import last_points
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED


def logged(written: WrittenRun, rank: int, points: Iterable[dict[str, object]]) -> WrittenRun:
    with written.directory.rank(rank).metrics.open("a") as metrics:
        for number, point in enumerate(points):
            metrics.write(json.dumps({"t": CREATED + number} | point) + "\n")
    return written


def curves(written: WrittenRun) -> dict[str, tuple[tuple[float, float], ...]]:
    return {curve.tag: curve.points for curve in read_curves(written.run, written.directory)}


def test_each_metric_is_the_mean_of_the_ranks_that_have_it(tmp_path: Path) -> None:
    written = logged(WrittenRun(tmp_path), 0, [{"step": 1, "v": {"loss": 2}}, {"step": 3, "v": {"loss": 1}}])
    logged(written, 1, [{"step": 1, "v": {"loss": 4}}, {"step": 3, "v": {"loss": 3, "val": 0.5}}])
    logged(written, 1, [{"v": {"acc": 0.5}}, {"v": {"acc": 0.75}}])

    assert curves(written) == {"loss": ((1, 3), (3, 2)), "val": ((3, 0.5),), "acc": ((0, 0.5), (1, 0.75))}


def test_torn_lines_and_what_is_no_number_are_passed_over(tmp_path: Path) -> None:
    written = logged(WrittenRun(tmp_path), 0, [{"step": 1, "v": {"loss": 2}}, {"v": 3}, {"v": {"x": "y"}}])
    with written.directory.rank(0).metrics.open("a") as metrics:
        metrics.write('[]\nnull\n{"t": 1, "v": {"loss": 0.')

    assert curves(written) == {"loss": ((1, 2),)}


def test_of_a_million_points_some_are_read_with_the_first_and_the_last(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path)
    line = '{"t": 1795184103.125, "step": %d, "v": {"loss": %f}}\n'
    count = 300_000
    with written.directory.rank(0).metrics.open("w") as metrics:
        metrics.writelines(line % (step, 1 / (step + 1)) for step in range(count))

    points = curves(written)["loss"]

    assert (points[0][0], points[-1][0]) == (0, count - 1)
    assert len(points) < 6_000
    steps = [step for step, _ in points]
    assert steps == sorted(steps)
    assert max(b - a for a, b in itertools.pairwise(steps)) < count / 50


@pytest.mark.parametrize(
    ("points", "drawn"),
    [
        pytest.param([(0, 1.0), (10, 3.0)], "0,22.0 120,2.0", id="from the left to the right"),
        pytest.param([(0, 1.0), (5, 1.0), (10, 1.0)], "0,12.0 60,12.0 120,12.0", id="all the same"),
        pytest.param([(0, 1.0), (5, float("nan")), (10, 3.0)], "0,22.0 120,2.0", id="not a number"),
        pytest.param([(0, -1e308), (10, 1e308)], "0,22.0 120,2.0", id="huge"),
        pytest.param([(5, 1.0), (5, 3.0)], "0,22.0 120,2.0", id="without steps"),
        pytest.param([(0, 1.0), (9, 2.0), (0, 3.0)], "0,22.0 60,12.0 120,2.0", id="steps that begin again"),
        pytest.param([(0, 1.0), (1, 2.0), (1000, 3.0)], "0,22.0 120,2.0", id="means of what falls together"),
    ],
)  # fmt: skip
def test_a_curve_is_drawn(points: list[tuple[float, float]], drawn: str) -> None:
    svg = curve_svg(Curve(tag="loss", points=tuple(points)))

    match = re.search(r'points="([^"]*)"', svg)
    assert match is not None
    assert match[1] == drawn


def test_a_single_point_is_no_curve() -> None:
    assert curve_svg(Curve(tag="loss", points=((0, 1.0),))) == ""


def test_a_curve_of_many_points_is_small() -> None:
    points = tuple((float(step), step % 17 / 3) for step in range(100_000))

    assert len(curve_svg(Curve(tag="<loss>", points=points))) < 1_000


def test_the_last_points_of_a_long_file_know_the_total_of_the_first(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path)
    logged(written, 0, [{"step": 0, "total": 5_000, "v": {}}])
    logged(written, 0, ({"step": step, "v": {"loss": 0.5}} for step in range(1, 5_000)))

    points = last_points(written.directory.rank(0).metrics, 4_096)

    assert (points[-1].step, points[-1].total) == (4_999, 5_000)
    assert len(points) < 100


def test_of_a_file_that_is_not_there_nothing_is_known(tmp_path: Path) -> None:
    assert last_points(tmp_path / "metrics.jsonl", 4_096) == []
