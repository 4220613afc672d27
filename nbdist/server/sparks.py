"""The main metric of a run as a small line, from a few pieces of its file, however long that is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, loads
from nbdist.store import LogStream, RunDirectory

POINTS = 40
_WHOLE = 32 * 1024
_PIECE = 1024
_RANKS = 4  # that are looked at for one that logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """Up to POINTS values in their order, all finite; the last is the last that was logged."""

    tag: str
    values: tuple[float, ...]


def spark_of(run: Run, directory: RunDirectory) -> Spark | None:
    """The main metric of the lowest rank that logs any; None where none does."""
    for rank in run.ranks[:_RANKS]:
        series: dict[str, list[float]] = {}
        for values in _sampled(directory.rank(rank.rank, run.attempt).metrics):
            for tag, value in values.items():
                series.setdefault(tag, []).append(value)
        if series:
            tag = main_tag(list(series))
            return Spark(tag=tag, values=_thinned(series[tag]))
    return None


def main_tag(tags: list[str]) -> str:
    """Of these tags, in the order in which they came: the loss, where one is called so; else the first."""
    named = [tag for tag in tags if "loss" in tag.lower()]
    return next((tag for tag in named if tag.lower() == "loss"), (named or tags)[0])


def _thinned(values: list[float]) -> tuple[float, ...]:
    if len(values) <= POINTS:
        return tuple(values)
    step = (len(values) - 1) / (POINTS - 1)
    return tuple(values[round(number * step)] for number in range(POINTS))


def _sampled(path: Path) -> Iterator[dict[str, float]]:
    stream = LogStream(path)
    size = stream.size
    if size <= _WHOLE:
        yield from _values(stream.read(_WHOLE))
        return
    for number in range(POINTS):
        stream.offset = (size - _PIECE) * number // (POINTS - 1)
        yield from _values(stream.read(_PIECE))


def _values(data: bytes) -> Iterator[dict[str, float]]:
    for line in data.splitlines():
        try:
            values = {str(tag): float(value) for tag, value in loads(line)["v"].items()}
        except MALFORMED:
            continue  # a torn line, or one that a piece begins or ends in
        yield {tag: value for tag, value in values.items() if math.isfinite(value)}
