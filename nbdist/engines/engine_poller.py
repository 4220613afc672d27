"""Asks an engine about a job, and tells it to end the job, beside the process that has other things to do.

An engine may take half a minute to answer, and meanwhile what the nodes write is to be read.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time

from nbdist.engines.engine import Engine, JobStatus, Phase
from nbdist.errors import LaunchError
from nbdist.model import Reason, RunSpec

_SOON = 0.3
_PERIODS = ((10.0, 1.0), (120.0, 2.0), (600.0, 5.0))
_LATER = 10.0
"""How long a job has stood so: how long until it is asked for again."""


class EnginePoller:
    """A thread of its own. ``status`` is what the engine said last, ``count`` how often it has answered."""

    def __init__(self, engine: Engine, job: str, spec: RunSpec) -> None:
        self.signals, self.linger = engine.signals, engine.linger
        self._engine = engine
        self._job = job
        self._spec = spec
        self._orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._since = time.monotonic()
        self._hurried = False
        self.status = JobStatus(phase=Phase.UNKNOWN)
        self.count = 0
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """From now on the answer is awaited."""
        if not self._hurried:
            self._hurried = True
            self._orders.put("look")

    def relax(self) -> None:
        self._hurried = False

    def stop(self, *, gently: bool) -> None:
        """Let the engine end the job."""
        self._orders.put("gently" if gently else "stop")

    def close(self, limit: float) -> None:
        """Do what was ordered, and no more."""
        self._orders.put("end")
        self._thread.join(limit)

    def _work(self) -> None:
        order = "look"
        while order != "end":
            if order in ("gently", "stop"):
                with contextlib.suppress(LaunchError, OSError):
                    self._engine.stop(self._job, gently=order == "gently")
            self._look()
            try:
                order = self._orders.get(timeout=self._period())
            except queue.Empty:
                order = "look"

    def _look(self) -> None:
        try:
            status = self._engine.status(self._job, self._spec)
        except (LaunchError, OSError) as error:
            status = JobStatus(phase=Phase.UNKNOWN, reason=Reason.said(str(error)))
        if status.phase is not self.status.phase:
            self._since = time.monotonic()
        self.status = status
        self.count += 1

    def _period(self) -> float:
        if self._hurried:
            return _SOON
        lasted = time.monotonic() - self._since
        return next((period for limit, period in _PERIODS if lasted < limit), _LATER)
