"""Files that another machine may write, on a file system that remembers what it has seen, as NFS does.

Such a file system goes on denying a name that it was asked for too early, and ``os.stat`` tells how a file
was, both for up to a minute. A list of a directory is as it is now, and so is what is opened and read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

_STALE = 1.0  # seconds


def is_listed(path: Path) -> bool:
    """Whether a file is there; it is not asked for by its name.

    Its directory is there before anybody asks, or is one of a rank's later attempts.
    """
    if path.parent.name.startswith("attempt-") and not is_listed(path.parent):
        return False
    try:
        return path.name in os.listdir(path.parent)
    except OSError:
        return False


class FileStat:
    """How one file is, as often as one asks. ``clock`` in seconds."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._opened = -_STALE

    def look(self) -> os.stat_result:
        """As ``os.stat``, at most a second old. Raises OSError."""
        if (now := self._clock()) - self._opened >= _STALE:
            self._opened = now
            # a pipe would hold us, and a link lead elsewhere
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(self._path, flags)
            try:
                os.read(handle, 1)
            finally:
                os.close(handle)
        return os.stat(self._path)
