"""The metrics of a finished run as small curves: read in samples, however long the files are."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbdist.model import Run
from nbdist.panel.figures import number_text
from nbdist.store import RunDirectory
from nbdist.store.metrics import Number, spread
from nbdist.store.scraped import read_numbers

_WIDTH, _HEIGHT, _INSET = 120, 24, 2
# what can still be added up and subtracted
_HUGE = 1e300

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One metric: the mean over the ranks that have it. ``points`` are step and value, in the
    order in which they were logged: some of them where there were very many, the first and last always.
    """

    tag: str
    points: tuple[Point, ...]

    @property
    def first(self) -> float:
        return self.points[0][1]

    @property
    def last(self) -> float:
        return self.points[-1][1]


def read_curves(run: Run, directory: RunDirectory) -> tuple[Curve, ...]:
    """Every metric of the run, those of the lowest ranks first."""
    return tuple(Curve(tag=tag, points=_mean(ranks)) for tag, ranks in read_numbers(run, directory).items())


def _mean(ranks: Sequence[Sequence[Number]]) -> tuple[Point, ...]:
    """The mean over the ranks at each step; where steps begin again, the lowest rank's. Where steps were left
    out they are counted. It ends with the value that counts as the last."""
    counted = [_counted(numbers) for numbers in ranks]
    if any(b[0] < a[0] for points in counted for a, b in itertools.pairwise(points)):
        curve = counted[0]
    else:
        values: dict[float, list[float]] = {}
        for at, value in itertools.chain.from_iterable(counted):
            values.setdefault(at, []).append(value)
        curve = [(at, sum(values[at]) / len(values[at])) for at in sorted(values)]
    return (*curve[:-1], (curve[-1][0], spread(numbers[-1] for numbers in ranks)[0]))


def _counted(numbers: Sequence[Number]) -> list[Point]:
    points: list[Point] = []
    at = -1.0
    for step, value in numbers:
        at = at + 1 if step is None else float(step)
        points.append((at, value))
    return points


def curve_svg(curve: Curve) -> str:
    """The curve as a picture in the colour of the text around it; empty where a line says nothing."""
    points = [
        (at, max(-_HUGE, min(_HUGE, value)))
        for at, value in curve.points
        if math.isfinite(value) and math.isfinite(at)
    ]
    if len(points) < 2:
        return ""
    line = " ".join(f"{x:.0f},{y:.1f}" for x, y in _drawn(points))
    title = f"{curve.tag}: {number_text(curve.first)} → {number_text(curve.last)}"
    return (
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" preserveAspectRatio="none">'
        '<polyline fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" '
        f'vector-effect="non-scaling-stroke" points="{line}"></polyline></svg>'
    )


def _drawn(points: Sequence[Point]) -> Iterator[Point]:
    """A point for every second column of the picture at most: the mean of what falls there."""
    begin, end = points[0][0], points[-1][0]
    if end <= begin or any(b[0] < a[0] for a, b in itertools.pairwise(points)):
        # steps that began again, or none: then the order is what is known
        points = [(number, value) for number, (_, value) in enumerate(points)]
        begin, end = 0, len(points) - 1
    columns: dict[int, list[float]] = {}
    for at, value in points:
        columns.setdefault(round((at - begin) / (end - begin) * _WIDTH / 2), []).append(value)
    means = {column: sum(value / len(values) for value in values) for column, values in columns.items()}
    low, high = min(means.values()), max(means.values())
    room = _HEIGHT - 2 * _INSET
    for column, mean in means.items():
        share = (mean - low) / (high - low) if high > low else 0.5
        yield 2 * column, _HEIGHT - _INSET - share * room
