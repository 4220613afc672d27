"""The points of a metrics file, read anywhere in it: its end, or pieces of all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nbdist.store import LogStream, MetricPoint
from nbdist.store.metrics import points_of

_WHOLE = 512 * 1024
_END = 65_536
_BEGIN = 4_096
_SAMPLES = 64
_SAMPLE = 2_048


def last_points(path: Path, room: int) -> list[MetricPoint]:
    """The points in about the last ``room`` bytes; the last one says of how many steps, if any did."""
    stream = LogStream(path)
    begin = next((p.total for p in points_of(stream.read(_BEGIN).splitlines()) if p.total), None)
    stream.offset = 0
    stream.skip_to_tail(room)
    points = points_of(stream.read(room).splitlines())
    total = next((point.total for point in reversed(points) if point.total), begin)
    return [*points[:-1], replace(points[-1], total=total)] if points else []


def sampled_points(path: Path) -> Iterator[MetricPoint]:
    """All points of a file; of a long one those of its begin, its end, and pieces from between."""
    stream = LogStream(path)
    size = stream.size
    if size <= _WHOLE:
        yield from points_of(stream.read(_WHOLE).splitlines())
        return
    between = size - 2 * _END
    samples = ((_END + between * number // _SAMPLES, _SAMPLE) for number in range(_SAMPLES))
    for offset, length in ((0, _END), *samples, (size - _END, _END)):
        stream.offset = offset
        # a piece begins and ends within lines, which are none then
        yield from points_of(stream.read(length).splitlines())
