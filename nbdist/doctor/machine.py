"""Memory, /dev/shm, disk, limits: what of the machine a run uses up."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from nbdist import config, control_groups
from nbdist.devices.memory import memory_total
from nbdist.doctor.report import Entry, Level

_MB, _GB = 1 << 20, 1 << 30
_ENOUGH_SHARED = _GB
_TIGHT_SHARED = 128 * _MB
_ENOUGH_DISK = 2 * _GB
_ENOUGH_FILES = 1024
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "fuse.sshfs"})


def examine_machine(
    *,
    shared: Path = Path("/dev/shm"),
    home: Path | None = None,
    size_of: Callable[[Path], tuple[int, int]] | None = None,
    file_limit: int | None = None,
    no_group: str | None = None,
) -> Iterator[Entry]:
    """``size_of`` tells the size and the free space of a file system in bytes, ``no_group`` why no control
    group can be made (empty: one can)."""
    size_of = size_of or _size_of
    yield _cpus_and_memory()
    if shared.is_dir():
        yield _shared_memory(*size_of(shared))
    yield from _disk(config.home() if home is None else home, size_of)
    yield _files(resource.getrlimit(resource.RLIMIT_NOFILE)[0] if file_limit is None else file_limit)
    if sys.platform == "linux":
        yield _control_group(control_groups.problem() if no_group is None else no_group)


def _size_of(path: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(path)
    return usage.total, usage.free


def _cpus_and_memory() -> Entry:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    total = memory_total()
    memory = f"{total / _GB:.1f} GB" if total else "?"
    return Entry(
        section="machine",
        title="CPU, memory",
        level=Level.OK if count > 1 else Level.WARNING,
        what=f"{count} CPU{'s' if count > 1 else ''} and {memory} of memory for this process",
        what_zh=f"本进程可用 {count} 个 CPU、{memory} 内存",
        fix="" if count > 1 else "several ranks share one CPU: expect them to be slow",
        fix_zh="" if count > 1 else "多个进程共用一个 CPU，会比较慢",
    )


def _shared_memory(size: int, free: int) -> Entry:
    level = Level.OK
    if min(size, free) < _ENOUGH_SHARED:
        level = Level.ERROR if free < _TIGHT_SHARED else Level.WARNING
    fine = level is Level.OK
    return Entry(
        section="machine",
        title="/dev/shm",
        level=level,
        what=f"{free // _MB} of {size // _MB} MB free",
        what_zh=f"{size // _MB} MB 中空闲 {free // _MB} MB",
        fix="" if fine else "start the container with  --shm-size=8g ; until then  num_workers=0",
        fix_zh="" if fine else "启动容器时加  --shm-size=8g；在此之前用  num_workers=0",
    )


def _disk(home: Path, size_of: Callable[[Path], tuple[int, int]]) -> Iterator[Entry]:
    place = home
    while not place.exists() and place != place.parent:
        place = place.parent
    _, free = size_of(place)
    writable = os.access(place, os.W_OK | os.X_OK)
    level = Level.OK if free >= _ENOUGH_DISK else Level.WARNING
    if free < config.MIN_FREE_DISK or not writable:
        level = Level.ERROR
    kind = config.filesystem_of(home)
    fine = level is Level.OK
    yield Entry(
        section="machine",
        title="runs",
        level=level,
        what=f"{home} ({kind or '?'}): {free / _GB:.1f} GB free" + ("" if writable else ", not writable"),
        what_zh=f"{home}（{kind or '?'}）：空闲 {free / _GB:.1f} GB" + ("" if writable else "，不可写"),
        fix="" if fine else "free some space, or choose another disk with  %env NBDIST_HOME=/another/disk",
        fix_zh="" if fine else "清理空间，或用  %env NBDIST_HOME=/另一块盘  换一处",
    )
    if kind in _NETWORK:
        yield Entry(
            section="machine",
            title="runs",
            level=Level.WARNING,
            what=f"{home} lies on a network file system: logs and locks lag behind",
            what_zh=f"{home} 在网络文件系统上：日志和锁会滞后",
            fix=f"choose a local disk with  %env NBDIST_HOME={config.local_home()}",
            fix_zh=f"用  %env NBDIST_HOME={config.local_home()}  换到本地盘",
        )


def _files(limit: int) -> Entry:
    unlimited = limit == resource.RLIM_INFINITY
    fine = unlimited or limit >= _ENOUGH_FILES
    return Entry(
        section="machine",
        title="open files",
        level=Level.OK if fine else Level.WARNING,
        what="no limit" if unlimited else f"at most {limit} a process",
        what_zh="没有限制" if unlimited else f"每个进程最多 {limit} 个",
        fix="" if fine else "ulimit -n 65536  before the server starts (DataLoader workers need many)",
        fix_zh="" if fine else "启动服务前执行  ulimit -n 65536（DataLoader 工作进程需要很多）",
    )


def _control_group(problem: str) -> Entry:
    if not problem:
        return Entry(
            section="machine",
            title="control groups",
            level=Level.OK,
            what="the ranks of a run are in a control group of their own, and what they start ends with it",
            what_zh="一次运行的各个进程在自己的控制组中，它们启动的进程随之结束",
        )
    return Entry(
        section="machine",
        title="control groups",
        level=Level.INFO,
        what=f"a run has no control group ({problem}): what its ranks start is found by its parents and its "
        "environment",
        what_zh=f"运行没有控制组（{problem}）：各个进程启动的进程靠父进程和环境变量来找到",
        fix="systemd-run --user --scope -p Delegate=yes jupyter lab  starts a server that may make them; a "
        "container needs a cgroup namespace that it may write",
        fix_zh="用  systemd-run --user --scope -p Delegate=yes jupyter lab  启动服务；"
        "容器则需要可写的 cgroup 命名空间",
    )
