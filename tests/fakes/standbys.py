"""Ranks that wait, without processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nbdist.runner.fitting import Shape, shape_of
from nbdist.runner.planning import Plan


@dataclass
class FakeProcess:
    pid: int = 0

    def poll(self) -> int:
        return 0


@dataclass
class FakeSubmitted:
    process: FakeProcess = field(default_factory=FakeProcess)
    lifeline: None = None


class FakeStandby:
    """What the pool needs of a standby. ``problem`` is what a check finds."""

    def __init__(
        self, plan: Plan, *, idle: float, problem: str = "", gone: str = "", ready: bool = True
    ) -> None:
        self.shape: Shape = shape_of(plan)
        self.reads: frozenset[str] = frozenset()
        self.submitted = FakeSubmitted()
        self.problem, self.gone, self.ready = problem, gone, ready
        self.left = False

    def look(self) -> None:
        """Nothing is said."""

    def wait_until_ready(self, limit: float, interrupted: Callable[[], bool] = lambda: False) -> bool:
        return self.ready and not self.gone

    def check(self) -> str:
        return self.problem

    def leave(self) -> None:
        self.left = True

    def memory(self) -> tuple[int, int]:
        return 500 << 20, 400 << 20
