"""Bytes, line and file of a rank that saves, read from outside: it may hold its interpreter."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from nbdist.processes import PROC
from nbdist.store.paths import RankDirectory


def written(pid: int) -> int:
    """Return the bytes that a process has written so far, and 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = (PROC / str(pid) / "io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("wchar:")).split()[1])
    return 0


def line_of(files: RankDirectory) -> int:
    """Return the line of the program at which a rank on its way out was last; 0 where it is not known."""
    try:
        return int(files.saving.read_text())
    except (OSError, ValueError):
        return 0


def open_file(pid: int, own: Path) -> tuple[str, int]:
    """Return the regular file outside ``own`` that a process has written last of those it has open for
    writing, and its size in bytes; an empty name for none."""
    best: tuple[int, str, int] = (0, "", 0)
    folder = PROC / str(pid)
    with contextlib.suppress(OSError):
        for number in os.listdir(folder / "fd"):
            with contextlib.suppress(OSError, ValueError, StopIteration):
                path = os.readlink(folder / "fd" / number)
                status = os.stat(path)
                lines = (folder / "fdinfo" / number).read_text().splitlines()
                flags = int(next(line for line in lines if line.startswith("flags:")).split()[1], 8)
                is_own = own in Path(path).parents or not Path(path).is_file()
                if flags & (os.O_WRONLY | os.O_RDWR) and not is_own:
                    best = max(best, (status.st_mtime_ns, path, status.st_size))
    return best[1], best[2]
