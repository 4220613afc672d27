"""The charts of a run, made of its ranks' points: bounded, however long the run is."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbdist.store import MetricPoint
from nbdist.store.metrics import spread

ROWS = 400
SAMPLING = 2.0  # seconds between two looks of the supervisor
_NAN = math.nan

_Row = list[float]
"""A band's x and time of its last point, count, sum, least, greatest; or the time of the last point of lines,
then sum and count of each rank."""


class Band:
    """Mean, least and greatest along ``x``, in at most ROWS rows. Rows are ``width`` of ``x`` wide; too
    many are merged in pairs. So points may come in any order, and early ones weigh as much as late ones."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._rows: dict[float, _Row] = {}

    def add(self, x: float, time: float, value: float) -> None:
        key = x // self._width
        row = self._rows.get(key)
        if row is None:
            self._rows[key] = [x, time, 1, value, value, value]
            if len(self._rows) > ROWS:
                self._rows, self._width = _narrowed(self._rows, self._width, _merge)
            return
        # no calls here: every point of a run comes by
        if x > row[0]:
            row[0] = x
        if time > row[1]:
            row[1] = time
        row[2] += 1
        row[3] += value
        if value < row[4]:
            row[4] = value
        elif value > row[5]:
            row[5] = value

    def columns(self) -> list[array[float]]:
        rows = [self._rows[key] for key in sorted(self._rows)]
        shown = [(x, time, total / count, least, most) for x, time, count, total, least, most in rows]
        return [array("f", [row[at] for row in shown]) for at in range(5)]


def _merge(row: _Row, other: _Row) -> None:
    row[0], row[1] = max(row[0], other[0]), max(row[1], other[1])
    row[2] += other[2]
    row[3] += other[3]
    row[4], row[5] = min(row[4], other[4]), max(row[5], other[5])


class Lines:
    """A value of each rank along the time, in at most ROWS rows; a row holds the mean of its values."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self._places = {rank: 2 * place + 1 for place, rank in enumerate(ranks)}
        self._width = SAMPLING
        self._rows: dict[float, _Row] = {}

    def add(self, rank: int, time: float, value: float) -> None:
        place = self._places.get(rank)
        if place is None:
            return
        key = time // self._width
        row = self._rows.setdefault(key, [time] + [0.0] * (2 * len(self._places)))
        row[0] = max(row[0], time)
        row[place] += value
        row[place + 1] += 1
        if len(self._rows) > ROWS:
            self._rows, self._width = _narrowed(self._rows, self._width, _add_up)

    def columns(self) -> list[array[float]]:
        rows = [self._rows[key] for key in sorted(self._rows)]
        times = array("f", [row[0] for row in rows])
        means = (
            [row[at] / row[at + 1] if row[at + 1] else _NAN for row in rows] for at in self._places.values()
        )
        return [times, times, *(array("f", mean) for mean in means)]


def _add_up(row: _Row, other: _Row) -> None:
    row[0] = max(row[0], other[0])
    row[1:] = map(sum, zip(row[1:], other[1:], strict=True))


def _narrowed(
    rows: dict[float, _Row], width: float, merge: Callable[[_Row, _Row], None]
) -> tuple[dict[float, _Row], float]:
    """Return the rows merged until they keep to the bound, and their width."""
    while len(rows) > ROWS:
        width *= 2
        wider: dict[float, _Row] = {}
        for key, row in rows.items():
            wide = wider.setdefault(key // 2, row)
            if wide is not row:
                merge(wide, row)
        rows = wider
    return rows, width


TAGS = 50
_MOST_NAMES = 10_000
SINGLE_RANKS = 8  # up to here, a system chart has a line for each rank
_FORGOTTEN = 60.0  # seconds without a point, after which a tag gives way to a new one


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart of ``ranks``, those with values. The columns of a ``band`` are step, time, mean, min, max
    over ranks; of ``ranks`` step, time, and one for each rank. Times are seconds since the run was
    created; NaN is no value. ``last``: the last value of each rank, of a band their mean, min and max
    (``metrics.spread``). ``highest``: the greatest use at any time, and its rank."""

    tag: str
    kind: str
    group: str
    unit: str
    ranks: tuple[int, ...]
    columns: tuple[array[float], ...]
    last: tuple[float, ...] = ()
    highest: tuple[float, int] | None = None

    @property
    def rows(self) -> int:
        return len(self.columns[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartKey:
    """The key of a chart: a program may log a tag that is also the name of a system chart."""

    group: str
    tag: str


# the supervisor's samples that have a chart, in the order on the page, with their units
_MEASURES = {"memory": "GB", "cpu": "%", "gpu": "%", "gpu_memory": "GB"}
_SCALES = {"GB": 1e-9, "%": 1.0}


class Charts:
    """The logs and uses of one run's ranks, ready to be drawn. ``created`` is the run's creation in Unix
    seconds. The first ``most`` tags have charts; with None, TAGS tags, and new ones replace the oldest."""

    def __init__(self, *, created: float, ranks: Sequence[int], most: int | None = None) -> None:
        self._created = created
        self._ranks = tuple(ranks)
        self._most = most
        self._mark = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything: the steps of a new attempt begin again."""
        self.dropped: dict[str, None] = {}
        """The tags without a chart, in the order of their loss."""
        self._metrics: dict[str, _Metric] = {}
        self._system: dict[str, _System] = {}
        self._full_until = -math.inf

    def take(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """Take the rank's next points. Without a step, each tag counts on from its last."""
        self._mark = mark = self._mark + 1
        metrics, created = self._metrics, self._created
        for point in points:
            step, time = point.step, point.time - created
            for tag, value in point.values.items():
                metric = metrics.get(tag) or self._metric(tag, time)
                if metric is None:
                    continue
                at = metric.last.get(rank, -1) + 1 if step is None else step
                metric.last[rank] = at
                metric.values[rank] = value
                metric.time, metric.mark = time, mark
                if -math.inf < value < math.inf:
                    metric.band.add(at, time, value)

    def take_system(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """Take the supervisor's next measurements of the rank."""
        self._mark += 1
        for point in points:
            for tag, value in point.values.items():
                if tag in _MEASURES and math.isfinite(value):
                    system = self._system.setdefault(tag, _System(self._ranks))
                    system.mark = self._mark
                    system.add(rank, point.time - self._created, value * _SCALES[_MEASURES[tag]])

    @property
    def marks(self) -> dict[ChartKey, int]:
        """Return the charts in the page's order, with a mark that grows when the chart changes."""
        used = {tag: self._system[tag] for tag in _MEASURES if tag in self._system}
        marks = {ChartKey(group="metric", tag=tag): metric.mark for tag, metric in self._metrics.items()}
        return marks | {ChartKey(group="system", tag=tag): system.mark for tag, system in used.items()}

    def chart(self, key: ChartKey) -> Chart:
        """Return the chart as it is now. Raises KeyError for none of ``marks``."""
        if key.group == "metric":
            metric = self._metrics[key.tag]
            return Chart(
                tag=key.tag,
                kind="band",
                group=key.group,
                unit="",
                ranks=tuple(sorted(metric.last)),
                columns=tuple(metric.columns()),
                last=spread(metric.values.values()),
            )
        system = self._system[key.tag]
        return Chart(
            tag=key.tag,
            kind=system.kind,
            group=key.group,
            unit=_MEASURES[key.tag],
            ranks=system.ranks,
            columns=tuple(system.columns()),
            last=system.last,
            highest=system.highest,
        )

    def all(self) -> list[Chart]:
        return [self.chart(key) for key in self.marks]

    def _metric(self, tag: str, time: float) -> _Metric | None:
        """Return a chart for a tag that has none; None when there is no room for it."""
        if len(self._metrics) >= (TAGS if self._most is None else self._most):
            if self._most is not None or not self._forget_oldest(time):
                self._drop(tag)
                return None
            self.dropped.pop(tag, None)
        return self._metrics.setdefault(tag, _Metric())

    def _forget_oldest(self, time: float) -> bool:
        """Make room for a new tag; return False where every tag has had a point lately."""
        if time < self._full_until:
            return False
        oldest = min(self._metrics, key=lambda known: self._metrics[known].time)
        self._full_until = self._metrics[oldest].time + _FORGOTTEN
        if time < self._full_until:
            return False
        del self._metrics[oldest]
        self._drop(oldest)
        return True

    def _drop(self, tag: str) -> None:
        if len(self.dropped) < _MOST_NAMES:
            self.dropped[tag] = None


class _Metric:
    """One tag: its band, and each rank's last value and step."""

    def __init__(self) -> None:
        self.band = Band(1)
        self.last: dict[int, int] = {}
        self.values: dict[int, float] = {}
        self.time = 0.0
        self.mark = 0

    def columns(self) -> list[array[float]]:
        """Return the band, with the last values of ranks at one step at its end: a row may be many steps."""
        columns = self.band.columns()
        last = spread(self.values.values())
        if columns[0] and {columns[0][-1]} == {*self.last.values()} and all(map(math.isfinite, last)):
            for column, value in zip(columns[2:], last, strict=True):
                column[-1] = value
        return columns


class _System:
    """One system chart: a line for each rank over time, or a band where they are many."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        single = len(ranks) <= SINGLE_RANKS
        self.kind = "ranks" if single else "band"
        self.ranks = ranks
        self.mark = 0
        self._lines: Band | Lines = Lines(ranks) if single else Band(SAMPLING)
        self._values: dict[int, float] = {}
        self.highest: tuple[float, int] | None = None

    @property
    def last(self) -> tuple[float, ...]:
        if self.kind == "ranks":
            return tuple(self._values.get(rank, _NAN) for rank in self.ranks)
        return spread(self._values.values())

    def add(self, rank: int, time: float, value: float) -> None:
        self._values[rank] = value
        if self.highest is None or value > self.highest[0]:
            self.highest = (value, rank)
        if isinstance(self._lines, Band):
            self._lines.add(time, time, value)
        else:
            self._lines.add(rank, time, value)

    def columns(self) -> list[array[float]]:
        columns = self._lines.columns()
        return [array("f", [_NAN]) * len(columns[1]), *columns[1:]]
