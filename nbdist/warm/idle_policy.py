"""What ranks that wait may take: how long, how much memory, and processor time that nothing else wants."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nbdist.control_groups import own_groups
from nbdist.devices.usage import memory_available

IDLE_LIMIT = 900.0
"""Seconds after which unused ranks are given up."""

LEAST_MEMORY = 1 << 29

_LEAST_SECONDS = 0.5
"""Seconds between two looks at the processors: the system counts in hundredths."""


class SpareCpus:
    """Counts the CPUs that had nothing to do from one look to the next, and that this process may use: by its
    affinity, and by the limits of its control groups (cgroup v2, cpu.max)."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        groups: Iterable[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stat = root / "proc/stat"
        self._clock = clock
        places = map(Path, own_groups() if groups is None else groups)
        self._limits = {group: limit for group in places if (limit := _limit(group)) is not None}
        self._then = self._read()

    def look(self) -> float:
        """Return the CPUs since the last look; 0 when that was a moment ago, or the system does not tell."""
        (then, *before), (now, *after) = self._then, self._read()
        if now - then < _LEAST_SECONDS:
            return 0.0
        self._then = [now, *after]
        idle, *used = [(late - early) / (now - then) for early, late in zip(before, after, strict=True)]
        left = [limit - use for limit, use in zip(self._limits.values(), used, strict=True)]
        return max(0.0, min([idle, *left]))

    def _read(self) -> list[float]:
        """The time, the seconds that the CPUs have been idle, and those that each limited group has used."""
        return [self._clock(), self._idle(), *map(_used, self._limits)]

    def _idle(self) -> float:
        ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        with contextlib.suppress(OSError, ValueError, IndexError):
            rows = [line.split() for line in self._stat.read_text().splitlines()]
            # idle and iowait (proc(5))
            ticks = sum(int(row[4]) + int(row[5]) for row in rows if row[0] in ours)
            return ticks / os.sysconf("SC_CLK_TCK")
        return 0.0


def _limit(group: Path) -> float | None:
    """Return the CPUs that a group may use; None for any number."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    return None


def _used(group: Path) -> float:
    with contextlib.suppress(OSError, ValueError):
        return int((group / "cpu.stat").read_text().split()[1]) / 1e6
    return 0.0


@dataclass(slots=True)
class IdlePolicy:
    """How long it is worth waiting. ``clock`` counts seconds, ``available`` returns the memory that is left,
    ``spare`` the CPUs that were idle since it was called last."""

    clock: Callable[[], float] = time.monotonic
    available: Callable[[], int | None] = memory_available
    spare: Callable[[], float] = field(default_factory=lambda: SpareCpus().look)
    least: int = LEAST_MEMORY
    limit: float = IDLE_LIMIT
    _begun: float | None = field(default=None, init=False)

    def restart(self) -> None:
        """Count from the next look on: no run could have used the ranks until now."""
        self._begun = None

    def over(self) -> str:
        """Say why there is no point in waiting any longer; empty while there is."""
        now = self.clock()
        self._begun = now if self._begun is None else self._begun
        if now - self._begun >= self.limit:
            return f"no run used them for {self.limit / 60:g} minutes"
        available = self.available()
        if available is not None and available < self.least:
            return f"memory got short: {available >> 20} MB were left"
        return ""
