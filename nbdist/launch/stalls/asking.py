"""Whom of a rank's process to ask where it is, and the signal that does it.

A rank that does not take the signal is never sent it: it would die.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbdist.model import ProcessId
from nbdist.processes import PROC, alive
from nbdist.store.paths import RankDirectory
from nbdist.worker.stacks import SIGNAL

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Whom of a rank's process to ask: a thread (0: any), how its main thread stands, where in the file
    the answer will begin; or why nobody can be asked."""

    thread: int = 0
    state: str = ""
    begin: int = 0
    problem: str = ""


def find(process: ProcessId, files: RankDirectory) -> Target:
    """Whom to ask of the process of a rank, or why nobody can be asked."""
    pid = process.pid
    if not alive(process):
        return Target(problem="ended")
    try:
        thread, descriptor, begin = _introduction(files)
    except (OSError, ValueError, KeyError, TypeError):
        return Target(problem="not ready")
    if not PROC.is_dir():
        return Target(begin=begin)
    state = _state(pid)
    if state in ("T", "t"):
        return Target(problem="stopped")
    if not os.path.exists(PROC / str(pid) / "task" / str(thread)):
        thread = 0
    if not _listens(pid, thread or pid) or not _same_file(files, pid, descriptor):
        return Target(problem="replaced")
    return Target(thread=thread, state=state, begin=begin)


def _introduction(files: RankDirectory) -> tuple[int, int, int]:
    """What the rank has said of itself at the begin of the file: which thread to ask, the number of the
    file there; and where that ends. Raises OSError, ValueError, KeyError or TypeError."""
    with open(files.stacks, "rb") as file:
        begin = file.read(400)
    lines = itertools.takewhile(lambda line: line.startswith(b"{"), begin.splitlines(keepends=True))
    said = [line for line in lines if line.endswith(b"\n")]
    told = json.loads(said[-1] if said else b"")
    return int(told["thread"]), int(told["fd"]), sum(map(len, said))


def _state(pid: int) -> str:
    """The letter of proc(5) for how the main thread stands."""
    try:
        return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def _listens(pid: int, thread: int) -> bool:
    """Whether the process has a handler for the signal, and this thread does not hold it back."""
    bit = 1 << (SIGNAL - 1)
    masks = dict(_masks(PROC / str(pid) / "task" / str(thread) / "status"))
    return bool(masks.get("SigCgt", 0) & bit) and not masks.get("SigBlk", 0) & bit


def _masks(path: Path) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("SigCgt", "SigBlk"):
                yield name, int(value, 16)


def _same_file(files: RankDirectory, pid: int, descriptor: int) -> bool:
    """Whether the handler would write where it is meant to: a program may close all its files and open
    others, which then get their numbers."""
    try:
        theirs, ours = os.stat(PROC / str(pid) / "fd" / str(descriptor)), os.stat(files.stacks)
    except OSError:
        return False
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def send(process: ProcessId, thread: int) -> bool:
    """Send the signal to one thread of a child that has not been collected, so the pid is still its own."""
    if _libc is not None and hasattr(_libc, "tgkill"):
        return bool(_libc.tgkill(process.pid, thread, SIGNAL) == 0)
    try:
        os.kill(process.pid, SIGNAL)
    except OSError:
        return False
    return True
