"""How long nothing has been heard of a run: its engine does not answer, and its ranks leave no trace.

An engine that is away for a while loses nothing: what the nodes do is seen in the run's directory. But a
watcher must not wait for ever for one that will never come again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nbdist import config
from nbdist.launch.jobs.merging import NodeJournals
from nbdist.model import Run
from nbdist.store.paths import RunDirectory
from nbdist.store.shared_files import FileStat, is_listed

_LOOK = 2.0

_QUEUED = 6.0
"""So much longer it may take for a run that has not begun: a queue outlives a day of maintenance."""

_ASKED = 0.1
"""Of a run that is to end it takes this part of the time."""


class Silence:
    """``limit`` in seconds; ``now`` is monotonic seconds."""

    def __init__(self, directory: RunDirectory, nodes: NodeJournals, limit: float | None = None) -> None:
        self._directory = directory
        self._nodes = nodes
        self._limit = config.engine_silence() if limit is None else limit
        self._since: float | None = None
        self._looked = 0.0
        self._traces: frozenset[tuple[str, int, int]] = frozenset()

    def broken(self) -> None:
        """The engine has said something."""
        self._since = None

    def lasts_too_long(self, run: Run, now: float, *, asked: bool) -> bool:
        """Whether nobody is to be expected any more. Asked while the engine does not answer."""
        if self._since is None:
            self._since, self._traces = now, self._look(run)
        elif now - self._looked >= _LOOK:
            self._looked = now
            if (traces := self._look(run)) != self._traces:
                self._since, self._traces = now, traces
        return now - self._since >= self._limit_of(asked=asked)

    def _limit_of(self, *, asked: bool) -> float:
        if asked:
            return self._limit * _ASKED
        return self._limit if self._nodes.numbers else self._limit * _QUEUED

    def _look(self, run: Run) -> frozenset[tuple[str, int, int]]:
        """The files that change while supervisors and ranks live: sizes and times, whosever clock."""
        found = set()
        for path in self._files(run):
            if not is_listed(path):
                continue
            with contextlib.suppress(OSError):
                status = FileStat(path).look()
                found.add((str(path), status.st_size, status.st_mtime_ns))
        return frozenset(found)

    def _files(self, run: Run) -> Iterator[Path]:
        for node in self._nodes.directories():
            yield node.journal
        for rank in run.spec.ranks:
            files = self._directory.rank(rank.rank, run.attempt)
            yield files.log
            yield files.system
