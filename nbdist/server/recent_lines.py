"""The last lines of one rank in memory, for all who watch it. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from nbdist.panel.protocol import LogChunk
from nbdist.panel.rank_log import LogDelta
from nbdist.panel.tail import end_of

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
