"""Interface of an engine, and the thread that polls it: an answer may take half a minute."""

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
"""Module of the process that watches a run where it was submitted."""


def is_step(spec: RunSpec, job: str) -> bool:
    """Return whether ``job`` is a step of a Slurm job: ``JOB.STEP``."""
    return spec.engine == "slurm" and "." in job


class Phase(Enum):
    """Phase of a job. FORGOTTEN: the engine has no such job; UNKNOWN: it did not answer."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"
    FORGOTTEN = "forgotten"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Status of a job. ``reason`` is why it waits, or what ended it from outside with ``outcome``; a
    ``hopeless`` one will never start; the engine calls a ``completed`` one a success."""

    phase: Phase
    reason: Reason = NO_REASON
    outcome: RunState | None = None
    nodes: str = ""
    hopeless: bool = False
    completed: bool = False

    @property
    def gone(self) -> bool:
        """Return whether the engine has no such job any more."""
        return self.phase in (Phase.OVER, Phase.FORGOTTEN)


class Engine(Protocol):
    """Engine; each call may take seconds, in programs or servers."""

    signals: bool
    """True if ``stop`` can be gentle; otherwise supervisors read requests from the files of the run."""

    linger: float
    """Seconds for the supervisors after the end of the job."""

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        """Submit the run; return the job's id. Raises LaunchError, with nothing submitted."""
        ...

    def cluster(self) -> str:
        """Return the name of the cluster; empty where it has none, or is silent."""
        ...

    def status(self, job: str, spec: RunSpec) -> JobStatus: ...

    def stop(self, job: str, *, gently: bool) -> bool:
        """End the job, ``gently`` by its supervisors; return whether the engine accepted that."""
        ...


_SOON = 0.3
_PERIODS = ((10.0, 1.0), (120.0, 2.0), (600.0, 5.0))
_LATER = 10.0
"""Seconds until the next poll, by the seconds in the same phase."""


class EnginePoller:
    """Thread that polls an engine. ``status`` is its last answer, ``count`` their number."""

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
        """Poll at short intervals from now on."""
        if not self._hurried:
            self._hurried = True
            self._orders.put("look")

    def relax(self) -> None:
        self._hurried = False

    def stop(self, *, gently: bool) -> None:
        """Order the engine to end the job."""
        self._orders.put("gently" if gently else "stop")

    def close(self, limit: float) -> None:
        """Execute the orders, then end the thread."""
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
