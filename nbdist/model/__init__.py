"""Values: a run, its events, and its legal states. No I/O."""

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
    RankCut,
    RankErrored,
    RankExited,
    RankFinished,
    RankFreed,
    RankHeld,
    RankSaves,
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
from nbdist.model.reason import AT_LIMIT, NO_REASON, Reason
from nbdist.model.run import Rank, Run
from nbdist.model.spec import Device, Input, ProcessId, RankSpec, Rendezvous, RunSpec
