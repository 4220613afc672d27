"""What an engine is to nbdist: it takes a job, says how it stands, and ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from nbdist.model import NO_REASON, Reason, RunSpec, RunState
from nbdist.store.paths import RunDirectory

PROCESS = Path(__file__).parent / "__main__.py"
"""The program that watches a run where it was submitted, or gives an allocation back."""


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


class Engine(Protocol):
    """Everything may take seconds, and asks programs or servers."""

    name: str

    signals: bool
    """Whether ``stop`` can be kind. Where not, the supervisors are told by the files of the run."""

    linger: float
    """Seconds that the supervisors may go on for once the job is over."""

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        """Hand the run to the engine; what it calls the job. Raises LaunchError, with nothing submitted."""
        ...

    def status(self, job: str, spec: RunSpec) -> JobStatus: ...

    def stop(self, job: str, *, gently: bool) -> bool:
        """End the job: ``gently`` tells the supervisors to end their ranks. Whether it could be said."""
        ...
