"""From the metrics of ranks to the records that VisualDL reads.

A rank appends lines to ``ranks/<rank>/metrics.jsonl`` and its supervisor to ``system.jsonl`` beside it
(a later attempt: ``…/attempt-<n>/…``). Here they become scalars in ``board/rank<rank>/``, those of the
supervisor under ``system/``; so do numbers that a rank only prints, unless the run was asked not to look
for them. The mean, lowest and highest over the ranks (``spread``) go to ``board/mean/``, ``board/min/``
and ``board/max/``. A later attempt has directories of its own (``board/rank<rank>.attempt-<n>/``): its
steps begin again, and two rows of steps in one curve would be a zigzag.

The records are a copy that can always be made again, so a feed remembers nothing across processes:
the first time it meets a run it writes its record files anew, from the first line. The same lines give
the same points, hence no point is ever there twice, whatever ended the feed before. One feed at a time
may work on a home; the board server's lock sees to that.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.board.records import RecordFile
from nbdist.board.spread import Spread
from nbdist.store import LogTimes, RunDirectory, RunReader
from nbdist.store.scrape import tag_of
from nbdist.store.scraped import ScrapedMetrics
from nbdist.worker.records import FILE_NAME, encode_hparams, encode_name, encode_scalar

SYSTEM = "system/"
"""What the tags of the supervisor's measurements begin with, and of what is reckoned from times."""

STEP_TIME = SYSTEM + "step_time"
"""Seconds that a rank took for a step: whoever is behind is slow here."""

SPREAD = ("mean", "min", "max")
"""Over the ranks; in the order of ``SpreadPoint``."""

_CHUNK = 1 << 20  # bytes of metrics that become records in one go
_LATE = 2.0  # seconds in which what happened is surely in its file
_INT64 = 1 << 63
_ATTEMPT = re.compile(r"attempt-(\d+)")

log = logging.getLogger("nbdist.board")


class Feed:
    """Brings the records of runs up to date, when asked to. Threads may share it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._runs: dict[Path, _RunFeed] = {}
        self._lock = threading.Lock()

    def advance(self, run: RunDirectory) -> None:
        """Append what the ranks of ``run`` have logged since the last call.

        What cannot be read or written now (a full disk, a directory that has gone) is left for the
        next call; the curves that are there stay.
        """
        with self._lock:
            if run.path not in self._runs:
                self._runs[run.path] = _RunFeed(run, self._clock)
            try:
                self._runs[run.path].advance()
            except FileNotFoundError:
                # deleted: the whole run, which stays so, or its records, which are made anew
                del self._runs[run.path]


def shown_first(run: RunDirectory) -> list[str]:
    """The directories of ``run.board`` that a page opens with: the whole, and rank 0.

    They need not be there yet. Of several attempts it is the last.
    """
    attempts = [int(match[1]) for name in _names(run.rank(0).path) if (match := _ATTEMPT.fullmatch(name))]
    suffix = f".attempt-{max(attempts)}" if attempts else ""
    own = [
        name for name in _names(run.board) if name.startswith(f"rank0{suffix}.") and ".attempt-" not in name
    ]
    return [f"rank0{suffix}", *(name + suffix for name in SPREAD), *own]


class _RunFeed:
    """One run: its files, and the record files they become. Raises FileNotFoundError when one goes."""

    def __init__(self, run: RunDirectory, clock: Callable[[], float]) -> None:
        self._run = run
        self._clock = clock
        self._reader = RunReader(run)
        self._followers: dict[Path, _Follower | _PrintedFollower] = {}
        self._curves: dict[str, _Curves] = {}
        self._spreads: dict[int, Spread] = {}
        self._stuck: set[Path] = set()  # those of which the log knows

    def advance(self) -> None:
        # the state first: what was written before the end is then read before the end is believed
        state = self._reader.look() if self._run.path.is_dir() else None
        ranks = None if state is None else len(state.ranks)
        sources = list(_sources(self._run, printed=state is not None and state.spec.scrape))
        latest = max((source.attempt for source in sources), default=1)
        over = state is not None and state.state.terminal
        reading = [follower for source in sources if (follower := self._follower(source)) is not None]
        while reading:
            # the one that is behind in time: what the ranks say of one step is then soon complete
            follower = min(reading, key=lambda one: one.seconds)
            if not self._read(follower):
                reading.remove(follower)
            horizon = min([self._clock() - _LATE, *(one.seconds for one in reading)])
            self._tell(ranks, horizon, ended=())
            self._write()
        ended = [attempt for attempt in self._spreads if over or attempt < latest]
        self._tell(ranks, self._clock() - _LATE, ended=ended)
        self._write()

    def _follower(self, source: _Source) -> _Follower | _PrintedFollower | None:
        if source.path not in self._followers:
            try:
                if not source.path.stat().st_size:
                    return None
            except OSError:
                return None
            if source.printed:
                recorded = self._run.rank(source.rank, source.attempt).metrics
                self._followers[source.path] = _PrintedFollower(
                    source, self._curves_of, lambda: self._tags_of(recorded)
                )
            else:
                self._followers[source.path] = _Follower(source, self._curves_of)
        return self._followers[source.path]

    def _tags_of(self, metrics: Path) -> set[str]:
        """The tags that were recorded there so far, as they would be called if they had been printed."""
        follower = self._followers.get(metrics)
        return {tag_of(tag) for tag in follower.tags} if isinstance(follower, _Follower) else set()

    def _curves_of(self, name: str) -> _Curves:
        if name not in self._curves:
            self._curves[name] = _Curves(self._run.board / name, f"{self._run.run_id}/{name}")
        return self._curves[name]

    def _read(self, follower: _Follower | _PrintedFollower) -> bool:
        """Take one chunk further; False where there is none, or it cannot be done now."""
        source = follower.source
        try:
            points = follower.advance()
        except FileNotFoundError:
            raise
        except OSError as error:
            if source.path not in self._stuck:
                log.warning("%s does not reach VisualDL: %s", source.path, error)
            self._stuck.add(source.path)
            return False
        self._stuck.discard(source.path)
        spread = self._spreads.setdefault(source.attempt, Spread())
        for milliseconds, tag, step, value in points or ():
            spread.add(source.rank, milliseconds, tag, step, value)
        return points is not None

    def _tell(self, ranks: int | None, horizon: float, ended: Iterable[int]) -> None:
        """Add what the ranks say together."""
        for attempt, spread in self._spreads.items():
            suffix = "" if attempt == 1 else f".attempt-{attempt}"
            for point in spread.settle(ranks=ranks, horizon=horizon, ended=attempt in ended):
                for name, value in zip(SPREAD, (point.mean, point.lowest, point.highest), strict=True):
                    self._curves_of(name + suffix).add(point.milliseconds, point.tag, point.step, value)

    def _write(self) -> None:
        """Write what can be written; the rest waits. Raises FileNotFoundError when a directory has gone."""
        for curves in self._curves.values():
            try:
                curves.write()
            except FileNotFoundError:
                raise
            except OSError as error:
                log.debug("records wait: %s", error)


class _Curves:
    """The scalars of one directory, and those that are not written yet."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._file: RecordFile | None = None
        self._begun = False
        self._waiting = bytearray()

    def add(self, milliseconds: int, tag: str, step: int, value: float) -> None:
        self._begin(milliseconds)
        self._waiting += encode_scalar(tag=tag, step=step, value=value, milliseconds=milliseconds)

    def add_hparams(self, milliseconds: int, hparams: dict[str, Any], metrics: list[str]) -> None:
        self._begin(milliseconds)
        self._waiting += encode_hparams(
            name=self._name, hparams=hparams, metrics=metrics, milliseconds=milliseconds
        )

    def write(self) -> None:
        """Raises OSError; then all of it waits for the next time."""
        if not self._waiting:
            return
        if self._file is None:
            self._directory.parent.mkdir(mode=0o700, exist_ok=True)  # not its parents: a run may be deleted
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._file = RecordFile(self._directory / FILE_NAME)
        self._file.append(bytes(self._waiting))
        self._waiting.clear()

    def _begin(self, milliseconds: int) -> None:
        if not self._begun:
            self._waiting += encode_name(self._name, milliseconds=milliseconds)
            self._begun = True


Point = tuple[int, str, int, float]
"""Milliseconds, tag, step, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A file of lines, of one rank in one attempt; ``system`` where the supervisor wrote them,
    ``printed`` where it is the log."""

    path: Path
    rank: int
    attempt: int
    system: bool = False
    printed: bool = False
    times: Path = Path()
    """The index of the log, where it is one."""

    @property
    def writer(self) -> str:
        return f"rank{self.rank}" + (f".attempt-{self.attempt}" if self.attempt > 1 else "")


class _Steps:
    """Counts the points of each tag, onwards from its last step, where the step was left out."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    @property
    def tags(self) -> Iterable[str]:
        return self._next

    def points(
        self, milliseconds: int, step: int | None, values: Iterable[tuple[str, object]]
    ) -> Iterator[Point]:
        for tag, given in values:
            value = _as_value(given)
            if tag and value is not None:
                at = self._next.get(tag, 0) if step is None else step
                self._next[tag] = at + 1
                yield milliseconds, tag, at, value


class _PrintedFollower:
    """Reads what one log says in passing: the numbers that a rank prints and does not record."""

    def __init__(
        self, source: _Source, curves_of: Callable[[str], _Curves], recorded: Callable[[], set[str]]
    ) -> None:
        self.source = source
        self.seconds = -math.inf
        """The time of the latest point so far."""
        self._scraped = ScrapedMetrics(source.path, LogTimes(source.times))
        self._curves = curves_of(source.writer)
        self._recorded = recorded
        self._steps = _Steps()

    def advance(self) -> list[Point] | None:
        """The points of the next lines, which the curves have then; None where there are none.

        Raises OSError when what the curves have cannot be written.
        """
        self._curves.write()
        found = self._scraped.read(_CHUNK)
        if not found:
            return None
        recorded = self._recorded()
        points: list[Point] = []
        for point in found:
            self.seconds = max(self.seconds, point.time)
            values = [(tag, value) for tag, value in point.values.items() if tag not in recorded]
            points += self._steps.points(round(point.time * 1000), point.step, values)
        for new in points:
            self._curves.add(*new)
        return points


class _Follower:
    """Reads one source to its end, again and again."""

    def __init__(self, source: _Source, curves_of: Callable[[str], _Curves]) -> None:
        self.source = source
        self.seconds = -math.inf
        """The time of the latest line so far."""
        self._curves_of = curves_of
        self._curves = curves_of(source.writer)
        self._offset = 0  # of the first byte that has not been read yet
        self._steps = _Steps()
        self._first: float | None = None
        self._last_step: tuple[int, float] | None = None
        self._hparams = 0

    @property
    def tags(self) -> Iterable[str]:
        return self._steps.tags

    def advance(self) -> list[Point] | None:
        """The points of the next chunk, which the curves have then; None at the end.

        Raises OSError when it cannot be read, or what the curves have cannot be written.
        """
        self._curves.write()
        chunk = self._next_chunk()
        if chunk is None:
            return None
        points: list[Point] = []
        for entry in _entries(chunk.splitlines()):
            points += self._points(entry)
        for point in points:
            self._curves.add(*point)
        self._offset += len(chunk)
        return points

    def _next_chunk(self) -> bytes | None:
        """Whole lines; None where there are none."""
        if self.source.path.stat().st_size <= self._offset:
            return None
        with self.source.path.open("rb") as file:
            file.seek(self._offset)
            chunk = file.read(_CHUNK)
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            # a line that is still being written; or one without end, which is no metric: what follows may be
            return chunk if len(chunk) == _CHUNK else None
        return chunk[:end]

    def _points(self, entry: Any) -> Iterator[Point]:
        """The points of one line. A line that is none has none."""
        try:
            seconds = float(entry["t"])
            milliseconds = round(seconds * 1000)
            values = entry["v"].items()
            step = _as_step(entry.get("step"))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return
        self.seconds = max(self.seconds, seconds)
        if self.source.system:
            yield from self._system_points(seconds, step, values)
            return
        points = list(self._steps.points(milliseconds, step, values))
        yield from points
        if points:
            yield from self._step_time(milliseconds, step, seconds)
        if isinstance(entry.get("hparams"), dict):
            self._add_hparams(milliseconds, entry["hparams"], entry.get("metrics"), points)

    def _system_points(
        self, seconds: float, step: int | None, values: Iterable[tuple[str, object]]
    ) -> Iterator[Point]:
        """A measurement has no step of the training; it gets the seconds since the first one."""
        self._first = seconds if self._first is None else self._first
        at = round(seconds - self._first) if step is None else step
        for name, given in values:
            value = _as_value(given)
            # how much there is in all is no curve
            if name and value is not None and not name.endswith("_total"):
                tag = name if name.startswith(SYSTEM) else SYSTEM + name
                yield round(seconds * 1000), tag, at, value

    def _step_time(self, milliseconds: int, step: int | None, seconds: float) -> Iterator[Point]:
        """Seconds a step since the line before; steps that go back (of an evaluation, say) tell nothing."""
        if step is None:
            return
        if self._last_step is None:
            self._last_step = step, seconds
            return
        before, then = self._last_step
        if step > before:
            self._last_step = step, seconds
            if seconds > then:
                yield milliseconds, STEP_TIME, step, (seconds - then) / (step - before)

    def _add_hparams(
        self, milliseconds: int, hparams: dict[str, Any], metrics: object, points: Iterable[Point]
    ) -> None:
        """VisualDL looks for the metrics of hyperparameters in their own directory, and takes the first
        of several: each further set has a directory with the values it came with."""
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


def _sources(run: RunDirectory, *, printed: bool) -> Iterator[_Source]:
    """Every file of lines that there may be; logs with ``printed``."""
    ranks = run.path / "ranks"
    for rank in filter(str.isdigit, _names(ranks)):
        attempts = [int(match[1]) for name in _names(ranks / rank) if (match := _ATTEMPT.fullmatch(name))]
        for attempt in (1, *sorted(attempts)):
            files = run.rank(int(rank), attempt)
            yield _Source(path=files.metrics, rank=int(rank), attempt=attempt)
            yield _Source(path=files.system, rank=int(rank), attempt=attempt, system=True)
            if printed:
                yield _Source(
                    path=files.log, rank=int(rank), attempt=attempt, printed=True, times=files.log_times
                )


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _entries(lines: list[bytes]) -> Iterator[Any]:
    """What the lines say. Read at once they take a third of the time, unless one of them is bad."""
    try:
        entries = json.loads(b"[" + b",".join(lines) + b"]")
        if len(entries) == len(lines):
            yield from entries
            return
    except (ValueError, RecursionError):
        pass
    for line in lines:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _as_step(given: object) -> int | None:
    """Steps are whole numbers in VisualDL (int64); None is a step that was left out."""
    if isinstance(given, (int, float)) and -_INT64 <= given < _INT64:  # NaN is not
        return int(given)
    return None


def _as_value(given: object) -> float | None:
    if not isinstance(given, (int, float)):
        return None
    try:
        return float(given)
    except OverflowError:  # an integer beyond what a double holds
        return math.inf if given > 0 else -math.inf
