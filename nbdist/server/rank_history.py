"""All lines of one rank by their numbers, through its attempts: read from disk, anywhere."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from nbdist.panel.protocol import LogChunk
from nbdist.panel.rank_log import LogDelta, RankFollower
from nbdist.server.line_map import LineMap
from nbdist.store import LogStream, LogTimes, RankDirectory, RunDirectory

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
