"""Tells a run that has stalled from one that works without a word.

Whatever a rank writes, logs, computes or moves counts: CPU seconds of its whole process tree, so that a
compiler or a DataLoader worker counts, and bytes read and written, so that a slow download does. What a
rank that waits uses all the same, for its heartbeats and our looks at it, does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from nbdist.processes import PROC

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
        self._ticked: float | None = None
        self._pardoned = False
        self.stalled = False

    @property
    def period(self) -> float:
        """Seconds between two looks that are enough."""
        return max(_LEAST_PERIOD, self._limit * _QUIET_SHARE)

    @property
    def active(self) -> float:
        """When something last happened."""
        return self._active or 0.0

    def did(self, now: float) -> None:
        """A rank has started, written or exited."""
        self._active = now

    def tick(self, now: float) -> None:
        """Time goes by, a little at each call."""
        if self._ticked is None or now - self._ticked > _GAP:
            self._active = now
        self._ticked = now

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

    def judge(self, now: float) -> bool:
        """After a look at every rank: whether that has changed whether the run is stalled."""
        self._pardoned = False
        if self._active is None:
            self._active = now
        quiet = now - self._active >= self._limit
        stalled = quiet and all(mark.compared for mark in self._marks.values())
        changed, self.stalled = stalled != self.stalled, stalled
        return changed

    def remove(self, rank: int) -> None:
        self._marks.pop(rank, None)

    def _moves(self, mark: _Mark, moved: int | None, quiet: float) -> bool:
        if moved is None or mark.moved is None:
            return False
        return moved - mark.moved > _LEAST_BYTES + _IDLE_BYTES * quiet

    def _moved(self, pids: Iterable[int]) -> int:
        """Bytes that these processes have read and written."""
        return sum(map(self._moved_by, pids))

    def _moved_by(self, pid: int) -> int:
        try:
            handle = os.open(f"{self._proc}/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
            try:
                first, second = os.read(handle, 256).split(b"\n")[:2]
            finally:
                os.close(handle)
            return int(first.split()[1]) + int(second.split()[1])
        except (OSError, ValueError, IndexError):
            return 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
