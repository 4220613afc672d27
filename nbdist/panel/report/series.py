"""The numbers of some runs as lines, a chart for each tag: what is drawn side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.feed.charts import Chart, Charts
from nbdist.model import Run
from nbdist.store import LogStream, MetricsReader, RunDirectory
from nbdist.store.scraped.log import merge_points, printed_points

MOST_TAGS = 200
"""What a page of charts may hold; each takes some 30 kB."""

_PRINTED_ROOM = 64 << 20  # bytes at the ends of all logs that are looked through for numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a chart. ``low`` and ``high`` are a band around it, or empty. ``colour``: 0 to 7."""

    name: str
    colour: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One chart: the lines of a tag. ``over`` is "step" or "time"."""

    tag: str
    group: str
    unit: str
    over: str
    lines: tuple[Line, ...]


def read_charts(run: Run, directory: RunDirectory, *, most: int = MOST_TAGS) -> Charts:
    """What the ranks logged, printed and used, in the last attempt; of ``most`` tags."""
    charts = Charts(most=most, created=run.spec.created, ranks=[rank.rank for rank in run.spec.ranks])
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        logged: set[str] = set()
        recorded = MetricsReader(files.metrics)
        while points := recorded.read():
            logged.update(tag for point in points for tag in point.values)
            charts.take(rank.rank, points)
        if run.spec.scrape:
            printed = printed_points(files, _PRINTED_ROOM // len(run.ranks))
            charts.take(rank.rank, merge_points([], printed, tags=logged))
        used = MetricsReader(files.system)
        while points := used.read():
            charts.take_system(rank.rank, points)
    return charts


def unread_prints(run: Run, directory: RunDirectory, *, room: int = _PRINTED_ROOM) -> int:
    """Bytes at the begin of the logs that are not looked through for numbers."""
    share = room // len(run.ranks)
    sizes = (LogStream(directory.rank(rank.rank, run.attempt).log).size for rank in run.ranks)
    return sum(max(0, size - share) for size in sizes) if run.spec.scrape else 0


def drawings(runs: Sequence[tuple[str, Charts]]) -> list[Drawing]:
    """A chart for each tag of any of the runs, given by their labels; of one run with its band or its
    ranks, of several with a line for each."""
    if len(runs) == 1:
        return [_of_one(chart) for chart in runs[0][1].all()]
    found: dict[tuple[str, str], Drawing] = {}
    for colour, (label, charts) in enumerate(runs):
        for chart in charts.all():
            key = chart.group, chart.tag
            before = found[key].lines if key in found else ()
            found[key] = Drawing(
                tag=chart.tag,
                group=chart.group,
                unit=chart.unit,
                over=_over(chart),
                lines=(*before, _mean(chart, label, colour % 8)),
            )
    return list(found.values())


def _of_one(chart: Chart) -> Drawing:
    if chart.kind == "band":
        x, mean, low, high = (tuple(chart.columns[place]) for place in (_at(chart), 2, 3, 4))
        apart = any(a != b for a, b in zip(low, high, strict=True))
        band = {"low": low, "high": high} if apart else {}
        lines: tuple[Line, ...] = (Line(name="", colour=0, x=x, y=mean, **band),)
    else:
        x = tuple(chart.columns[1])
        lines = tuple(
            Line(name=str(rank), colour=rank % 8, x=x, y=tuple(column))
            for rank, column in zip(chart.ranks, chart.columns[2:], strict=True)
        )
    return Drawing(tag=chart.tag, group=chart.group, unit=chart.unit, over=_over(chart), lines=lines)


def _mean(chart: Chart, label: str, colour: int) -> Line:
    if chart.kind == "band":
        y = tuple(chart.columns[2])
    else:
        y = tuple(_average(row) for row in zip(*chart.columns[2:], strict=True))
    return Line(name=label, colour=colour, x=tuple(chart.columns[_at(chart)]), y=y)


def _average(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _over(chart: Chart) -> str:
    return "step" if chart.group == "metric" else "time"


def _at(chart: Chart) -> int:
    return 0 if _over(chart) == "step" else 1
