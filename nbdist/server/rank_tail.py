"""The newest lines of a rank's log, for pages that watch it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from nbdist.feed.protocol import LogChunk
from nbdist.feed.rank_log import LogDelta, RankFollower
from nbdist.feed.send_queue import end_of
from nbdist.server.rank_history import RankHistory
from nbdist.store import LogStream, RunDirectory

_LINES = 1 << 60


class RecentLines:
    """Lines without a gap: where some are passed over, those before are forgotten."""

    def __init__(self, rank: int, room: int) -> None:
        self._rank = rank
        self._room = room
        self._chunks: deque[LogChunk] = deque()
        self._size = 0
        self.next = 0
        """The number of the line after the last."""
        self.partial = ""
        self.last_time = 0.0

    def begin(self, number: int) -> None:
        """The next line is this one."""
        self._chunks.clear()
        self._size = 0
        self.next = number
        self.partial = ""

    def renumber(self, by: int) -> None:
        """Every line has a number that is greater by so much."""
        self._chunks = deque(replace(chunk, first=chunk.first + by) for chunk in self._chunks)
        self.next += by

    @property
    def first(self) -> int:
        """The number of the first line that is here."""
        return self._chunks[0].first if self._chunks else self.next

    def add(self, delta: LogDelta) -> None:
        chunk = LogChunk.of(delta)
        self.partial = chunk.partial
        self.next = chunk.first + chunk.count
        if not chunk.count:
            return
        self.last_time = chunk.times[-1][1]
        self._chunks.append(replace(chunk, partial="", skipped=0))
        self._size += len(chunk.text)
        while self._size - len(self._chunks[0].text) >= self._room:
            self._size -= len(self._chunks.popleft().text)

    def since(self, number: int) -> LogChunk | None:
        """The lines from ``number`` on as one chunk, with what grows behind them; None when that is
        earlier than what is here."""
        if number < self.first:
            return None
        parts = []
        for chunk in reversed(self._chunks):
            missing = chunk.first + chunk.count - number
            if missing <= 0:
                break
            parts.append(end_of(chunk, missing, _LINES))
        parts.reverse()
        return LogChunk(
            rank=self._rank,
            first=min(number, self.next),
            count=sum(part.count for part in parts),
            text=b"\n".join([part.text for part in parts]),
            times=tuple(time for part in parts for time in part.times),
            partial=self.partial,
        )

    def start_of_end(self, lines: int, room: int) -> int:
        """The number of the line from which on there are at most ``lines`` in about ``room`` bytes."""
        number = self.next
        for chunk in reversed(self._chunks):
            part = end_of(chunk, lines, room)
            if not part.count:
                break
            number = part.first
            lines -= part.count
            room -= len(part.text)
            if part.count < chunk.count:
                break
        return number


_COUNTED = 4 * 1024 * 1024  # bytes in front of the end, which are counted before it is shown
_MOST_LINES = 1 << 31  # what a page can number


class RankTail:
    """What was written lately is in memory, what came before can be read.

    Where much comes before, its lines are counted after the end was read. Until then lines have numbers that
    are too great: those that they would have if every byte before the end were a line.
    """

    def __init__(self, rank: int, directory: RunDirectory, *, created: float, room: int) -> None:
        self.rank = rank
        self.recent = RecentLines(rank, room)
        self.last_line = ""
        self.behind = False
        """Whether more was waiting than the last look took."""
        self.moved = 0
        """By how much all lines were renumbered when they had been counted."""
        self.history = RankHistory(rank, directory, created=created)
        self._directory = directory
        self._created = created
        self._counting: _Counting | None = None
        self._follower = self.history.follower(self.history.parts[0], 0, 0)

    @property
    def waiting(self) -> int:
        return self._follower.waiting

    @property
    def provisional(self) -> bool:
        """Whether the numbers of lines will change."""
        return self._counting is not None

    def begin_at_end(self, attempt: int, keep: int) -> None:
        """Begin about ``keep`` bytes before the end of this attempt's log; what comes before is history."""
        files = self._directory.rank(self.rank, attempt)
        stream = LogStream(files.log)
        passed = stream.skip_to_tail(keep)
        before = self.history.bytes_before(attempt) + passed
        if before <= _COUNTED or not _begins_line(stream):
            self.begin(attempt)
            self.skip(keep)
            return
        # between two attempts there is a line more
        number = min(before + attempt, _MOST_LINES)
        self._follower = RankFollower(
            self.rank, files, created=self._created, offset=stream.offset, first=number
        )
        self.recent.begin(number)
        self._counting = _Counting(attempt, stream.offset, number)

    def count(self, time_up: Callable[[], bool] = lambda: False) -> bool:
        """Go on to count the lines before the end; True when all lines have their own numbers."""
        counting = self._counting
        if counting is None:
            return True
        if not self.history.reach_in_turns(counting.attempt, time_up):
            return False
        part = self.history.parts[counting.attempt - 1]
        if not part.lines.count_to(counting.offset, time_up):
            return False
        self.moved = part.base + part.lines.number_at(counting.offset) - counting.number
        self._follower.renumber(self.moved)
        self.recent.renumber(self.moved)
        self._counting = None
        return True

    def begin(self, attempt: int) -> None:
        """Read this attempt's log from its start on; what came before is history."""
        self.count()
        self.history.reach(attempt)
        part = self.history.parts[-1]
        self._follower = self.history.follower(part, 0, part.base)
        self.recent.begin(part.base)

    def skip(self, keep: int) -> None:
        """Go on about ``keep`` bytes before the end."""
        if self.waiting <= keep:
            return
        self.count()
        part = self.history.parts[-1]
        offset, number = part.lines.near(self._follower.offset + self.waiting - keep)
        if offset > self._follower.offset:
            self._follower = self.history.follower(part, offset, part.base + number)
            self.recent.begin(part.base + number)

    def go_on(self, attempt: int, moment: float) -> list[LogDelta]:
        """The next attempt has begun: the rest of the last log, and a line that parts the two. When there
        was an attempt between them, it is history."""
        self.count()
        if attempt > self.history.parts[-1].attempt + 1:
            self.begin(attempt)
            return []
        self.history.reach(attempt)
        delta = self._follower.go_on(self.history.parts[-1].files, attempt, moment)
        self.recent.add(delta)
        return [delta]

    def read(self, limit: int, moment: float, *, final: bool) -> LogDelta | None:
        delta = self._follower.read(limit, moment, final=final)
        if delta is not None:
            self.recent.add(delta)
            self.last_line = self._follower.last_line or self.last_line
            self.behind = delta.behind
        return delta


@dataclass(frozen=True, slots=True)
class _Counting:
    """The line that begins at the byte ``offset`` of an attempt's log is called ``number`` so far."""

    attempt: int
    offset: int
    number: int


def _begins_line(stream: LogStream) -> bool:
    """Whether a line begins where the stream stands."""
    return stream.offset == 0 or LogStream(stream.path, stream.offset - 1).read(1) == b"\n"
