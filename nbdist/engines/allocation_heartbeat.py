"""Looks after an allocation that is to end with its owner, on the owner's machine:
``python nbdist/engines/__main__.py --allocation DIR``.

It keeps the pulse by which the nodes know that this machine lives. When the owner has gone it gives the nodes
back, as soon as no detached run is left in them, and sees to it that the engine has heard that.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from nbdist import processes
from nbdist.engines import slurm
from nbdist.engines.allocation import ask
from nbdist.engines.engine import Phase
from nbdist.errors import LaunchError
from nbdist.launch.lifetime import Lifeline
from nbdist.model import ProcessId, Reason
from nbdist.store.allocations import AllocationDirectory

_PULSE = 5.0
_LOOK = 60.0
_DETACHED = 5.0
_INSIST = 600.0
"""Seconds in which an engine that does not answer is told again to take the nodes back."""


class AllocationHeartbeat:
    """Of one allocation, which the process ``owner`` has made."""

    def __init__(self, directory: AllocationDirectory, owner: ProcessId) -> None:
        self._directory = directory
        self._owner = owner
        self._job = directory.number()
        self._nodes = directory.read().nodes
        self._looked = time.monotonic()

    def care(self) -> None:
        """Until the allocation is over."""
        lifeline = Lifeline(self._owner, None)
        with selectors.DefaultSelector() as selector:
            for descriptor in lifeline.descriptors():
                selector.register(descriptor, selectors.EVENT_READ)
            while processes.alive(self._owner) and not self._is_over():
                self._beat()
                selector.select(_PULSE if lifeline.descriptors() else 1.0)
        while self._has_detached_runs():
            self._beat()
            time.sleep(_DETACHED)
        with contextlib.suppress(OSError):
            self._directory.end(Reason("kernel-ended"))
        self._give_back()

    def _is_over(self) -> bool:
        if self._directory.why_over() or not self._directory.about.exists():
            return True
        if time.monotonic() - self._looked < _LOOK:
            return False
        self._looked = time.monotonic()
        return self._phase() in (Phase.OVER, Phase.FORGOTTEN)

    def _has_detached_runs(self) -> bool:
        if self._directory.why_over():
            return False
        try:
            there = ask(self._directory, 0, {"kind": "tenants"})["tenants"]
        except LaunchError:
            return False
        return any(hosted["detached"] for hosted in there)

    def _give_back(self) -> None:
        deadline = time.monotonic() + _INSIST
        pause = 0.2
        while time.monotonic() < deadline and self._phase() not in (Phase.OVER, Phase.FORGOTTEN):
            with contextlib.suppress(LaunchError):
                slurm.release(self._job)
            time.sleep(pause)
            pause = min(2 * pause, 10.0)

    def _phase(self) -> Phase:
        try:
            return slurm.stand(self._job, self._nodes).status.phase
        except LaunchError:
            return Phase.UNKNOWN

    def _beat(self) -> None:
        with contextlib.suppress(OSError):
            self._directory.pulse.touch(mode=0o600)


def main(arguments: Sequence[str]) -> int:
    """The process: ``--allocation DIR``. Nothing but the allocation's end ends it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    directory = AllocationDirectory(Path(arguments[1]))
    owner = directory.read().owner
    if owner is not None:
        os.environ.update(directory.environment())
        AllocationHeartbeat(directory, owner).care()
    return 0
