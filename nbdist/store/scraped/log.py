"""The points of one log, each of them once, at the step at which it stands.

A counter in the line (``step 400/938``) is the step. Where it begins again with each epoch it counts on:
epochs are as long as the line says, else as long as the one before was seen to be. A line with an epoch
alone stands where the counters stand, else at its epoch; one with neither stands where the counters
stand, else the points of a tag are counted. Evaluations are not counted: what is printed after one (its
end, where it has a counter of its own) stands at the training step before it.

A state that a carriage return overwrites is a point at most once a second, and at the bar's end.
"""

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
from nbdist.store.logs import LogStream, LogTimes
from nbdist.store.metrics import MetricPoint, sampled_points
from nbdist.store.paths import RankDirectory, RunDirectory
from nbdist.store.scraped.line import CUES, Progress, Reading, lines_with_cues, read_line, read_wrapped
from nbdist.store.scraped.names import tag_of

_EVALUATED = ("val_", "test_", "eval_", "valid_")


class Position:
    """Where training stands, by all that was read so far."""

    def __init__(self) -> None:
        self._counters: dict[str, _Counter] = {}
        self._epoch = Progress()  # the last line with an epoch and no counter
        self._now: int | None = None
        self._last: dict[str, tuple[int, float]] = {}

    def step(self, reading: Reading) -> tuple[int | None, int | None]:
        """The step that a line tells, and the last there will be; None where it does not."""
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
        """``point`` at its step, without what is there already; empty when nothing is left.

        A ``bar`` goes on showing the result of an evaluation until the next.
        """
        step = self._untold(point.values) if point.step is None else point.step
        values = {
            tag: value
            for tag, value in point.values.items()
            if not self._is_there(tag, step, value) and not (bar and self._is_shown_on(tag, value))
        }
        self._last |= {tag: (step, value) for tag, value in values.items()}
        if step == point.step and len(values) == len(point.values):
            return [point]
        return [replace(point, step=step, values=values)] if values else []

    def _is_there(self, tag: str, step: int, value: float) -> bool:
        """Whether this is the last point again: a result is often printed twice, and once rounded."""
        last = self._last.get(tag)
        if last is None or last[0] != step:
            return False
        rounding = 1e-3 if tag.startswith(_EVALUATED) else 0.0
        return math.isclose(last[1], value, rel_tol=rounding, abs_tol=rounding)

    def _is_shown_on(self, tag: str, value: float) -> bool:
        last = self._last.get(tag)
        return tag.startswith(_EVALUATED) and last is not None and last[1] == value

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
        """The step over all epochs, and how many there will be where that is known."""
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
        """The steps of the epochs before the first that is seen; 0 and 1 are the first there is."""
        if epoch is None or progress.of is None or self.over_all:
            return 0
        return int(max(epoch - 1, 0)) * progress.of

    def _length(self) -> int:
        """Of the epoch that ends: what its lines said, else what keeps its points apart from the next."""
        least = self.last if self.first else self.last + 1
        return self.of or max(self.last - self.first + self.gap, least)

    def _total(self, progress: Progress, epoch: Progress) -> int | None:
        if progress.of is None:
            return None
        if epoch.epochs is not None:
            return epoch.epochs * progress.of
        return progress.of if epoch.epoch is None and not self.laps else None


_EVERY = 1.0  # seconds between two states of a bar
_LONGEST = 1 << 16  # bytes of a line; what is longer is no line of metrics
_EVALUATION = re.compile(r"\s*(?:eval (?:begin|samples)|\*+ ?(?:running )?(?:evaluat|validat))", re.I)
_STAR = re.compile(r"\s*\*\s+(?:acc|prec)@", re.I)
"""How ImageNet's programs end an evaluation."""
_DIGITS = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?")
# Hugging Face prints its dict without a step, and at once its bar again, which has it
_NEXT_BAR = re.compile(rb"\s*\d+%\|[^|\r\n]*\| (\d+)/(\d+) \[")
_ENDED = re.compile(rb"\s*[^\s][^\r\n]*[\r\n]")  # a line that can grow no more


class ScrapedMetrics:
    """The points of one log, each of them once. The file may not exist yet, or any more.

    ``times`` tells when a line was written; without it a line has the time of the log's last change.
    """

    def __init__(
        self, log: Path, times: LogTimes | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = LogStream(log)
        self._times = times
        self._clock = clock
        self._start = 0  # of the first byte that was not looked at for good
        self._tail = b""  # what stands there: a line that is not complete
        self._idle_at = -1
        self._changed = 0.0
        self._position = Position()
        self._bars: dict[str, _Bar] = {}
        self._evaluating = False
        self._evaluated = ""
        self._above: Reading | None = None

    def skip_to_tail(self, length: int) -> None:
        """Go on ``length`` bytes before the end, at a line's start. Only before anything was read."""
        self._stream.skip_to_tail(length)
        self._start = self._stream.offset

    @property
    def waiting(self) -> int:
        """Bytes of the log that were not read yet."""
        return max(0, self._stream.size - self._stream.offset)

    def read(self, limit: int = 1 << 20, *, most: float = math.inf) -> list[MetricPoint]:
        """The points that are new since the last call, from at most about ``limit`` bytes of the log.

        Empty when there are none yet, or none in about ``most`` bytes. A bar's state is a point when the bar
        has moved on, and a line when it has ended; what stays as it is counts when the log did not grow
        between two calls.
        """
        begun = self._stream.offset
        while data := self._stream.read(limit):
            with contextlib.suppress(OSError):
                self._changed = os.stat(self._stream.path).st_mtime
            # behind a gap it does not go on where it was
            self._start = self._stream.offset - len(data) - len(self._tail)
            if points := self._take(self._tail + data):
                return points
            if self._stream.offset - begun >= most:
                return []
        size = self._start + len(self._tail)
        waited, self._idle_at = self._idle_at == size, size
        return self._wait_no_longer() if waited else []

    def _wait_no_longer(self) -> list[MetricPoint]:
        """The points of what the program has left as it is for some time."""
        quiet = self._clock() - _EVERY
        points = self._take(self._tail, final=True) if self._tail and self._changed <= quiet else []
        return points + self._held(quiet, ended=True)

    def _take(self, data: bytes, *, final: bool = False) -> list[MetricPoint]:
        """The points of ``data``, of which a line that is not complete is kept unless ``final``."""
        points: list[MetricPoint] = []
        end = len(data) if final else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        for start, stop in lines_with_cues(data[:end]):
            at = start
            for part in data[start:stop].split(b"\r"):
                upto = at + len(part)
                if any(cue in part.lower() for cue in CUES):
                    reading = self._read(part)
                    if reading is not None and reading.lacks_step and b"{" in part:
                        bar = _NEXT_BAR.match(data, upto)
                        if bar is None and not final and not _ENDED.match(data, upto):
                            return self._keep(data, at, points)
                        reading = reading if bar is None else reading.at_step(int(bar[1]), int(bar[2]))
                    if reading is not None:
                        self._add(reading, self._start + upto, points)
                at = upto + 1
        return self._keep(data, end, points)

    def _keep(self, data: bytes, at: int, points: list[MetricPoint]) -> list[MetricPoint]:
        """Keep what begins at ``at`` for the next time, where it may become a line of metrics."""
        at = at if len(data) - at <= _LONGEST else len(data)
        self._start += at
        self._tail = data[at:]
        return points

    def _read(self, part: bytes) -> Reading | None:
        line = part.decode("utf-8", "replace")
        above, self._above = self._above, None
        if above is not None and (reading := read_wrapped(line, above)) is not None:
            return reading
        if _EVALUATION.match(line):
            self._evaluating = True
            return None
        if "@" in line and _STAR.match(line):
            return read_line(line, phase=self._evaluated or "val")
        # what comes after an evaluation is about it, too, until the next epoch
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
        point = MetricPoint(time=self._time(offset), step=step, values=reading.values, total=total)
        if reading.bar is None:
            points += self._held()
            points += self._position.new(point)
        else:
            points += self._state(reading.bar, reading.progress, point)

    def _state(self, about: str, progress: Progress, point: MetricPoint) -> list[MetricPoint]:
        """The points that a bar's state makes: of the state before, when the bar has moved on.

        Until then the values may still change, and the last of them are those of the step.
        """
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
        # without an index all that one call reads was written at the same time
        knows_times = self._times is not None and self._times.at(0) is not None
        bar.next = point.time + (_EVERY if knows_times else 0.0)
        return self._position.new(point, bar=True)

    def _held(
        self, before: float = math.inf, *, ended: bool = False, but: _Bar | None = None
    ) -> list[MetricPoint]:
        """The states of bars that have not moved since ``before``, or have ended; not that of ``but``."""
        bars = [
            bar
            for bar in self._bars.values()
            if bar.held is not None and bar is not but and (bar.held.time <= before or (ended and bar.ended))
        ]
        return [point for bar in bars for point in self._show(bar)]

    def _time(self, offset: int) -> float:
        known = self._times.at(offset) if self._times is not None else None
        return self._changed if known is None else known


@dataclass(slots=True)
class _Bar:
    """A progress bar: its last state, which is not a point yet, and from when on it may be one."""

    held: MetricPoint | None = None
    next: float = 0.0
    at: int = 0
    ended: bool = False


_WHOLE = 4  # ranks of which all is read that is read of one
_RUNS = 8  # of several, those that are read as one is
_PRINTED = 4 << 20  # bytes at the ends of all logs that are looked through for numbers
_PRINTED_BESIDE = 512 << 10  # the same of several runs, from everywhere in a log: two seconds of work
_PIECES = 16


def merge_points(
    recorded: Iterable[MetricPoint], printed: Iterable[MetricPoint], *, tags: Collection[str] = ()
) -> list[MetricPoint]:
    """Both by time, without the printed values of a tag that ``nbdist.log`` recorded.

    ``tags`` are those that were recorded in points which are not among ``recorded`` any more.
    """
    points = list(recorded)
    own = {tag_of(tag) for point in points for tag in point.values} | {tag_of(tag) for tag in tags}
    for point in printed:
        if values := {tag: value for tag, value in point.values.items() if tag not in own}:
            points.append(replace(point, values=values) if len(values) < len(point.values) else point)
    return sorted(points, key=lambda point: point.time)


def printed_points(files: RankDirectory, room: int) -> Iterator[MetricPoint]:
    """The points in about the last ``room`` bytes of a rank's log, as it is now."""
    log = ScrapedMetrics(files.log, LogTimes(files.log_times), clock=lambda: math.inf)
    log.skip_to_tail(room)
    while points := log.read():
        yield from points
    # what is left as it is counts at a second look, and there will be none later
    yield from log.read()


def sampled_prints(files: RankDirectory, room: int, pieces: int) -> Iterator[MetricPoint]:
    """The points in about the last half of ``room`` bytes of a rank's log, and before them those in so many
    pieces of all that stands before."""
    end = room // 2
    before = LogStream(files.log).size - end
    for number in range(pieces if before > end else 0):
        log = ScrapedMetrics(files.log, LogTimes(files.log_times))
        log.skip_to_tail(before - before * number // pieces + end)
        yield from log.read(end // pieces, most=end // pieces)
    yield from printed_points(files, end if before > end else room)


def read_points(run: Run, directory: RunDirectory, runs: int = 1) -> Iterator[list[MetricPoint]]:
    """Of each rank what it recorded, then what it printed besides: some of it where it is very much, the
    first and the last always. Of each of many ``runs`` that is less."""
    share = len(run.ranks) * runs
    whole = _WHOLE * min(runs, _RUNS)
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        points = list(sampled_points(files.metrics, max(1, share // whole)))
        if run.spec.scrape:
            # what a rank records it does not only print
            tags = {tag for point in points for tag in point.values}
            printed = (
                printed_points(files, _PRINTED // share)
                if runs == 1
                else sampled_prints(files, _PRINTED_BESIDE // share, _PIECES)
            )
            points += merge_points([], printed, tags=tags)
        yield points
