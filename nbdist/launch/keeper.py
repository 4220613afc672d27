"""The process above the supervisor: there only for the case that the supervisor is killed.

A killed supervisor cannot end anything. Its ranks die by their parent-death signal, but what they had
started does not; those orphans fall to the nearest child subreaper, which is this process. It ends
them and writes the last event.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from nbdist.launch.lifetime import become_subreaper, die_with_parent, end_descendants
from nbdist.model import RunLost
from nbdist.store.custody import take_custody
from nbdist.store.journal import Journal
from nbdist.store.paths import RunDirectory


def keep(directory: RunDirectory, supervise: Callable[[], None]) -> int:
    """Run ``supervise`` in a child; clean up after it when it does not end by itself.

    Returns the exit status of this process: 0 when the run's end is recorded, by whomever.
    """
    become_subreaper()
    with contextlib.suppress(OSError):
        # without it, whoever looks while this process cleans up may say LOST first, and not know why
        take_custody(directory)
    keeper = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        # a supervisor whose keeper is killed stops its run while it still can
        die_with_parent(keeper, signal.SIGTERM)
        supervise()
        return 0
    return watch_over(supervisor, lambda: directory)


def watch_over(supervisor: int, find: Callable[[], RunDirectory | None]) -> int:
    """Wait for the child ``supervisor``, and clean up after it. ``find`` says of which run it was.

    Returns the exit status of this process: 0 when the run's end is recorded, by whomever.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: _pass_on(supervisor, received))
    status = _wait_for(supervisor)
    if status == 0:
        return 0
    leftover = end_descendants(_reap, patience=0.0)
    if (directory := find()) is None:
        return 0  # it was of none yet
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"failed ({status})"
    reason = f"its supervisor (pid {supervisor}) {how}"
    try:
        journal = Journal(directory.journal)
    except BlockingIOError:
        return 0  # somebody has found the run lost, and writes it down at this moment
    journal.append(RunLost(time=time.time(), reason=reason, leftover=leftover))
    journal.close()
    return 0


def _pass_on(supervisor: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor, number)


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
