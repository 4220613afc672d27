"""The points of one log, each of them once, at its step.

A counter in the line (``step 400/938``) is the step. Where it begins again with each epoch, steps go on:
epochs are as long as the line says, else as long as the one before. Other lines have the counters' step, else
their epoch, else a count of the tag's points. Evaluations are not counted: their results have the training
step before them.

A state that the program writes over is a point at most once a second, and at the bar's end."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nbdist.model import Run
from nbdist.store.logs import LogStream, LogTimes, row_states
from nbdist.store.metrics import MetricPoint, sampled_points
from nbdist.store.paths import RankDirectory, RunDirectory
from nbdist.store.scraped.line_metrics import (
    CUES,
    Progress,
    Reading,
    lines_with_cues,
    read_line,
    read_wrapped,
)
from nbdist.store.scraped.names import tag_of

_EVALUATED = ("val_", "test_", "eval_", "valid_")


class Position:
    """The place of training after all lines so far."""

    def __init__(self) -> None:
        self._counters: dict[str, _Counter] = {}
        self._epoch = Progress()  # the last line with an epoch and no counter
        self._now: int | None = None
        self._last: dict[str, tuple[int, float]] = {}

    def step(self, reading: Reading) -> tuple[int | None, int | None]:
        """Return the step of a line, and the last there will be; None where it has none."""
        progress = reading.progress
        if progress.at is None and progress.epoch is not None and progress.epoch.is_integer():
            self._epoch = progress
        if not reading.values or reading.phase:
            return None, None
        if progress.at is not None:
            epoch = progress if progress.epoch is not None else self._epoch
            self._now, total = self._counters.setdefault(progress.unit, _Counter()).advance(progress, epoch)
            return self._now, total
        if self._counters or progress.epoch is None or not progress.epoch.is_integer():
            return None, None
        return int(progress.epoch), progress.epochs

    def new(self, point: MetricPoint, *, bar: bool = False) -> list[MetricPoint]:
        """Return ``point`` at its step, without known values; empty when nothing is left. A ``bar`` goes
        on showing the result of an evaluation until the next."""
        step = self._untold(point.values) if point.step is None else point.step
        values = {
            tag: value
            for tag, value in point.values.items()
            if not self._is_there(tag, step, value)
            and not (bar and tag.startswith(_EVALUATED) and self._last.get(tag, (0, None))[1] == value)
        }
        self._last |= {tag: (step, value) for tag, value in values.items()}
        if step == point.step and len(values) == len(point.values):
            return [point]
        return [replace(point, step=step, values=values)] if values else []

    def _is_there(self, tag: str, step: int, value: float) -> bool:
        """Return whether this is the last point again: programs print a result twice, or once rounded."""
        last = self._last.get(tag)
        if last is None or last[0] != step:
            return False
        rounding = 1e-3 if tag.startswith(_EVALUATED) else 0.0
        return math.isclose(last[1], value, rel_tol=rounding, abs_tol=rounding)

    def _untold(self, values: Mapping[str, float]) -> int:
        now = self._now
        if now is None and self._epoch.epoch is not None:
            now = int(self._epoch.epoch)
        if now is not None and all(self._is_there(tag, now, value) for tag, value in values.items()):
            return now
        after = [self._last[tag][0] + 1 for tag in values if tag in self._last]
        return max([now or 0, *after])


@dataclass(slots=True)
class _Counter:
    """A counter of the log, which may begin again with each epoch."""

    base: int = 0  # of the epoch's first step
    first: int = 0
    last: int = -1
    gap: int = 0
    of: int | None = None
    epoch: float | None = None
    laps: bool = False
    over_all: bool = False

    def advance(self, progress: Progress, epoch: Progress) -> tuple[int, int | None]:
        """Return the step over all epochs, and their number where that is known."""
        at = progress.at or 0
        self.over_all |= progress.over_all
        if self.last < 0:
            self.first = at
            self.base = self._before(epoch.epoch, progress)
        elif not self.over_all:
            self._go_on(at, progress, epoch.epoch)
        if at > self.last >= 0:
            self.gap = min(self.gap or at, at - self.last)
        self.last, self.of, self.epoch = at, progress.of, epoch.epoch
        if self.over_all:
            return at, progress.of
        return self.base + at, self._total(progress, epoch)

    def _go_on(self, at: int, progress: Progress, epoch: float | None) -> None:
        grown = epoch - self.epoch if epoch is not None and self.epoch is not None else 0
        if grown > 0 and at > self.last and not self.laps:
            # a new epoch, and the counter went on
            self.over_all = True
        elif grown > 0:
            self._begin_again(at, int(grown) * self._length())
        elif grown < 0 or (at < self.last and (at <= self.first or progress.unit == "bar")):
            self._begin_again(at, self._length())

    def _begin_again(self, at: int, length: int) -> None:
        self.laps, self.base, self.last = True, self.base + length, -1

    def _before(self, epoch: float | None, progress: Progress) -> int:
        """Return the steps of the epochs before the first that was read; 0 and 1 are the first."""
        if epoch is None or progress.of is None or self.over_all:
            return 0
        return int(max(epoch - 1, 0)) * progress.of

    def _length(self) -> int:
        """Return the length of the epoch that ends: by its lines, else enough to keep its points apart."""
        least = self.last if self.first else self.last + 1
        return self.of or max(self.last - self.first + self.gap, least)

    def _total(self, progress: Progress, epoch: Progress) -> int | None:
        if progress.of is not None and epoch.epochs is not None:
            return epoch.epochs * progress.of
        return progress.of if epoch.epoch is None and not self.laps else None


_EVERY = 1.0  # seconds between two states of a bar
_LONGEST = 1 << 16  # bytes of a line of metrics
_EVALUATION = re.compile(r"\s*(?:eval (?:begin|samples)|\*+ ?(?:running )?(?:evaluat|validat))", re.I)
_STAR = re.compile(r"\s*\*\s+(?:acc|prec)@", re.I)  # the end of an evaluation in ImageNet's programs
_DIGITS = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?")
# Hugging Face prints its dict without a step, and then its bar with the step
_NEXT_BAR = re.compile(rb"\s*\d+%\|[^|\r\n]*\| (\d+)/(\d+) \[")
_ENDED = re.compile(rb"\s*[^\s][^\r\n]*[\r\n]")  # a line that can grow no more


class ScrapedMetrics:
    """The points of one log, each of them once. The file may be missing. ``times`` has the lines' times;
    without it a line has the time of the log's last change."""

    def __init__(
        self, log: Path, times: LogTimes | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = LogStream(log)
        self._times = times
        self._clock = clock
        self._start = 0  # of the first byte that may be read again
        self._tail = b""  # the incomplete line there
        self._idle_at = -1
        self._changed = 0.0
        self._position = Position()
        self._bars: dict[str, _Bar] = {}
        self._evaluating = False
        self._evaluated = ""
        self._above: Reading | None = None

    def skip_to_tail(self, length: int) -> None:
        """Go on ``length`` bytes before the end, at a line's start. Only before the first read."""
        self._stream.skip_to_tail(length)
        self._start = self._stream.offset

    @property
    def waiting(self) -> int:
        """Return the unread bytes of the log."""
        return max(0, self._stream.size - self._stream.offset)

    def read(self, limit: int = 1 << 20, *, most: float = math.inf) -> list[MetricPoint]:
        """Return the points since the last call, from about ``limit`` bytes; empty for none, or none in
        about ``most`` bytes. A bar's state is a point when the bar moves on, and a line when it has ended;
        both count too when the log did not grow between two calls."""
        begun = self._stream.offset
        while data := self._stream.read(limit):
            with contextlib.suppress(OSError):
                self._changed = os.stat(self._stream.path).st_mtime
            # behind a gap the offset jumps
            self._start = self._stream.offset - len(data) - len(self._tail)
            if points := self._take(self._tail + data):
                return points
            if self._stream.offset - begun >= most:
                return []
        size = self._start + len(self._tail)
        waited, self._idle_at = self._idle_at == size, size
        if not waited:
            return []
        # the program has left its last lines and bars as they are
        quiet = self._clock() - _EVERY
        points = self._take(self._tail, final=True) if self._tail and self._changed <= quiet else []
        return points + self._held(quiet, ended=True)

    def _take(self, data: bytes, *, final: bool = False) -> list[MetricPoint]:
        """Return the points of ``data``; keep an incomplete line unless ``final``."""
        points: list[MetricPoint] = []
        end = len(data) if final else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        tail = data[end:]
        for start, stop in lines_with_cues(data):
            at = start
            for part in data[start:stop].split(b"\r"):
                for state, upto in _states(part, at) if any(cue in part.lower() for cue in CUES) else ():
                    if at >= end and upto == len(data) and not final:
                        tail = state.encode("utf-8", "surrogateescape")
                        break
                    reading = self._read(state)
                    if reading is not None and reading.lacks_step and "{" in state:
                        bar = _NEXT_BAR.match(data, upto)
                        if bar is None and not final and not _ENDED.match(data, upto):
                            return self._keep(data[at:], len(data), points)
                        reading = reading if bar is None else reading.at_step(int(bar[1]), int(bar[2]))
                    if reading is not None:
                        self._add(reading, self._start + upto, points)
                at += len(part) + 1
        return self._keep(tail, len(data), points)

    def _keep(self, tail: bytes, read: int, points: list[MetricPoint]) -> list[MetricPoint]:
        """Keep the ``tail`` of the bytes that were ``read``: it may become a line of metrics."""
        self._tail = tail if len(tail) <= _LONGEST else b""
        self._start += read - len(self._tail)
        return points

    def _read(self, line: str) -> Reading | None:
        above, self._above = self._above, None
        if above is not None and (reading := read_wrapped(line, above)) is not None:
            return reading
        if _EVALUATION.match(line):
            self._evaluating = True
            return None
        if "@" in line and _STAR.match(line):
            return read_line(line, phase=self._evaluated or "val")
        # until the next epoch, lines after an evaluation are about it
        reading = read_line(line, phase="eval" if self._evaluating else "")
        if self._evaluating and reading is not None and reading.progress.epoch is not None:
            self._evaluating = False
            reading = read_line(line)
        if reading is not None:
            self._evaluated = reading.phase or self._evaluated
            self._above = reading if reading.bar is not None else None
        return reading

    def _add(self, reading: Reading, offset: int, points: list[MetricPoint]) -> None:
        if reading.bar is not None and not reading.progress.at:
            return  # at 0 a bar shows what the one before it had
        step, total = self._position.step(reading)
        if not reading.values or (reading.phase and reading.progress.on_the_way):
            return
        known = self._times.at(offset) if self._times is not None else None
        written = self._changed if known is None else known
        point = MetricPoint(time=written, step=step, values=reading.values, total=total)
        if reading.bar is None:
            points += self._held()
            points += self._position.new(point)
        else:
            points += self._state(reading.bar, reading.progress, point)

    def _state(self, about: str, progress: Progress, point: MetricPoint) -> list[MetricPoint]:
        """Return the points that a bar's new state makes: the state before, when the bar has moved on;
        until then its values may change."""
        bar = self._bars.setdefault(_DIGITS.sub("#", about), _Bar())
        at, held = progress.at or 0, bar.held
        points = self._held(point.time - _EVERY, ended=True, but=bar)
        if held is not None and at != bar.at and (held.time >= bar.next or bar.ended or at < bar.at):
            points += self._show(bar)
        bar.at, bar.ended, bar.held = at, at == progress.of, point
        return points

    def _show(self, bar: _Bar) -> list[MetricPoint]:
        point, bar.held = bar.held, None
        if point is None:
            return []
        # without an index all lines of one call have the same time
        knows_times = self._times is not None and self._times.at(0) is not None
        bar.next = point.time + (_EVERY if knows_times else 0.0)
        return self._position.new(point, bar=True)

    def _held(
        self, before: float = math.inf, *, ended: bool = False, but: _Bar | None = None
    ) -> list[MetricPoint]:
        """Return the states of bars, but for ``but``, that have ended or not moved since ``before``."""
        bars = [
            bar
            for bar in self._bars.values()
            if bar.held is not None and bar is not but and (bar.held.time <= before or (ended and bar.ended))
        ]
        return [point for bar in bars for point in self._show(bar)]


def _states(part: bytes, at: int) -> Iterator[tuple[str, int]]:
    """Yield the states of a row that begins at the offset ``at``, with their ends."""
    text, end = part.decode("utf-8", "surrogateescape"), 0
    for state, length in row_states(text):
        at += length - end if text.isascii() else len(text[end:length].encode("utf-8", "surrogateescape"))
        end = length
        yield state, at


@dataclass(slots=True)
class _Bar:
    """A progress bar: its last state, which is no point yet, and the time from which it may be one."""

    held: MetricPoint | None = None
    next: float = 0.0
    at: int = 0
    ended: bool = False


_WHOLE = 4  # ranks that are read like one rank
_RUNS = 8  # runs that are read like one run
_PRINTED = 4 << 20  # bytes at the ends of all logs that are searched for numbers
_PRINTED_BESIDE = 512 << 10  # the same of several runs, from everywhere in a log: two seconds of work
_PIECES = 16


def merge_points(
    recorded: Iterable[MetricPoint], printed: Iterable[MetricPoint], *, tags: Collection[str] = ()
) -> list[MetricPoint]:
    """Merge both by time, without printed values of tags that ``nbdist.log`` recorded."""
    points = list(recorded)
    own = {tag_of(tag) for point in points for tag in point.values} | {tag_of(tag) for tag in tags}
    for point in printed:
        if values := {tag: value for tag, value in point.values.items() if tag not in own}:
            points.append(replace(point, values=values) if len(values) < len(point.values) else point)
    return sorted(points, key=lambda point: point.time)


def printed_points(files: RankDirectory, room: int) -> Iterator[MetricPoint]:
    """Yield the points in about the last ``room`` bytes of a rank's log, as it is now."""
    log = ScrapedMetrics(files.log, LogTimes(files.log_times), clock=lambda: math.inf)
    log.skip_to_tail(room)
    while points := log.read():
        yield from points
    # the last states count at a second look
    yield from log.read()


def sampled_prints(files: RankDirectory, room: int, pieces: int) -> Iterator[MetricPoint]:
    """Yield the points in the last ``room / 2`` bytes of a log, behind those in ``pieces`` of the rest."""
    end = room // 2
    before = LogStream(files.log).size - end
    for number in range(pieces if before > end else 0):
        log = ScrapedMetrics(files.log, LogTimes(files.log_times))
        log.skip_to_tail(before - before * number // pieces + end)
        yield from log.read(end // pieces, most=end // pieces)
    yield from printed_points(files, end if before > end else room)


def read_points(run: Run, directory: RunDirectory, runs: int = 1) -> Iterator[list[MetricPoint]]:
    """Yield each rank's recorded points, then its printed ones: samples of very many, the first and last
    always. There are fewer where ``runs`` are many."""
    share = len(run.ranks) * runs
    whole = _WHOLE * min(runs, _RUNS)
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        points = list(sampled_points(files.metrics, max(1, share // whole)))
        if run.spec.scrape:
            tags = {tag for point in points for tag in point.values}
            printed = (
                printed_points(files, _PRINTED // share)
                if runs == 1
                else sampled_prints(files, _PRINTED_BESIDE // share, _PIECES)
            )
            points += merge_points([], printed, tags=tags)
        yield points
