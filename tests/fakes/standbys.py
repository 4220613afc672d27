"""Ranks that wait, without processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    """A standby as the pool uses it. ``problem`` is why it takes no run."""

    def __init__(
        self, plan: Plan, *, idle: float, beside: bool = False, hurry: bool = False, **state: Any
    ) -> None:
        self.shape: RankShape = shape_of(plan)
        self.reads: frozenset[str] = frozenset()
        self.supervisor = FakeSubmitted()
        self.problem: str = state.pop("problem", "")
        self.gone: str = state.pop("gone", "")
        self.beside, self.hurried, self.left = beside, hurry, False
        self.ready, self.up, self.hopeless = (state.pop(name, True) for name in ("ready", "up", "hopeless"))
        assert not state, f"a standby has no {state}"

    def look(self) -> None:
        """Do nothing."""

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
