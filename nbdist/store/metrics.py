"""What ranks recorded with ``nbdist.log``, and what the supervisor measured of them, read back.

Both files hold one JSON object a line: ``{"t": Unix seconds, "step": 3, "total": 100, "v": {"loss": 0.5}}``,
where ``step`` and ``total`` may be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_int, as_time, loads
from nbdist.store.log_stream import LogStream
from nbdist.store.paths import RunDirectory

_TAIL = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """What one line says. ``step`` of ``total`` where the program said so; ``time`` in Unix seconds."""

    time: float
    step: int | None
    values: Mapping[str, float]
    total: int | None = None


class MetricsReader:
    """The points of one file, each of them once. The file may not exist yet, or any more."""

    def __init__(self, path: Path) -> None:
        self._file = LogStream(path)

    def read(self, limit: int = 1 << 20) -> list[MetricPoint]:
        """The points that are new since the last call, from at most about ``limit`` bytes of the file.

        Empty when there are none yet. A line that is not complete waits for the next call; what is no
        point, or longer than ``limit``, is passed over.
        """
        while data := self._file.read(limit):
            whole = data.rfind(b"\n") + 1
            if whole == 0 and len(data) < limit:
                self._file.offset -= len(data)
                return []
            if whole:
                self._file.offset -= len(data) - whole
            if points := points_of(data[:whole].splitlines()):
                return points
        return []


def last_values(run: Run, directory: RunDirectory) -> dict[str, float]:
    """The last value of each metric, of the lowest rank that logged it."""
    values: dict[str, float] = {}
    for rank in run.ranks:
        stream = LogStream(directory.rank(rank.rank, run.attempt).metrics)
        stream.skip_to_tail(_TAIL)
        last: dict[str, float] = {}
        for point in _points(stream.read(_TAIL).splitlines()):
            last.update(point.values)
        values |= {tag: value for tag, value in last.items() if tag not in values}
    return values


def points_of(lines: list[bytes]) -> list[MetricPoint]:
    """The points among some lines of a metrics file."""
    return list(_points(lines))


def _points(lines: list[bytes]) -> Iterable[MetricPoint]:
    for line in decoded(lines):
        try:
            values = {tag: float(value) for tag, value in line["v"].items()}
            step, total = line.get("step"), line.get("total")
            yield MetricPoint(
                time=as_time(line["t"]),
                step=None if step is None else as_int(step),
                values=values,
                total=None if total is None else as_int(total),
            )
        except MALFORMED:
            continue


def decoded(lines: list[bytes]) -> list[Any]:
    """The JSON value of each line. All at once is three times as fast, and goes wrong with one bad line."""
    try:
        values = loads(b"[" + b",".join(lines) + b"]")
        if len(values) == len(lines):
            return values  # type: ignore[no-any-return]
    except ValueError:
        pass
    return [value for line in lines if (value := _decoded_alone(line)) is not None]


def _decoded_alone(line: bytes) -> Any:
    try:
        return loads(line)
    except ValueError:
        return None
