"""How long ranks wait that nobody uses."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nbdist.devices.memory import memory_available

IDLE_LIMIT = 900.0
"""Seconds after which ranks that nobody has used are given up."""

LEAST_MEMORY = 1 << 29


@dataclass(slots=True)
class Patience:
    """How long it is worth waiting. ``clock`` counts seconds, ``available`` says how much memory is left."""

    clock: Callable[[], float] = time.monotonic
    available: Callable[[], int | None] = memory_available
    least: int = LEAST_MEMORY
    limit: float = IDLE_LIMIT
    _begun: float | None = field(default=None, init=False)

    def restart(self) -> None:
        """Nobody could have used it until now."""
        self._begun = None

    def over(self) -> str:
        """Why there is no point in waiting any longer; empty while there is."""
        now = self.clock()
        self._begun = now if self._begun is None else self._begun
        if now - self._begun >= self.limit:
            return f"nobody used it for {self.limit / 60:g} minutes"
        available = self.available()
        if available is not None and available < self.least:
            return f"memory got short: {available >> 20} MB were left"
        return ""
