"""Processes of this machine by /proc, or else by psutil (macOS), and signals for exactly one."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist.model.spec import ProcessId

if TYPE_CHECKING:
    from _typeshed import HasFileno

PROC = Path("/proc")
HAS_PROC = sys.platform == "linux"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """A row of the process table. A ``zombie`` has ended and waits to be reaped. ``cpu`` are the process's
    own seconds, ``waited`` those of its reaped descendants (0 without a /proc); ``resident`` is in bytes."""

    process: ProcessId
    parent: int
    group: int
    session: int
    zombie: bool
    cpu: float = 0.0
    waited: float = 0.0
    resident: int = 0


def wait_for(line: HasFileno | int, seconds: float, *, to_write: bool = False) -> bool:
    """Wait until ``line`` is readable, writable if ``to_write``, or closed; return whether it is."""
    ready = select.poll()  # select() fails with descriptors above 1023
    ready.register(line, select.POLLIN | (select.POLLOUT if to_write else 0))
    return bool(ready.poll(max(0.0, seconds) * 1000))


_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@functools.cache
def boot_id() -> str:
    """Return an id that changes when the machine boots."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def identify(pid: int) -> ProcessId | None:
    """Return the identity of the live process ``pid``; None when there is none (a zombie is none)."""
    stat = read_stat(pid)
    return None if stat is None or stat.zombie else stat.process


def alive(process: ProcessId) -> bool:
    """Return whether exactly this process still runs, not another one with its pid."""
    return identify(process.pid) == process


def read_stat(pid: int, proc: str = str(PROC)) -> ProcessStat | None:
    """Return the row of ``pid`` in the process table; None when it has gone."""
    if not HAS_PROC:
        return _psutil_stat(pid)
    fields = stat_fields(f"{proc}/{pid}/stat")
    if len(fields) < 22:
        return None
    return ProcessStat(
        process=ProcessId(pid=pid, start_time=int(fields[19]), boot_id=boot_id()),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        zombie=fields[0] in (b"Z", b"X", b"x"),
        cpu=(int(fields[11]) + int(fields[12])) / _TICKS,
        waited=(int(fields[13]) + int(fields[14])) / _TICKS,
        resident=int(fields[21]) * _PAGE,
    )


def stat_fields(path: str) -> list[bytes]:
    """Return the fields of a stat file behind the name, numbered as in proc(5) less three, or none."""
    return read_at_once(path).rpartition(b")")[2].split()


_PF_EXITING = 0x4  # include/linux/sched.h


def is_exiting(pid: int) -> bool:
    """Return whether the kernel is removing the process, which takes seconds with a GPU."""
    fields = stat_fields(f"{PROC}/{pid}/stat")
    return HAS_PROC and (not fields or bool(int(fields[6]) & _PF_EXITING))


@dataclass(frozen=True, slots=True)
class Activity:
    """The ``state`` of a process or thread by proc(5) (R, S, D, T, …), how often it had a processor, and its
    pending, blocked and caught signals as bits."""

    state: str
    turns: int
    pending: int
    blocked: int
    caught: int

    def awaits(self, number: int) -> bool:
        """Return whether this signal is pending."""
        return bool(self.pending >> (number - 1) & 1)

    def takes(self, number: int) -> bool:
        """Return whether it has a handler for this signal and does not block it."""
        return bool((self.caught & ~self.blocked) >> (number - 1) & 1)


def activity(pid: int, thread: int | None = None) -> Activity | None:
    """Return the activity of a process or of one of its threads; None when it has gone or is unknown."""
    folder = f"{PROC}/{pid}" if thread is None else f"{PROC}/{pid}/task/{thread}"
    lines = read_at_once(f"{folder}/status").decode(errors="replace").splitlines()
    fields = dict(line.partition(":")[::2] for line in lines)
    try:
        turns = int(fields["voluntary_ctxt_switches"]) + int(fields["nonvoluntary_ctxt_switches"])
        masks = [int(fields[name], 16) for name in ("ShdPnd", "SigBlk", "SigCgt")]
        return Activity(fields["State"].split()[0], turns, *masks)
    except (KeyError, IndexError, ValueError):
        return None


def read_at_once(path: str) -> bytes:
    """Return the first 4 KiB of a file by one read, which /proc needs; empty on an error."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 4096)
        finally:
            os.close(handle)
    return b""


def process_table() -> Iterator[ProcessStat]:
    """Yield every process that can be seen."""
    return filter(None, map(read_stat, _pids()))


def descendants(pid: int) -> list[ProcessId]:
    """Return the live descendants of ``pid``, parents first; orphans only if ``pid`` is a subreaper."""
    return [stat.process for stat in tree_below(pid) if not stat.zombie]


def tree_below(pid: int) -> list[ProcessStat]:
    """Return the rows of all descendants of ``pid``, zombies too, parents first. A process is missing if its
    parent started it during the look and has ended since."""
    children: dict[int, list[ProcessStat]] = {}
    for stat in process_table():
        children.setdefault(stat.parent, []).append(stat)
    tree = list(children.get(pid, ()))
    for stat in tree:
        tree += children.get(stat.process.pid, ())
    return tree


def marked(name: str, value: str) -> list[ProcessId]:
    """Return this user's live processes that started with ``name=value`` in their environment."""
    carries = _carries if HAS_PROC else _psutil_carries
    pids = [pid for pid in _pids() if carries(pid, name, value)]
    return [process for process in map(identify, pids) if process is not None]


def _carries(pid: int, name: str, value: str) -> bool:
    with contextlib.suppress(OSError):
        return f"{name}={value}".encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return False


def oom_kills(proc: Path = PROC, groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Count the out-of-memory kills in this process's control group (cgroups(7)), or else on the machine."""
    counters = [group / name for group in memory_groups(proc, groups) for name in _OOM_COUNTERS]
    for path in (*counters, proc / "vmstat"):
        with contextlib.suppress(OSError, ValueError):
            words = path.read_text().split()
            return int(words[words.index("oom_kill") + 1])
    return 0


_OOM_COUNTERS = ("memory.events", "memory.oom_control")  # version 2 and 1


def memory_groups(proc: Path = PROC, groups: Path = Path("/sys/fs/cgroup")) -> Iterator[Path]:
    """Yield the control group that counts this process's memory, and its parents up to the mount, which in a
    container is the group itself. Version 1 has a separate tree for memory."""
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            mount = groups / ("memory" if controllers else "")
            group = mount / path.strip("/")
            above = (group, *group.parents)
            yield from above[: above.index(mount) + 1]


def send(process: ProcessId, number: int) -> bool:
    """Send a signal to exactly this process; return False when it has gone or is another user's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if HAS_PROC and hasattr(os, "pidfd_open"):
            return _send_by_pidfd(process, number)
        return _send_by_pid(process, number)
    return False


def _send_by_pid(process: ProcessId, number: int) -> bool:
    if not alive(process):
        return False
    os.kill(process.pid, number)
    return True


def send_all(processes: Iterable[ProcessId], number: int) -> int:
    """Send a signal to these processes; return how many received it."""
    return sum(send(process, number) for process in processes)


def kill_groups(groups: Iterable[int]) -> None:
    """Kill all processes of these groups at once, so that none can escape by a fork."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _send_by_pidfd(process: ProcessId, number: int) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError as error:
        if isinstance(error, (ProcessLookupError, PermissionError)):
            raise
        # a kernel or sandbox without pidfds: the check and the signal are two steps
        return _send_by_pid(process, number)
    try:
        # the handle pins the process: the pid cannot change owners after this check
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    finally:
        os.close(handle)


def _pids() -> list[int]:
    if HAS_PROC:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]
    import psutil

    return psutil.pids()


def _psutil_stat(pid: int) -> ProcessStat | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return ProcessStat(
                process=ProcessId(pid=pid, start_time=int(process.create_time() * 1000), boot_id=boot_id()),
                parent=process.ppid(),
                group=os.getpgid(pid),
                session=os.getsid(pid),
                zombie=process.status() == psutil.STATUS_ZOMBIE,
                # psutil refuses that of another user's process
                resident=getattr(process.as_dict(["memory_info"])["memory_info"], "rss", 0),
            )
    except (psutil.Error, OSError):
        return None


def _psutil_carries(pid: int, name: str, value: str) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        return bool(psutil.Process(pid).environ().get(name) == value)
    return False
