"""Process above the supervisor, for a supervisor that is killed or stops.

A killed supervisor's ranks die by their parent-death signal, but not their children. These orphans become
children of this process, a subreaper, which ends them and writes the last event. The ``watchdog`` ends a run
whose supervisor stopped. Modules for that are imported once the ranks have begun.
"""

from __future__ import annotations

import os
import select
import time

from nbdist.launch.binding import (
    FOR_THE_RANKS,
    REQUESTS_TO_END,
    become_subreaper,
    die_with_parent,
    wake_with_parent,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from nbdist.store.paths import RunDirectory
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms

_BEGIN = 1000
"""Milliseconds for which the ranks need the processors more."""

_LOOK = 1000
"""Milliseconds between two looks of the watchdog."""


def keep(directory: RunDirectory, supervise: Callable[[], None]) -> int:
    """Run ``supervise`` in a child, and clean up if it is killed. Returns 0, the exit status of this
    process."""
    from nbdist.store.run_store import take_run_lock

    try:
        # or a reader may record LOST without the reason while this process cleans up
        take_run_lock(directory)
    except OSError:
        pass
    return keep_over(supervise, lambda: directory)


def keep_over(supervise: Callable[[], None], find: Callable[[], RunDirectory | None]) -> int:
    """Keep watch over a run whose lock is taken; ``find`` returns its directory."""
    become_subreaper()
    reaper = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        # if the reaper is killed, the supervisor stops its run while it can
        die_with_parent(reaper, signal.SIGTERM)
        supervise()
        return 0
    return watch_over(supervisor, find)


def watch_over(supervisor: int, find: Callable[[], RunDirectory | None]) -> int:
    """Wait for the child ``supervisor``, and clean up after it; ``find`` returns its run's directory."""
    parent = os.getppid()
    wake_with_parent()
    for number in REQUESTS_TO_END:
        signal.signal(number, lambda received, _: pass_on(supervisor, received))
    for number in FOR_THE_RANKS:
        # who sends them to all processes of a job sends them to the supervisor, too
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*REQUESTS_TO_END, *FOR_THE_RANKS))
    if not _watch(supervisor, find, parent) and (status := _wait_for(supervisor)):
        _clean_up(supervisor, status, find)
    return 0


def _watch(supervisor: int, find: Callable[[], RunDirectory | None], parent: int) -> bool:
    """Wait for the end of the supervisor; return whether the watchdog ended the run instead."""
    handle: int | None = None
    try:
        handle = os.pidfd_open(supervisor)  # turns readable at its end
    except (AttributeError, OSError):
        pass  # a system without
    if handle is not None and _ends_within(_BEGIN, handle):
        return False
    # the modules of the last event, before a user installs another version
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


def _ends_within(limit: int, handle: int) -> bool:
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    return bool(ended.poll(limit))


def _clean_up(supervisor: int, status: int, find: Callable[[], RunDirectory | None]) -> None:
    from signal import Signals

    from nbdist.launch.lifetime import collect_exited, end_descendants, end_groups_of
    from nbdist.model import Reason, RunLost
    from nbdist.store.journal import Journal

    leftover = end_descendants(collect_exited, patience=0.0) + end_groups_of(supervisor)
    if (directory := find()) is None:
        return  # no run assigned yet
    if status < 0:
        reason = Reason("supervisor-killed", pid=supervisor, signal=Signals(-status).name)
    else:
        reason = Reason("supervisor-failed", pid=supervisor, status=status)
    try:
        journal = Journal(directory.journal)
    except BlockingIOError:
        return  # another process found the run lost, and records it
    journal.append(RunLost(time=time.time(), reason=reason, leftover=leftover))
    journal.close()


def pass_on(child: int, number: int, *_: object) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass


def _wait_for(supervisor: int) -> int:
    """Reap children until the supervisor; return its exit code, negative for a signal."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            return os.waitstatus_to_exitcode(status)
