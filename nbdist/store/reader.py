"""Looks at one run again and again, and reads its files only when they have changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from nbdist import processes
from nbdist.model import ProcessId, Run
from nbdist.store.mending import look
from nbdist.store.paths import RunDirectory
from nbdist.store.shared_files import FileStat


class RunReader:
    """How a run stands, as often as one asks. A panel asks ten times a second."""

    def __init__(
        self,
        directory: RunDirectory,
        *,
        alive: Callable[[ProcessId], bool] = processes.alive,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._alive = alive
        self._clock = clock
        self._journal = FileStat(directory.journal)
        self._run: Run | None = None
        self._seen: tuple[int, ...] | None = None

    def look(self) -> Run | None:
        """How the run stands; None when its directory is gone or holds no spec that can be read."""
        stamp = self._stamp()
        if self._run is None or stamp is None or stamp != self._seen or self._left_alone(self._run):
            self._run = look(self._directory, alive=self._alive, clock=self._clock)
            # taken before the files were read: what was written meanwhile is seen at the next look
            self._seen = stamp
        return self._run

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            stat = self._journal.look()
        except OSError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def _left_alone(self, run: Run) -> bool:
        """Whether a run that goes on has lost its supervisor, which changes no file."""
        if run.state.terminal or run.spec.engine:
            return False  # an engine's run goes on without
        if run.supervisor is not None and run.supervisor_host != os.uname().nodename:
            return False  # nothing can be known of it here
        return run.supervisor is None or not self._alive(run.supervisor)
