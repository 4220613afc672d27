"""Whether all that the ranks wrote is to be seen here: a network file system may show it late.

The end of a run is written down when it is, so that whoever shows the run to its end has its last lines.
"""

from __future__ import annotations

import os

from nbdist.model import Run
from nbdist.store.paths import RunDirectory

LATE = 70.0
"""Seconds after which nothing comes any more: an attribute cache of NFS believes itself for up to 60."""

_IN_A_HURRY = 5.0
_LOOK = 0.25


class LateLogs:
    """``now`` is monotonic seconds."""

    def __init__(self, directory: RunDirectory, limit: float = LATE) -> None:
        self._directory = directory
        self._limit = limit
        self._since: float | None = None
        self._looked = 0.0
        self._missing: dict[int, int] = {}

    def forget(self) -> None:
        """The ranks begin again."""
        self._since = None

    def awaited(self, run: Run, now: float, *, hurry: bool) -> bool:
        """Whether the log of a rank of the run, which is over, is shorter than its node has said, and may yet
        grow. ``hurry``: somebody wants the run to end."""
        if self._since is None:
            self._since = now
            self._missing = {rank.rank: rank.log for rank in run.ranks if rank.log}
        elif now - self._looked < _LOOK:
            return bool(self._missing)
        self._looked = now
        if now - self._since > (_IN_A_HURRY if hurry else self._limit):
            self._missing = {}
        self._missing = {
            rank: length for rank, length in self._missing.items() if self._length(run, rank) < length
        }
        return bool(self._missing)

    def _length(self, run: Run, rank: int) -> int:
        try:
            # to open a file asks the server how long it is; to look at its name need not
            handle = os.open(self._directory.rank(rank, run.attempt).log, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            return os.fstat(handle).st_size
        finally:
            os.close(handle)
