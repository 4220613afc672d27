"""Read a run's directory: once for the server, ten times a second for a surface until the run has ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from nbdist.diagnosis.silent import MistakeReader
from nbdist.errors import UnknownRun
from nbdist.feed.given import ResultsWatch
from nbdist.feed.measures import FailureWatch, Measures
from nbdist.feed.profile import read_profile
from nbdist.feed.rank_log import LOOK_BYTES, LogDelta, Logs
from nbdist.feed.stalling import StallReader
from nbdist.feed.view import RankUsage, RunView, UsageWatch, view_of
from nbdist.model import Run, RunState
from nbdist.store import RunDirectory, RunReader

_PERIOD = 0.1
_LEAST_WAIT = 0.02
_END_PERIOD, _END = 0.025, 0.5
_USAGE_PERIOD = 2.0
_MANY_RANKS = 16  # with more, a view is made once a second
_VIEW_PERIOD = 1.0
_ROOM = 16 * 1024 * 1024
NO_USAGE: Mapping[int, RankUsage] = {}


class Surface(Protocol):
    """A view of a run while it goes on."""

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        """Show what is new. ``deltas`` is empty when no rank wrote anything."""


class RunFeed:
    """All that is read of one run, for any surface. ``room`` as in ``Logs``."""

    def __init__(
        self,
        directory: RunDirectory,
        *,
        room: int | None,
        measures: Measures | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.measures = measures or Measures(directory)
        self.directory = directory
        self.logs = Logs(directory, room)
        self.clock = clock
        self._reader = RunReader(directory, clock=clock)
        self._failures = FailureWatch(directory)
        self._stalls = StallReader(directory)
        self._results = ResultsWatch(directory)
        self._mistakes = MistakeReader(directory)
        self._run: Run | None = None
        self._made = 0.0
        self._view: RunView | None = None

    def run(self) -> Run | None:
        """Return the run; None when it cannot be read."""
        return self._reader.look()

    def read(self, run: Run, now: float, *, last: bool = False, budget: int = LOOK_BYTES) -> list[LogDelta]:
        """Take new lines and points."""
        deltas = self.lines(run, now, last=last, budget=budget)
        self.measures.look(run, deltas, now)
        return deltas

    def lines(self, run: Run, now: float, *, last: bool = False, budget: int = LOOK_BYTES) -> list[LogDelta]:
        """Take new lines alone; ``measures`` have yet to look at them."""
        moment = now if run.ended is None else min(now, run.ended)
        return self.logs.look(run, moment, last=last, budget=budget)

    def view(self, run: Run, now: float, usage: Mapping[int, RankUsage] = NO_USAGE) -> RunView:
        """Return the view of the run; with many ranks, the same one for a while."""
        unchanged = run is self._run and 0 <= now - self._made < _VIEW_PERIOD
        if self._view is not None and unchanged and len(run.ranks) > _MANY_RANKS:
            return self._view
        self._run, self._made = run, now
        self._view = view_of(
            run,
            now=now,
            usage=usage,
            last_lines=self.logs.last_lines,
            system=self.measures.system,
            rates=self.measures.rates(now),
            progress=self.measures.progress(now),
            failure=self._failures.look(run),
            stall=self._stalls.look(run),
            slow=self.measures.slow(run, now),
            training=self.measures.training,
            profile=read_profile(self.directory),
            results=self._results.look(run, now),
            importing=None if any(self.logs.last_lines.values()) else self._importing(run, now),
            mistakes=self._mistakes.look(run),
        )
        return self._view

    def _importing(self, run: Run, now: float) -> tuple[str, float] | None:
        """Return the framework that a rank imports, and for how many seconds; None for none."""
        for rank in run.ranks if run.state is RunState.RUNNING else ():
            file = self.directory.rank(rank.rank, run.attempt).importing
            with contextlib.suppress(OSError, UnicodeDecodeError):
                return file.read_text(), now - file.stat().st_mtime
        return None


def follow(
    directory: RunDirectory,
    surface: Surface,
    *,
    watch: UsageWatch | None = None,
    measures: Measures | None = None,
    local_ranks: Collection[int] | None = None,
    whole: bool = False,
    room: int = _ROOM,
    finish: bool = True,
    budget: Callable[[], int | None] = lambda: None,
    attend: Callable[[Run], object] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Run:
    """Show the run on ``surface`` until it has ended; return it. ``watch`` measures what the ranks use,
    ``measures`` reads what they log. Lines are those of ``local_ranks`` (None: all ranks). ``whole`` shows
    every line at full speed; otherwise a look shows a few megabytes, and skips ahead where more than
    ``room`` bytes wait. Without ``finish``, of what waits at the run's end only the last part is shown.
    ``budget`` returns the bytes that the surface can take now (None: the usual). ``attend`` gets the run
    at each look, to run its local helpers. ``wait`` is called with the seconds between two looks (with
    ``whole``, only once all lines were shown). Raises UnknownRun when the run's directory disappears."""
    watch = watch or UsageWatch()
    feed = RunFeed(directory, room=None if whole else room, measures=measures, clock=clock)
    usage = NO_USAGE
    looked = 0.0
    while True:
        run, now = feed.run(), clock()
        if run is None:
            raise UnknownRun(f"the directory of run {directory.run_id} was deleted or cannot be read")
        attend(run)
        ended = run.state.terminal
        last = ended and not finish
        room_now = budget()
        most = LOOK_BYTES if last or room_now is None else min(LOOK_BYTES, room_now)
        deltas = feed.read(run, now, last=last, budget=most)
        if not ended and now - looked >= _USAGE_PERIOD and feed.measures.needs(run):
            looked, usage = now, watch.look(run)
        shown = {r.rank for r in run.spec.ranks if local_ranks is None or r.local_rank in local_ranks}
        surface.update(feed.view(run, now, usage), [delta for delta in deltas if delta.rank in shown])
        behind = feed.logs.behind or (finish and feed.measures.behind)
        if ended and not behind:
            return run
        if not (whole and behind):
            # subtract the time that reading took
            spent = max(0.0, clock() - now) if behind else 0.0
            wait(max(_LEAST_WAIT, (_END_PERIOD if _ends(run, now) else _PERIOD) - spent))


def _ends(run: Run, now: float) -> bool:
    """Return whether every rank has just finished its program: the run is over in a moment."""
    return all(rank.finished is not None and now - rank.finished < _END for rank in run.ranks)
