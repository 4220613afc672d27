"""Steps that end one rank, from a request that its program may answer to SIGKILL, and the time of each."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from nbdist import config


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step towards the end of a rank: ``signal`` (None: only wait), then ``grace`` seconds. ``free`` frees
    it from a wait for others of so many seconds. Unless ``always``, only freed ranks have the grace."""

    signal: signal.Signals | None = None
    grace: float
    free: float | None = None
    always: bool = True


KILL = Step(signal=signal.SIGKILL, grace=2.0)

# after a stop by a user or a limit, the program may catch KeyboardInterrupt and save its work
ON_STOP = (
    Step(signal=signal.SIGINT, grace=config.STUCK_AFTER),
    Step(free=config.STUCK_AFTER * 0.8, grace=config.INTERRUPT_GRACE - config.STUCK_AFTER),
    Step(signal=signal.SIGTERM, grace=config.TERMINATE_GRACE),
    KILL,
)
# after a failure, the other ranks would wait in a collective for ever
ON_PEER_FAILURE = (
    Step(free=config.PEER_LOOK, grace=config.PEER_GRACE, always=False),
    Step(free=config.PEER_LOOK, grace=config.FREED_GRACE, always=False),
    Step(signal=signal.SIGTERM, grace=config.PEER_GRACE),
    KILL,
)
# the same, after a look at their stacks: the failed rank may have waited for one of them
ON_PEER_ERROR = (Step(grace=config.PEER_LOOK), *ON_PEER_FAILURE)
_TERMINATE = (Step(signal=signal.SIGTERM, grace=config.TERMINATE_GRACE), KILL)
# a rank that raised, too: its traceback takes a second on a busy machine
ON_ERROR_AS_WELL = (Step(grace=config.TERMINATE_GRACE), *_TERMINATE)
# the failed rank itself, which is about to exit
ON_OWN_ERROR = (Step(grace=config.EXIT_GRACE), *_TERMINATE)


class Escalation:
    """The steps that end one rank, each followed by its grace."""

    def __init__(self, steps: tuple[Step, ...], now: float) -> None:
        self._steps = list(steps)
        self._last: Step | None = None
        self._deadline = now
        # until then, no step is due: the rank is on its way out
        self.held: float | None = None

    @property
    def deadline(self) -> float:
        """Return when something is to be done next."""
        return self._deadline if self.held is None else self.held

    @property
    def pending(self) -> bool:
        """True while a step is left."""
        return bool(self._steps)

    def due(self, now: float) -> Step | None:
        """Return the next step, if its time has come."""
        if not self._steps or now < self.deadline:
            return None
        step = self._last = self._steps.pop(0)
        self._deadline = now + step.grace
        return step

    def hasten(self, now: float) -> None:
        """Make the next step due at once; after the last one, keep the grace."""
        if self._steps:
            self._deadline = min(self._deadline, now)

    def insist(self, now: float) -> None:
        """Make the next signal due at once."""
        while self._steps and self._steps[0].free is not None:
            del self._steps[0]
        self.hasten(now)

    def give_up(self, now: float) -> None:
        """Make the next signal due, unless ranks that cannot be freed have the grace, too."""
        if self._last is not None and not self._last.always:
            self.insist(now)

    def exhausted(self, now: float) -> bool:
        """Return whether the grace of the last step is over."""
        return not self._steps and now >= self.deadline
