"""The main metric of a run as a small line, from a few pieces of its files, however long those are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbdist.model import Run
from nbdist.store import LogStream, MetricPoint, RunDirectory
from nbdist.store.metrics import Number, points_of, spread
from nbdist.store.scraped import merge_points, numbers_of, printed_points, sampled_prints

POINTS = 40
_WHOLE = 32 * 1024
_PIECE = 1024
# to find numbers in a log takes a hundred times as long as to read those that were logged
_PRINTED = 16 * 1024
_PIECES = 8
_PRINTING = 8  # ranks whose logs are looked through


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """Up to POINTS values in their order, all finite; the last is the last that was logged."""

    tag: str
    values: tuple[float, ...]


def spark_of(run: Run, directory: RunDirectory) -> tuple[Spark | None, float]:
    """The main metric of the lowest rank that has logged or printed any, and where it stands: the mean of the
    last values of all ranks that have it. None where no rank has any."""
    shape: dict[str, list[Number]] = {}
    last: dict[str, list[Number]] = {}
    room = max(_PIECE, _WHOLE // max(1, len(run.ranks)))
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        own = numbers_of(_last(files.metrics, room) if shape else _sampled(files.metrics))
        if run.spec.scrape and rank.rank < _PRINTING:
            prints = printed_points(files, room // 8) if shape else sampled_prints(files, _PRINTED, _PIECES)
            own |= numbers_of(merge_points([], prints, tags=set(own)))
        shape = shape or own
        for tag, numbers in own.items():
            last.setdefault(tag, []).append(numbers[-1])
    if not shape:
        return None, math.nan
    tag = main_tag(list(shape))
    stands = spread(last[tag])[0]
    values = (*(value for _, value in shape[tag][:-1]), stands)
    drawn = _thinned([value for value in values if math.isfinite(value)])
    return (Spark(tag=tag, values=drawn) if drawn else None), stands


def main_tag(tags: list[str]) -> str:
    """Of these tags, in the order in which they came: the loss, where one is called so; else the first."""
    named = [tag for tag in tags if "loss" in tag.lower()]
    return next((tag for tag in named if tag.lower() == "loss"), (named or tags)[0])


def _thinned(values: list[float]) -> tuple[float, ...]:
    if len(values) <= POINTS:
        return tuple(values)
    step = (len(values) - 1) / (POINTS - 1)
    return tuple(values[round(number * step)] for number in range(POINTS))


def _sampled(path: Path) -> Iterator[MetricPoint]:
    stream = LogStream(path)
    size = stream.size
    if size <= _WHOLE:
        yield from points_of(stream.read(_WHOLE).splitlines())
        return
    for number in range(POINTS):
        stream.offset = (size - _PIECE) * number // (POINTS - 1)
        # a piece begins and ends within lines, which are none then
        yield from points_of(stream.read(_PIECE).splitlines())


def _last(path: Path, room: int) -> list[MetricPoint]:
    stream = LogStream(path)
    stream.skip_to_tail(room)
    return points_of(stream.read(room).splitlines())
