"""What one page has of one run, and what it is to be sent next. Pure, but for lines that it reads."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.panel.protocol import LogChunk, Update
from nbdist.panel.queues import ChartQueue, ViewQueue
from nbdist.server.frames import Numbering
from nbdist.server.rank_tail import RankTail
from nbdist.server.run_tail import RunTail

UNDER_WAY = 2
"""Updates that a page may have got without saying that it has taken them in."""

_END_LINES = 400
_END_BYTES = 256 * 1024
_FAR = 20_000  # lines that a page lacks, more than which it gets the end first
_FRAME_BYTES = 512 * 1024
_LEAST = 4 * 1024


class Watch:
    """``have`` is, for some ranks, the number of the first line that the page lacks."""

    def __init__(self, tail: RunTail, have: Mapping[int, int] | None = None, *, cell: str = "") -> None:
        self.tail = tail
        self.under_way = 0
        self.complete_until: float | None = None
        """As in the last update."""
        self.more = False
        """Whether there was more to send than the last update holds."""
        self.numbering = Numbering()
        """Of the lines in the last update."""
        self._cell: str | None = cell
        self._next = dict(have or {})
        self._provisional: set[int] = set()
        self._partials: dict[int, str] = {}
        self._times: dict[int, float] = {}
        self._views = ViewQueue()
        self._charts: ChartQueue | None = None

    @property
    def free(self) -> bool:
        """Whether the page is ready for an update."""
        return self.under_way < UNDER_WAY

    def taken(self) -> None:
        """The page has taken in an update."""
        self.under_way = max(0, self.under_way - 1)

    def update(self, now: float) -> Update | None:
        """What the page lacks; None for nothing. ``now`` is of a clock that does not step back."""
        tail = self.tail
        with tail.lock:
            if tail.view is None or tail.charts is None:
                return None
            first = self._charts is None
            if self._charts is None:
                self._charts = ChartQueue(tail.charts)
            view = self._views.take(tail.view, now, again=False)
            charts = self._charts.take(now, again=first)
            chunks = self._chunks()
        if view is None and not charts and not chunks and not self.numbering.moved:
            return None
        cell, self._cell = self._cell, None
        return Update(view=view, chunks=chunks, complete_until=self.complete_until, charts=charts, cell=cell)

    def _chunks(self) -> list[LogChunk]:
        tails = list(self.tail.ranks.values())
        chunks: list[LogChunk] = []
        unsent: list[float] = []
        self.more = False
        moved = self._renumber(tails)
        for tail in tails:
            if tail.provisional and tail.rank not in self._provisional:
                if tail.rank in self._next:
                    # the page has numbers that will not change: these would not go with them
                    unsent.append(self._times.get(tail.rank, 0.0))
                    continue
                self._provisional.add(tail.rank)
            chunks += self._of_rank(tail, len(tails))
            left = self._next[tail.rank] < tail.recent.next
            self.more |= left
            if left or tail.behind:
                unsent.append(self._times.get(tail.rank, 0.0))
        self.complete_until = min(unsent, default=None)
        self.numbering = Numbering(provisional=tuple(self._provisional), moved=moved)
        return chunks

    def _renumber(self, tails: list[RankTail]) -> tuple[tuple[int, int], ...]:
        """By how much the lines that the page has of some ranks are to be renumbered."""
        counted = [tail for tail in tails if tail.rank in self._provisional and not tail.provisional]
        for tail in counted:
            self._provisional.discard(tail.rank)
            self._next[tail.rank] += tail.moved
        return tuple((tail.rank, tail.moved) for tail in counted)

    def _of_rank(self, tail: RankTail, ranks: int) -> list[LogChunk]:
        recent = tail.recent
        at = self._next.get(tail.rank)
        if at is None or at > recent.next or recent.next - at > _FAR:
            at = recent.start_of_end(_END_LINES, max(_LEAST, _END_BYTES // ranks))
        if at < recent.first:
            room = max(_LEAST, _FRAME_BYTES // ranks)
            chunks = self.tail.lines(tail.rank, at, recent.first - at, room)
        else:
            chunk = recent.since(at)
            chunks = [] if chunk is None else [chunk]
        # what cannot be read any more is a gap
        self._next[tail.rank] = chunks[-1].first + chunks[-1].count if chunks else recent.first
        if chunks and not chunks[-1].count and chunks[-1].partial == self._partials.get(tail.rank, ""):
            return []
        for chunk in chunks:
            self._partials[tail.rank] = chunk.partial
            if chunk.times:
                self._times[tail.rank] = chunk.times[-1][1]
        return chunks
