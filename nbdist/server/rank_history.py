"""The older lines of a rank's log: where each begins in the file, and their numbers.

Which line of a log begins at which byte. A log of a gigabyte is counted through in half a second.

Lines are those that ``LogLines`` makes: a line that is too long is several. Where such a line is also
drawn over by carriage returns, how many it makes depends on where its bytes were cut, and is a guess. Rows
that a program moves among are counted once it has left them.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nbdist.feed.protocol import LogChunk
from nbdist.feed.rank_log import LogDelta, RankFollower
from nbdist.store import LogLines, LogStream, LogTimes, RankDirectory, RunDirectory, moves_up

BLOCK = 256 * 1024
_MOST_MOVING = 16 << 20  # bytes in which rows move; what comes after them is a guess
_WIDTH = 16_384  # bytes: a line that has no more has no more characters either


class LineMap:
    """The lines of one log, known as far as was asked. What was counted is not read again: a log only
    grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets = array("Q", [0])
        self._numbers = array("Q", [0])
        self._stream = LogStream(path)

    def before(self, offset: int) -> tuple[int, int]:
        """The last known begin of a line at or before the byte ``offset``: its own byte, and its number."""
        while self._offsets[-1] < offset and self._go_on():
            pass
        at = bisect_right(self._offsets, offset) - 1
        return self._offsets[at], self._numbers[at]

    def count_to(self, offset: float, time_up: Callable[[], bool]) -> bool:
        """Count to the byte ``offset``, or to the end; False when there was not time enough."""
        while self._offsets[-1] < offset and self._go_on():
            if time_up():
                return False
        return True

    def number_at(self, offset: int) -> int:
        """The number of the line that begins at ``offset``, where a line does begin."""
        begin, number = self.before(offset)
        data = LogStream(self._path, begin).read(offset - begin)
        return number + _count(data, len(data))

    def near(self, offset: int) -> tuple[int, int]:
        """The last begin of a line at or before ``offset``; one further back among lines that are long."""
        begin, number = self.before(offset)
        data = LogStream(self._path, begin).read(min(offset - begin, BLOCK))
        end = data.rfind(b"\n") + 1
        if not end or len(data) < offset - begin or not _is_plain(data, end):
            return begin, number
        return begin + end, number + data.count(b"\n", 0, end)

    def at_line(self, number: int) -> tuple[int, int]:
        """A begin of a line that is ``number`` or not much before it: its byte, and its own number."""
        while self._numbers[-1] <= number and self._go_on():
            pass
        at = max(0, bisect_right(self._numbers, number) - 1)
        return self._offsets[at], self._numbers[at]

    def total(self) -> int:
        """The lines of a log that will not grow any more, with the last that no newline ended."""
        while self._go_on():
            pass
        stream = LogStream(self._path, self._offsets[-1])
        lines = LogLines()
        more = 0
        while data := stream.read(BLOCK):
            more += len(lines.feed(data))
        return self._numbers[-1] + more + len(lines.close())

    def _go_on(self) -> bool:
        """Count through one more block; False when there is no whole line any more."""
        stream, start = self._stream, self._offsets[-1]
        stream.offset = start
        data = stream.read(BLOCK)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == BLOCK:
            return self._pass_long_line(data)
        if not end:
            return False
        if moves_up(data):
            return self._pass_moving_rows(data)
        # not start + end: there may have been a gap before it
        self._note(stream.offset - len(data) + end, _count(data, end))
        return True

    def _pass_long_line(self, data: bytes) -> bool:
        """Count the pieces of a line that fills a whole block, and maybe more."""
        lines, count = LogLines(), 0
        while data:
            end = data.find(b"\n") + 1
            count += len(lines.feed(data[:end] if end else data))
            if end:
                self._note(self._stream.offset - len(data) + end, count)
                return True
            data = self._stream.read(BLOCK)
        return False

    def _pass_moving_rows(self, data: bytes) -> bool:
        """Count on until no row is drawn again."""
        lines, count, passed = LogLines(), 0, 0
        while data:
            end = data.rfind(b"\n") + 1 or len(data)
            self._stream.offset -= len(data) - end
            count += len(lines.feed(data[:end]))
            passed += end
            if not lines.moves or passed > _MOST_MOVING:
                self._note(self._stream.offset, count)
                return True
            data = self._stream.read(BLOCK)
        return False

    def _note(self, offset: int, count: int) -> None:
        self._offsets.append(offset)
        self._numbers.append(self._numbers[-1] + count)


def _count(data: bytes, end: int) -> int:
    """The lines in ``data`` up to ``end``, which is the end of one."""
    return data.count(b"\n", 0, end) if _is_plain(data, end) else len(LogLines().feed(data[:end]))


def _is_plain(data: bytes, end: int) -> bool:
    """Whether each newline in ``data`` up to ``end`` ends one line."""
    return not moves_up(data) and not _has_long_line(data, end)


def _has_long_line(data: bytes, end: int) -> bool:
    """Whether there is no newline among some ``_WIDTH`` bytes in a row, as it looks: it may be fewer."""
    low = 0
    while low < end:
        found = data.rfind(b"\n", low, low + _WIDTH) + 1
        if not found:
            return True
        low = found
    return False


_BITE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """The log of one attempt. ``base`` is the number of its first line; the line before parts it from the
    attempt before, as ``RankFollower.go_on`` says it."""

    attempt: int
    base: int
    files: RankDirectory
    lines: LineMap
    times: LogTimes


class RankHistory:
    """``created`` is the moment of the run's creation in Unix seconds."""

    def __init__(self, rank: int, directory: RunDirectory, *, created: float) -> None:
        self.rank = rank
        self._directory = directory
        self._created = created
        self.parts: list[Part] = []
        self.reach(1)

    def reach(self, attempt: int) -> None:
        """There are attempts up to this one; those before it have ended."""
        while len(self.parts) < attempt:
            base = self.parts[-1].base + self.parts[-1].lines.total() + 1 if self.parts else 0
            files = self._directory.rank(self.rank, len(self.parts) + 1)
            self.parts.append(
                Part(len(self.parts) + 1, base, files, LineMap(files.log), LogTimes(files.log_times))
            )

    def reach_in_turns(self, attempt: int, time_up: Callable[[], bool]) -> bool:
        """``reach`` in several calls; False while there was not time enough."""
        while len(self.parts) < attempt:
            if not self.parts[-1].lines.count_to(math.inf, time_up):
                return False
            self.reach(len(self.parts) + 1)
        return True

    def bytes_before(self, attempt: int) -> int:
        """Bytes in the logs of the attempts before this one."""
        logs = (self._directory.rank(self.rank, before).log for before in range(1, attempt))
        return sum(LogStream(log).size for log in logs)

    def follower(self, part: Part, offset: int, first: int) -> RankFollower:
        """A reader from the byte ``offset`` on, which is the begin of the line ``first`` of all."""
        return RankFollower(
            self.rank, part.files, created=self._created, offset=offset, first=first, index=part.times
        )

    def read(self, first: int, count: int, room: int, moment: float, *, ended: bool) -> list[LogChunk]:
        """Up to ``count`` lines from ``first`` on, about ``room`` bytes at most. ``moment`` is the time of
        those of which nothing is known; ``ended`` says that the last log will not grow any more."""
        chunks: list[LogChunk] = []
        while count > 0 and room > 0:
            at = bisect_right([part.base for part in self.parts], first) - 1
            part, last = self.parts[at], at == len(self.parts) - 1
            if not last and first == self.parts[at + 1].base - 1:
                chunk: LogChunk | None = self._parting(self.parts[at + 1], first)
            else:
                chunk = self._lines(part, first, count, room, moment, final=ended or not last)
            if chunk is None:
                break
            chunks.append(chunk)
            first += chunk.count
            count -= chunk.count
            room -= len(chunk.text)
        return chunks

    def _parting(self, part: Part, number: int) -> LogChunk:
        text = f"—— attempt {part.attempt} ——".encode()
        begun = part.times.at(1)
        time = 0.0 if begun is None else max(0.0, round(begun - self._created, 3))
        return LogChunk(rank=self.rank, first=number, count=1, text=text, times=((1, time),))

    def _lines(
        self, part: Part, first: int, count: int, room: int, moment: float, *, final: bool
    ) -> LogChunk | None:
        offset, number = part.lines.at_line(first - part.base)
        follower = self.follower(part, offset, part.base + number)
        lines: list[str] = []
        times: list[tuple[int, float]] = []
        while len(lines) < count and room > 0:
            delta = follower.read(_BITE, moment)
            if follower.waiting == 0 and final:
                delta = _both(delta, follower.read(_BITE, moment, final=True))
            if delta is None or (not delta.lines and follower.waiting == 0):
                break
            low = max(0, first - delta.first)
            high = low + count - len(lines)
            taken = delta.lines[low:high]
            lines += taken
            times += _between(delta.times, low, high)
            room -= sum(map(len, taken))
        if not lines:
            return None
        text = "\n".join(lines).encode("utf-8", "replace")
        return LogChunk(rank=self.rank, first=first, count=len(lines), text=text, times=tuple(times))


def _both(delta: LogDelta | None, last: LogDelta | None) -> LogDelta | None:
    """What was read, and the line that no newline ended."""
    if delta is None or last is None:
        return delta or last
    return LogDelta(
        rank=delta.rank,
        first=delta.first,
        lines=(*delta.lines, *last.lines),
        partial="",
        times=(*delta.times, *last.times),
    )


def _between(times: tuple[tuple[int, float], ...], low: int, high: int) -> list[tuple[int, float]]:
    """The times of the lines from ``low`` on and before ``high``."""
    found, at = [], 0
    for count, time in times:
        if (taken := min(at + count, high) - max(at, low)) > 0:
            found.append((taken, time))
        at += count
    return found
