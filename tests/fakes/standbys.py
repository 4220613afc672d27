"""Ranks that wait, without processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbdist.model.plan import Plan
from nbdist.store.paths import RunDirectory
from nbdist.warm.match import RankShape, shape_of


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
    """What the pool needs of a standby. ``problem`` is why it takes no run."""

    def __init__(
        self,
        plan: Plan,
        *,
        idle: float,
        beside: bool = False,
        hurry: bool = False,
        problem: str = "",
        gone: str = "",
        ready: bool = True,
        up: bool = True,
        hopeless: bool = True,
    ) -> None:
        self.shape: RankShape = shape_of(plan)
        self.reads: frozenset[str] = frozenset()
        self.supervisor = FakeSubmitted()
        self.problem, self.gone, self.ready = problem, gone, ready
        self.beside, self.hopeless, self.up = beside, hopeless, up
        self.hurried = hurry
        self.left = False

    def look(self) -> None:
        """Nothing is said."""

    def wait_until_ready(self, limit: float) -> bool:
        return self.ready and not self.gone

    def hurry(self) -> None:
        self.beside, self.hurried = False, True

    def go(self, directory: RunDirectory, environment: Mapping[str, str]) -> str:
        return self.problem

    def leave(self) -> None:
        self.left = True

    def memory(self) -> tuple[int, int]:
        return 500 << 20, 400 << 20
