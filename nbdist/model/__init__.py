"""Values: what a run is, what happened to it, and which state may follow which. No I/O."""

from nbdist.model.events import (
    AttemptFailed,
    AttemptStarted,
    Escalated,
    Event,
    ImportsAwaited,
    NodesAwaited,
    Queued,
    RankErrored,
    RankExited,
    RankFinished,
    RankStarted,
    RemoteRank,
    Resumed,
    RunEnded,
    RunLost,
    Stalled,
    StopRequested,
    SupervisorStarted,
    decode_event,
    encode_event,
)
from nbdist.model.process import ProcessId
from nbdist.model.reason import NO_REASON, Reason
from nbdist.model.run import Rank, Run
from nbdist.model.spec import Device, RankSpec, Rendezvous, RunSpec
from nbdist.model.states import RankState, RunState

__all__ = [
    "NO_REASON",
    "AttemptFailed",
    "AttemptStarted",
    "Device",
    "Escalated",
    "Event",
    "ImportsAwaited",
    "NodesAwaited",
    "ProcessId",
    "Queued",
    "Rank",
    "RankErrored",
    "RankExited",
    "RankFinished",
    "RankSpec",
    "RankStarted",
    "RankState",
    "Reason",
    "RemoteRank",
    "Rendezvous",
    "Resumed",
    "Run",
    "RunEnded",
    "RunLost",
    "RunSpec",
    "RunState",
    "Stalled",
    "StopRequested",
    "SupervisorStarted",
    "decode_event",
    "encode_event",
]
