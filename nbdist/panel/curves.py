"""The metrics of a finished run as small curves: read in samples, however long the files are."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nbdist.model import Run
from nbdist.panel.figures import number_text
from nbdist.panel.points import last_points, sampled_points
from nbdist.store import MetricPoint, RunDirectory
from nbdist.store.scraped import merge_points, printed_points

_END = 16_384
_PRINTED = 4 << 20  # bytes at the ends of all logs that are looked through for numbers
_WIDTH, _HEIGHT, _INSET = 120, 24, 2
# what can still be added up and subtracted
_HUGE = 1e300

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One metric of the lowest rank that logged it. ``points`` are step (or time) and value, in the
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
    curves: dict[str, Curve] = {}
    printed = _PRINTED // len(run.ranks) if run.spec.scrape else 0
    for rank in run.ranks:
        path = directory.rank(rank.rank, run.attempt).metrics
        # ranks log the same tags as a rule, and the end of a file shows it
        if rank.rank and not any(point.values.keys() - curves for point in last_points(path, _END)):
            continue
        found: dict[str, list[Point]] = {}
        _add(found, sampled_points(path))
        if printed:
            # what a rank records it does not only print
            said = printed_points(directory.rank(rank.rank, run.attempt), printed)
            _add(found, merge_points([], said, tags=set(found)))
        for tag, points in found.items():
            curves.setdefault(tag, Curve(tag=tag, points=tuple(points)))
    return tuple(curves.values())


def _add(found: dict[str, list[Point]], points: Iterable[MetricPoint]) -> None:
    for point in points:
        at = point.time if point.step is None else float(point.step)
        for tag, value in point.values.items():
            found.setdefault(tag, []).append((at, value))


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
