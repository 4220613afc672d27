"""One run as it goes on, read once for all pages that watch it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from nbdist.feed.charts import Charts
from nbdist.feed.following import RunFeed
from nbdist.feed.measures import Measures
from nbdist.feed.protocol import LogChunk
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.send_queue import end_of, joined, since
from nbdist.feed.view import RunView
from nbdist.model import Run
from nbdist.store import RunDirectory

# bytes of the logs of all ranks
_LOOK_BYTES = 512 * 1024  # more that waits is passed over, and can be pulled
_KEPT = 1024 * 1024
_LEAST = 16 * 1024


class RecentLines:
    """The last lines of a rank, without a gap: where some are passed over, those before are forgotten."""

    def __init__(self, rank: int, room: int) -> None:
        self.rank = rank
        self._room = room
        self._chunks: deque[LogChunk] = deque()
        self._size = 0
        self.next = 0
        """The address behind the last line."""
        self.partial = ""
        self.behind = False
        """Whether more was waiting than the last look took."""

    @property
    def first(self) -> int:
        """The address of the first line that is here."""
        return self._chunks[0].first if self._chunks else self.next

    def add(self, delta: LogDelta) -> None:
        chunk = LogChunk.of(delta)
        self.partial, self.behind = chunk.partial, delta.behind
        if chunk.first != self.next:
            self._chunks.clear()
            self._size = 0
        self.next = chunk.end
        if not chunk.count:
            return
        self._chunks.append(replace(chunk, partial="", skipped=0))
        self._size += len(chunk.text)
        while self._size - len(self._chunks[0].text) >= self._room:
            self._size -= len(self._chunks.popleft().text)

    def since(self, address: int) -> LogChunk:
        """The lines from an address on, of those that are here, with what grows behind them."""
        parts: list[LogChunk] = []
        for chunk in reversed(self._chunks):
            if chunk.end <= address:
                break
            if (part := since(chunk, address)) is not None:
                parts.insert(0, part)
        nothing = LogChunk(rank=self.rank, first=self.next, count=0, text=b"", times=())
        return replace(joined(parts)[0] if parts else nothing, partial=self.partial)

    def start_of_end(self, lines: int, room: int) -> int:
        """The address from which on there are at most ``lines`` in about ``room`` bytes."""
        address = self.next
        for chunk in reversed(self._chunks):
            part = end_of(chunk, lines, room)
            if not part.count:
                break
            address = part.first
            lines -= part.count
            room -= len(part.text)
            if part.count < chunk.count:
                break
        return address


class RunTail:
    """Everything that changes about a run. ``look`` and ``before`` take time, and are for threads; who reads
    ``ranks`` or ``charts`` meanwhile holds ``lock``."""

    def __init__(self, directory: RunDirectory, *, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.run: Run | None = None
        self.view: RunView | None = None
        self.charts: Charts | None = None
        self.ranks: dict[int, RecentLines] = {}
        self.done = False
        """Whether the run has ended and all of it has been read."""
        self._clock = clock
        self._feed = RunFeed(directory, room=_LOOK_BYTES, clock=clock)

    def see(self) -> Run | None:
        """How the run stands, without its logs, which may be long; None when it cannot be read."""
        with self.lock:
            run = self._look_at_run()
            if run is not None:
                now = self._clock()
                self._feed.measures.look(run, [], now, prints=False)
                self.view = self._feed.view(run, now)
            return run

    def look(self) -> bool:
        """Read what is new. False when the run is gone, or cannot be read any more."""
        with self.lock:
            run = self._look_at_run()
            if run is None:
                return False
            feed, now, first = self._feed, self._clock(), not self.ranks
            room = max(_LEAST, _KEPT // max(1, len(run.ranks)))
            if first:
                self.ranks = {rank.rank: RecentLines(rank.rank, room) for rank in run.ranks}
            for delta in feed.read(run, now, budget=_LOOK_BYTES, prints=not first):
                self.ranks[delta.rank].add(delta)
            self.view = feed.view(run, now)
            self.done = run.state.terminal and not feed.logs.behind and not feed.measures.behind
            return True

    def before(self, rank: int, after: int, before: int, limit: int) -> list[LogChunk]:
        """The last lines on disk from the address ``after`` on to ``before``, about ``limit`` bytes of them;
        none where there are no such lines, or no such rank."""
        with self.lock:
            if rank not in self.ranks or self.run is None:
                return []
            found = self._feed.logs.before(self.run, rank, after, before, limit, self._clock())
            return [replace(LogChunk.of(delta), partial="", skipped=0) for delta in found]

    def _look_at_run(self) -> Run | None:
        run = self.run = self._feed.run()
        if run is not None and self.charts is None:
            self.charts = Charts(created=run.spec.created, ranks=[rank.rank for rank in run.ranks])
            self._feed.measures = Measures(self.directory, self.charts)
        return run
