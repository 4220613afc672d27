"""Runs as a test wants them: specs, and the events that a supervisor would write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbdist.model import (
    AttemptFailed,
    AttemptStarted,
    CellEnded,
    CellStarted,
    Device,
    Escalated,
    ImportsAwaited,
    NodesAwaited,
    ProcessId,
    Queued,
    RankCut,
    RankErrored,
    RankExited,
    RankFinished,
    RankFreed,
    RankHeld,
    RankSaves,
    RankSpec,
    RankStarted,
    RankState,
    Reason,
    Rejoined,
    RemoteRank,
    Resumed,
    RunEnded,
    RunLost,
    RunSpec,
    RunState,
    Stalled,
    StopRequested,
    SupervisorStarted,
)

RUN_ID = "20261120-141503-lenet-k3f9"
CREATED = 1_795_184_103.0
BOOT = "boot-of-a-test"
SUPERVISOR = ProcessId(pid=4000, start_time=90_000, boot_id=BOOT)


def a_spec(*, ranks: int = 2, devices: tuple[Device, ...] = (), **changes: Any) -> RunSpec:
    """Return the spec of ``%%distributed -n RANKS``, with the changes of the test."""
    places = devices or (Device(),) * ranks
    given: dict[str, Any] = {
        "run_id": RUN_ID,
        "name": "lenet",
        "created": CREATED,
        "program": f"/home/ada/.local/state/nbdist/runs/{RUN_ID}/cell.py",
        "python": "/usr/bin/python3",
        "cwd": "/home/ada",
        "ranks": tuple(
            RankSpec(rank=rank, local_rank=rank, device=place) for rank, place in enumerate(places)
        ),
        "framework": "torch",
        "backend": "auto",
    }
    return RunSpec(**(given | changes))


def on_two_nodes(engine: str, **changes: Any) -> RunSpec:
    """Return a run that an engine has placed, with one rank on each node."""
    ranks = tuple(RankSpec(rank=node, local_rank=0, node_rank=node) for node in range(2))
    return replace(a_spec(engine=engine, nodes=2, **changes), ranks=ranks)


def process_of(rank: int) -> ProcessId:
    return ProcessId(pid=4001 + rank, start_time=90_001 + rank, boot_id=BOOT)


def supervisor_started(
    process: ProcessId = SUPERVISOR, *, host: str = "another-machine", time: float = CREATED
) -> SupervisorStarted:
    """Return the event, by default of a machine whose processes are not visible here."""
    return SupervisorStarted(
        time=time, pid=process.pid, start_time=process.start_time, boot_id=process.boot_id, host=host
    )


def attempt_started(attempt: int = 1, *, time: float = CREATED + 0.1) -> AttemptStarted:
    return AttemptStarted(time=time, attempt=attempt, host="127.0.0.1", port=20_000 + attempt)


def rank_started(rank: int, *, time: float = CREATED + 0.2) -> RankStarted:
    process = process_of(rank)
    return RankStarted(
        time=time, rank=rank, pid=process.pid, start_time=process.start_time, boot_id=process.boot_id
    )


def finished(rank: int, *, time: float = CREATED + 10) -> RankFinished:
    return RankFinished(time=time, rank=rank)


def errored(rank: int, *, time: float = CREATED + 10) -> RankErrored:
    return RankErrored(time=time, rank=rank)


def saves(rank: int, *, time: float = CREATED + 10) -> RankSaves:
    return RankSaves(time=time, rank=rank)


def cut(rank: int, *, time: float = CREATED + 20, **what: Any) -> RankCut:
    return RankCut(time=time, rank=rank, **what)


def held(rank: int, why: str = "breakpoint", *, time: float = CREATED + 10, **about: Any) -> RankHeld:
    return RankHeld(time=time, rank=rank, why=why, **about)


def freed(rank: int, *, time: float = CREATED + 10) -> RankFreed:
    return RankFreed(time=time, rank=rank)


def exited(rank: int, code: int = 0, *, time: float = CREATED + 11, **how: Any) -> RankExited:
    return RankExited(**({"ended": False, "memory": 0, "oom": False} | how), time=time, rank=rank, code=code)


def imports_awaited(*ranks: int, time: float = CREATED + 2) -> ImportsAwaited:
    return ImportsAwaited(time=time, ranks=ranks)


def stalled(*, since: float = CREATED + 10, time: float = CREATED + 70) -> Stalled:
    return Stalled(time=time, since=since)


def resumed(*, time: float = CREATED + 80) -> Resumed:
    return Resumed(time=time)


def cell_started(cell: int, *ranks: int, time: float = CREATED + 6) -> CellStarted:
    return CellStarted(time=time, cell=cell, ranks=ranks, logs=(0,) * len(ranks))


def cell_ended(cell: int, rank: int, outcome: str = "ok", *, time: float = CREATED + 7) -> CellEnded:
    return CellEnded(time=time, cell=cell, rank=rank, outcome=outcome, log=10)


def rejoined(port: int = 20_002, *, time: float = CREATED + 6) -> Rejoined:
    return Rejoined(time=time, port=port)


def remote_rank(rank: int, state: RankState, code: int | None = None) -> RemoteRank:
    return RemoteRank(time=CREATED + 1.0, rank=rank, state=state, code=code)


def said(reason: str | Reason) -> Reason:
    """Return a reason; a sentence is one of an old journal, without a code."""
    return Reason.recorded(reason) if isinstance(reason, str) else reason


def queued(reason: str | Reason, job: str = "7") -> Queued:
    return Queued(time=CREATED + 1.0, job=job, reason=said(reason))


def nodes_awaited(*nodes: int, hosts: tuple[str, ...] = ()) -> NodesAwaited:
    return NodesAwaited(time=CREATED + 1.0, nodes=nodes, until=CREATED + 600.0, hosts=hosts)


def stop_requested(reason: str | Reason = "stopped by ada", *, time: float = CREATED + 5) -> StopRequested:
    return StopRequested(time=time, reason=said(reason))


def escalated(*ranks: int, signal: str = "SIGTERM", time: float = CREATED + 5) -> Escalated:
    return Escalated(time=time, ranks=ranks, signal=signal)


def run_ended(
    state: RunState, reason: str | Reason = "", *, leftover: int = 0, time: float = CREATED + 12
) -> RunEnded:
    return RunEnded(time=time, state=state, reason=said(reason), leftover=leftover)


def run_lost(reason: str | Reason = "its supervisor disappeared", *, time: float = CREATED + 20) -> RunLost:
    return RunLost(time=time, reason=said(reason))


STARTED = (supervisor_started(), attempt_started(), rank_started(0), rank_started(1))
"""What the journal of two ranks holds as soon as both run."""


def attempt_failed(attempt: int, reason: str | Reason, *, leftover: int = 0) -> AttemptFailed:
    return AttemptFailed(time=CREATED, attempt=attempt, reason=said(reason), leftover=leftover)
