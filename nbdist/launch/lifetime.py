"""Bonds of lifetimes: the supervisor to its kernel, the ranks' descendants to it; and signals."""

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
from nbdist.launch.binding import REQUESTS_TO_END
from nbdist.model import NO_REASON, ProcessId, Reason, RunSpec, SupervisorStarted
from nbdist.store.paths import RunDirectory, open_to_append

_GRACE, _GIVEN_UP = 0.5, 4.0
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2)


class Lifeline:
    """Tells when the process that owns the run has gone.

    It holds a pidfd of the owner where the system has them: a socket alone would stay open in whatever the
    owner forked. Otherwise the owner closes its end of a socket pair. ``ended`` is the reason where the owner
    is neither a kernel nor a command.
    """

    def __init__(self, owner: ProcessId | None, descriptor: int | None, ended: Reason = NO_REASON) -> None:
        self.ended = ended
        self._socket: socket.socket | None = None
        if descriptor is not None:
            self._socket = socket.socket(fileno=descriptor)
            # a rank that inherited it would hold the line after us
            self._socket.set_inheritable(False)
        self._handle: int | None = None
        self.gone = owner is not None and not processes.alive(owner)
        if owner is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._handle = os.pidfd_open(owner.pid)
                # only now is the pid pinned; it may have changed owners before
                self.gone = self.gone or not processes.alive(owner)

    def descriptors(self) -> list[int]:
        """Return what turns readable when the owner has gone."""
        if self._handle is not None:
            return [self._handle]
        return [self._socket.fileno()] if self._socket is not None else []


def complain(message: str) -> None:
    """Write into the supervisor's own log. A full disk ends no run."""
    with contextlib.suppress(OSError):
        print(f"nbdist: {message}", file=sys.stderr, flush=True)


def write_into(log: Path) -> None:
    """Let this process and those that it starts write into a file. Raises OSError."""
    handle = open_to_append(log)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def supervisor_started() -> SupervisorStarted:
    """Return the event that this process supervises the run from now on."""
    myself = processes.identify(os.getpid())
    assert myself is not None, "a running process is in the process table"
    return SupervisorStarted(time=time.time(), host=os.uname().nodename, **asdict(myself))


def collect_exited(then: Callable[[int, int, int], object] = lambda pid, status, memory: None) -> bool:
    """Collect the children that have exited, each with its wait status and the most bytes that it held.
    Returns whether others are left."""
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return True
        then(pid, status, used.ru_maxrss * _MAXRSS_UNIT)


def end_groups_of(supervisor: int) -> int:
    """End what is in the control groups of a supervisor that has gone; return how many processes it was."""
    ended = 0
    for group in groups_of(supervisor):
        ended += group.end()
        group.remove()
    return ended


def owner_ended(directory: RunDirectory, spec: RunSpec) -> Reason:
    """Return why a run ends that has lost its owner."""
    if spec.sweep is not None and not spec.resumed:
        return Reason("sweep-ended")
    return Reason("kernel-ended") if directory.is_cell(spec.program) else Reason("starter-ended")


def end_descendants(
    reap: Callable[[], bool], *, spared: frozenset[int] = frozenset(), patience: float = 0.2
) -> int:
    """End every descendant of this process; return how many had to be ended.

    They get ``patience`` seconds to leave by themselves (what waits for a pipe to close is gone in
    milliseconds), SIGTERM and half a second, then SIGKILL for up to four seconds. ``reap`` collects exited
    children and returns whether any are left: a look at the process table can miss one that was made in that
    moment, and this process, a subreaper, has no children only when all is over. ``spared`` are pids that
    nothing can be done about.
    """
    told: set[ProcessId] = set()
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
            return len(told)
        if elapsed >= patience + _GRACE:
            told.update(left)
            processes.send_all(left, signal.SIGKILL)
            # what forks and exits faster than it is found is still in its group, which a descendant made,
            # since each rank has a session of its own
            processes.kill_groups({stat.group for stat in tree} - {os.getpgrp()})
        elif elapsed >= patience:
            fresh = [process for process in left if process not in told]
            told.update(fresh)
            processes.send_all(fresh, signal.SIGTERM)
            # a stopped process takes SIGTERM only once it goes on
            processes.send_all(fresh, signal.SIGCONT)
        time.sleep(0.01)


# an engine signals a supervisor alone by SIGURG: other processes ignore it
_NUMBERS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGURG)


class Wakeup:
    """Takes the signals of this process from now on."""

    def __init__(self) -> None:
        self.socket, self._theirs = socket.socketpair()
        self.socket.setblocking(False)
        self._theirs.setblocking(False)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        for number in _NUMBERS:
            # the handler does nothing: the wake-up descriptor carries the number
            signal.signal(number, lambda *_: None)
        # what has come before
        signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS_TO_END)

    def requests_to_end(self) -> Iterator[signal.Signals]:
        """Return the signals that came, but for SIGCHLD, which only wakes up."""
        for number in self.socket.recv(4096):
            if number != signal.SIGCHLD:
                yield signal.Signals(number)
