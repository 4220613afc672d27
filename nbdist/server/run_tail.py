"""One run as it goes on, read once for all who watch it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from nbdist.feed.charts import Charts
from nbdist.feed.measures import FailureWatch, Measures
from nbdist.feed.protocol import LogChunk
from nbdist.feed.rank_log import LogDelta, level
from nbdist.feed.stalling import StallReader
from nbdist.feed.view import RunView, view_of
from nbdist.model import Run
from nbdist.server.rank_tail import RankTail
from nbdist.store import RunDirectory, RunReader

# bytes of the logs of all ranks
_LOOK_BYTES = 512 * 1024
_FAR = 2 * 1024 * 1024  # more that waits is passed over, and can be pulled
_KEPT = 1024 * 1024
_ENDS = _LOOK_BYTES // 2  # what a look begins with where it passes over the rest: it then gets to the end
_LEAST = 16 * 1024
_MANY_RANKS = 16  # above, a view is made once a second
_VIEW_PERIOD = 1.0
_COUNT_TURN = 0.05  # seconds of a core at a look, in which the lines before the ends are counted


class RunTail:
    """Everything that changes about a run. ``look`` and ``lines`` take time, and are for threads; who reads
    ``ranks`` or ``charts`` meanwhile holds ``lock``."""

    def __init__(self, directory: RunDirectory, *, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.run: Run | None = None
        self.view: RunView | None = None
        self.charts: Charts | None = None
        self.ranks: dict[int, RankTail] = {}
        self.done = False
        """Whether the run has ended and all of it has been read."""
        self._clock = clock
        self._reader = RunReader(directory, clock=clock)
        self._measures: Measures | None = None
        self._failures = FailureWatch(directory)
        self._stalls = StallReader(directory)
        self._attempt = 0
        self._viewed = 0.0

    def see(self) -> Run | None:
        """How the run stands, without its logs, which may be long; None when it cannot be read."""
        with self.lock:
            run = self._look_at_run()
            if run is not None and self._measures is not None:
                self._measures.look(run, [], self._clock(), prints=False)
                self._make_view(run, self._measures)
            return run

    def look(self) -> bool:
        """Read what is new. False when the run is gone, or cannot be read any more."""
        with self.lock:
            run = self._look_at_run()
            if run is None or self._measures is None:
                return False
            now, first = self._clock(), not self.ranks
            deltas, behind = self._read_logs(run, now if run.ended is None else min(now, run.ended))
            self._measures.look(run, deltas, now, prints=not first)
            self._make_view(run, self._measures)
            # the ends are to be seen before they are numbered
            counted = not self._uncounted if first else self._count()
            self.done = run.state.terminal and not behind and not self._measures.behind and counted
            return True

    def lines(self, rank: int, first: int, count: int, room: int) -> list[LogChunk]:
        """Lines from disk: up to ``count`` from ``first`` on, in about ``room`` bytes; none when there are
        no such lines, or no such rank, or while its lines are still being counted."""
        with self.lock:
            if rank not in self.ranks or self.run is None:
                return []
            if self.ranks[rank].provisional:
                return []
            ended = self.run.state.terminal
            return self.ranks[rank].history.read(first, count, room, self._clock(), ended=ended)

    def _look_at_run(self) -> Run | None:
        run = self.run = self._reader.look()
        if run is not None and self.charts is None:
            created = run.spec.created
            self.charts = Charts(created=created, ranks=[rank.rank for rank in run.ranks])
            self._measures = Measures(self.directory, self.charts)
        return run

    def _read_logs(self, run: Run, moment: float) -> tuple[list[LogDelta], bool]:
        deltas = self._begin_attempt(run, moment) if run.attempt != self._attempt else []
        tails = list(self.ranks.values())
        if sum(tail.waiting for tail in tails) > _FAR:
            keep = level([tail.waiting for tail in tails], _ENDS)
            for tail in tails:
                tail.skip(keep)
        waiting = [tail.waiting for tail in tails]
        share = level(waiting, _LOOK_BYTES)
        behind = max(waiting, default=0) > share
        final = run.state.terminal and not behind
        for tail in tails:
            delta = tail.read(max(1, share), moment, final=final)
            if delta is not None:
                deltas.append(delta)
        return deltas, behind

    @property
    def _uncounted(self) -> list[RankTail]:
        return [tail for tail in self.ranks.values() if tail.provisional]

    def _count(self) -> bool:
        """Go on to count lines; whether all are counted."""
        end = time.thread_time() + _COUNT_TURN
        return all(tail.count(lambda: time.thread_time() >= end) for tail in self._uncounted)

    def _begin_attempt(self, run: Run, moment: float) -> list[LogDelta]:
        self._attempt = run.attempt
        if self.ranks:
            return [delta for tail in self.ranks.values() for delta in tail.go_on(run.attempt, moment)]
        room = max(_LEAST, _KEPT // max(1, len(run.ranks)))
        for rank in run.ranks:
            tail = RankTail(rank.rank, self.directory, created=run.spec.created, room=room)
            tail.begin_at_end(run.attempt, max(_LEAST, _ENDS // max(1, len(run.ranks))))
            self.ranks[rank.rank] = tail
        return []

    def _make_view(self, run: Run, measures: Measures) -> None:
        now = self._clock()
        old = self.view
        same = old is not None and (old.state, old.hangs) == (run.state.value, run.stalled is not None)
        if same and len(run.ranks) > _MANY_RANKS and 0 <= now - self._viewed < _VIEW_PERIOD:
            return
        self._viewed = now
        self.view = view_of(
            run,
            now=now,
            last_lines={rank: tail.last_line for rank, tail in self.ranks.items()},
            system=measures.system,
            rates=measures.rates(now),
            progress=measures.progress(now),
            failure=self._failures.look(run),
            stall=self._stalls.look(run),
            slow=measures.slow(run, now),
        )
