"""Difference between a run that has stalled and one that works silently.

Output, metrics, CPU seconds of the process tree (a compiler, a DataLoader worker) and bytes read or written
(a slow download) count as work; a waiting rank's heartbeats, answers and spins (``SpinWatch``) do not.

A rank that waits for its GPU, or in NCCL, keeps a core busy. So once a run has been silent for the limit, the
supervisor samples the stacks of its ranks. The run hangs when no rank has moved for the limit again, and one
is in a waiting call that does not return. The line alone is no proof, since a loop returns to it. Proof is a
collective that is not over, a rank that does not compute at all, a main thread that spins without Python, or
a search for the others' store.

A rank that computes elsewhere works, until it has been in one call, in all its threads, for several times the
limit, without a new page of memory, a byte moved or a computing child, while the others wait.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbdist.processes import PROC, read_at_once, stat_fields
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
_SYNCHRONISES = re.compile(
    r"\.\s*(?:item|tolist|cpu|numpy|synchronize|wait|backward|barrier|all_?reduce|all_?gather|broadcast)\s*\("
    # the truth, the number and the text of a tensor wait for it
    r"|\b(?:float|int|bool|print|str|repr)\s*\("
    r"|^\s*(?:if|elif|while|assert)\b"
)
_LINE_ROOM = 1 << 16


def waits(calls: Sequence[Call]) -> bool:
    """Return whether a rank may wait for others or its device in the innermost call; ``diagnosis`` knows
    more."""
    if not calls:
        return False
    inner = calls[0]
    if any(package in inner.file for package in (*_COLLECTIVES, *_DEVICES)):
        return True
    line = linecache.getline(inner.file, inner.line)[:_LINE_ROOM]
    return "backward" in inner.function or bool(_SYNCHRONISES.search(line))


_LOOKS = 6
"""Looks per limit while nothing moves; otherwise one."""

_LONG_CALL = 9
"""Limits for which a rank may compute in one native call while the others wait."""

_LEAST_GAP = 0.5
_UNEVEN = 0.618
"""The variation of gaps: looks at regular ones may always meet a loop at the same place."""

# the amounts of each that count as nothing, at once and per second
_CPU = 0.05, 0.02
_BYTES = 64 << 10, 8 << 10
_PAGES = 200, 20

_MAIN_SHARE = 0.25
_ALONE = 0.8
"""The main thread's shares of CPU when it spins beside NCCL's threads, and when only it computes."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Use:
    """CPU seconds of a rank, its main thread and its ``others``; bytes ``moved`` and new ``pages`` of all."""

    time: float
    own: float
    main: float
    others: float
    moved: int
    pages: int


@dataclass(slots=True)
class _Track:
    """A rank at its last look, and the begin of that state: ``since`` for its main thread and collectives,
    ``in_call_since`` with a main thread that computes without Python, ``wholly_since`` with all threads as
    they are, no other one computing, and no new page."""

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
    """The watch for spinning ranks of one attempt on this machine. All times are monotonic seconds."""

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
        """True if no rank has moved and one is known to wait."""

    def add(self, rank: int, pid: int) -> None:
        self._roots[rank] = pid

    def remove(self, rank: int) -> None:
        for known in (self._roots, self._uses, self._tracks):
            known.pop(rank, None)

    def forget(self) -> None:
        """Begin anew after a sign of life."""
        self._tracks.clear()
        self._slowness = 1.0
        self.waits = False

    def is_due(self, now: float) -> bool:
        """Return whether it is time for the next look at a silent run."""
        return bool(self._roots) and now >= self._due

    def used(self, rank: int, cpu: float, pids: Iterable[int], now: float) -> None:
        """Note the CPU seconds of a rank's processes before a look."""
        root = self._roots.get(rank)
        if root is None:
            return
        own, pages = self._own(f"{root}")
        main, _ = self._own(f"{root}/task/{root}")
        moved = sum(moved_by(self._proc, pid) for pid in pids)
        self._uses[rank] = _Use(now, own, main, cpu - own, moved, pages)

    def took(self, taken: TakenStacks, now: float) -> None:
        """Compare the stacks of a look with those before."""
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
        """Set ``waits``, and return the time since which no rank moves. ``idle``: a rank was so for the
        limit."""
        self.waits = False
        if not self._roots or self._tracks.keys() != self._roots.keys():
            return None
        self.waits = any(self._proves(track, idle=idle(rank)) for rank, track in self._tracks.items())
        if not all(self._is_still(track, idle(rank)) for rank, track in self._tracks.items()):
            return None
        return max(track.since for track in self._tracks.values())

    def _is_still(self, track: _Track, idle: bool) -> bool:
        if idle or self._proves(track, idle=idle):
            return track.seen - track.since >= self._limit
        return track.seen - track.wholly_since >= _LONG_CALL * self._limit

    def _proves(self, track: _Track, *, idle: bool) -> bool:
        """Return whether the rank is known to wait in a call that does not return."""
        in_call = track.seen - track.in_call_since >= self._limit
        # any line may wait, without Python, for a device that waits for others
        if track.pending_on_device and in_call:
            return True
        return track.awaits and (track.pending or idle or in_call)

    def _own(self, what: str) -> tuple[float, int]:
        """Return the CPU seconds and new pages of a process alone, or of a thread (proc(5))."""
        fields = stat_fields(f"{self._proc}/{what}/stat")
        if len(fields) < 13:
            return 0.0, 0
        return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[7]) + int(fields[9])


def moved_by(proc: str, pid: int) -> int:
    """Return the bytes that a process has read and written; 0 if unknown."""
    fields = read_at_once(f"{proc}/{pid}/io").split()
    return int(fields[1]) + int(fields[3]) if len(fields) > 3 else 0


def _tracked(answer: RankAnswer, use: _Use, before: _Track | None, now: float) -> _Track:
    threads, collectives = answer.threads, answer.collectives
    pending = [last for last in collectives.values() if not last.over]
    main = threads[0].calls if threads else ()
    track = _Track(
        threads=threads,
        numbers=tuple(
            (group, last.number, last.over, last.last) for group, last in sorted(collectives.items())
        ),
        use=use,
        since=now,
        in_call_since=now,
        wholly_since=now,
        seen=now,
        beats=answer.beats,
        awaits=waits(main),
        pending=_looks_for_others(main) or bool(pending),
        pending_on_device=any(last.on_device for last in pending),
    )
    if before is None or not _is_where_it_was(before, track):
        return track
    track.since = before.since
    own = use.own - before.use.own
    share = (use.main - before.use.main) / own if own > 0 else 1.0
    if track.beats is not None and track.beats == before.beats and share >= _MAIN_SHARE:
        track.in_call_since = before.in_call_since
        if threads == before.threads and share >= _ALONE and not _uses(before, track, "pages", _PAGES):
            track.wholly_since = before.wholly_since
    return track


def _is_where_it_was(before: _Track, after: _Track) -> bool:
    main = after.threads[0].calls if after.threads else ()
    here = bool(main) and bool(before.threads) and main == before.threads[0].calls
    if not here or after.numbers != before.numbers or _uses(before, after, "others", _CPU):
        return False
    # a rank that looks for a missing store reads the table of hosts at each try
    return _looks_for_others(main) or not _uses(before, after, "moved", _BYTES)


def _looks_for_others(main: Sequence[Call]) -> bool:
    """Return whether a rank is in ``init_process_group``, before it has found the others."""
    return bool(main) and main[0].file.endswith(_RENDEZVOUS)


def _uses(before: _Track, after: _Track, what: str, nothing: tuple[float, float]) -> bool:
    used = abs(getattr(after.use, what) - getattr(before.use, what))
    return _exceeds(used, nothing, max(0.0, after.use.time - before.use.time))


def _exceeds(used: float, nothing: tuple[float, float], seconds: float) -> bool:
    return used > nothing[0] + nothing[1] * seconds


_ANSWER_CPU = 0.1
"""CPU seconds of a rank for its answer to a request for stacks, at most."""

_QUIET_SHARE = 0.25
"""The part of the limit after which bytes are compared, which costs a read of /proc per process."""

_LEAST_PERIOD = 0.5

_GAP = 5.0
"""Seconds without a tick after which all is unknown: the machine slept, or we were stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stillness:
    """The seconds for which a machine has been ``idle``, and for which its ranks have been ``still``,
    computing or not; ``waits`` if one is known to wait."""

    idle: float = 0.0
    still: float = 0.0
    waits: bool = False


@dataclass(slots=True)
class _Mark:
    """The use of a rank at its last sign of life. ``compared``: a later look found no bytes moved."""

    time: float
    cpu: float = 0.0
    moved: int | None = None
    logged: int = 0
    known: bool = False
    compared: bool = False


class StallWatch:
    """The watch for a stall of one attempt. ``limit`` is in seconds, all times are monotonic seconds."""

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
        """True if ``judge`` needs the stacks of the ranks, by ``took``."""
        self.stalled = False

    @property
    def period(self) -> float:
        """Seconds between two looks."""
        return max(_LEAST_PERIOD, self._limit * _QUIET_SHARE)

    @property
    def active(self) -> float:
        """The time of the last sign of life."""
        return self._since if self.stalled else self._active or 0.0

    def quiet(self, now: float) -> float:
        """Return the seconds since the last sign of life; 0 if unknown."""
        return 0.0 if self._active is None else now - self.active

    def add(self, rank: int, pid: int) -> None:
        """Watch a rank, and its process."""
        self._spins.add(rank, pid)

    def did(self, now: float) -> None:
        """Note that a rank has started, written or exited."""
        self._active = self._spoke = now
        self._spins.forget()

    def tick(self, now: float) -> None:
        """Note that time passes; begin anew after a gap."""
        if self._ticked is None or now - self._ticked > _GAP:
            self.did(now)
        self._ticked = now

    def took(self, taken: TakenStacks, now: float) -> None:
        """Note the stacks of a look."""
        if self._is_silent(now):
            self._spins.took(taken, now)

    def pardon(self) -> None:
        """Ignore what the ranks compute until the next look: they answer us."""
        self._pardoned = True

    def saw(self, rank: int, cpu: float, pids: Iterable[int], metrics: str, now: float) -> None:
        """Note a look at a rank: CPU seconds and pids of its processes, its file of metrics."""
        mark = self._marks.setdefault(rank, _Mark(now))
        logged = _size(metrics)
        quiet = now - mark.time
        moved = None
        if quiet >= self._limit * _QUIET_SHARE:
            moved = sum(moved_by(self._proc, pid) for pid in pids)
        known = moved is not None and mark.moved is not None
        moves = known and _exceeds((moved or 0) - (mark.moved or 0), _BYTES, quiet)
        pardoned = _ANSWER_CPU if self._pardoned else 0.0
        if mark.known and logged != mark.logged:
            self.did(now)
        elif self._looks_soon(now):
            self._spins.used(rank, cpu, pids, now)
        works = _exceeds(cpu - mark.cpu - pardoned, _CPU, quiet)
        if works or moves or logged != mark.logged or not mark.known:
            self._marks[rank] = _Mark(now, cpu, moved, logged, known=True)
            self._active = now
        else:
            mark.cpu += min(pardoned, max(0.0, cpu - mark.cpu))
        if mark.moved is None:
            mark.moved = moved
        else:
            mark.compared = True

    def judge(self, now: float, elsewhere: Iterable[Stillness] = ()) -> bool:
        """Judge after a look at every rank and machine; return whether ``stalled`` has changed."""
        self._pardoned = False
        if self._active is None:
            self._active = now
        machines = (self.stillness(now), *elsewhere)
        idle = min(machine.idle for machine in machines)
        still = min(max(machine.idle, machine.still) for machine in machines)
        all_idle = idle >= self._limit
        self.wants_look = not all_idle and self._looks_soon(now)
        stalled = all_idle or (still >= self._limit and any(machine.waits for machine in machines))
        self._since = now - (idle if all_idle else still)
        changed, self.stalled = stalled != self.stalled, stalled
        return changed

    def stillness(self, now: float) -> Stillness:
        """Return the stillness of this machine, with 0 for uncertain times."""
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
        """Return whether the rank has been idle for the limit."""
        mark = self._marks.get(rank)
        return mark is not None and mark.compared and now - mark.time >= self._limit

    def remove(self, rank: int) -> None:
        self._marks.pop(rank, None)
        self._spins.remove(rank)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
