"""Stacks of the ranks of an attempt, taken without stopping them or waiting for them.

A rank's own thread writes its stacks on request (``worker.stack_answers``). If it does not answer, native
code holds the interpreter, and a signal handler writes them. Handlers end sleeps and polls of native code
early, so the signal goes to that thread; only while the main thread computes it goes there, where it
interrupts nothing, and no other thread reads changing frames. A rank without a handler never gets the signal:
it would die.

A rank that is about to be ended gets the signal at once, in its main thread, which answers before it
continues. It reports its collectives afterwards: a handler must not read the frames of a running thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist.model import ProcessId
from nbdist.model.decoding import MALFORMED, as_int, build, loads
from nbdist.processes import PROC, activity, alive
from nbdist.store.journal import load_object
from nbdist.store.paths import RankDirectory, RunDirectory
from nbdist.store.reports import (
    Handled,
    Operand,
    RankAnswer,
    TakenStacks,
    collectives_from,
    is_whole,
    write_stacks,
)
from nbdist.worker.order import COLLECTIVES, NUMBERS
from nbdist.worker.stack_answers import SIGNAL

if TYPE_CHECKING:
    from nbdist.launch.stalls.across_machines import StallExchange


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The thread to signal (0: any), the main thread's state, and the answer's offset; or else the
    problem."""

    thread: int = 0
    state: str = ""
    begin: int = 0
    problem: str = ""


def find(process: ProcessId, files: RankDirectory) -> Target:
    """Return the target in a rank, or the problem."""
    pid = process.pid
    if not alive(process):
        return Target(problem="ended")
    try:
        thread, descriptor, begin = _introduction(files)
    except (OSError, *MALFORMED):
        return Target(problem="not ready")
    if not PROC.is_dir():
        return Target(begin=begin)
    main, listener = activity(pid), activity(pid, thread)
    state = main.state if main is not None else ""
    if state in ("T", "t"):
        return Target(problem="stopped")
    if listener is None:
        thread, listener = 0, main
    if listener is None or not listener.takes(SIGNAL) or not _same_file(files, pid, descriptor):
        return Target(problem="replaced")
    return Target(thread=thread, state=state, begin=begin)


def _introduction(files: RankDirectory) -> tuple[int, int, int]:
    """Return thread, descriptor and size of the head of a rank's file. Raises OSError, or one of
    MALFORMED."""
    with open(files.stacks, "rb") as file:
        begin = file.read(400)
    lines = itertools.takewhile(lambda line: line.startswith(b"{"), begin.splitlines(keepends=True))
    whole = [line for line in lines if line.endswith(b"\n")]
    last = loads(whole[-1] if whole else b"")
    return as_int(last["thread"]), as_int(last["fd"]), sum(map(len, whole))


def _same_file(files: RankDirectory, pid: int, descriptor: int) -> bool:
    """Return False if the program has closed the handler's file, and opened another with its number."""
    try:
        theirs, ours = os.stat(PROC / str(pid) / "fd" / str(descriptor)), os.stat(files.stacks)
    except OSError:
        return False
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def send(process: ProcessId, thread: int) -> bool:
    """Send the signal to one thread of a child that is not reaped yet, so that the pid is still its own."""
    if _libc is not None and hasattr(_libc, "tgkill"):
        return bool(_libc.tgkill(process.pid, thread, SIGNAL) == 0)
    try:
        os.kill(process.pid, SIGNAL)
    except OSError:
        return False
    return True


_LIMIT = 1.0
"""Seconds for a rank to answer."""

_PATIENCE = 0.5
"""Seconds for a rank's thread to begin its answer; then its handler gets the signal."""

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RankContact:
    """A rank to ask: its process, its files, and a function that sends it bytes."""

    rank: int
    process: ProcessId
    files: RankDirectory
    say: Callable[[bytes], object]


@dataclass(slots=True)
class _Pending:
    """A request to a rank, with ``words`` about its collectives. Its stacks start at ``begin``."""

    contact: RankContact
    words: bytes
    ending: bool
    begin: int = 0
    size: int = 0
    signalled: bool = False
    sent: bool = False
    done: bool = False
    answer: RankAnswer | None = None

    @property
    def last_file(self) -> Path:
        """The last file that it writes about its collectives."""
        files = self.contact.files
        return files.collectives if self.words == COLLECTIVES else _numbers(files)

    def say(self) -> None:
        if not self.sent:
            self.sent = True
            with contextlib.suppress(OSError):
                self.contact.say(self.words)

    def fail(self, problem: str) -> None:
        self.done, self.answer = True, RankAnswer(rank=self.contact.rank, problem=problem)


class StackTaker:
    """The taker of one attempt's stacks. ``now`` is monotonic seconds."""

    def __init__(self, directory: RunDirectory, attempt: int, others: StallExchange) -> None:
        self._directory = directory
        self._others = others
        self._asked_at = 0.0
        self._attempt = attempt
        self._names: list[str] = []
        self._pending: list[_Pending] = []
        self._taken_at = 0.0
        self.last: TakenStacks | None = None
        self._written: TakenStacks | None = None
        self._glances = self._asks = False

    @property
    def busy(self) -> bool:
        """True while answers are missing."""
        return bool(self._pending)

    def take(
        self,
        ranks: Iterable[RankContact],
        now: float,
        *,
        name: str = "",
        ending: bool = False,
        words: bytes = COLLECTIVES,
        everywhere: bool = True,
    ) -> None:
        """Ask these ranks, and the other machines' if ``everywhere``; their main threads if ``ending``, since
        a signal to end follows. ``name`` is the request's, ``words`` the question about collectives."""
        if name:
            self._names.append(name)
        if self._pending and not self._glances:
            return
        self._glances = words == NUMBERS
        self._asked_at = now
        self._asks = everywhere and not ending and not self._glances
        if self._asks:
            self._others.ask()
        self._taken_at = time.time()
        self._pending = [_ask(_Pending(contact, words, ending)) for contact in ranks]

    def glance(self, ranks: Iterable[RankContact], now: float) -> None:
        """Ask these ranks, at little cost to them, only for ``last``; unless a request is open."""
        if not self._pending:
            self.take(ranks, now, words=NUMBERS)

    def repeat(self, name: str) -> None:
        """Answer the request with the last stacks, or those under way."""
        self._names.append(name)
        if not self._pending and self._written is not None:
            self._put(self._written)

    def tick(self, now: float) -> bool:
        """Collect the answers; return whether all stacks are now written."""
        if not self._pending:
            if self._others.has_news() and self._written is not None:
                self._put(self._written)  # another machine was late
            return False
        for pending in self._pending:
            if not pending.done:
                _collect(pending, silent=now - self._asked_at >= _PATIENCE)
        elsewhere = not self._asks or self._others.all_answered(self._asked_at)
        done = elsewhere and all(pending.done for pending in self._pending)
        if not done and now < self._asked_at + _LIMIT:
            return False
        answers = tuple(_answer(pending) for pending in self._pending)
        self._pending = []
        self.last = TakenStacks(time=self._taken_at, attempt=self._attempt, ranks=answers)
        if not self._glances:
            self._others.tell_stacks(answers)
            self._put(self.last)
        return True

    def _put(self, taken: TakenStacks) -> None:
        known = {answer.rank: answer for answer in (*self._others.answers(), *taken.ranks)}
        answers = tuple(answer for _, answer in sorted(known.items()))
        self._written = replace(taken, ranks=answers, asked=tuple(self._names) or taken.asked)
        self._names = []
        with contextlib.suppress(OSError):
            # a full disk or a deleted directory costs only this answer
            write_stacks(self._directory, self._written)


def _ask(pending: _Pending) -> _Pending:
    """Signal a rank that is about to be ended, send the words to the thread of another one."""
    contact = pending.contact
    target = find(contact.process, contact.files)
    if target.problem:
        pending.fail(target.problem)
        return pending
    pending.answer = RankAnswer(rank=contact.rank, blocked=target.state == "D")
    with contextlib.suppress(OSError):
        # remove the earlier answer, but not the head
        os.truncate(contact.files.stacks, target.begin)
    pending.begin = pending.size = target.begin
    for file in (contact.files.collectives, _numbers(contact.files)):
        with contextlib.suppress(OSError):
            file.unlink()
    if pending.ending or not target.thread:
        _signal(pending, target)
    else:
        pending.say()
    return pending


def _signal(pending: _Pending, target: Target) -> None:
    """Let its handler answer."""
    pending.signalled = True
    process = pending.contact.process
    to_main = pending.ending or target.state == "R" or not target.thread
    if target.problem or not send(process, process.pid if to_main else target.thread):
        pending.fail(target.problem or "ended")


def _collect(pending: _Pending, *, silent: bool) -> None:
    """Note if the text is whole or has stopped growing. ``silent``: the time of the rank's thread is over."""
    text = _read(pending)
    if not text and silent and not pending.signalled:
        _signal(pending, find(pending.contact.process, pending.contact.files))
        return
    size = pending.begin + len(text)
    still = bool(text) and size == pending.size
    pending.size = size
    whole = is_whole(text.decode(errors="replace"))
    if whole or still:
        pending.say()
    # the thread writes the collectives after the stacks; a handler writes nothing more
    over = still and (pending.signalled or silent)
    pending.done = (whole and (pending.last_file.exists() or over)) or (over and text.endswith(b"\n"))


def _answer(pending: _Pending) -> RankAnswer:
    answer = pending.answer or RankAnswer(rank=pending.contact.rank)
    if answer.problem:
        return answer
    text = _read(pending).decode(errors="replace")
    if not text:
        return replace(answer, problem="silent" if alive(pending.contact.process) else "ended")
    files = pending.contact.files
    with contextlib.suppress(OSError, *MALFORMED):
        fields = load_object(_numbers(files))
        answer = replace(
            answer, collectives=collectives_from(fields["groups"]), beats=as_int(fields["beats"])
        )
        handling = fields["handling"]
        answer = replace(answer, handling=build(Handled, handling) if handling else None)
        answer = replace(answer, values=tuple(build(Operand, value) for value in fields["values"]))
        answer = replace(answer, workers=tuple(map(str, fields["workers"])))
    with contextlib.suppress(OSError, *MALFORMED):
        answer = replace(answer, collectives=collectives_from(load_object(files.collectives)))
    return replace(answer, text=text)


def _numbers(files: RankDirectory) -> Path:
    """Return the file of the collectives' numbers, written before their names."""
    return files.collectives.with_name("collectives.numbers")


def _read(pending: _Pending) -> bytes:
    with contextlib.suppress(OSError):
        handle = os.open(pending.contact.files.stacks, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(handle, _MOST_BYTES, pending.begin)
        finally:
            os.close(handle)
    return b""
