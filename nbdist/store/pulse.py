"""A file that somebody touches again and again as long as he looks after something."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from nbdist.store.shared_files import FileStat

FORSAKEN = 180.0
"""Seconds without a touch after which he counts as gone."""

_GAP = 30.0


class Pulse:
    """As somebody on another machine sees it. ``clock`` in seconds."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stat = FileStat(path, clock=clock)
        self._clock = clock
        self._touched = self._look()
        self._since = self._looked = clock()

    def has_stopped(self) -> bool:
        """Whether nobody has touched it for so long. Where the last look is long ago the files did not
        answer, and whoever would have touched it has waited for them as well: that time does not count."""
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
