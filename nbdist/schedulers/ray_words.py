"""What Ray says of a job, and what the job says of itself, as reasons. Pure.

A job is RUNNING for Ray as soon as its first process is; whether it has the nodes that it asks for, that
process says in its log, which is read over HTTP: line by line, each kind with a beginning of its own, and
behind it the reason as JSON (``line``). What has been read may be text: the shell has no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from nbdist.model import Reason, RunState
from nbdist.model.decoding import loads
from nbdist.schedulers.engine import JobStatus, Phase

WAITS = "nbdist: waiting: "
STARTS = "nbdist: starting on "
TROUBLE = "nbdist: trouble: "


def status_of(answer: Mapping[str, Any], log: str, job: str) -> JobStatus:
    """How a job stands, from the answer of ``GET /api/jobs/ID`` and its log."""
    message = str(answer.get("message") or "")
    match answer.get("status"):
        case "PENDING":
            return JobStatus(phase=Phase.WAITING, reason=Reason("ray-pending"))
        case "RUNNING":
            kind, words = last_said(log)
            if kind in (STARTS, TROUBLE):
                return JobStatus(phase=Phase.RUNNING, nodes=words if kind == STARTS else "")
            return JobStatus(phase=Phase.WAITING, reason=_reason(words) or Reason("ray-looks"))
        case "STOPPED":
            reason = Reason("ray-stopped", job=job)
            return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.CANCELLED)
        case "SUCCEEDED":
            return JobStatus(phase=Phase.OVER, reason=Reason("completed"), completed=True)
        case "FAILED":
            return _failed(answer, last_said(log) if log else last_said(message), message)
        case other:
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("ray-says", state=str(other)))


def last_said(log: str) -> tuple[str, str]:
    """The last line by which the job said how it stands: its beginning, and the rest."""
    for line in reversed(log.splitlines()):
        for beginning in (WAITS, STARTS, TROUBLE):
            if line.startswith(beginning):
                return beginning, line.removeprefix(beginning).strip()
    return "", ""


def line(kind: str, reason: Reason) -> str:
    """How the job says it."""
    return f"{kind}{json.dumps(reason.encode())}"


def _reason(words: str) -> Reason:
    try:
        return Reason.decode(loads(words))
    except ValueError:
        return Reason.said(words)


def _failed(answer: Mapping[str, Any], said: tuple[str, str], message: str) -> JobStatus:
    kind, words = said
    if kind == TROUBLE:
        return JobStatus(phase=Phase.OVER, reason=_reason(words), outcome=RunState.FAILED)
    last = message.strip().splitlines()[-1:] or ["it did not say why"]
    if answer.get("error_type") not in (None, "JOB_ENTRYPOINT_COMMAND_ERROR"):
        # the job never ran, or what ran it has gone with its machine
        reason = Reason("ray-lost-job", error=last[0][:300])
        return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.FAILED)
    return JobStatus(phase=Phase.OVER, reason=Reason.said(last[0][:300]))


def why_it_waits(nodes: int, kind: str, need: float, totals: Collection[Mapping[str, float]]) -> Reason:
    """Why ``nodes`` nodes do not give ``need`` each of a ``kind``, "CPU" or "GPU"; ``totals`` is what the
    nodes of Ray have when idle."""
    fit = sum(total.get(kind, 0.0) >= need for total in totals)
    if fit >= nodes:
        return Reason("ray-busy", nodes=nodes, need=need, kind=kind)
    return Reason("ray-too-small", nodes=nodes, need=need, kind=kind, fit=fit, total=len(totals))
