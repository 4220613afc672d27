"""What a GPU does at one moment, and as one line of text: the probe's answers. Without NVML."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """``utilisation`` in percent, memory in bytes, ``power`` in watts, ``temperature`` in degrees Celsius,
    ``throttled`` 1 while heat or power slow it down; None for what the driver does not tell.
    ``processes``: pid and bytes of those that compute on it. ``ours``: whether those pids are pids of
    this machine, which in a container they need not be.
    """

    index: int
    utilisation: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    power: float | None = None
    temperature: float | None = None
    throttled: int | None = None
    processes: tuple[tuple[int, int], ...] = ()
    ours: bool = False

    def memory_of(self, pids: Iterable[int]) -> int | None:
        """What these processes hold of the GPU; what all hold where that cannot be told apart."""
        if not self.ours:
            return self.memory
        wanted = frozenset(pids)
        return sum(memory for pid, memory in self.processes if pid in wanted)


def encode_loads(loads: Iterable[GpuLoad]) -> str:
    return json.dumps([asdict(load) for load in loads])


def decode_loads(line: bytes) -> list[GpuLoad]:
    """Raises ValueError for what is no answer."""
    try:
        return [
            GpuLoad(**(data | {"processes": tuple(map(tuple, data["processes"]))}))
            for data in json.loads(line)
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError("not the loads of GPUs") from error
