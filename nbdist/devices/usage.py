"""Memory and CPU time of a process and all that descend from it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from nbdist.model import ProcessId
from nbdist.processes import alive


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUsage:
    """``memory`` in bytes of resident memory (pages that processes share count in each), ``cpu`` in
    seconds since the processes started, ``pids`` the processes."""

    memory: int
    cpu: float
    pids: frozenset[int]

    @property
    def processes(self) -> int:
        return len(self.pids)


def tree_usage(process: ProcessId) -> TreeUsage | None:
    """What the process and its descendants use now; None when it has gone."""
    import psutil  # the supervisor imports this package, and has the standard library alone

    if not alive(process):
        return None
    memory, cpu, pids = 0, 0.0, set()
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(process.pid)
        for member in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                memory += member.memory_info().rss
                times = member.cpu_times()
                cpu += times.user + times.system
                pids.add(member.pid)
    return TreeUsage(memory=memory, cpu=cpu, pids=frozenset(pids)) if pids else None
