"""What Ray says of a job, and what the job says of itself, in words. Pure.

A job is RUNNING for Ray as soon as its first process is; whether it has the nodes that it asks for, that
process says in its log, which is read over HTTP: line by line, each kind with a beginning of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nbdist.model import RunState
from nbdist.schedulers.engine import JobStatus, Phase

WAITS = "nbdist: waiting: "
STARTS = "nbdist: starting on "
TROUBLE = "nbdist: trouble: "


def status_of(answer: Mapping[str, Any], log: str, job: str) -> JobStatus:
    """How a job stands, from the answer of ``GET /api/jobs/ID`` and its log."""
    message = str(answer.get("message") or "")
    match answer.get("status"):
        case "PENDING":
            return JobStatus(phase=Phase.WAITING, reason="Ray has not started it yet")
        case "RUNNING":
            kind, words = last_said(log)
            if kind in (STARTS, TROUBLE):
                return JobStatus(phase=Phase.RUNNING, nodes=words if kind == STARTS else "")
            return JobStatus(phase=Phase.WAITING, reason=words or "Ray looks for nodes")
        case "STOPPED":
            reason = f"Ray's job {job} was stopped, and not from here"
            return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.CANCELLED)
        case "SUCCEEDED":
            return JobStatus(phase=Phase.OVER, reason="it completed", completed=True)
        case "FAILED":
            return _failed(answer, last_said(log) if log else last_said(message), message)
        case other:
            return JobStatus(phase=Phase.UNKNOWN, reason=f"Ray says {other} of the job")


def last_said(log: str) -> tuple[str, str]:
    """The last line by which the job said how it stands: its beginning, and the rest."""
    for line in reversed(log.splitlines()):
        for beginning in (WAITS, STARTS, TROUBLE):
            if line.startswith(beginning):
                return beginning, line.removeprefix(beginning).strip()
    return "", ""


def _failed(answer: Mapping[str, Any], said: tuple[str, str], message: str) -> JobStatus:
    kind, words = said
    if kind == TROUBLE:
        return JobStatus(phase=Phase.OVER, reason=words, outcome=RunState.FAILED)
    last = message.strip().splitlines()[-1:] or ["it did not say why"]
    if answer.get("error_type") not in (None, "JOB_ENTRYPOINT_COMMAND_ERROR"):
        # the job never ran, or what ran it has gone with its machine
        reason = f"Ray could not keep the job: {last[0][:300]}"
        return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.FAILED)
    return JobStatus(phase=Phase.OVER, reason=last[0][:300])


def why_it_waits(nodes: int, bundle: Mapping[str, float], totals: Collection[Mapping[str, float]]) -> str:
    """Why ``nodes`` nodes do not give a ``bundle`` each; ``totals`` is what those of Ray have when idle."""
    fit = sum(all(total.get(key, 0.0) >= need for key, need in bundle.items()) for total in totals)
    wants = f"{nodes} node{'s' if nodes > 1 else ''} with {_resources(bundle)}{' each' if nodes > 1 else ''}"
    if fit >= nodes:
        return f"it waits for {wants} to become free"
    return f"asks for {wants}, and Ray has {fit} such of {len(totals)}"


def _resources(bundle: Mapping[str, float]) -> str:
    return " and ".join(
        f"{need:g} {key}{'s' if need != 1 and key in ('CPU', 'GPU') else ''}" for key, need in bundle.items()
    )
