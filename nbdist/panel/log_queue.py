"""Which lines of a run's ranks go into the next message to the page. Pure.

A page that is sent a backlog faster than it reads sees the newest line last. So there is a limit to what
a message holds, and where more waits the newest lines go ahead, again and again, and the others follow in
their order: the page knows by their numbers what is still to come.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable

from nbdist.panel.logs import level
from nbdist.panel.protocol import LogChunk
from nbdist.panel.rank_log import LogDelta
from nbdist.panel.tail import Tail, split

# Bytes of all ranks, in one message: what is sent while the page may still be loading has to be sent again,
# and what is sent while more is being written is in the way of what is newer.
_PACES = ((1.0, 128 * 1024), (2.0, 256 * 1024))
_BUSY_PACE = 256 * 1024
_PACE = 512 * 1024
_QUIET = 0.5  # seconds without news
_MUCH = 48 * 1024 * 1024  # more than this does not wait for quiet
_EARLY_BYTES = 4_000_000
_KEYFRAME_LINES = 400
_KEYFRAME_BYTES = 200_000
# of each rank that is behind, and of all of them
_NEWEST_LINES = 100
_NEWEST_BYTES = 128 * 1024
_WAITING = 64 * 1024 * 1024
_LEAST_BITE = 64 * 1024


class LogQueue:
    """The lines that were not sent yet, and the ends of those that were; of ``ranks`` ranks."""

    def __init__(self, ranks: int) -> None:
        self._ranks = max(1, ranks)
        self._tails: dict[int, Tail] = {}
        self._has_news = False
        self._news_at = 0.0
        self._repeats: deque[LogChunk] = deque()

    def take(self, deltas: Iterable[LogDelta]) -> None:
        for delta in deltas:
            if delta.rank not in self._tails:
                self._tails[delta.rank] = Tail(_EARLY_BYTES // self._ranks)
            self._tails[delta.rank].take(delta)
            self._has_news |= bool(delta.lines)

    @property
    def waiting(self) -> int:
        """Bytes that were not sent yet."""
        return sum(tail.size for tail in self._tails.values())

    @property
    def repeating(self) -> bool:
        """Whether some of what was sent is on its way again."""
        return bool(self._repeats)

    @property
    def bite(self) -> int:
        """How many bytes more there is room for now."""
        return max(_LEAST_BITE, _WAITING - self.waiting)

    @property
    def complete_until(self) -> float | None:
        """The time until which all lines have been sent; None when there are no others."""
        return min((tail.last_time for tail in self._tails.values() if tail.incomplete), default=None)

    def next(self, age: float) -> list[LogChunk]:
        """What is new, for a page that was opened ``age`` seconds ago."""
        return self._next(age)

    def _next(self, age: float, *, again: bool = False) -> list[LogChunk]:
        newest, chunks = [], []
        share = self._share(age)
        for tail in self._tails.values():
            if tail.size > share:
                newest += tail.newest(_NEWEST_LINES, _NEWEST_BYTES // self._ranks, again=again)
                chunks += tail.part(share)
            else:
                chunks += tail.news()
                tail.sent()
        return [*newest, *self._repeated(age), *chunks]

    def again(self, age: float, *, whole: bool) -> list[LogChunk]:
        """As ``next``, for a page that may have missed what was sent: with the ends of the logs. Or
        ``whole``: with the begin of all that came so far, of which each message from now on has a part."""
        if whole:
            room = _EARLY_BYTES // self._ranks
            self._repeats = deque(chunk for tail in self._tails.values() for chunk in tail.kept(room))
            return self._next(age, again=True)
        newest, chunks = [], []
        share = self._share(age)
        new = sum(min(share, tail.size) for tail in self._tails.values())
        room = max(0, _KEYFRAME_BYTES - new) // self._ranks
        for tail in self._tails.values():
            if tail.size > share:
                newest += tail.newest(_NEWEST_LINES, _NEWEST_BYTES // self._ranks, again=True)
                chunks += tail.part(share)
            else:
                chunks += tail.end(room, _KEYFRAME_LINES)
                tail.sent()
        return [*newest, *chunks]

    def _repeated(self, age: float) -> list[LogChunk]:
        """The next part of what is sent again, beside which there is room for what is new. A page reads
        nothing of a chunk that it has."""
        taken: list[LogChunk] = []
        room = self._pace(age) // 2
        while self._repeats and room > 0:
            head, rest = split(self._repeats.popleft(), room)
            room -= len(head.text) + 1
            taken.append(head)
            if rest is not None:
                self._repeats.appendleft(rest)
        return taken

    def _share(self, age: float) -> int:
        """How much a rank may send now, so that a message holds no more than it should."""
        if self._has_news:
            self._has_news, self._news_at = False, age
        room = self._pace(age)
        sizes = [tail.size for tail in self._tails.values()]
        return level(sizes, room) if sum(sizes) > room else sys.maxsize

    def _pace(self, age: float) -> int:
        for until, room in _PACES:
            if age < until:
                return room
        busy = age - self._news_at < _QUIET and self.waiting < _MUCH
        return _BUSY_PACE if busy else _PACE
