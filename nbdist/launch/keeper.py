"""The process above the supervisor: there only for the case that the supervisor is killed.

A killed supervisor cannot end anything. Its ranks die by their parent-death signal, but what they had
started does not; those orphans fall to the nearest child subreaper, which is this process. It ends
them and writes the last event. What that needs is imported when the ranks have begun (``_get_ready``).
"""

from __future__ import annotations

import os
import select
import time

from nbdist.launch.binding import REQUESTS_TO_END, become_subreaper, die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from nbdist.store.paths import RunDirectory
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms

_BEGIN = 1000
"""Milliseconds in which the ranks need the processors more than this process does."""


def keep(directory: RunDirectory, supervise: Callable[[], None]) -> int:
    """Run ``supervise`` in a child; clean up after it when it does not end by itself.

    Returns the exit status of this process: 0 when the run's end is recorded, by whomever.
    """
    from nbdist.store.custody import take_custody

    try:
        # without it, whoever looks while this process cleans up may say LOST first, and not know why
        take_custody(directory)
    except OSError:
        pass
    return keep_over(supervise, lambda: directory)


def keep_over(supervise: Callable[[], None], find: Callable[[], RunDirectory | None]) -> int:
    """The same of a run that is in custody: ``find`` says which it is."""
    become_subreaper()
    keeper = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        # a supervisor whose keeper is killed stops its run while it still can
        die_with_parent(keeper, signal.SIGTERM)
        supervise()
        return 0
    return watch_over(supervisor, find)


def watch_over(supervisor: int, find: Callable[[], RunDirectory | None]) -> int:
    """Wait for the child ``supervisor``, and clean up after it. ``find`` says of which run it was.

    Returns the exit status of this process: 0 when the run's end is recorded, by whomever.
    """
    for number in REQUESTS_TO_END:
        signal.signal(number, lambda received, _: _pass_on(supervisor, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS_TO_END)
    _get_ready(supervisor)
    status = _wait_for(supervisor)
    return 0 if status == 0 else _clean_up(supervisor, status, find)


def _get_ready(supervisor: int) -> None:
    """Import what the last event takes, before somebody installs another version; but not at first."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(supervisor)
        except OSError:
            pass
        else:
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            over = ended.poll(_BEGIN)
            os.close(handle)
            if over:
                return
    import nbdist.launch.lifetime
    import nbdist.store.journal  # noqa: F401


def _clean_up(supervisor: int, status: int, find: Callable[[], RunDirectory | None]) -> int:
    from signal import Signals

    from nbdist.launch.lifetime import end_descendants
    from nbdist.model import RunLost
    from nbdist.store.journal import Journal

    leftover = end_descendants(_reap, patience=0.0)
    if (directory := find()) is None:
        return 0  # it was of none yet
    how = f"was killed by {Signals(-status).name}" if status < 0 else f"failed ({status})"
    reason = f"its supervisor (pid {supervisor}) {how}"
    try:
        journal = Journal(directory.journal)
    except BlockingIOError:
        return 0  # somebody has found the run lost, and writes it down at this moment
    journal.append(RunLost(time=time.time(), reason=reason, leftover=leftover))
    journal.close()
    return 0


def _pass_on(supervisor: int, number: int) -> None:
    try:
        os.kill(supervisor, number)
    except ProcessLookupError:
        pass


def _wait_for(supervisor: int) -> int:
    """The exit code of the supervisor, negative for a signal. Orphans are collected on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            return os.waitstatus_to_exitcode(status)


def _reap() -> bool:
    """Collect exited orphans; whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
