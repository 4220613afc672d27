"""Whether a process still looks after a run: the lock that its reaper holds, and files that are touched.

Whether a run still has its reaper: a lock that it holds from its first moment to its last.

The journal cannot say it. Before the first event no process is named in it, and when a supervisor has been
killed its reaper, which is not named there, ends what is left and writes down why.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from nbdist.store.logs import FileStat
from nbdist.store.paths import RunDirectory


def take_custody(directory: RunDirectory) -> int:
    """Hold the lock until this process and those it forks have ended, however they end.

    Returns the descriptor: another process that is given it holds the lock, too.

    Raises OSError where the file system has no locks, or the spec is not there.
    """
    handle = os.open(directory.spec, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def wait_for_release(directory: RunDirectory) -> None:
    """Wait until no process of this machine holds the lock. Raises OSError as ``take_custody`` does."""
    handle = os.open(directory.spec, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def in_custody(directory: RunDirectory) -> bool:
    """Whether a process of this machine holds the lock. Runs of older versions have no lock."""
    try:
        handle = os.open(directory.spec, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # shared: two who ask at once do not take each other for the reaper
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


FORSAKEN = 180.0
"""Seconds without a touch after which he counts as gone."""

_GAP = 30.0


class Pulse:
    """As another machine sees it. ``clock`` in seconds."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stat = FileStat(path, clock=clock)
        self._clock = clock
        self._touched = self._look()
        self._since = self._looked = clock()

    def has_stopped(self) -> bool:
        """Whether it was not touched for so long. Where the last look is long ago the files did not
        answer, and its owner has waited for them as well: that time does not count."""
        touched, now = self._look(), self._clock()
        if touched != self._touched or now - self._looked > _GAP:
            self._touched, self._since = touched, now
        self._looked = now
        return now - self._since > FORSAKEN

    def _look(self) -> int:
        try:
            return self._stat.look().st_mtime_ns
        except OSError:
            return 0
