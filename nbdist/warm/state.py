"""The state of a pool of warm ranks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmState:
    """State of a pool: ``ranks`` of ``framework`` wait, or why none do. Memory in bytes."""

    mode: str
    ranks: int = 0
    framework: str = ""
    ready: bool = False
    shared: int = 0
    private: int = 0
    reason: str = ""
