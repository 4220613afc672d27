"""Values: what a run is, what happened to it, and which state may follow which. No I/O."""

from nbdist.model.events import (
    AttemptFailed,
    AttemptStarted,
    Escalated,
    Event,
    RankErrored,
    RankExited,
    RankFinished,
    RankStarted,
    RunEnded,
    RunLost,
    StopRequested,
    SupervisorStarted,
    decode_event,
    encode_event,
)
from nbdist.model.process import ProcessId
from nbdist.model.run import Rank, Run
from nbdist.model.spec import Device, RankSpec, Rendezvous, RunSpec
from nbdist.model.states import RankState, RunState

__all__ = [
    "AttemptFailed",
    "AttemptStarted",
    "Device",
    "Escalated",
    "Event",
    "ProcessId",
    "Rank",
    "RankErrored",
    "RankExited",
    "RankFinished",
    "RankSpec",
    "RankStarted",
    "RankState",
    "Rendezvous",
    "Run",
    "RunEnded",
    "RunLost",
    "RunSpec",
    "RunState",
    "StopRequested",
    "SupervisorStarted",
    "decode_event",
    "encode_event",
]
