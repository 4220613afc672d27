"""CPU and memory of this machine and of process trees, loads of GPUs, room of disks; without NVML."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from nbdist.model import NO_REASON, ProcessId, Reason
from nbdist.model.decoding import MALFORMED, build, loads
from nbdist.processes import PROC, ProcessStat, memory_groups, read_at_once, read_stat, tree_below


def cpu_count() -> int:
    """Count the CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_total(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory of this machine, or a lower limit of this process's control groups (proc(5),
    cgroups(7)); None if unknown. ``root`` holds ``proc`` and ``sys``."""
    known = [_meminfo(root, "MemTotal:")]
    if known == [None] and root == Path("/"):
        with contextlib.suppress(OSError, ValueError):  # macOS has no /proc
            known = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in memory_groups(root / "proc", root / "sys/fs/cgroup"):
        for name in ("memory.max", "memory.limit_in_bytes"):  # version 2 and 1
            with contextlib.suppress(OSError, ValueError):  # no such group in here, or the limit is "max"
                known.append(int((group / name).read_text()))
    return min((total for total in known if total is not None), default=None)


def memory_available(root: Path = Path("/")) -> int | None:
    """Return the bytes free without swapping, here and in this process's control groups; None if unknown."""
    known = [_meminfo(root, "MemAvailable:")]
    for group in memory_groups(root / "proc", root / "sys/fs/cgroup"):
        with contextlib.suppress(OSError, ValueError):
            limit = int((group / "memory.max").read_text())
            used = int((group / "memory.current").read_text())
            words = (group / "memory.stat").read_text().split()
            # the kernel frees the page cache on demand
            known.append(limit - used + int(words[words.index("inactive_file") + 1]))
    return min((left for left in known if left is not None), default=None)


def _number(path: str, name: str) -> int | None:
    """Return the number behind ``name`` in a /proc file, if there is one."""
    for line in read_at_once(path).splitlines():
        if line.startswith(name.encode()):
            return int(line.split()[1])
    return None


def _meminfo(root: Path, name: str) -> int | None:
    kilobytes = _number(f"{root}/proc/meminfo", name)
    return None if kilobytes is None else kilobytes * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUsage:
    """The use of a process tree: bytes of resident ``memory`` (shared pages count in each), and ``pids``."""

    memory: int
    pids: frozenset[int]


def tree_usage(process: ProcessId) -> TreeUsage | None:
    """Return the use of the process and its descendants; None when it has gone."""
    root = read_stat(process.pid)
    if root is None or root.zombie or root.process != process:
        return None
    members = [root, *tree_below(process.pid)]
    return TreeUsage(
        memory=sum(member.resident for member in members),
        pids=frozenset(member.process.pid for member in members if not member.zombie),
    )


_PSS_SHARE = 0.001
"""The share of a core for reading smaps_rollup, which walks page tables: 10 ms for a gigabyte."""

_PSS_LIMIT = 4 << 30
"""Bytes of resident memory above which that walk would take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUse:
    """The use of a watched tree. ``cpu`` are seconds since it was added, including ended processes.
    ``memory`` is resident bytes; for several processes scaled by the last proportional shares (PSS) read."""

    cpu: float
    memory: int
    pids: frozenset[int]


@dataclass(slots=True)
class _Member:
    """A process of a tree, with values as in ``ProcessStat``."""

    key: int
    start_time: int
    cpu: float
    waited: float
    resident: int


class ProcessTrees:
    """The process trees of ranks, by rank, for cheap repeated looks.

    It reads /proc: each new pid once, and the members of the trees again, so the cost does not grow with the
    machine. An orphan stays in its tree; one orphaned before the first look is found by its session.
    """

    def __init__(
        self,
        *,
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
        effort: Callable[[], float] = time.process_time,
    ) -> None:
        self.proc = str(proc)
        self._clock = clock
        self._effort = effort
        self._roots: dict[int, int] = {}
        self._members: dict[int, _Member] = {}
        self._strangers: set[int] = set()
        self._cpu: dict[int, float] = {}
        self._sharing: dict[int, float] = {}
        self._any_sharing = 1.0
        self._pss_after = 0.0

    def add(self, key: int, root: ProcessId) -> None:
        self._roots[root.pid] = key
        # the imports of a warm rank do not count
        row = read_stat(root.pid, self.proc)
        cpu, waited = (row.cpu, row.waited) if row is not None else (0.0, 0.0)
        self._members[root.pid] = _Member(key, root.start_time, cpu, waited, 0)
        self._cpu[key] = 0.0

    def remove(self, key: int) -> None:
        self._roots = {pid: known for pid, known in self._roots.items() if known != key}
        self._members = {pid: member for pid, member in self._members.items() if member.key != key}
        self._cpu.pop(key, None)

    def look(self) -> dict[int, TreeUse]:
        """Return the use of each tree whose root lives."""
        try:
            listed = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        except OSError:
            return {}
        self._strangers &= listed
        self._follow()
        self._welcome(listed)
        return self._uses()

    def _follow(self) -> None:
        """Read the known members again, and keep the CPU time of those that ended."""
        own_now: dict[int, float] = {}
        before, after = dict[int, float](), dict[int, float]()
        for pid, member in list(self._members.items()):
            key = member.key
            before[key] = before.get(key, 0.0) + member.cpu + member.waited
            row = read_stat(pid, self.proc)
            if row is None or row.zombie or row.process.start_time != member.start_time:
                del self._members[pid]
                continue
            own_now[key] = own_now.get(key, 0.0) + row.cpu - member.cpu
            after[key] = after.get(key, 0.0) + row.cpu + row.waited
            member.cpu, member.waited, member.resident = row.cpu, row.waited, row.resident
        for key, total in before.items():
            # an ended process's time is now its parent's, or lost if no member waited for it
            self._cpu[key] += max(after.get(key, 0.0) - total, own_now.get(key, 0.0))

    def _welcome(self, listed: set[int]) -> None:
        """Add the new processes to their trees."""
        rows = {pid: read_stat(pid, self.proc) for pid in listed - self._members.keys() - self._strangers}
        fresh = {pid: row for pid, row in rows.items() if row is not None and not row.zombie}
        for pid, row in fresh.items():
            key = self._key_of(pid, fresh)
            if key is None:
                self._strangers.add(pid)
                continue
            self._cpu[key] += row.cpu + row.waited
            self._members[pid] = _Member(key, row.process.start_time, row.cpu, row.waited, row.resident)

    def _key_of(self, pid: int, fresh: dict[int, ProcessStat]) -> int | None:
        """Return the tree of a new process by its session, which each rank has of its own, or its parents."""
        for _ in fresh:
            row = fresh.get(pid)
            if row is None:
                break
            if (key := self._roots.get(row.session)) is not None:
                return key
            pid = row.parent
        member = self._members.get(pid)
        return None if member is None else member.key

    def _uses(self) -> dict[int, TreeUse]:
        pids: dict[int, list[int]] = {}
        for pid, member in self._members.items():
            pids.setdefault(member.key, []).append(pid)
        trees = {key: pids[key] for pid, key in self._roots.items() if pid in self._members}
        resident = {key: sum(self._members[pid].resident for pid in tree) for key, tree in trees.items()}
        self._read_pss(trees, resident)
        return {
            key: TreeUse(
                cpu=self._cpu[key],
                # before a tree's first turn, the share of another one is the best guess
                memory=round(
                    resident[key] * (self._sharing.get(key, self._any_sharing) if len(tree) > 1 else 1.0)
                ),
                pids=frozenset(tree),
            )
            for key, tree in trees.items()
        }

    def _read_pss(self, trees: dict[int, list[int]], resident: dict[int, int]) -> None:
        """Read the proportional shares of one tree, if it is time."""
        now = self._clock()
        due = [key for key, tree in trees.items() if len(tree) > 1 and 0 < resident[key] <= _PSS_LIMIT]
        if now < self._pss_after or not due:
            return
        # the one read longest ago: each moves to the end of the dictionary when it is read
        order = {known: place for place, known in enumerate(self._sharing)}
        key = min(due, key=lambda key: order.get(key, -1))
        begun = self._effort()
        shares = [_number(f"{self.proc}/{pid}/smaps_rollup", "Pss:") for pid in trees[key]]
        self._pss_after = now + (self._effort() - begun) / _PSS_SHARE
        if None not in shares:
            self._sharing.pop(key, None)
            total = sum(share for share in shares if share is not None) * 1024
            self._any_sharing = self._sharing[key] = min(1.0, total / resident[key])


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """The load of a GPU: ``utilisation`` in percent, memory in bytes, ``power`` in watts, ``temperature`` in
    degrees Celsius, ``throttled`` 1 while heat or power slow it down; None if unknown. ``processes`` are pids
    and bytes; ``ours``: the pids are this machine's, not a container host's."""

    index: int
    utilisation: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    power: float | None = None
    temperature: float | None = None
    throttled: int | None = None
    processes: tuple[tuple[int, int], ...] = ()
    ours: bool = False

    def memory_of(self, pids: Iterable[int]) -> int | None:
        """Return the bytes that these processes hold, or all processes where the pids are a host's."""
        if not self.ours:
            return self.memory
        wanted = frozenset(pids)
        return sum(memory for pid, memory in self.processes if pid in wanted)


def encode_loads(loads: Iterable[GpuLoad]) -> str:
    return json.dumps([asdict(load) for load in loads])


def decode_loads(line: bytes) -> list[GpuLoad]:
    """Parse ``encode_loads``. Raises ValueError."""
    try:
        return [build(GpuLoad, load) for load in loads(line)]
    except MALFORMED as error:
        raise ValueError("not the loads of GPUs") from error


SHARED_MEMORY = "/dev/shm"

_FULL = 1 << 20
"""Free bytes below which a disk counts as full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk at ``mount``; bytes ``free`` for this user, ``files`` left to make (None: without a limit)."""

    mount: str
    free: int
    size: int
    files: int | None

    @property
    def full(self) -> bool:
        return self.free < _FULL or self.files == 0

    def holds(self, path: str | os.PathLike[str]) -> bool:
        return os.stat(path).st_dev == os.stat(self.mount).st_dev

    def room(self, language: str = "en") -> str:
        """Return ``3 MB of 80 MB free``."""
        zh, free, size = language == "zh", _size(self.free), _size(self.size)
        if self.files == 0:
            return "没有空闲的 inode，不能再建文件" if zh else "no inodes left, so no file can be made"
        return f"剩余 {free}，共 {size}" if zh else f"{free} of {size} free"


def disks(paths: Iterable[str]) -> list[Disk]:
    """Return the disks of these paths or their nearest parents, each once, in order; skip failing ones."""
    by_device: dict[int, Disk] = {}
    for path in map(_existing, paths):
        with contextlib.suppress(OSError):
            device = os.stat(path).st_dev
            if device not in by_device:
                by_device[device] = _disk(path)
    return list(by_device.values())


def full_disks(paths: Iterable[str]) -> list[Disk]:
    """Return the full disks among those of these paths."""
    return [disk for disk in disks(paths) if disk.full]


_REFUSALS = {errno.ENOSPC: "disk-full", errno.EDQUOT: "disk-quota", errno.EROFS: "disk-read-only"}


def refusal(error: OSError, path: str | os.PathLike[str]) -> Reason:
    """Return the reason for which the disk of ``path`` refused a write, if ``error`` is due to it."""
    code = _REFUSALS.get(error.errno or 0)
    refusing = disks([os.fspath(path)]) if code else []
    if not code or not refusing:
        return NO_REASON
    if code == "disk-full" and refusing[0].files == 0:
        code = "disk-inodes"
    return Reason(code, mount=refusing[0].mount)


def _existing(path: str) -> str:
    path = os.path.abspath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _disk(path: str) -> Disk:
    space = os.statvfs(path)
    mount = os.path.realpath(path)
    while not os.path.ismount(mount):
        mount = os.path.dirname(mount)
    # the file system reserves some room for root
    free, files = (space.f_bfree, space.f_ffree) if os.geteuid() == 0 else (space.f_bavail, space.f_favail)
    return Disk(
        mount=mount,
        free=free * space.f_frsize,
        size=space.f_blocks * space.f_frsize,
        files=files if space.f_files else None,
    )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count >> 20} MB"
