"""The files of lines of a run, read on into points."""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.board.record_files import CurveFile
from nbdist.model.decoding import MALFORMED, as_time
from nbdist.store import LogTimes, RunDirectory
from nbdist.store.journal import open_plain
from nbdist.store.metrics import decoded
from nbdist.store.scraped.log import ScrapedMetrics

AGGREGATES = ("mean", "min", "max")  # curves over the ranks, in the order of ``AggregatePoint``
_ATTEMPT = re.compile(r"attempt-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file of lines of one rank in one attempt: ``system`` is its supervisor's, ``printed`` its log."""

    path: Path
    rank: int
    attempt: int
    system: bool = False
    printed: bool = False

    @property
    def writer(self) -> str:
        return f"rank{self.rank}" + (f".attempt-{self.attempt}" if self.attempt > 1 else "")


def sources(run: RunDirectory, *, printed: bool) -> list[Source]:
    """Return every file of lines that may exist, recorded ones first; with ``printed`` also the logs."""
    metrics, system, logs = [], [], []
    for rank in sorted(map(int, filter(str.isdigit, names(run.path / "ranks")))):
        for attempt in (1, *_later_attempts(run, rank)):
            files = run.rank(rank, attempt)
            metrics.append(Source(path=files.metrics, rank=rank, attempt=attempt))
            system.append(Source(path=files.system, rank=rank, attempt=attempt, system=True))
            logs.append(Source(path=files.log, rank=rank, attempt=attempt, printed=True))
    return [*metrics, *logs, *system] if printed else [*metrics, *system]


def shown_first(run: RunDirectory) -> list[str]:
    """Return the boards, existing or not, of a page's begin: the whole and rank 0 of the last attempt."""
    attempts = _later_attempts(run, 0)
    suffix = f".attempt-{attempts[-1]}" if attempts else ""
    own = [
        name for name in names(run.board) if name.startswith(f"rank0{suffix}.") and ".attempt-" not in name
    ]
    return [f"rank0{suffix}", *(name + suffix for name in AGGREGATES), *own]


def _later_attempts(run: RunDirectory, rank: int) -> list[int]:
    matches = map(_ATTEMPT.fullmatch, names(run.rank(rank).path))
    return sorted(int(match[1]) for match in matches if match)


def names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


SYSTEM = "system/"  # before tags of the supervisor's measurements and of those computed from times
STEP_TIME = SYSTEM + "step_time"  # seconds that a rank took for a step
_CHUNK = 1 << 20  # bytes of the longest line
_PIECE = 1 << 17  # bytes read at once, for which a page has to wait
_INT64 = 1 << 63

Point = tuple[int, str, int, float]  # milliseconds, tag, step, value


class Follower(ABC):
    """A reader that follows one source as it grows, and adds its points to the curves."""

    def __init__(self, source: Source, curves_of: Callable[[str], CurveFile]) -> None:
        self.source = source
        self.seconds = -math.inf  # the time of the latest line so far
        self._curves_of = curves_of
        self._curves = curves_of(source.writer)
        self._next_step: dict[str, int] = {}

    @property
    def tags(self) -> Iterable[str]:
        return self._next_step

    def advance(self) -> list[Point] | None:
        """Add the next lines' points to the curves and return them; None at the end. Raises OSError."""
        self._curves.write()
        points = self._read()
        for point in points or ():
            self._curves.add(*point)
        return points

    @abstractmethod
    def _read(self) -> list[Point] | None:
        """Return the points of the next lines; None at the end."""

    def _numbered(
        self, milliseconds: int, step: int | None, values: Iterable[tuple[str, object]]
    ) -> Iterator[Point]:
        """Yield the points of a line; without a step, count on from the last of their tag."""
        for tag, given in values:
            if tag and (value := _as_value(given)) is not None:
                at = self._next_step.get(tag, 0) if step is None else step
                self._next_step[tag] = at + 1
                yield milliseconds, tag, at, value


class PrintedFollower(Follower):
    """A reader of the numbers that a rank prints but does not record. ``times`` is the log's index."""

    def __init__(
        self,
        source: Source,
        curves_of: Callable[[str], CurveFile],
        times: Path,
        recorded: Callable[[], set[str]],
    ) -> None:
        super().__init__(source, curves_of)
        self._scraped = ScrapedMetrics(source.path, LogTimes(times))
        self._recorded = recorded

    def _read(self) -> list[Point] | None:
        printed = self._scraped.read(_PIECE)
        if not printed:
            return None
        recorded = self._recorded()
        points: list[Point] = []
        for point in printed:
            self.seconds = max(self.seconds, point.time)
            values = [(tag, value) for tag, value in point.values.items() if tag not in recorded]
            points += self._numbered(round(point.time * 1000), point.step, values)
        return points


class RecordedFollower(Follower):
    """A reader of the metrics that a rank recorded, or its supervisor measured."""

    def __init__(self, source: Source, curves_of: Callable[[str], CurveFile]) -> None:
        super().__init__(source, curves_of)
        self._offset = 0  # of the first unread byte
        self._first: float | None = None
        self._last_step: tuple[int, float] | None = None
        self._hparams = 0

    def _read(self) -> list[Point] | None:
        chunk = self._next_chunk()
        if chunk is None:
            return None
        points = [point for entry in decoded(chunk.splitlines()) for point in self._points(entry)]
        self._offset += len(chunk)
        return points

    def _next_chunk(self) -> bytes | None:
        """Return whole lines; None for none."""
        if self.source.path.stat().st_size <= self._offset:
            return None
        with open_plain(self.source.path) as file:
            file.seek(self._offset)
            chunk = file.read(_PIECE)
            while b"\n" not in chunk and len(chunk) < _CHUNK and (more := file.read(_PIECE)):
                chunk += more
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            # a line that is still being written, or one without end, which is no metric
            return chunk if len(chunk) == _CHUNK else None
        return chunk[:end]

    def _points(self, entry: Any) -> Iterator[Point]:
        """Yield the points of one line, none for a line that is no metric."""
        try:
            seconds = as_time(entry["t"])
            milliseconds = round(seconds * 1000)
            values = entry["v"].items()
            step = _as_step(entry.get("step"))
        except MALFORMED:
            return
        self.seconds = max(self.seconds, seconds)
        if self.source.system:
            yield from self._system_points(seconds, step, values)
            return
        points = list(self._numbered(milliseconds, step, values))
        yield from points
        if points:
            yield from self._step_time(milliseconds, step, seconds)
        if isinstance(entry.get("hparams"), dict):
            self._add_hparams(milliseconds, entry["hparams"], entry.get("metrics"), points)

    def _system_points(
        self, seconds: float, step: int | None, values: Iterable[tuple[str, object]]
    ) -> Iterator[Point]:
        """Yield the points of a measurement; its step is the seconds since the first one."""
        self._first = seconds if self._first is None else self._first
        at = round(seconds - self._first) if step is None else step
        for name, given in values:
            # a total is no curve
            if name and not name.endswith("_total") and (value := _as_value(given)) is not None:
                tag = name if name.startswith(SYSTEM) else SYSTEM + name
                yield round(seconds * 1000), tag, at, value

    def _step_time(self, milliseconds: int, step: int | None, seconds: float) -> Iterator[Point]:
        """Yield the seconds per step since the line before; none where steps go back (an evaluation)."""
        if step is None:
            return
        before, then = self._last_step or (step - 1, math.inf)
        if step > before:
            self._last_step = step, seconds
            if seconds > then:
                yield milliseconds, STEP_TIME, step, (seconds - then) / (step - before)

    def _add_hparams(
        self, milliseconds: int, hparams: dict[str, Any], metrics: object, points: Iterable[Point]
    ) -> None:
        """Give each further set a directory with its values: VisualDL reads only a directory's first set."""
        self._hparams += 1
        settings = {name: value for name, value in hparams.items() if isinstance(value, (int, float, str))}
        tags = [tag for tag in metrics if isinstance(tag, str)] if isinstance(metrics, list) else []
        if self._hparams == 1:
            self._curves.add_hparams(milliseconds, settings, tags)
            return
        further = self._curves_of(f"{self.source.writer}.hparams-{self._hparams}")
        further.add_hparams(milliseconds, settings, tags)
        for point in points:
            further.add(*point)


def _as_step(value: object) -> int | None:
    """Return the step as int64, which VisualDL stores; None where that cannot be."""
    if isinstance(value, (int, float)) and -_INT64 <= value < _INT64:  # NaN is not
        return int(value)
    return None


def _as_value(value: object) -> float | None:
    if not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond what a double holds
        return math.inf if value > 0 else -math.inf
