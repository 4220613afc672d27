"""Finds out where the ranks of an attempt are, without stopping them and without waiting for them.

A rank's own handler writes its stacks (``worker.stacks``); here it is decided who gets the signal. Handlers
end sleeps and polls of native code early, so it goes to the rank's thread that is there for it. Only while
the main thread computes does it go there: nothing is interrupted then, and its frames cannot change
under a reader in another thread. A rank that does not take the signal is never sent it: it would die.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nbdist.model import ProcessId
from nbdist.processes import PROC, alive
from nbdist.store.paths import RankDirectory, RunDirectory
from nbdist.store.stacks import RankAnswer, TakenStacks, collectives_from, is_whole, write_stacks
from nbdist.worker.order import COLLECTIVES
from nbdist.worker.stacks import SIGNAL

_LIMIT = 1.0
"""Seconds that a rank has to answer."""

_MOST_BYTES = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Asked:
    """A rank that can be asked: its process, its files, and how to say a word to it."""

    rank: int
    process: ProcessId
    files: RankDirectory
    say: Callable[[bytes], object]


@dataclass(slots=True)
class _Pending:
    asked: Asked
    begin: int
    """Where in the file the answer begins."""
    size: int = 0
    done: bool = False
    answer: RankAnswer | None = None


class StackTaker:
    """Takes the stacks of one attempt. ``now`` is monotonic seconds."""

    def __init__(self, directory: RunDirectory, attempt: int, *, wall_clock: Callable[[], float]) -> None:
        self._directory = directory
        self._attempt = attempt
        self._wall_clock = wall_clock
        self._names: list[str] = []
        self._pending: list[_Pending] = []
        self._deadline = 0.0
        self._taken_at = 0.0
        self._last: TakenStacks | None = None

    @property
    def busy(self) -> bool:
        """Whether ranks have been asked and not all have answered."""
        return bool(self._pending)

    def take(self, ranks: Iterable[Asked], now: float, *, name: str = "", ending: bool = False) -> None:
        """Ask these ranks. ``ending``: they are about to be told to end, so their main threads are asked,
        who then cannot run on before they have answered. ``name`` is that of the request."""
        if name:
            self._names.append(name)
        if self._pending:
            return
        self._taken_at, self._deadline = self._wall_clock(), now + _LIMIT
        self._pending = [_ask(asked, ending=ending) for asked in ranks]

    def repeat(self, name: str) -> None:
        """Answer the request with what was taken last, or is being taken."""
        self._names.append(name)
        if not self._pending and self._last is not None:
            self._put(self._last)

    def tick(self, now: float) -> bool:
        """Collect what has been answered; whether all stacks have now been written down."""
        if not self._pending:
            return False
        for pending in self._pending:
            if not pending.done:
                _collect(pending)
        late = now >= self._deadline
        if not late and not all(pending.done for pending in self._pending):
            return False
        self._write()
        return True

    def _write(self) -> None:
        answers = tuple(_answer(pending) for pending in self._pending)
        self._pending = []
        self._put(TakenStacks(time=self._taken_at, attempt=self._attempt, ranks=answers))

    def _put(self, taken: TakenStacks) -> None:
        self._last = replace(taken, asked=tuple(self._names))
        self._names = []
        with contextlib.suppress(OSError):
            # a disk that is full, or a directory that was deleted, costs this answer alone
            write_stacks(self._directory, self._last)


def _ask(asked: Asked, *, ending: bool) -> _Pending:
    target = _find(asked)
    pending = _Pending(asked, 0)
    if target.problem:
        pending.done, pending.answer = True, RankAnswer(rank=asked.rank, problem=target.problem)
        return pending
    pending.answer = RankAnswer(rank=asked.rank, blocked=target.state == "D")
    with contextlib.suppress(OSError):
        # what was answered before goes; the first line says whom to ask
        os.truncate(asked.files.stacks, target.begin)
    pending.begin = pending.size = target.begin
    with contextlib.suppress(OSError):
        asked.files.collectives.unlink()
    with contextlib.suppress(OSError):
        asked.say(COLLECTIVES)
    to_main = ending or target.state == "R" or not target.thread
    if not _send(asked.process, asked.process.pid if to_main else target.thread):
        pending.done, pending.answer = True, RankAnswer(rank=asked.rank, problem="ended")
    return pending


def _collect(pending: _Pending) -> None:
    """Whether the rank has answered: its words end as they should, or have not become more of late."""
    text = _read(pending)
    size = pending.begin + len(text)
    still = bool(text) and size == pending.size
    pending.size = size
    whole = is_whole(text.decode(errors="replace"))
    asked_collectives = pending.asked.files.collectives.exists() or still
    pending.done = (whole and asked_collectives) or (still and text.endswith(b"\n"))


def _answer(pending: _Pending) -> RankAnswer:
    answer = pending.answer
    assert answer is not None, "every rank has one from the start"
    if answer.problem:
        return answer
    text = _read(pending).decode(errors="replace")
    if not text:
        problem = "silent" if alive(pending.asked.process) else "ended"
        return replace(answer, problem=problem)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        told = json.loads(pending.asked.files.collectives.read_bytes())
        answer = replace(answer, collectives=collectives_from(told))
    return replace(answer, text=text)


def _read(pending: _Pending) -> bytes:
    with contextlib.suppress(OSError):
        handle = os.open(pending.asked.files.stacks, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(handle, _MOST_BYTES, pending.begin)
        finally:
            os.close(handle)
    return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Whom of a rank's process to ask: a thread (0: any), how its main thread stands, where in the file
    the answer will begin; or why nobody can be asked."""

    thread: int = 0
    state: str = ""
    begin: int = 0
    problem: str = ""


def _find(asked: Asked) -> _Target:
    pid = asked.process.pid
    if not alive(asked.process):
        return _Target(problem="ended")
    try:
        thread, descriptor, begin = _introduction(asked.files)
    except (OSError, ValueError, KeyError, TypeError):
        return _Target(problem="not ready")
    if not PROC.is_dir():
        return _Target(begin=begin)
    state = _state(pid)
    if state in ("T", "t"):
        return _Target(problem="stopped")
    if not os.path.exists(PROC / str(pid) / "task" / str(thread)):
        thread = 0
    if not _listens(pid, thread or pid) or not _same_file(asked.files, pid, descriptor):
        return _Target(problem="replaced")
    return _Target(thread=thread, state=state, begin=begin)


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


def _send(process: ProcessId, thread: int) -> bool:
    """Send the signal to one thread of a child that has not been collected, so the pid is still its own."""
    if _libc is not None and hasattr(_libc, "tgkill"):
        return bool(_libc.tgkill(process.pid, thread, SIGNAL) == 0)
    try:
        os.kill(process.pid, SIGNAL)
    except OSError:
        return False
    return True
