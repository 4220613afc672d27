"""Bonds of a process to its parent, and the start of a rank's; like ``prestart``, imports next to nothing."""

from __future__ import annotations

import ctypes
import os
import sys
from _socket import socketpair

from nbdist.worker.order import CHANNEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from _socket import socket
    from collections.abc import Callable, Mapping, Sequence
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms

REQUESTS_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FOR_THE_RANKS = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals of schedulers, which programs handle: a supervisor passes them on to its ranks."""

NOTIFY = "NBDIST_NOTIFY"
"""The variable with the address for notices of a run (``notices``), which its ranks do not get."""

_FILES, _FILES_OF_A_RANK = 48, 3
"""Open files of a supervisor at most, and additional ones per rank."""

_PR_SET_PDEATHSIG = 1  # prctl(2)
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


_given: int | None = None
"""The user's limit of open files, once ``allow_files`` has raised it."""


def allow_files(ranks: int) -> None:
    """Raise this process's limit of open files for so many ranks, if it may. The ranks keep the user's."""
    global _given
    needed = _FILES + _FILES_OF_A_RANK * ranks
    if needed <= (soft := os.sysconf("SC_OPEN_MAX")):
        return
    import resource  # seldom needed

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if most > soft:
        _given = soft if _given is None else _given
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def become_subreaper() -> None:
    """Make orphans among the descendants children of this process, so that none leaves its tree."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int, number: int) -> None:
    """Arm a signal for the end of ``parent``, or exit if it has ended; Linux keeps it across exec, not
    fork."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)  # it died between the fork and the call


def wake_with_parent() -> None:
    """Arm SIGCONT for the end of the thread that forked this process, which may be stopped then."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


def drop_interrupt() -> None:
    """Drop a pending interrupt, sent to the parent's group before this process had its own session."""
    if hasattr(signal, "sigtimedwait"):
        signal.sigtimedwait((signal.SIGINT,), 0)


def become_child(parent: int) -> None:
    """Prepare a forked child for exec: a session of its own, default handlers, and an end with ``parent``."""
    signal.set_wakeup_fd(-1)
    os.setsid()
    die_with_parent(parent, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        # exec keeps ignored signals; Python ignores SIGPIPE by itself
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def fork(become: Callable[[], None]) -> int:
    """Fork a child that runs ``become``, which never returns; return its pid."""
    # until the child has its own handlers, a signal to it would run ours
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            become()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def start_process(
    arguments: Sequence[str], *, environment: Mapping[str, str], cwd: str, log: str
) -> tuple[int, socket]:
    """Start the process of a rank in a session of its own; it writes straight into its log.

    Returns its pid and our end of the socket at which it waits for its order. Raises OSError. ``subprocess``
    cannot do it: the forking thread has to arm the parent-death signal between fork and exec.
    """
    ours, theirs = socketpair()
    parent = os.getpid()
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            pid = fork(lambda: _become(arguments, environment, cwd, output, theirs.fileno(), parent))
        finally:
            os.close(output)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return pid, ours


def _become(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: str, log: int, channel: int, parent: int
) -> None:
    try:
        become_child(parent)
        null = os.open(os.devnull, os.O_RDONLY)
        while channel <= CHANNEL:  # up to the lowest free number: the limit may be small
            channel = os.dup(channel)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(channel, CHANNEL)
        if _given is not None:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (_given, hard))
        os.chdir(cwd)
        os.execve(arguments[0], [*arguments], dict(environment))
    except BaseException as error:  # noqa: BLE001 - the top of a process: its log has the error
        os.write(log, f"nbdist: rank {arguments[-1]} could not be started: {error}\n".encode())
    finally:
        os._exit(127)
