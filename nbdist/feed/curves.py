"""Metrics as small curves, sampled from files of any length."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.feed.view import number_text
from nbdist.model import Run
from nbdist.store import LogStream, MetricPoint, RunDirectory
from nbdist.store.metrics import last_points, points_of, spread
from nbdist.store.scraped.log import merge_points, printed_points, read_points, sampled_prints

POINTS = 40
_WHOLE = 32 * 1024
_PIECE = 1024
_PRINTED = 16 * 1024  # finding numbers in a log is a hundred times slower than reading logged ones
_PIECES = 8
_FAR = 2.0  # times the least loss
_PRINTING = 8  # ranks whose logs are searched


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """Up to POINTS values in their order, all finite; the last is the last logged. ``diverged``: that is no
    finite number, or a loss far above the least."""

    tag: str
    values: tuple[float, ...]
    diverged: bool = False


def spark_of(run: Run, directory: RunDirectory) -> tuple[Spark | None, float]:
    """Return the main metric of the lowest rank that has logged or printed any, and the mean of the last
    values of all ranks that have it. None and NaN where no rank has any."""
    spark, last = spark_and_last(run, directory)
    return spark, next(iter(last.values()), math.nan)


def spark_and_last(run: Run, directory: RunDirectory) -> tuple[Spark | None, dict[str, float]]:
    """Return the spark of ``spark_of``, and where each metric stands, the main one first."""
    shape: dict[str, list[_Logged]] = {}
    last: dict[str, list[float]] = {}
    room = max(_PIECE, _WHOLE // max(1, len(run.ranks)))
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        own = _by_tag(last_points(files.metrics, room) if shape else _sampled(files.metrics))
        if run.spec.scrape and rank.rank < _PRINTING:
            prints = printed_points(files, room // 8) if shape else sampled_prints(files, _PRINTED, _PIECES)
            own |= _by_tag(merge_points([], prints, tags=set(own)))
        shape = shape or own
        for tag, numbers in own.items():
            last.setdefault(tag, []).append(numbers[-1][1])
    if not shape:
        return None, {}
    tag = main_tag(list(shape))
    stands = spread(last[tag])[0]
    means = {tag: stands} | {other: spread(last[other])[0] for other in shape if other != tag}
    values = (*(value for _, value, _ in shape[tag][:-1]), stands)
    finite = [value for value in values if math.isfinite(value)]
    drawn = tuple(finite[at] for at in picked(len(finite), POINTS))
    return (Spark(tag=tag, values=drawn, diverged=has_diverged(tag, drawn, stands)) if drawn else None), means


def has_diverged(tag: str, values: Sequence[float], stands: float) -> bool:
    """Return True where a metric ends at no finite number, or a loss far above its least value."""
    if not math.isfinite(stands):
        return True
    falls = "loss" in tag.lower() and min(values) > 0
    return falls and stands > max(values[0], _FAR * min(values))


def main_tag(tags: list[str]) -> str:
    """Return the loss of these tags, or else the first."""
    named = [tag for tag in tags if "loss" in tag.lower()]
    return next((tag for tag in named if tag.lower() == "loss"), (named or tags)[0])


def picked(count: int, most: int) -> Sequence[int]:
    """Return up to ``most`` of ``count`` places, the first and the last among them."""
    if count <= most:
        return range(count)
    return [round(number * (count - 1) / (most - 1)) for number in range(most)]


def _sampled(path: Path) -> Iterator[MetricPoint]:
    stream = LogStream(path)
    size = stream.size
    if size <= _WHOLE:
        yield from points_of(stream.read(_WHOLE).splitlines())
        return
    for number in range(POINTS):
        stream.offset = (size - _PIECE) * number // (POINTS - 1)
        # a piece begins and ends within lines, which do not parse then
        yield from points_of(stream.read(_PIECE).splitlines())


_WIDTH, _HEIGHT, _INSET = 120, 24, 2
_HUGE = 1e300  # can still be added up and subtracted

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One metric: the mean over the ranks that have it. ``points`` are step and value, as logged: a sample
    of very many, the first and last always. ``times`` are when the last rank logged each, Unix seconds."""

    tag: str
    points: tuple[Point, ...]
    times: tuple[float, ...] = ()

    @property
    def first(self) -> float:
        return self.points[0][1]

    @property
    def last(self) -> float:
        return self.points[-1][1]


def read_curves(run: Run, directory: RunDirectory, runs: int = 1) -> tuple[Curve, ...]:
    """Return every metric of the run, those of the lowest ranks first. Its caller reads ``runs`` runs."""
    by_tag: dict[str, list[list[_Logged]]] = {}
    for points in read_points(run, directory, runs):
        for tag, logged in _by_tag(points).items():
            by_tag.setdefault(tag, []).append(logged)
    return tuple(_curve(tag, ranks) for tag, ranks in by_tag.items())


_Logged = tuple[int | None, float, float]
"""Step (None where the program gave none), value and time."""


def _by_tag(points: Iterable[MetricPoint]) -> dict[str, list[_Logged]]:
    by_tag: dict[str, list[_Logged]] = {}
    for point in points:
        for tag, value in point.values.items():
            by_tag.setdefault(tag, []).append((point.step, value, point.time))
    return by_tag


def _curve(tag: str, ranks: Sequence[Sequence[_Logged]]) -> Curve:
    """Return the mean over the ranks at each step, with the value that counts as the last; where steps
    begin again, the lowest rank's. Missing steps are counted."""
    counted = [_counted(logged) for logged in ranks]
    if any(b[0] < a[0] for points in counted for a, b in itertools.pairwise(points)):
        curve = counted[0]
    else:
        rows: dict[float, list[tuple[float, float]]] = {}
        for at, value, time in itertools.chain.from_iterable(counted):
            rows.setdefault(at, []).append((value, time))
        curve = [
            (at, sum(value for value, _ in rows[at]) / len(rows[at]), max(time for _, time in rows[at]))
            for at in sorted(rows)
        ]
    last = spread(logged[-1][1] for logged in ranks)[0]
    return Curve(
        tag=tag,
        points=(*((at, value) for at, value, _ in curve[:-1]), (curve[-1][0], last)),
        times=tuple(time for *_, time in curve),
    )


def _counted(logged: Sequence[_Logged]) -> list[tuple[float, float, float]]:
    points: list[tuple[float, float, float]] = []
    at = -1.0
    for step, value, time in logged:
        at = at + 1 if step is None else float(step)
        points.append((at, value, time))
    return points


def curve_svg(curve: Curve) -> str:
    """Return the curve as a picture in the colour of the text around it; empty for a single point."""
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
    """Yield a point for at most every second column of the picture: the mean of the values there."""
    begin, end = points[0][0], points[-1][0]
    if end <= begin or any(b[0] < a[0] for a, b in itertools.pairwise(points)):
        # steps that began again, or none: only the order is known
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
