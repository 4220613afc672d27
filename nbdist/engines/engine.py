"""What an engine is to nbdist: it takes a job, says how it stands, and ends it. Which there are, and the
thread that asks one: an answer may take half a minute."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from nbdist.errors import LaunchError
from nbdist.model import NO_REASON, Reason, RunSpec, RunState
from nbdist.store.paths import RunDirectory

WATCHER = "engines.watch"
"""The module of the process that watches a run where it was submitted."""


def is_step(spec: RunSpec, job: str) -> bool:
    """Return whether ``job`` is a step of one of Slurm's jobs: ``JOB.STEP``."""
    return spec.engine == "slurm" and "." in job


class Phase(Enum):
    """Where a job is. UNKNOWN: the engine did not answer, or has forgotten the job."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"
    FORGOTTEN = "forgotten"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """How a job stands. ``reason`` says why it waits, or what ended it where that was not the run
    itself, which then came to ``outcome``; ``hopeless`` that it will never be started;
    ``completed`` that the engine calls its end a good one."""

    phase: Phase
    reason: Reason = NO_REASON
    outcome: RunState | None = None
    nodes: str = ""
    hopeless: bool = False
    completed: bool = False

    @property
    def gone(self) -> bool:
        """Whether the engine has no such job any more."""
        return self.phase in (Phase.OVER, Phase.FORGOTTEN)


class Engine(Protocol):
    """Everything may take seconds, and asks programs or servers."""

    signals: bool
    """Whether ``stop`` can be kind. Where not, the supervisors are told by the files of the run."""

    linger: float
    """Seconds that the supervisors may go on for once the job is over."""

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        """Hand the run to the engine; what it calls the job. Raises LaunchError, with nothing submitted."""
        ...

    def cluster(self) -> str:
        """Return the name of the cluster that is reached from here; empty where it has none, or is silent."""
        ...

    def status(self, job: str, spec: RunSpec) -> JobStatus: ...

    def stop(self, job: str, *, gently: bool) -> bool:
        """End the job: ``gently`` tells the supervisors to end their ranks. Whether it could be said."""
        ...


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
