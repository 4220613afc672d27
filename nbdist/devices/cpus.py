"""The CPUs of this machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from nbdist.control_groups import own_groups

_LEAST = 0.5
"""Seconds between two looks: the system counts in hundredths."""


def cpu_count() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SpareCpus:
    """How many CPUs have had nothing to do from one look to the next, and would be free for this process.

    ``limited``: a control group that it is in may use so much and no more (cgroup v2, cpu.max). What has the
    lowest priority takes from that, too.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        groups: Callable[[], list[str]] = lambda: list(own_groups()),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stat = root / "proc/stat"
        self._clock = clock
        self._limits = {group: limit for group in groups() if (limit := _limit(group)) is not None}
        self._then = self._read()

    @property
    def limited(self) -> bool:
        return bool(self._limits)

    def look(self) -> float:
        """CPUs since the last look; 0 when that was a moment ago, and where the system does not tell."""
        then, seconds = self._then, self._clock() - self._then[0]
        if seconds < _LEAST:
            return 0.0
        self._then = self._read()
        idle, *used = [(now - before) / seconds for now, before in zip(self._then[1:], then[1:], strict=True)]
        limits = self._limits.values()
        return max(0.0, min([idle, *(limit - use for limit, use in zip(limits, used, strict=True))]))

    def _read(self) -> list[float]:
        """The time, the seconds that the CPUs have been idle, and those that each limited group has used."""
        return [self._clock(), self._idle(), *map(_used, self._limits)]

    def _idle(self) -> float:
        ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks = 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in self._stat.read_text().splitlines():
                name, *fields = line.split()
                if name in ours:
                    # idle and iowait (proc(5))
                    ticks += int(fields[3]) + int(fields[4])
        return ticks / os.sysconf("SC_CLK_TCK")


def _limit(group: str) -> float | None:
    """CPUs that a group may use; None for any number."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path(group, "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    return None


def _used(group: str) -> float:
    """Seconds that the processes of a group have been on a CPU."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(group, "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec"):
                return int(line.split()[1]) / 1e6
    return 0.0
