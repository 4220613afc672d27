"""Follows a run until it ends: reads its directory ten times a second and feeds a surface."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from nbdist.errors import UnknownRun
from nbdist.feed.measures import FailureWatch, Measures
from nbdist.feed.rank_log import LOOK_BYTES, LogDelta, Logs
from nbdist.feed.stalling import StallReader
from nbdist.feed.usage import RankUsage, UsageWatch
from nbdist.feed.view import RunView, view_of
from nbdist.model import Run, RunSpec
from nbdist.store import RunDirectory, RunReader

_PERIOD = 0.1
_LEAST_WAIT = 0.02
_END_PERIOD, _END = 0.025, 0.5
_USAGE_PERIOD = 2.0
_MANY_RANKS = 16  # above, a view is made once a second
_VIEW_PERIOD = 1.0
_ROOM = 16 * 1024 * 1024


class Surface(Protocol):
    """Something that shows a run while it goes on."""

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        """Show what is new. ``deltas`` is empty when no rank wrote anything."""


def follow(
    directory: RunDirectory,
    surface: Surface,
    *,
    watch: UsageWatch | None = None,
    measures: Measures | None = None,
    whole: bool = False,
    room: int = _ROOM,
    finish: bool = True,
    bite: Callable[[], int | None] = lambda: None,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Run:
    """Show the run on ``surface`` until it has ended; how it ended.

    ``watch`` looks at what the ranks use, ``measures`` at what they log. ``whole`` shows every line, as
    fast as that goes; otherwise a few megabytes a look, and a run that is more than ``room`` bytes ahead
    of what was shown is skipped ahead. Without ``finish`` what is still waiting when the run ends is not
    shown, but for its end. ``bite`` tells how many bytes the surface has room for now, None for the usual.
    ``wait`` is called with the seconds to wait between two looks (with ``whole``,
    only when all that was written has been shown). Raises UnknownRun when the run's directory disappears.
    """
    watch = watch or UsageWatch()
    reader = RunReader(directory, clock=clock)
    logs = Logs(directory, None if whole else room)
    measures = measures or Measures(directory)
    failures = FailureWatch(directory)
    stalls = StallReader(directory)
    views = _Views()
    usage: Mapping[int, RankUsage] = {}
    looked = 0.0
    while True:
        run, now = reader.look(), clock()
        if run is None:
            raise UnknownRun(f"the directory of run {directory.run_id} was deleted or cannot be read")
        ended = run.state.terminal
        moment = now if run.ended is None else min(now, run.ended)
        last = ended and not finish
        room_now = bite()
        most = LOOK_BYTES if last or room_now is None else min(LOOK_BYTES, room_now)
        deltas = logs.look(run, moment, last=last, bite=most)
        measures.look(run, deltas, now)
        if not ended and now - looked >= _USAGE_PERIOD and measures.needs(run):
            looked, usage = now, watch.look(run)
        view = views.of(run, now, usage=usage, logs=logs, measures=measures, failures=failures, stalls=stalls)
        surface.update(view, deltas)
        behind = logs.behind or (finish and measures.behind)
        if ended and not behind:
            return run
        if not (whole and behind):
            # what takes long to read is not to be waited for besides
            spent = max(0.0, clock() - now) if behind else 0.0
            wait(max(_LEAST_WAIT, (_END_PERIOD if _ends(run, now) else _PERIOD) - spent))


def _ends(run: Run, now: float) -> bool:
    """Whether the last statement of every rank is done, and that just now: the run is over in a moment."""
    finished = [rank.finished for rank in run.ranks]
    return all(done is not None and now - done < _END for done in finished)


class _Views:
    """The view of a run at each look; where the ranks are many, the same one for a while."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._made = 0.0
        self._view: RunView | None = None

    def of(
        self,
        run: Run,
        now: float,
        *,
        usage: Mapping[int, RankUsage],
        logs: Logs,
        measures: Measures,
        failures: FailureWatch,
        stalls: StallReader,
    ) -> RunView:
        unchanged = run is self._run and 0 <= now - self._made < _VIEW_PERIOD
        if self._view is not None and unchanged and len(run.ranks) > _MANY_RANKS:
            return self._view
        self._run, self._made = run, now
        self._view = view_of(
            run,
            now=now,
            usage=usage,
            last_lines=logs.last_lines,
            system=measures.system,
            rates=measures.rates(now),
            progress=measures.progress(now),
            failure=failures.look(run),
            stall=stalls.look(run),
            slow=measures.slow(run, now),
        )
        return self._view


class _OnlyRanks:
    def __init__(self, surface: Surface, ranks: frozenset[int]) -> None:
        self._surface = surface
        self._ranks = ranks

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        self._surface.update(view, [delta for delta in deltas if delta.rank in self._ranks])


def only_ranks(surface: Surface, spec: RunSpec, local_ranks: Collection[int] | None) -> Surface:
    """``surface``, for the lines of these local ranks of a run; of all where they are None."""
    if local_ranks is None:
        return surface
    return _OnlyRanks(surface, frozenset(r.rank for r in spec.ranks if r.local_rank in local_ranks))
