"""Values: what a run is, what happened to it, and which state may follow which. No I/O."""
# it says once what is to be had from here
# ruff: noqa: F401
# mypy: implicit-reexport

from nbdist.model.events import (
    AttemptFailed,
    AttemptStarted,
    CellEnded,
    CellStarted,
    Escalated,
    Event,
    ImportsAwaited,
    NodesAwaited,
    Queued,
    RankErrored,
    RankExited,
    RankFinished,
    RankFreed,
    RankStarted,
    RankState,
    Rejoined,
    RemoteRank,
    Resumed,
    RunEnded,
    RunLost,
    RunState,
    Stalled,
    StopRequested,
    SupervisorStarted,
    decode_event,
    encode_event,
)
from nbdist.model.reason import NO_REASON, Reason
from nbdist.model.run import Rank, Run
from nbdist.model.spec import Device, Input, ProcessId, RankSpec, Rendezvous, RunSpec
