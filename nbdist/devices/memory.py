"""How much memory there is for the processes of this one's control group."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def memory_total(root: Path = Path("/")) -> int | None:
    """Bytes of memory of this machine, or the limit of a control group that this process is in where
    that is lower (proc(5), cgroups(7)); None where nobody tells. ``root`` holds ``proc`` and ``sys``.
    """
    known = [total for total in (_of_the_machine(root), *_limits(root)) if total is not None]
    return min(known, default=None)


def _of_the_machine(root: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):
        # macOS has no /proc
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if root == Path("/") else None
    return None


def _limits(root: Path) -> list[int]:
    """The limits of this process's group and of those above it. Version 1 has a tree for memory alone."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                found += _up(root / "sys/fs/cgroup", path, "memory.max")
            elif "memory" in controllers.split(","):
                found += _up(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return found


def _up(mount: Path, path: str, name: str) -> list[int]:
    """The limit in every group from ``path`` up to the mount, which in a container is the group itself."""
    limits = []
    group = mount / path.strip("/")
    for place in (group, *group.parents):
        with contextlib.suppress(OSError, ValueError):  # no such group in here, or the limit is "max"
            limits.append(int((place / name).read_text()))
        if place == mount:
            break
    return limits


def memory_available(root: Path = Path("/")) -> int | None:
    """Bytes that can be had without swapping: of this machine, or of a control group that this process is
    in where that leaves less; None where nobody tells."""
    known = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                known.append(int(line.split()[1]) * 1024)
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                known += _left(root / "sys/fs/cgroup", line[3:])
    return min(known, default=None)


def _left(mount: Path, path: str) -> list[int]:
    """What each group from ``path`` up to the mount has left below its limit; the page cache can be had."""
    left = []
    group = mount / path.strip("/")
    for place in (group, *group.parents):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            limit = int((place / "memory.max").read_text())
            used = int((place / "memory.current").read_text())
            words = (place / "memory.stat").read_text().split()
            left.append(limit - used + int(words[words.index("inactive_file") + 1]))
        if place == mount:
            break
    return left
