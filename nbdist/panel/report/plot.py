"""The charts of a report: which series they show, drawn as SVG."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.feed.charts import Chart, Charts
from nbdist.feed.view import number_text
from nbdist.model import Run
from nbdist.panel.summary import sheet
from nbdist.store import LogStream, MetricsReader, RunDirectory
from nbdist.store.scraped.log import merge_points, printed_points
from nbdist.text import say

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


_WIDTH, _HEIGHT = 420, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 8, 22
_HUGE = 1e300  # what can still be added up and subtracted
_BARS = 64


def chart_html(drawing: Drawing, language: str, *, data: bool = True) -> str:
    """The chart with its title, the last values, and a legend where there are several lines. ``data``:
    for a page whose script reads values at the pointer."""
    unit = f" <small>{html.escape(drawing.unit)}</small>" if drawing.unit else ""
    single = len(drawing.lines) == 1 and not drawing.lines[0].name
    last = f" <b>{_last(drawing.lines[0])}</b>" if single else ""
    legend = "" if single else _legend(drawing.lines)
    values = json.dumps(_data(drawing, language), separators=(",", ":"), allow_nan=False) if data else ""
    given = f' data-chart="{html.escape(values)}"' if data else ""
    read = '<div class="r-read" hidden></div>' if data else ""
    return (
        f'<figure class="r-chart"{given}><figcaption><span class="r-tag">'
        f"{html.escape(drawing.tag)}</span>{unit}{last}</figcaption>{_svg(drawing)}{legend}{read}</figure>"
    )


def curve_html(title: str, points: Sequence[tuple[float, float]]) -> str:
    """A curve from 0 to 1 on either axis."""
    line = Line(name="", colour=0, x=tuple(x for x, _ in points), y=tuple(y for _, y in points))
    frame = _Frame(0.0, 1.0, 0.0, 1.0)
    drawn = f'<path class="r-line r-s0" d="{_path(frame, line.x, line.y)}"/>'
    return (
        f'<figure class="r-chart"><figcaption><span class="r-tag">{html.escape(title)}</span></figcaption>'
        f"{_picture(frame, drawn, title)}</figure>"
    )


def bars_html(title: str, counts: Sequence[float], edges: Sequence[float]) -> str:
    """A histogram."""
    # beyond this, bars are thinner than a pixel
    step = max(1, -(-len(counts) // _BARS))
    sums = [sum(counts[at : at + step]) for at in range(0, len(counts), step)]
    ends = [*edges[: len(counts) : step], edges[-1]]
    frame = _Frame(ends[0], ends[-1], 0.0, max(sums, default=1.0))
    bars = "".join(
        f'<rect x="{frame.x(left):.1f}" y="{frame.y(value):.1f}" '
        f'width="{max(0.5, frame.x(right) - frame.x(left) - 0.5):.1f}" '
        f'height="{frame.y(0) - frame.y(value):.1f}"/>'
        for value, left, right in zip(sums, ends, ends[1:], strict=False)
    )
    return (
        f'<figure class="r-chart"><figcaption><span class="r-tag">{html.escape(title)}</span></figcaption>'
        f"{_picture(frame, f'<g class=r-bars>{bars}</g>', title)}</figure>"
    )


class _Frame:
    """What is shown of the plane, and where on the picture that is."""

    def __init__(self, left: float, right: float, low: float, high: float) -> None:
        if right <= left:
            left, right = left - 0.5, right + 0.5
        if high <= low:
            room = abs(low) / 10 or 0.5
            low, high = low - room, high + room
        self.left, self.right, self.low, self.high = left, right, low, high

    def x(self, value: float) -> float:
        return _LEFT + (value - self.left) / (self.right - self.left) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _TOP + (self.high - value) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)


def _svg(drawing: Drawing) -> str:
    xs = [x for line in drawing.lines for x in line.x]
    ys = [y for line in drawing.lines for y in (*line.y, *line.low, *line.high) if _drawable(y)]
    if not xs or not ys:
        return '<p class="n-muted">–</p>'
    low, high = min(ys), max(ys)
    room = (high - low) * 0.04
    frame = _Frame(min(xs), max(xs), low - room, high + room)
    drawn = "".join(
        f'<path class="r-band r-s{line.colour}" d="{_band(frame, line)}"/>'
        for line in drawing.lines
        if line.low
    )
    drawn += "".join(
        f'<path class="r-line r-s{line.colour}" d="{_path(frame, line.x, line.y)}"/>'
        for line in drawing.lines
    )
    return _picture(frame, drawn, drawing.tag)


def _picture(frame: _Frame, drawn: str, title: str) -> str:
    rows = "".join(
        f'<path class="r-grid" d="M{_LEFT},{frame.y(tick):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text x="{_LEFT - 5}" y="{frame.y(tick) + 4:.1f}" text-anchor="end">{_tick_text(tick)}</text>'
        for tick in _ticks(frame.low, frame.high, 4)
    )
    columns = "".join(
        f'<text x="{frame.x(tick):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{_tick_text(tick)}</text>'
        for tick in _ticks(frame.left, frame.right, 5)
    )
    return (
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'data-x="{frame.left},{frame.right}" data-y="{frame.low},{frame.high}">'
        f"{rows}{columns}{drawn}</svg>"
    )


def _path(frame: _Frame, xs: Sequence[float], ys: Sequence[float]) -> str:
    """The line; a value that is missing parts it. A point alone is a dot."""
    parts: list[list[str]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if _drawable(y):
            parts[-1].append(f"{frame.x(x):.1f},{frame.y(y):.1f}")
        elif parts[-1]:
            parts.append([])
    return "".join(f"M{part[0]}L{' '.join(part[1:] or [part[0]])}" for part in parts if part)


def _band(frame: _Frame, line: Line) -> str:
    rows = [
        row
        for row in zip(line.x, line.low, line.high, strict=True)
        if _drawable(row[1]) and _drawable(row[2])
    ]
    if not rows:
        return ""
    above = [f"{frame.x(x):.1f},{frame.y(high):.1f}" for x, _, high in rows]
    below = [f"{frame.x(x):.1f},{frame.y(low):.1f}" for x, low, _ in reversed(rows)]
    return f"M{above[0]}L{' '.join((*above[1:], *below))}Z"


def _drawable(value: float) -> bool:
    return -_HUGE < value < _HUGE


def _ticks(low: float, high: float, about: int) -> Iterable[float]:
    """Round numbers between two."""
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next((size * by for by in (1, 2, 5) if size * by >= raw), size * 10)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)][:20]


def _tick_text(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:.6g}"


def _last(line: Line) -> str:
    known = [value for value in line.y if not math.isnan(value)]
    return html.escape(number_text(known[-1])) if known else "–"


def _legend(lines: Sequence[Line]) -> str:
    entries = "".join(
        f'<li><i class="r-s{line.colour}"></i>{html.escape(line.name)} <b>{_last(line)}</b></li>'
        for line in lines
    )
    return f'<ul class="r-legend">{entries}</ul>'


def _data(drawing: Drawing, language: str) -> dict[str, object]:
    return {
        "over": say("report." + drawing.over, language),
        "lines": [
            {"name": line.name, "colour": line.colour}
            | {
                key: [_short(value) for value in values]
                for key, values in (("x", line.x), ("y", line.y), ("low", line.low), ("high", line.high))
                if values
            }
            for line in drawing.lines
        ],
    }


def _short(value: float) -> float | None:
    """Six digits are what a reader reads; JSON has no NaN."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


_CHARTS = 12
_LOOK = Path(__file__).with_name("charts.css")


def charts_html(runs: Sequence[tuple[Run, RunDirectory]], language: str) -> str:
    """The metrics of the runs as still pictures; empty when they logged none."""
    drawn = drawings([(run.label, read_charts(run, directory)) for run, directory in runs])
    shown = [drawing for drawing in drawn if drawing.group == "metric"][:_CHARTS]
    if not shown:
        return ""
    charts = "".join(chart_html(drawing, language, data=False) for drawing in shown)
    rules = sheet("nbdist-charts", _LOOK.read_text(encoding="utf-8"))
    return f'{rules}<div class="nbdist-charts"><div class="r-grid-of">{charts}</div></div>'
