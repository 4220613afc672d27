"""The points of one log, each of them once.

A state that a carriage return overwrites is a point at most once a second, and at the bar's end.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nbdist.store.log_stream import LogStream
from nbdist.store.log_times import LogTimes
from nbdist.store.metrics import MetricPoint
from nbdist.store.scraped.line import CUES, Reading, lines_with_cues, read_line, read_wrapped
from nbdist.store.scraped.place import Place
from nbdist.store.scraped.position import Position
from nbdist.store.scraped.tables import Tables

_EVERY = 1.0  # seconds between two states of a bar
_LONGEST = 1 << 16  # bytes of a line; what is longer is no line of metrics
_EVALUATION = re.compile(r"\s*(?:eval (?:begin|samples)|\*+ ?(?:running )?(?:evaluat|validat))", re.I)
_STAR = re.compile(r"\s*\*\s+(?:acc|prec)@", re.I)
"""How ImageNet's programs end an evaluation."""
_REPEATED = "est iteration is:"
"""What LightGBM says before it prints a line again."""
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
        self._tail_is_state = False
        self._idle_at = -1
        self._changed = 0.0
        self._position = Position()
        self._bars: dict[str, _Bar] = {}
        self._evaluating = False
        self._repeated = False
        self._evaluated = ""
        self._above: Reading | None = None
        self._tables = Tables()

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
            self._look_at_clock()
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
        # a carriage return leads a whole state, a newline what may be half a line
        if self._tail and (self._tail_is_state or self._changed <= quiet):
            points = self._take(self._tail, final=True)
        else:
            points = []
        return points + self._held(quiet, ended=True)

    def _look_at_clock(self) -> None:
        with contextlib.suppress(OSError):
            self._changed = os.stat(self._stream.path).st_mtime

    def _take(self, data: bytes, *, final: bool = False) -> list[MetricPoint]:
        """The points of ``data``, of which a line that is not complete is kept unless ``final``."""
        points: list[MetricPoint] = []
        end = len(data) if final else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        for start, stop in self._lines(data[:end]):
            at = start
            for part in data[start:stop].split(b"\r"):
                upto = at + len(part)
                cued = any(cue in part.lower() for cue in CUES)
                if part and (cued or self._tables.is_open):
                    reading = self._read(part) if cued else self._tables.read(_text(part))
                    if reading is not None and _has_epoch_alone(reading) and b"{" in part:
                        bar = _NEXT_BAR.match(data, upto)
                        if bar is None and not final and not _ENDED.match(data, upto):
                            return self._keep(data, at, points, is_state=False)
                        reading = _with_bar(reading, bar)
                    if reading is not None:
                        self._add(reading, self._start + upto, points)
                at = upto + 1
        return self._keep(data, end, points)

    def _lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where the lines lie that may say something; in a table that is all of them."""
        at = 0
        for start, stop in [*lines_with_cues(data), (len(data), len(data))]:
            while self._tables.is_open and at < start:
                end = data.find(b"\n", at, start)
                yield at, start if end < 0 else end
                at = start if end < 0 else end + 1
            if at <= start < len(data):
                yield start, stop
                at = stop + 1

    def _keep(
        self, data: bytes, at: int, points: list[MetricPoint], *, is_state: bool | None = None
    ) -> list[MetricPoint]:
        """Keep what begins at ``at`` for the next time; ``is_state``: a carriage return led it."""
        if is_state is not None:
            self._tail_is_state = is_state
        elif at:
            self._tail_is_state = data[at - 1 : at] == b"\r"
        self._start += at
        self._tail = data[at:]
        if len(self._tail) > _LONGEST:
            self._start += len(self._tail)
            self._tail = b""
        return points

    def _read(self, part: bytes) -> Reading | None:
        line = _text(part)
        above, self._above = self._above, None
        if above is not None and (reading := read_wrapped(line, above)) is not None:
            return reading
        if (reading := self._tables.read(line)) is not None:
            return reading
        if _EVALUATION.match(line):
            self._evaluating = True
            return None
        if self._repeated or _REPEATED in line:
            self._repeated = not self._repeated
            return None
        if "@" in line and _STAR.match(line):
            return read_line(line, phase=self._evaluated or "val")
        reading = self._read_line(line)
        if reading is not None:
            self._evaluated = reading.phase or self._evaluated
            self._above = reading if reading.bar is not None else None
        return reading

    def _read_line(self, line: str) -> Reading | None:
        if not self._evaluating:
            return read_line(line)
        reading = read_line(line, phase="eval")
        if reading is None or reading.place.epoch is None:
            return reading  # what comes after an evaluation is about it, too
        self._evaluating = False
        return read_line(line)

    def _add(self, reading: Reading, offset: int, points: list[MetricPoint]) -> None:
        if reading.bar is not None and not reading.place.at:
            return  # at 0 a bar shows what the one before it had
        step, total = self._position.step(reading)
        if not reading.values or (reading.phase and _is_on_the_way(reading.place)):
            return
        point = MetricPoint(time=self._time(offset), step=step, values=reading.values, total=total)
        if reading.bar is None:
            points += self._held()
            points += self._position.new(point)
        else:
            points += self._state(reading.bar, reading.place, point)

    def _state(self, about: str, place: Place, point: MetricPoint) -> list[MetricPoint]:
        """The points that a bar's state makes: of the state before, when the bar has moved on.

        Until then the values may still change, and the last of them are those of the step.
        """
        bar = self._bars.setdefault(_DIGITS.sub("#", about), _Bar())
        at, held = place.at or 0, bar.held
        points = self._held(point.time - _EVERY, ended=True, but=bar)
        if held is not None and at != bar.at and (held.time >= bar.next or bar.ended or at < bar.at):
            points += self._show(bar)
        bar.at, bar.ended, bar.held = at, at == place.of, point
        return points

    def _show(self, bar: _Bar) -> list[MetricPoint]:
        point, bar.held = bar.held, None
        if point is None:
            return []
        # without an index all that one call reads was written at the same time
        bar.next = point.time + (_EVERY if self._knows_times() else 0.0)
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

    def _knows_times(self) -> bool:
        return self._times is not None and self._times.at(0) is not None

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


def _text(part: bytes) -> str:
    return part.decode("utf-8", "replace")


def _has_epoch_alone(reading: Reading) -> bool:
    return bool(reading.values) and reading.place.epoch is not None and reading.place.at is None


def _with_bar(reading: Reading, bar: re.Match[bytes] | None) -> Reading:
    if bar is None:
        return reading
    place = replace(reading.place, at=int(bar[1]), of=int(bar[2]), unit="over all", over_all=True)
    return replace(reading, place=place)


def _is_on_the_way(place: Place) -> bool:
    return place.at is not None and place.of is not None and place.at < place.of
