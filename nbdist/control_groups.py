"""Control groups (cgroup v2, cgroups(7)), in which processes stay when their parents end.

The ranks' group, below their supervisor's, holds even processes that left their session, lost their parent
and cleared their environment. Like ``launch.prestart``, this module imports next to nothing.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PREFIX = "nbdist-"


class ControlGroup:
    """The group at ``path``; below it, one group per rank where each rank may have ``memory`` bytes."""

    def __init__(self, path: str, memory: int | None = None, mkdir: Callable[[str], None] = os.mkdir) -> None:
        self.path = path
        self._memory = memory
        self._mkdir = mkdir

    def add(self, pid: int, rank: int = 0) -> None:
        """Add a rank and its later children. Raises OSError where its memory cannot be limited."""
        place = self._place(rank)
        if self._memory is not None:
            if not os.path.isdir(place):
                self._mkdir(place)
            _write(f"{place}/memory.max", str(self._memory))
            try:
                # or the rank would continue slowly in swap
                _write(f"{place}/memory.swap.max", "0")
            except OSError:
                pass  # a system without
        try:
            _write(f"{place}/cgroup.procs", str(pid))
        except OSError:
            if self._memory is not None:
                raise

    def ran_out(self, rank: int) -> bool:
        """Return whether the kernel killed a process of the rank for its memory limit."""
        words = _words(f"{self._place(rank)}/memory.events") if self._memory is not None else []
        counts = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return counts.get("oom", 0) > 0 and counts.get("oom_kill", 0) > 0

    def _place(self, rank: int) -> str:
        return self.path if self._memory is None else f"{self.path}/rank-{rank}"

    def members(self) -> list[int]:
        """Return the pids in it, without zombies."""
        return [int(pid) for path in self._groups() for pid in _words(f"{path}/cgroup.procs")]

    def end(self, *, limit: float = 2.0) -> int:
        """Kill its members until none is left; return how many processes it killed."""
        killed: set[int] = set()
        deadline = time.monotonic() + limit
        while (left := self.members()) and time.monotonic() < deadline:
            killed.update(left)
            self._kill(left)
            time.sleep(0.01)
        return len(killed)

    def remove(self) -> None:
        """Remove it, unless a member survives SIGKILL."""
        deadline = time.monotonic() + 0.5
        # the lists lose a process a moment before the group does
        while not self._is_removed() and not self.members() and time.monotonic() < deadline:
            time.sleep(0.005)

    def _is_removed(self) -> bool:
        for path in sorted(self._groups(), key=len, reverse=True):
            try:
                os.rmdir(path)
            except OSError:
                pass
        return not os.path.exists(self.path)

    def _kill(self, members: list[int]) -> None:
        try:
            # no process can escape by a fork, and frozen ones end, too
            _write(f"{self.path}/cgroup.kill", "1")
        except OSError:
            # Linux before 5.14
            from signal import SIGKILL

            for pid in members:
                try:
                    os.kill(pid, SIGKILL)
                except OSError:
                    pass

    def _groups(self) -> Iterator[str]:
        return (path for path, _, _ in os.walk(self.path))


def make_group(
    pid: int,
    start_time: int,
    memory: int | None = None,
    *,
    proc: str = "/proc/self",
    mkdir: Callable[[str], None] = os.mkdir,
) -> ControlGroup | None:
    """Make a group for a supervisor, with ``memory`` bytes per rank; None if the system refuses."""
    parent = own_group(proc) if memory is None else _limiting_group(proc)
    if parent is None:
        return None
    path = f"{parent}/{_name(pid, start_time)}"
    try:
        mkdir(path)
        if memory is not None:
            _write(f"{path}/cgroup.subtree_control", "+memory")
    except OSError:
        return None
    return ControlGroup(path, memory, mkdir)


def problem() -> str:
    """Return why this process can make no group; empty when it can."""
    if (own := own_group()) is None:
        return "cgroup v2 is not mounted here"
    if not os.access(f"{own}/cgroup.procs", os.W_OK):
        return f"{own} belongs to another user"
    probe = f"{own}/{_PREFIX}probe-{os.getpid()}"
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError as error:
        return f"{own}: {error.strerror}"
    return ""


def memory_problem(proc: str = "/proc/self") -> str:
    """Return why this process cannot limit the memory of ranks; empty when it can."""
    if own_group(proc) is None:
        return "cgroup v2 is not mounted here"
    if _limiting_group(proc) is None:
        return "no control group above this process hands the memory controller down to this user"
    return ""


def _limiting_group(proc: str) -> str | None:
    """Return the nearest group of this process below which this user may limit memory. It is seldom the
    innermost one: a group with processes in it hands no controller down (cgroups(7))."""
    for place in own_groups(proc):
        if "memory" in _words(f"{place}/cgroup.subtree_control"):
            ours = os.access(place, os.W_OK) and os.access(f"{place}/cgroup.procs", os.W_OK)
            return place if ours else None
    return None


def own_groups(proc: str = "/proc/self") -> Iterator[str]:
    """Yield the group of this process, and its parents."""
    points = {point for point, _ in _mounts(proc)}
    place = own_group(proc)
    while place is not None:
        yield place
        place = None if place in points else os.path.dirname(place)


def groups_of(pid: int) -> list[ControlGroup]:
    """Return the groups made by supervisor ``pid``, which shared a group with this process."""
    groups = []
    for place in own_groups():
        try:
            names = os.listdir(place)
        except OSError:
            continue
        groups += [ControlGroup(f"{place}/{name}") for name in names if name.startswith(_name(pid, ""))]
    return groups


def find_group(pid: int, start_time: int) -> ControlGroup | None:
    """Find the group of a supervisor anywhere on the machine; None when there is none."""
    for point, _ in _mounts():
        for path, names, _ in os.walk(point):
            if _name(pid, start_time) in names:
                return ControlGroup(f"{path}/{_name(pid, start_time)}")
    return None


def own_group(proc: str = "/proc/self") -> str | None:
    """Return the directory of this process's group; None where version 2 is not mounted."""
    for line in _lines(f"{proc}/cgroup"):
        if line.startswith("0::/") and not line.startswith("0::/.."):
            for point, root in _mounts(proc):
                if root == "/" or f"{line[3:]}/".startswith(f"{root}/"):
                    return f"{point}{line[3:].removeprefix(root.rstrip('/'))}".rstrip("/")
    return None


def _mounts(proc: str = "/proc/self") -> Iterator[tuple[str, str]]:
    """Yield each mount point of version 2, and the group mounted there (proc(5))."""
    for line in _lines(f"{proc}/mountinfo"):
        fields = line.split()
        if fields[fields.index("-") + 1] == "cgroup2":
            yield fields[4], fields[3]


def _name(pid: int, start_time: int | str) -> str:
    return f"{_PREFIX}{pid}-{start_time}"


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _words(path: str) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
