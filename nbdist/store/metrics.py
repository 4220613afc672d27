"""The metrics of ranks, recorded with ``nbdist.log`` or measured by the supervisor, in lines of JSON:
``{"t": Unix seconds, "step": 3, "total": 100, "v": {"loss": 0.5}}``, ``step`` and ``total`` optional."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_int, as_time, loads
from nbdist.store.logs import LogStream
from nbdist.store.paths import RunDirectory

# bytes
_WHOLE = 512 * 1024
_END = 65_536
_BEGIN = 4_096
_SAMPLES = 64
_SAMPLE = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """One line, with the program's ``step`` of ``total``; ``time`` in Unix seconds."""

    time: float
    step: int | None
    values: Mapping[str, float]
    total: int | None = None


class LineReader:
    """A reader of the lines of one file, each of them once. The file may not exist yet, or any more."""

    def __init__(self, path: Path) -> None:
        self._file = LogStream(path)

    def lines(self, limit: int = 1 << 20) -> list[bytes]:
        """Return the new complete lines, from about ``limit`` bytes; drop a line that is longer."""
        while data := self._file.read(limit):
            whole = data.rfind(b"\n") + 1
            if whole == 0 and len(data) < limit:
                self._file.offset -= len(data)
                return []
            if whole:
                self._file.offset -= len(data) - whole
                return data[:whole].splitlines()
        return []


class MetricsReader(LineReader):
    """A reader of the points of one file, each of them once."""

    def read(self, limit: int = 1 << 20) -> list[MetricPoint]:
        """Return the new points, as ``lines``; drop lines that are no points."""
        while lines := self.lines(limit):
            if points := points_of(lines):
                return points
        return []


def spread(last: Iterable[float]) -> tuple[float, ...]:
    """Return mean, least and greatest of the ranks' last values, whatever their steps; NaN for any NaN,
    nothing of nothing. A metric shown as one number is this mean."""
    values = list(last)
    if not values:
        return ()
    if any(math.isnan(value) for value in values):
        return (math.nan,) * 3
    return (sum(values) / len(values), min(values), max(values))


def last_points(path: Path, room: int) -> list[MetricPoint]:
    """Return the points in about the last ``room`` bytes; the last one has the known total of steps."""
    stream = LogStream(path)
    begin = next((p.total for p in points_of(stream.read(_BEGIN).splitlines()) if p.total), None)
    stream.offset = 0
    stream.skip_to_tail(room)
    points = points_of(stream.read(room).splitlines())
    total = next((point.total for point in reversed(points) if point.total), begin)
    return [*points[:-1], replace(points[-1], total=total)] if points else []


def sampled_points(path: Path, share: int = 1) -> Iterator[MetricPoint]:
    """Yield the points of a file; of a long one (of ``share``) those at both ends, and some between."""
    stream = LogStream(path)
    size, end = stream.size, max(_BEGIN, _END // share)
    whole = max(2 * end, _WHOLE // share)
    if size <= whole:
        yield from points_of(stream.read(whole).splitlines())
        return
    samples = _SAMPLES // share
    between = size - 2 * end
    places = ((end + between * number // samples, _SAMPLE) for number in range(samples))
    for offset, length in ((0, end), *places, (size - end, end)):
        stream.offset = offset
        # a piece begins and ends within lines, which are dropped
        yield from points_of(stream.read(length).splitlines())


def points_of(lines: list[bytes]) -> list[MetricPoint]:
    """Return the points among some lines of a metrics file."""
    points = []
    for line in decoded(lines):
        with contextlib.suppress(*MALFORMED):
            values = {tag: float(value) for tag, value in line["v"].items()}
            step, total = line.get("step"), line.get("total")
            points.append(
                MetricPoint(
                    time=as_time(line["t"]),
                    step=None if step is None else as_int(step),
                    values=values,
                    total=None if total is None else as_int(total),
                )
            )
    return points


Setting = bool | int | float | str


def read_hparams(run: Run, directory: RunDirectory) -> dict[str, Setting]:
    """Return the last hyperparameters of the lowest rank with any (``nbdist.log_hparams``), masked."""
    for rank in run.ranks:
        stream = LogStream(directory.rank(rank.rank, run.attempt).metrics)
        settings: dict[str, Setting] = {}
        rest = b""
        while data := stream.read():
            whole, _, rest = (rest + data).rpartition(b"\n")
            # ten times as fast as to split all lines
            if b'"hparams"' in whole:
                for line in whole.split(b"\n"):
                    settings |= _settings(line) if b'"hparams"' in line else {}
        if settings:
            return settings
    return {}


def _settings(line: bytes) -> dict[str, Setting]:
    try:
        items = loads(line)["hparams"].items()
    except MALFORMED:
        return {}
    from nbdist.privacy import MASK, is_secret_name  # a supervisor starts sooner without it

    known = {
        str(name): value if isinstance(value, (int, float, str)) else str(value) for name, value in items
    }
    # no fraction is a secret
    hidden = {name for name, value in known.items() if is_secret_name(name) and not isinstance(value, float)}
    return {name: MASK if name in hidden else value for name, value in known.items()}


def decoded(lines: list[bytes]) -> list[Any]:
    """Return the JSON value of each line. All at once is three times as fast, but fails for one bad line."""
    with contextlib.suppress(ValueError):
        values: list[Any] = loads(b"[" + b",".join(lines) + b"]")
        if len(values) == len(lines):
            return values
    values = []
    for line in lines:
        with contextlib.suppress(ValueError):
            values.append(loads(line))
    return [value for value in values if value is not None]
