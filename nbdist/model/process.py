"""The identity of a process. A pid alone is none: the kernel gives it to another process later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """One process, for as long as this machine is up.

    ``start_time`` is what the system counts it in (Linux: clock ticks since boot), so it means
    nothing without ``boot_id``; both are compared, never computed with.
    """

    pid: int
    start_time: int
    boot_id: str
