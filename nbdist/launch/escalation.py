"""Ending processes: which signal when, until nothing is left."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from nbdist import config


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Send ``signal`` (None: nothing, only wait), then give ``grace`` seconds."""

    signal: signal.Signals | None
    grace: float


KILL = Step(signal=signal.SIGKILL, grace=2.0)

# stopped by a person or a limit: the program may catch KeyboardInterrupt and save its work
ON_STOP = (
    Step(signal=signal.SIGINT, grace=config.INTERRUPT_GRACE),
    Step(signal=signal.SIGTERM, grace=config.TERMINATE_GRACE),
    KILL,
)
# another rank has failed: these wait for it in a collective, and would wait for ever
ON_PEER_FAILURE = (Step(signal=signal.SIGTERM, grace=config.PEER_GRACE), KILL)
# its own program raised: it is on its way out
ON_OWN_ERROR = (
    Step(signal=None, grace=config.EXIT_GRACE),
    Step(signal=signal.SIGTERM, grace=config.TERMINATE_GRACE),
    KILL,
)


class Escalation:
    """One rank on its way out: a step, its grace, the next step. The last one has no successor."""

    def __init__(self, steps: tuple[Step, ...], now: float) -> None:
        self._steps = list(steps)
        self.deadline = now

    @property
    def pending(self) -> bool:
        """Whether there is a step left to do."""
        return bool(self._steps)

    def due(self, now: float) -> Step | None:
        """The step whose time has come; None when there is none yet, or none is left."""
        if not self._steps or now < self.deadline:
            return None
        step = self._steps.pop(0)
        self.deadline = now + step.grace
        return step

    def hasten(self, now: float) -> None:
        """Do the next step at once. The last one keeps its time: nothing comes after it."""
        if self._steps:
            self.deadline = min(self.deadline, now)

    def exhausted(self, now: float) -> bool:
        """Whether even the last step has had its time."""
        return not self._steps and now >= self.deadline
