"""The process above the supervisor: there only for the case that the supervisor is killed, or does not go on.

A killed supervisor cannot end anything. Its ranks die by their parent-death signal, but what they had
started does not; those orphans fall to the nearest child subreaper, which is this process. It ends
them and writes the last event. One that does not go on is the watchdog's (``watchdog``). What all that
needs is imported when the ranks have begun.
"""

from __future__ import annotations

import os
import select
import time

from nbdist.launch.binding import REQUESTS_TO_END, become_subreaper, die_with_parent, wake_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from nbdist.store.paths import RunDirectory
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms

_BEGIN = 1000
"""Milliseconds in which the ranks need the processors more than this process does."""

_LOOK = 1000
"""Milliseconds between two looks of the watchdog."""


def keep(directory: RunDirectory, supervise: Callable[[], None]) -> int:
    """Run ``supervise`` in a child; clean up after it when it does not end by itself.

    Returns the exit status of this process: 0 when the run's end is recorded, by whomever.
    """
    from nbdist.store.run_store import take_run_lock

    try:
        # without it, a reader that looks while this process cleans up may say LOST first, without the reason
        take_run_lock(directory)
    except OSError:
        pass
    return keep_over(supervise, lambda: directory)


def keep_over(supervise: Callable[[], None], find: Callable[[], RunDirectory | None]) -> int:
    """Keep watch over a run whose lock another process took: ``find`` gives its directory."""
    become_subreaper()
    reaper = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        # a supervisor whose reaper is killed stops its run while it still can
        die_with_parent(reaper, signal.SIGTERM)
        supervise()
        return 0
    return watch_over(supervisor, find)


def watch_over(supervisor: int, find: Callable[[], RunDirectory | None]) -> int:
    """Wait for the child ``supervisor``, and clean up after it. ``find`` says of which run it was.

    Returns the exit status of this process: 0 when the run's end is recorded, by whomever.
    """
    parent = os.getppid()
    wake_with_parent()
    for number in REQUESTS_TO_END:
        signal.signal(number, lambda received, _: pass_on(supervisor, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS_TO_END)
    if _watch(supervisor, find, parent):
        return 0
    status = _wait_for(supervisor)
    return 0 if status == 0 else _clean_up(supervisor, status, find)


def _watch(supervisor: int, find: Callable[[], RunDirectory | None], parent: int) -> bool:
    """Until the supervisor has ended; whether the watchdog has ended the run in its place."""
    handle = _open(supervisor)
    if handle is not None and _ends_within(_BEGIN, handle):
        return False
    # what the last event takes, before a user installs another version
    import nbdist.launch.lifetime
    import nbdist.store.journal  # noqa: F401
    from nbdist.launch.watchdog import Watchdog

    if handle is None:
        return False
    watchdog = Watchdog(supervisor, find, parent)
    while not _ends_within(_LOOK, handle):
        if reason := watchdog.look():
            watchdog.end_run(reason)
            return True
    return False


def _open(supervisor: int) -> int | None:
    """What turns readable when the supervisor ends; None where the system has no such thing."""
    try:
        return os.pidfd_open(supervisor)
    except (AttributeError, OSError):
        return None


def _ends_within(limit: int, handle: int) -> bool:
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    return bool(ended.poll(limit))


def _clean_up(supervisor: int, status: int, find: Callable[[], RunDirectory | None]) -> int:
    from signal import Signals

    from nbdist.launch.lifetime import collect_exited, end_descendants, end_groups_of
    from nbdist.model import Reason, RunLost
    from nbdist.store.journal import Journal

    leftover = end_descendants(collect_exited, patience=0.0) + end_groups_of(supervisor)
    if (directory := find()) is None:
        return 0  # no run assigned yet
    if status < 0:
        reason = Reason("supervisor-killed", pid=supervisor, signal=Signals(-status).name)
    else:
        reason = Reason("supervisor-failed", pid=supervisor, status=status)
    try:
        journal = Journal(directory.journal)
    except BlockingIOError:
        return 0  # another process has found the run lost, and writes it down at this moment
    journal.append(RunLost(time=time.time(), reason=reason, leftover=leftover))
    journal.close()
    return 0


def pass_on(child: int, number: int, *_: object) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass


def _wait_for(supervisor: int) -> int:
    """The exit code of the supervisor, negative for a signal. Orphans are collected on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            return os.waitstatus_to_exitcode(status)
