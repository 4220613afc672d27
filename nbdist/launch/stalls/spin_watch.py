"""Tells ranks that wait for others at full speed from ranks that compute.

A rank that waits for its GPU, or in NCCL, keeps a core busy; that it computes says nothing then. Once a run
has been without a word for the limit, the stacks of its ranks are looked at now and then. It hangs when no
rank has moved for the limit again, and one of them waits: it is in a call that waits, and it is known that
this has not come back. A line alone does not prove that, a loop comes back to it. The number of a collective
that is not over does, or that the rank does not compute at all, or that its main thread spins and has
executed no Python since.

A rank that computes elsewhere works: until it has been in one call, in all its threads, for several times
the limit, without a new page of memory, a byte moved or a child that computes, while the others wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nbdist.launch.stalls.waiting_calls import waits
from nbdist.processes import PROC
from nbdist.store.stacks import RankAnswer, TakenStacks, ThreadStack

_LOOKS = 6
"""Looks within the limit while nothing moves; while something does, one."""

_LONG_CALL = 9
"""How many times the limit a rank may compute in one call of native code while the others wait."""

_LEAST_GAP = 0.5
_UNEVEN = 0.618
"""Looks at one distance would meet a loop always at the same place."""

_LEAST_CPU, _IDLE_CPU = 0.05, 0.02
_LEAST_BYTES, _IDLE_BYTES = 64 << 10, 8 << 10
_LEAST_PAGES, _IDLE_PAGES = 200, 20
"""Of the children's CPU (seconds), of what is moved, and of new pages: what counts as nothing, and what a
second does."""

_MAIN_SHARE = 0.25
_ALONE = 0.8
"""What of a process's CPU its main thread uses when it spins (beside the threads of NCCL), and when nothing
else computes."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Use:
    """What the processes of a rank had used at a moment: CPU seconds of the first one, of its main thread,
    and of all ``others``."""

    time: float
    own: float
    main: float
    others: float
    moved: int
    pages: int


@dataclass(slots=True)
class _Track:
    """A rank as it was seen last, and since when it has been so: ``since`` its main thread and its
    collectives, ``in_call_since`` with a main thread that computes and executes no Python, ``wholly_since``
    that and all its threads, of which no other computes, without a new page."""

    threads: tuple[ThreadStack, ...]
    numbers: tuple[object, ...]
    use: _Use
    since: float
    in_call_since: float
    wholly_since: float
    seen: float
    beats: int | None
    awaits: bool
    pending: bool


class SpinWatch:
    """Watches the ranks of one attempt on this machine. All times are monotonic seconds."""

    def __init__(self, limit: float, *, proc: str = str(PROC)) -> None:
        self._limit = limit
        self._proc = proc
        self._roots: dict[int, int] = {}
        self._uses: dict[int, _Use] = {}
        self._tracks: dict[int, _Track] = {}
        self._due = 0.0
        self._turn = 0.0
        self._slowness = 1.0
        self.waits = False
        """Whether one of the ranks, none of which has moved, is known to wait."""

    def add(self, rank: int, pid: int) -> None:
        self._roots[rank] = pid

    def remove(self, rank: int) -> None:
        for known in (self._roots, self._uses, self._tracks):
            known.pop(rank, None)

    def forget(self) -> None:
        """A rank has said something: all begins anew."""
        self._tracks.clear()
        self._slowness = 1.0
        self.waits = False

    def is_due(self, now: float) -> bool:
        """Whether it is time for another look, of a run that has said nothing for the limit."""
        return bool(self._roots) and now >= self._due

    def used(self, rank: int, cpu: float, pids: Iterable[int], now: float) -> None:
        """Before a look: the CPU seconds of a rank's processes, and the processes."""
        root = self._roots.get(rank)
        if root is None:
            return
        own, pages = self._own(f"{root}")
        main, _ = self._own(f"{root}/task/{root}")
        moved = sum(moved_by(self._proc, pid) for pid in pids)
        self._uses[rank] = _Use(now, own, main, cpu - own, moved, pages)

    def took(self, taken: TakenStacks, now: float) -> None:
        """The look: the stacks as they are now."""
        moves = False
        for answer in taken.ranks:
            use = self._uses.pop(answer.rank, None)
            if use is None or answer.rank not in self._roots:
                continue
            before = self._tracks.get(answer.rank)
            self._tracks[answer.rank] = track = _tracked(answer, use, before, now)
            moves |= before is not None and track.since == now
        self._slowness = min(_LOOKS, 2 * self._slowness) if moves else 1.0
        self._turn = (self._turn + _UNEVEN) % 1
        gap = self._slowness * self._limit / _LOOKS * (0.7 + 0.6 * self._turn)
        self._due = now + max(_LEAST_GAP, gap)

    def still_since(self, idle: Callable[[int], bool]) -> float | None:
        """Since when no rank here moves; None while one does. ``idle``: whether a rank has done nothing at
        all for the limit. ``waits`` says whether one of them is known to wait."""
        self.waits = False
        if not self._roots or self._tracks.keys() != self._roots.keys():
            return None
        self.waits = any(self._proves(track, idle=idle(rank)) for rank, track in self._tracks.items())
        if not all(self._is_still(rank, idle(rank)) for rank in self._tracks):
            return None
        return max(track.since for track in self._tracks.values())

    def _is_still(self, rank: int, idle: bool) -> bool:
        track = self._tracks[rank]
        if idle or self._proves(track, idle=idle):
            return track.seen - track.since >= self._limit
        return track.seen - track.wholly_since >= _LONG_CALL * self._limit

    def _proves(self, track: _Track, *, idle: bool) -> bool:
        """Whether the rank is known to wait in a call that does not come back."""
        in_call = track.seen - track.in_call_since >= self._limit
        return track.awaits and (track.pending or idle or in_call)

    def _own(self, what: str) -> tuple[float, int]:
        """The CPU seconds of a process without its children, or of a thread, and how many pages it was given
        (proc(5))."""
        try:
            with open(f"{self._proc}/{what}/stat", "rb") as file:
                fields = file.read(1024).rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[7]) + int(fields[9])
        except (OSError, ValueError, IndexError):
            return 0.0, 0


def moved_by(proc: str, pid: int) -> int:
    """Bytes that a process has read and written; 0 where that is not known."""
    try:
        handle = os.open(f"{proc}/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
        try:
            first, second = os.read(handle, 256).split(b"\n")[:2]
        finally:
            os.close(handle)
        return int(first.split()[1]) + int(second.split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _tracked(answer: RankAnswer, use: _Use, before: _Track | None, now: float) -> _Track:
    threads = answer.threads
    main = threads[0].calls if threads else ()
    track = _Track(
        threads=threads,
        numbers=tuple(
            (group, one.number, one.over, one.last) for group, one in sorted(answer.collectives.items())
        ),
        use=use,
        since=now,
        in_call_since=now,
        wholly_since=now,
        seen=now,
        beats=answer.beats,
        awaits=waits(main),
        pending=any(not one.over for one in answer.collectives.values()),
    )
    if before is None or not _is_where_it_was(before, track):
        return track
    track.since = before.since
    share = _main_share(before.use, use)
    if track.beats is not None and track.beats == before.beats and share >= _MAIN_SHARE:
        track.in_call_since = before.in_call_since
        if threads == before.threads and share >= _ALONE and not _allocates(before.use, use):
            track.wholly_since = before.wholly_since
    return track


def _is_where_it_was(before: _Track, after: _Track) -> bool:
    main = after.threads[0].calls if after.threads else ()
    here = bool(main) and main == before.threads[0].calls
    return here and after.numbers == before.numbers and not _works(before.use, after.use)


def _main_share(before: _Use, after: _Use) -> float:
    own = after.own - before.own
    return (after.main - before.main) / own if own > 0 else 1.0


def _works(before: _Use, after: _Use) -> bool:
    """Whether a child has computed, or something was moved."""
    seconds = max(0.0, after.time - before.time)
    computed = after.others - before.others > _LEAST_CPU + _IDLE_CPU * seconds
    return computed or abs(after.moved - before.moved) > _LEAST_BYTES + _IDLE_BYTES * seconds


def _allocates(before: _Use, after: _Use) -> bool:
    seconds = max(0.0, after.time - before.time)
    return after.pages - before.pages > _LEAST_PAGES + _IDLE_PAGES * seconds
