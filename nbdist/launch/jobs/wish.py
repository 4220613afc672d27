"""The end of a run on an engine that somebody has asked for, and what has been done to get it."""

from __future__ import annotations

import contextlib

from nbdist import config
from nbdist.launch.jobs.clerk import Clerk
from nbdist.launch.jobs.merging import NodeJournals
from nbdist.model import Reason
from nbdist.schedulers.engine import Phase
from nbdist.store.control import request_stop

KINDNESS = config.INTERRUPT_GRACE + config.TERMINATE_GRACE + 6.0
"""Seconds after which a run that was asked to end is ended by the engine."""

_AGAIN = 3.0
"""Seconds after which the supervisors are told again to end the run: they may not have listened yet."""


class Wish:
    """``reason`` is why the run is to end; None while nobody wants that. ``now`` is monotonic seconds."""

    def __init__(self, reason: Reason | None, clerk: Clerk, nodes: NodeJournals) -> None:
        self.reason = reason
        self._clerk = clerk
        self._nodes = nodes
        self._since = self._told_at = self._refused_at = 0.0
        self._answers = 0

    def express(self, reason: Reason, now: float) -> bool:
        """Somebody wants the run to end; whether nobody did before. A second one is in a hurry."""
        first = self.reason is None
        if first:
            self.reason, self._since = reason, now
        else:
            self._since = now - KINDNESS
        return first

    def press(self, now: float) -> None:
        """See to it that the engine ends the job, once there is a wish."""
        if self.reason is None:
            return
        if not self._since:
            self._since = now
        self._answers = self._answers or self._clerk.count
        phase = self._clerk.status.phase
        if phase is Phase.OVER:
            return
        self._clerk.hurry()
        late = now - self._since >= KINDNESS
        if self._waits(phase) or late:
            if now - self._refused_at > KINDNESS or not self._refused_at:
                self._refused_at = now
                self._clerk.stop(kindly=False)
        elif not self._told_at or (now - self._told_at > _AGAIN and not self._nodes.stopping):
            if not self._clerk.signals or (phase is Phase.UNKNOWN and self._told_at):
                self.tell_nodes(self.reason)
            self._told_at = now
            self._clerk.stop(kindly=True)

    def _waits(self, phase: Phase) -> bool:
        """Whether the job has no ranks to be asked. Its nodes may have begun since the engine answered: where
        they have, the second answer after the wish is believed, the first may have been on its way."""
        return phase is Phase.WAITING and (not self._nodes.numbers or self._clerk.count > self._answers + 1)

    def tell_nodes(self, reason: Reason) -> None:
        """By the file system: the engine does not answer, or has no such word."""
        for node in self._nodes.directories():
            with contextlib.suppress(OSError):
                request_stop(node, reason)
