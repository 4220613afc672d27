"""Bonds of lifetimes: of the supervisor to its kernel, of the ranks' descendants to it; and signals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from nbdist import processes
from nbdist.control_groups import groups_of
from nbdist.launch.binding import FOR_THE_RANKS, REQUESTS_TO_END
from nbdist.model import NO_REASON, ProcessId, Reason, RunSpec, SupervisorStarted
from nbdist.store.paths import RunDirectory, open_to_append

_GRACE, _GIVEN_UP = 0.5, 4.0
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2)


class Lifeline:
    """A watch for the end of the run's owner, by pidfd where the system has them, since a socket stays open
    in all that the owner forked. ``ended`` is the reason if the owner is neither a kernel nor a command."""

    def __init__(self, owner: ProcessId | None, descriptor: int | None, ended: Reason = NO_REASON) -> None:
        self.ended = ended
        self._socket: socket.socket | None = None
        if descriptor is not None:
            self._socket = socket.socket(fileno=descriptor)
            self._socket.set_inheritable(False)  # or a rank would hold the line after us
        self._handle: int | None = None
        self.gone = owner is not None and not processes.alive(owner)
        if owner is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._handle = os.pidfd_open(owner.pid)
                # the pid may have changed owners before the handle pinned it
                self.gone = self.gone or not processes.alive(owner)

    def descriptors(self) -> list[int]:
        """Return the descriptors that turn readable when the owner has gone."""
        if self._handle is not None:
            return [self._handle]
        return [self._socket.fileno()] if self._socket is not None else []


def complain(message: str) -> None:
    """Print into the supervisor's log; ignore a full disk."""
    with contextlib.suppress(OSError):
        print(f"nbdist: {message}", file=sys.stderr, flush=True)


def write_into(log: Path) -> None:
    """Redirect the output of this process and its children into a file. Raises OSError."""
    handle = open_to_append(log)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def supervisor_started() -> SupervisorStarted:
    """Return the event by which this process becomes the run's supervisor."""
    myself = processes.identify(os.getpid())
    assert myself is not None, "a running process is in the process table"
    return SupervisorStarted(time=time.time(), host=os.uname().nodename, **asdict(myself))


def collect_exited(then: Callable[[int, int, int], object] = lambda pid, status, memory: None) -> bool:
    """Reap exited children, each with its wait status and peak bytes; return whether others are left."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return True
        then(pid, status, used.ru_maxrss * _MAXRSS_UNIT)


def end_groups_of(supervisor: int) -> int:
    """End the members of a gone supervisor's control groups; return how many processes they were."""
    ended = 0
    for group in groups_of(supervisor):
        ended += group.end()
        group.remove()
    return ended


def owner_ended(directory: RunDirectory, spec: RunSpec) -> Reason:
    """Return the reason of a run that ends because its owner has gone."""
    if spec.sweep is not None and not spec.resumed:
        return Reason("sweep-ended")
    return Reason("kernel-ended") if directory.is_cell(spec.program) else Reason("starter-ended")


def end_descendants(
    reap: Callable[[], bool], *, spared: frozenset[int] = frozenset(), patience: float = 0.2
) -> int:
    """End every descendant of this process; return how many had to be ended.

    They have ``patience`` seconds to exit by themselves (readers of closed pipes need milliseconds), half a
    second after SIGTERM, and up to four seconds of SIGKILL. ``reap`` reaps children and returns whether any
    are left: the process table may miss a new one, but a subreaper without children has no descendants.
    ``spared`` are pids that no signal ends.
    """
    ended: set[ProcessId] = set()
    begin = time.monotonic()
    while True:
        has_children = reap()
        tree = processes.tree_below(os.getpid())
        if spared:
            tree = [stat for stat in tree if stat.process.pid not in spared]
            has_children = bool(tree)
        left = [stat.process for stat in tree if not stat.zombie]
        elapsed = time.monotonic() - begin
        if not (left or has_children) or elapsed > _GIVEN_UP:
            return len(ended)
        if elapsed >= patience + _GRACE:
            ended.update(left)
            processes.send_all(left, signal.SIGKILL)
            # a process that forks and exits faster than the look stays in its group, which is a descendant's:
            # each rank has a session of its own
            processes.kill_groups({stat.group for stat in tree} - {os.getpgrp()})
        elif elapsed >= patience:
            fresh = [process for process in left if process not in ended]
            ended.update(fresh)
            processes.send_all(fresh, signal.SIGTERM)
            # a stopped process handles SIGTERM only after SIGCONT
            processes.send_all(fresh, signal.SIGCONT)
        time.sleep(0.01)


# engines send SIGURG, which all processes but a supervisor ignore
_NUMBERS = (signal.SIGCHLD, *REQUESTS_TO_END, signal.SIGURG, *FOR_THE_RANKS)


class Wakeup:
    """The signals of this process, received at a socket."""

    def __init__(self) -> None:
        self.socket, self._theirs = socket.socketpair()
        self.socket.setblocking(False)
        self._theirs.setblocking(False)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        for number in _NUMBERS:
            # the handler does nothing: the wake-up descriptor carries the number
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*REQUESTS_TO_END, *FOR_THE_RANKS))  # earlier ones, too

    def received(self) -> Iterator[signal.Signals]:
        """Yield the received signals, but for SIGCHLD, which only wakes up."""
        for number in self.socket.recv(4096):
            if number != signal.SIGCHLD:
                yield signal.Signals(number)

    def requests_to_end(self) -> Iterator[signal.Signals]:
        """Yield those that are not for the ranks."""
        return (number for number in self.received() if number not in FOR_THE_RANKS)
