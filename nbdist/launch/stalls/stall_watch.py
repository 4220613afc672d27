"""Tells a run that has stalled from one that works without a word.

Whatever a rank writes, logs, computes or moves counts: CPU seconds of its whole process tree, so that a
compiler or a DataLoader worker counts, and bytes read and written, so that a slow download does. What a
rank that waits uses all the same, for its heartbeats and our looks at it, does not; nor what it uses to
wait at full speed (``SpinWatch``).

A rank that waits for its GPU, or in NCCL, keeps a core busy; that it computes says nothing then. Once a run
has been without a word for the limit, the stacks of its ranks are looked at now and then. It hangs when no
rank has moved for the limit again, and one of them waits: it is in a call that waits, and it is known that
this has not come back. A line alone does not prove that, a loop comes back to it. The number of a collective
that is not over does, or that the rank does not compute at all, or that its main thread spins and has
executed no Python since. A rank that looks for the others' store waits, too.

A rank that computes elsewhere works: until it has been in one call, in all its threads, for several times
the limit, without a new page of memory, a byte moved or a child that computes, while the others wait.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbdist.processes import PROC
from nbdist.store.reports import Call, RankAnswer, TakenStacks, ThreadStack

_SEP = os.sep
_COLLECTIVES = (
    f"{_SEP}torch{_SEP}distributed{_SEP}",
    f"{_SEP}paddle{_SEP}distributed{_SEP}",
    f"{_SEP}torch{_SEP}nn{_SEP}parallel{_SEP}distributed.py",
    f"{_SEP}torch{_SEP}nn{_SEP}modules{_SEP}_functions.py",
)
_RENDEZVOUS = f"{_SEP}torch{_SEP}distributed{_SEP}rendezvous.py"
_DEVICES = (f"{_SEP}torch{_SEP}cuda{_SEP}", f"{_SEP}paddle{_SEP}device{_SEP}")
_BACKWARD = re.compile("backward")
_SYNCHRONISES = re.compile(
    r"\.\s*(?:item|tolist|cpu|numpy|synchronize|wait|backward|barrier|all_?reduce|all_?gather|broadcast)\s*\("
    # a tensor that is asked for its truth, its number or its text is waited for
    r"|\b(?:float|int|bool|print|str|repr)\s*\("
    r"|^\s*(?:if|elif|while|assert)\b"
)
_LINE_ROOM = 1 << 16


def waits(calls: Sequence[Call]) -> bool:
    """Whether the innermost of these calls is one in which a rank may wait for others, or for its device, on
    which it may wait for others. A coarse look; ``diagnosis.places`` finds the words for it."""
    if not calls:
        return False
    inner = calls[0]
    if any(package in inner.file for package in (*_COLLECTIVES, *_DEVICES)):
        return True
    return bool(_BACKWARD.search(inner.function) or _SYNCHRONISES.search(_line(inner)))


def _line(call: Call) -> str:
    """The source of a line; empty where it cannot be read."""
    try:
        with open(call.file, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                if number == call.line:
                    return line[:_LINE_ROOM]
    except (OSError, ValueError):
        pass
    return ""


_LOOKS = 6
"""Looks within the limit while nothing moves; while something does, one."""

_LONG_CALL = 9
"""How many times the limit a rank may compute in one call of native code while the others wait."""

_LEAST_GAP = 0.5
_UNEVEN = 0.618
"""Looks at one distance would meet a loop always at the same place."""

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
    pending_on_device: bool


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
        # any line may wait for a device that waits for others, and executes no Python meanwhile
        if track.pending_on_device and in_call:
            return True
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
        pending=_looks_for_others(main) or any(not one.over for one in answer.collectives.values()),
        pending_on_device=any(one.on_device and not one.over for one in answer.collectives.values()),
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
    if not here or after.numbers != before.numbers or _computes(before.use, after.use):
        return False
    # a rank that looks for a store where none is reads the table of hosts at each try
    return _looks_for_others(main) or not _moves(before.use, after.use)


def _looks_for_others(main: Sequence[Call]) -> bool:
    """Whether a rank is in ``init_process_group``, before it has met the others."""
    return bool(main) and main[0].file.endswith(_RENDEZVOUS)


def _main_share(before: _Use, after: _Use) -> float:
    own = after.own - before.own
    return (after.main - before.main) / own if own > 0 else 1.0


def _computes(before: _Use, after: _Use) -> bool:
    """Whether a child has computed."""
    seconds = max(0.0, after.time - before.time)
    return after.others - before.others > _LEAST_CPU + _IDLE_CPU * seconds


def _moves(before: _Use, after: _Use) -> bool:
    seconds = max(0.0, after.time - before.time)
    return abs(after.moved - before.moved) > _LEAST_BYTES + _IDLE_BYTES * seconds


def _allocates(before: _Use, after: _Use) -> bool:
    seconds = max(0.0, after.time - before.time)
    return after.pages - before.pages > _LEAST_PAGES + _IDLE_PAGES * seconds


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
        self.wants_look = False
        """After ``judge``: whether it is time to see where the ranks are, in ``took``."""

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
        self.wants_look = not idle and self._looks_soon(now)
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
