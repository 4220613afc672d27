"""Limits of waiting ranks: time, memory, and idle CPUs."""

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
"""Seconds after which unused ranks end."""

LEAST_MEMORY = 1 << 29

_LEAST_SECONDS = 0.5
"""Seconds between two looks at the processors: the system counts in hundredths."""


class SpareCpus:
    """Idle CPUs that affinity and control groups (cgroup v2, cpu.max) leave to this process."""

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
        """Return the CPUs idle since the last look; 0 right after it, or where the system does not count."""
        (then, *before), (now, *after) = self._then, self._read()
        if now - then < _LEAST_SECONDS:
            return 0.0
        self._then = [now, *after]
        idle, *used = [(late - early) / (now - then) for early, late in zip(before, after, strict=True)]
        left = [limit - use for limit, use in zip(self._limits.values(), used, strict=True)]
        return max(0.0, min([idle, *left]))

    def _read(self) -> list[float]:
        """Return the time, the idle seconds of the CPUs, and the used seconds of each limited group."""
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


_LAST, _EQUAL = 19, 0
_SECONDS, _PAUSE = 3.0, 0.01
"""The system takes one change of a weight in a tenth of a second, from all ordinary users together."""


def sessions_have_weights(root: Path = Path("/")) -> bool:
    """Return whether the scheduler weighs sessions (autogroup) and no control group has a weight instead.

    Any user may lower and raise these weights; SCHED_IDLE and nice values are rarely taken back (sched(7)).
    """
    try:
        enabled = (root / "proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return False
    weighed = any(
        "cpu" in controllers.split(",") and place != "/"
        for _, controllers, place in (line.split(":", 2) for line in lines)
    )
    return enabled and not weighed and not any(Path(group, "cpu.weight").exists() for group in own_groups())


def put_last(pid: int) -> None:
    """Give a process, which leads a session or is about to, only the CPU time that others leave."""
    deadline = time.monotonic() + _SECONDS
    with contextlib.suppress(OSError):
        while os.getsid(pid) != pid and time.monotonic() < deadline:
            time.sleep(0.001)  # until then it is in our session
        _weigh(pid, _LAST)


def put_beside(pid: int) -> None:
    """Give a process the CPU time of any other again."""
    with contextlib.suppress(OSError):
        _weigh(pid, _EQUAL)


def _weigh(pid: int, nice: int) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


@dataclass(slots=True)
class IdlePolicy:
    """Limits to waiting. ``available`` returns free bytes, ``spare`` the CPUs idle since its last call.
    ``weights``: sessions have weights, so that ranks can import behind a run."""

    clock: Callable[[], float] = time.monotonic
    available: Callable[[], int | None] = memory_available
    spare: Callable[[], float] = field(default_factory=lambda: SpareCpus().look)
    weights: bool = field(default_factory=sessions_have_weights)
    least: int = LEAST_MEMORY
    limit: float = IDLE_LIMIT
    _begun: float | None = field(default=None, init=False)

    def restart(self) -> None:
        """Count from the next call of ``over``: no run could have used the ranks until now."""
        self._begun = None

    def over(self) -> str:
        """Return why waiting has no point any longer; empty while it has."""
        now = self.clock()
        self._begun = now if self._begun is None else self._begun
        if now - self._begun >= self.limit:
            return f"no run used them for {self.limit / 60:g} minutes"
        available = self.available()
        if available is not None and available < self.least:
            return f"memory got short: {available >> 20} MB were left"
        return ""
