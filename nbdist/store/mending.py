"""A run that has lost its supervisor: whoever looks at it next ends what is left and writes it down.

The rule is the keeper's (``launch.keeper``), for the case that the keeper was killed, too, or the
machine went down.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from nbdist import processes
from nbdist.model import ProcessId, Run, RunEnded, RunLost, RunState
from nbdist.store.journal import Journal, read_events
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import snapshot

_GRACE = 0.5
_LIMIT = 3.0


def look(
    directory: RunDirectory,
    *,
    alive: Callable[[ProcessId], bool] = processes.alive,
    clock: Callable[[], float] = time.time,
) -> Run | None:
    """How a run stands, as ``snapshot`` says; one that is found LOST is mended first."""
    run = snapshot(directory, alive=alive, clock=clock)
    if run is None or run.state is not RunState.LOST or run.supervisor is None:
        return run
    if _recorded(directory):
        return run
    try:
        journal = Journal(directory.journal)
    except OSError:
        # its keeper is at work, or the disk refuses: the next look will do
        return run
    try:
        if not _recorded(directory):
            leftover = end_marked(directory)
            journal.append(RunLost(time=clock(), reason=run.reason, leftover=leftover))
    finally:
        journal.close()
    return snapshot(directory, alive=alive, clock=clock)


def end_marked(
    directory: RunDirectory,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """End every process that a rank of this run has started, known by its environment; how many.

    A process is signalled by pid and start time together: never another one that has its pid by now.
    """
    told: set[ProcessId] = set()
    begin = clock()
    empty = 0
    while empty < 2:  # one look at the process table can miss what is being forked in that moment
        left = processes.marked("NBDIST_RUN_DIR", str(directory.path))
        empty = 0 if left else empty + 1
        elapsed = clock() - begin
        if elapsed > _LIMIT:
            break
        if elapsed > _GRACE:
            processes.send_all(left, signal.SIGKILL)
        else:
            fresh = [process for process in left if process not in told]
            processes.send_all(fresh, signal.SIGTERM)
            processes.send_all(fresh, signal.SIGCONT)
        told.update(left)
        pause(0.02)
    return len(told)


def _recorded(directory: RunDirectory) -> bool:
    return any(isinstance(event, (RunEnded, RunLost)) for event in read_events(directory.journal))
