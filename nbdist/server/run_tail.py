"""One run as it goes on, read once for all who watch it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from nbdist.model import Run
from nbdist.panel.charts import Charts
from nbdist.panel.following import LogDelta, level
from nbdist.panel.measures import FailureWatch, Measures
from nbdist.panel.protocol import LogChunk
from nbdist.panel.stalling import StallReader
from nbdist.panel.view import RunView, view_of
from nbdist.server.rank_history import RankHistory
from nbdist.server.recent_lines import RecentLines
from nbdist.store import RunDirectory, RunReader

# bytes of the logs of all ranks
_LOOK_BYTES = 512 * 1024
_FAR = 2 * 1024 * 1024  # more that waits is passed over, and can be pulled
_KEPT = 1024 * 1024
_ENDS = _LOOK_BYTES // 2  # what a look begins with where it passes over the rest: it then gets to the end
_LEAST = 16 * 1024
_MANY_RANKS = 16  # above, a view is made once a second
_VIEW_PERIOD = 1.0


class RankTail:
    """The end of one rank's log: what was written lately is in memory, what came before can be read."""

    def __init__(self, rank: int, directory: RunDirectory, *, created: float, room: int) -> None:
        self.rank = rank
        self.recent = RecentLines(rank, room)
        self.last_line = ""
        self.behind = False
        """Whether more was waiting than the last look took."""
        self.history = RankHistory(rank, directory, created=created)
        self._follower = self.history.follower(self.history.parts[0], 0, 0)

    @property
    def waiting(self) -> int:
        return self._follower.waiting

    def begin(self, attempt: int) -> None:
        """Read this attempt's log from its start on; what came before is history."""
        self.history.reach(attempt)
        part = self.history.parts[-1]
        self._follower = self.history.follower(part, 0, part.base)
        self.recent.begin(part.base)

    def skip(self, keep: int) -> None:
        """Go on about ``keep`` bytes before the end."""
        if self.waiting <= keep:
            return
        part = self.history.parts[-1]
        offset, number = part.lines.near(self._follower.offset + self.waiting - keep)
        if offset > self._follower.offset:
            self._follower = self.history.follower(part, offset, part.base + number)
            self.recent.begin(part.base + number)

    def go_on(self, attempt: int, moment: float) -> list[LogDelta]:
        """The next attempt has begun: the rest of the last log, and a line that parts the two. When there
        was an attempt between them, it is history."""
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
                self._measures.look(run, [], self._clock())
                self._make_view(run, self._measures)
            return run

    def look(self) -> bool:
        """Read what is new. False when the run is gone, or cannot be read any more."""
        with self.lock:
            run = self._look_at_run()
            if run is None or self._measures is None:
                return False
            now = self._clock()
            deltas, behind = self._read_logs(run, now if run.ended is None else min(now, run.ended))
            self._measures.look(run, deltas, now)
            self._make_view(run, self._measures)
            self.done = run.state.terminal and not behind and not self._measures.behind
            return True

    def lines(self, rank: int, first: int, count: int, room: int) -> list[LogChunk]:
        """Lines from disk: up to ``count`` from ``first`` on, in about ``room`` bytes; none when there are
        no such lines, or no such rank."""
        with self.lock:
            if rank not in self.ranks or self.run is None:
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

    def _begin_attempt(self, run: Run, moment: float) -> list[LogDelta]:
        self._attempt = run.attempt
        if self.ranks:
            return [delta for tail in self.ranks.values() for delta in tail.go_on(run.attempt, moment)]
        room = max(_LEAST, _KEPT // max(1, len(run.ranks)))
        for rank in run.ranks:
            tail = RankTail(rank.rank, self.directory, created=run.spec.created, room=room)
            tail.begin(run.attempt)
            tail.skip(max(_LEAST, _ENDS // max(1, len(run.ranks))))
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
        )
