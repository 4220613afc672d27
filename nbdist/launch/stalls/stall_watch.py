"""Tells a run that has stalled from one that works without a word.

Whatever a rank writes, logs, computes or moves counts: CPU seconds of its whole process tree, so that a
compiler or a DataLoader worker counts, and bytes read and written, so that a slow download does. What a
rank that waits uses all the same, for its heartbeats and our looks at it, does not; nor what it uses to
wait at full speed (``spin_watch``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from nbdist.launch.stalls.spin_watch import SpinWatch, moved_by
from nbdist.processes import PROC
from nbdist.store.stacks import TakenStacks

_LEAST_CPU = 0.05
_IDLE_CPU = 0.02
"""Seconds, and seconds a second, that a tree of processes may compute and still count as idle."""

_ANSWER_CPU = 0.1
"""Seconds that it takes a rank at most to answer when it is asked where it is."""

_LEAST_BYTES = 64 << 10
_IDLE_BYTES = 8 << 10
"""Bytes, and bytes a second, that it may move."""

_QUIET_SHARE = 0.25
"""The part of the limit after which bytes are looked at: it takes a file of /proc for each process."""

_LEAST_PERIOD = 0.5

_GAP = 5.0
"""Seconds without a tick after which nothing is known: the machine slept, or we were stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stillness:
    """For how many seconds nothing at all has happened on a machine (``idle``), and no rank of it has moved
    (``still``), whatever it computes; ``waits``: one of these is known to wait."""

    idle: float = 0.0
    still: float = 0.0
    waits: bool = False


@dataclass(slots=True)
class _Mark:
    """What a rank had used when it last was seen to do something."""

    time: float
    cpu: float = 0.0
    moved: int | None = None
    logged: int = 0
    known: bool = False
    compared: bool = False
    """Whether it has been seen that it moves nothing."""


class StallWatch:
    """Watches one attempt. ``limit`` is in seconds, all times are monotonic seconds."""

    def __init__(self, limit: float, *, proc: str = str(PROC)) -> None:
        self._limit = limit
        self._proc = proc
        self._marks: dict[int, _Mark] = {}
        self._active: float | None = None
        self._spoke: float | None = None
        self._ticked: float | None = None
        self._pardoned = False
        self._spins = SpinWatch(limit, proc=proc)
        self._since = 0.0
        self._wants_look = False
        self.stalled = False

    @property
    def period(self) -> float:
        """Seconds between two looks that are enough."""
        return max(_LEAST_PERIOD, self._limit * _QUIET_SHARE)

    @property
    def active(self) -> float:
        """When something last happened."""
        return self._since if self.stalled else self._active or 0.0

    def quiet(self, now: float) -> float:
        """Seconds since something last happened; 0 while that is not known."""
        return 0.0 if self._active is None else now - self.active

    @property
    def wants_look(self) -> bool:
        """After ``judge``: whether it is time to see where the ranks are, in ``took``."""
        return self._wants_look

    def add(self, rank: int, pid: int) -> None:
        """A rank, and its process."""
        self._spins.add(rank, pid)

    def did(self, now: float) -> None:
        """A rank has started, written or exited."""
        self._active = self._spoke = now
        self._spins.forget()

    def tick(self, now: float) -> None:
        """Time goes by, a little at each call."""
        if self._ticked is None or now - self._ticked > _GAP:
            self.did(now)
        self._ticked = now

    def took(self, taken: TakenStacks, now: float) -> None:
        """Where the ranks are now."""
        if self._is_silent(now):
            self._spins.took(taken, now)

    def pardon(self) -> None:
        """What the ranks compute until the next look is our doing: they answer us."""
        self._pardoned = True

    def saw(self, rank: int, cpu: float, pids: Iterable[int], metrics: str, now: float) -> None:
        """A look at a rank: seconds that its processes have computed, the processes, its file of metrics."""
        mark = self._marks.setdefault(rank, _Mark(now))
        logged = _size(metrics)
        quiet = now - mark.time
        moved = self._moved(pids) if quiet >= self._limit * _QUIET_SHARE else None
        pardoned = _ANSWER_CPU if self._pardoned else 0.0
        if mark.known and logged != mark.logged:
            self.did(now)
        elif self._looks_soon(now):
            self._spins.used(rank, cpu, pids, now)
        works = cpu - mark.cpu > _LEAST_CPU + _IDLE_CPU * quiet + pardoned
        if works or logged != mark.logged or not mark.known or self._moves(mark, moved, quiet):
            self._marks[rank] = _Mark(now, cpu, moved, logged, known=True)
            self._active = now
        else:
            mark.cpu += min(pardoned, max(0.0, cpu - mark.cpu))
        if mark.moved is None:
            mark.moved = moved
        else:
            mark.compared = True

    def judge(self, now: float, elsewhere: Iterable[Stillness] = ()) -> bool:
        """After a look at every rank: whether that has changed whether the run is stalled, which takes the
        other machines of the run, too."""
        self._pardoned = False
        if self._active is None:
            self._active = now
        all_of_them = (self.stillness(now), *elsewhere)
        idle = all(one.idle >= self._limit for one in all_of_them)
        still = all(max(one.idle, one.still) >= self._limit for one in all_of_them)
        self._wants_look = not idle and self._looks_soon(now)
        stalled = idle or (still and any(one.waits for one in all_of_them))
        self._since = now - min(one.idle if idle else max(one.idle, one.still) for one in all_of_them)
        changed, self.stalled = stalled != self.stalled, stalled
        return changed

    def stillness(self, now: float) -> Stillness:
        """For how long nothing has happened here; 0 while that is not certain."""
        quiet = 0.0 if self._active is None else now - self._active
        certain = quiet < self._limit or all(mark.compared for mark in self._marks.values())
        since = self._spins.still_since(lambda rank: self._is_idle(rank, now))
        return Stillness(
            idle=quiet if certain else 0.0,
            still=0.0 if since is None else now - since,
            waits=self._spins.waits,
        )

    def _is_silent(self, now: float) -> bool:
        return self._spoke is not None and now - self._spoke >= self._limit

    def _looks_soon(self, now: float) -> bool:
        return self._is_silent(now) and self._spins.is_due(now)

    def _is_idle(self, rank: int, now: float) -> bool:
        """Whether it has done nothing at all for the limit."""
        mark = self._marks.get(rank)
        return mark is not None and mark.compared and now - mark.time >= self._limit

    def remove(self, rank: int) -> None:
        self._marks.pop(rank, None)
        self._spins.remove(rank)

    def _moves(self, mark: _Mark, moved: int | None, quiet: float) -> bool:
        if moved is None or mark.moved is None:
            return False
        return moved - mark.moved > _LEAST_BYTES + _IDLE_BYTES * quiet

    def _moved(self, pids: Iterable[int]) -> int:
        """Bytes that these processes have read and written."""
        return sum(moved_by(self._proc, pid) for pid in pids)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
