"""Readers of a run's state, which end a run that has lost its supervisor, and record that.

The reaper (``launch.reaper``) does the same; a reader does it where the reaper was killed, too, or the
machine went down. The process that started the reaper calls ``note_end`` instead.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable

from nbdist import processes
from nbdist.control_groups import find_group
from nbdist.model import ProcessId, Reason, Run, RunEnded, RunLost, RunState
from nbdist.store.journal import Journal, read_events
from nbdist.store.logs import FileStat
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import snapshot, wait_for_release, why_lost

_GRACE = 0.5
_LIMIT = 3.0


def look(
    directory: RunDirectory,
    *,
    alive: Callable[[ProcessId], bool] = processes.alive,
    clock: Callable[[], float] = time.time,
) -> Run | None:
    """Return a run's state, as ``snapshot``; end a LOST run first."""
    run = snapshot(directory, alive=alive, clock=clock)
    if run is None or run.state is not RunState.LOST or run.supervisor is None:
        return run
    if _recorded(directory) or not _write_down(directory, run.reason, clock, run.supervisor):
        return run
    return snapshot(directory, alive=alive, clock=clock)


def note_end(directory: RunDirectory, pid: int, code: int) -> None:
    """Record that a run is LOST, even without a supervisor in its journal: the process that was to keep it
    ended with ``code`` (negative for a signal). Wait first for a supervisor that still ends the run."""
    if directory.job.exists():
        return  # it goes on elsewhere, watched or not
    with contextlib.suppress(OSError):
        wait_for_release(directory)
    run = look(directory)
    if run is None or run.state.terminal or run.supervisor is not None:
        return
    if code < 0:
        reason = Reason("supervisor-killed", pid=pid, signal=signal.Signals(-code).name)
    else:
        reason = Reason("supervisor-failed", pid=pid, status=code)
    _write_down(directory, reason, time.time)


def _write_down(
    directory: RunDirectory, reason: Reason, clock: Callable[[], float], supervisor: ProcessId | None = None
) -> bool:
    """End the processes of a lost run, and record it once; return whether that was possible."""
    try:
        journal = Journal(directory.journal)
    except OSError:
        return False  # its reaper is at work, or the disk refuses: the next reader tries again
    try:
        if not _recorded(directory):
            leftover = end_marked(directory) + _end_group(supervisor)
            journal.append(RunLost(time=clock(), reason=reason, leftover=leftover))
    finally:
        journal.close()
    return True


def _end_group(supervisor: ProcessId | None) -> int:
    """End the processes left in the ranks' control group, whatever their environment; return their number."""
    if supervisor is None or supervisor.boot_id != processes.boot_id():
        return 0
    if (group := find_group(supervisor.pid, supervisor.start_time)) is None:
        return 0
    ended = group.end()
    group.remove()
    return ended


def end_marked(directory: RunDirectory) -> int:
    """End every process of this run's ranks, found by its environment; return their number. A signal goes to
    a pid and start time: never to a new process with an old pid."""
    signalled: set[ProcessId] = set()
    begin = time.monotonic()
    empty = 0
    while empty < 2:  # one look at the process table can miss a process that is being forked
        left = processes.marked("NBDIST_RUN_DIR", str(directory.path))
        empty = 0 if left else empty + 1
        elapsed = time.monotonic() - begin
        if elapsed > _LIMIT:
            break
        if elapsed > _GRACE:
            processes.send_all(left, signal.SIGKILL)
        else:
            fresh = [process for process in left if process not in signalled]
            processes.send_all(fresh, signal.SIGTERM)
            processes.send_all(fresh, signal.SIGCONT)
        signalled.update(left)
        time.sleep(0.02)
    return len(signalled)


def _recorded(directory: RunDirectory) -> bool:
    return any(isinstance(event, (RunEnded, RunLost)) for event in read_events(directory.journal))


class RunReader:
    """A reader of a run's state, cheap enough for ten looks a second."""

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
        """Return the run's state; None when its directory is gone or its spec unreadable."""
        stamp: tuple[int, ...] | None = None
        with contextlib.suppress(OSError):
            stat = self._journal.look()
            stamp = stat.st_ino, stat.st_size, stat.st_mtime_ns
        if self._run is None or stamp is None or stamp != self._seen or self._left_alone(self._run):
            self._run = look(self._directory, alive=self._alive, clock=self._clock)
            # from before the read: the next look sees what was written meanwhile
            self._seen = stamp
        return self._run

    def _left_alone(self, run: Run) -> bool:
        """Return whether a live run has no supervisor (yet, or any more): then no file changes."""
        if run.state.terminal or run.spec.engine:
            return False
        return run.supervisor is None or why_lost(run, self._alive, self._clock()) is not None
