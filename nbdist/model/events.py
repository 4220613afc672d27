"""The states of a run and of its ranks, and the events that change them.

Which state may follow which is decided here alone. An event stands in the journal as one JSON object a line,
``kind`` first. Only the supervisor writes events, except RunLost, which the process that finds a run without
its supervisor writes in its place. ``time`` is Unix seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import TypeVar, Union, get_args

from nbdist.errors import IllegalTransition
from nbdist.model.decoding import MALFORMED, build, loads
from nbdist.model.reason import Reason
from nbdist.model.spec import ProcessId


class RunState(str, Enum):
    """Where a run is. The values are what is written on disk."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow."""
        return not RUN_TRANSITIONS[self]


class RankState(str, Enum):
    """Where a rank is. ENDED is a rank that nbdist ended; FAILED is one that failed by itself."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDED = "ended"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow, within one attempt."""
        return not RANK_TRANSITIONS[self]


_R = RunState
_ENDS = frozenset({_R.SUCCEEDED, _R.FAILED, _R.CANCELLED, _R.LOST})
RUN_TRANSITIONS: Mapping[RunState, frozenset[RunState]] = {
    _R.PENDING: frozenset({_R.STARTING, _R.STOPPING, _R.FAILED, _R.CANCELLED, _R.LOST}),
    # back to PENDING: an engine has put it into its queue, or there again
    _R.STARTING: frozenset({_R.PENDING, _R.RUNNING, _R.STOPPING}) | _ENDS,
    # a run that is tried again goes back to STARTING, as the next attempt
    _R.RUNNING: frozenset({_R.PENDING, _R.STARTING, _R.STOPPING}) | _ENDS,
    _R.STOPPING: frozenset({_R.PENDING, _R.STARTING}) | _ENDS,
    **{end: frozenset() for end in _ENDS},
}

_K = RankState
_EXITS = frozenset({_K.SUCCEEDED, _K.FAILED, _K.ENDED, _K.LOST})
RANK_TRANSITIONS: Mapping[RankState, frozenset[RankState]] = {
    _K.PENDING: frozenset({_K.RUNNING, _K.ENDED, _K.LOST}),
    _K.RUNNING: _EXITS,
    **{end: frozenset() for end in _EXITS},
}

S = TypeVar("S", RunState, RankState)


def move_run(now: RunState, to: RunState) -> RunState:
    """The state ``to``, when it may follow ``now``. Raises IllegalTransition otherwise."""
    return _move(RUN_TRANSITIONS, now, to)


def move_rank(now: RankState, to: RankState) -> RankState:
    """The state ``to``, when it may follow ``now``. Raises IllegalTransition otherwise."""
    return _move(RANK_TRANSITIONS, now, to)


def _move(table: Mapping[S, frozenset[S]], now: S, to: S) -> S:
    # a state may always follow itself: some events change no state
    if to is now or to in table[now]:
        return to
    raise IllegalTransition(f"{type(now).__name__}: {to.value} cannot follow {now.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started(_Event):
    pid: int
    start_time: int
    boot_id: str

    @property
    def process(self) -> ProcessId:
        return ProcessId(pid=self.pid, start_time=self.start_time, boot_id=self.boot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStarted(_Started):
    """The supervisor is up. Usually the first event."""

    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(_Event):
    """The ranks are about to be started, and meet at this host and port."""

    attempt: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStarted(_Started):
    """The process of a rank is there."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportsAwaited(_Event):
    """These ranks were started before the run, and still import its framework; their program begins when
    they have. None when no rank does any longer."""

    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFinished(_Event):
    """The last statement of the program is done; the process is on its way out. ``joined`` says whether the
    rank has been in a process group."""

    rank: int
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankErrored(_Event):
    """An exception left the program; it is being written to error.json, the process is on its way out."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFreed(_Event):
    """The rank waited for others in native code, as the run was about to end, and nbdist ended the wait: what
    its program raises from now on is no cause of anything."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExited(_Event):
    """``code`` is the exit code, or the negative number of the signal that ended the process. ``ended``:
    nbdist had told this rank to end before it failed or exited by itself. ``oom``: the system's out-of-memory
    killer struck during the attempt. ``memory`` is the most bytes that it has held; 0 when unknown.
    ``log`` is how many bytes its log has: another machine may see them later than this event. ``limit``: the
    rank was killed because it had more than so many bytes; 0 when it was not. ``full`` is the disk that was
    full then, of those where the rank may have wanted to write why it ended."""

    rank: int
    code: int
    ended: bool
    oom: bool = False
    memory: int = 0
    log: int = 0
    limit: int = 0
    full: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled(_Event):
    """No rank has written, logged or computed anything since ``since`` (Unix seconds)."""

    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(_Event):
    """A run that had stalled goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStarted(_Event):
    """The ranks ``ranks`` of a session execute its cell ``cell``, which are numbered from 1. ``logs`` are the
    bytes that the log of each of them had then, ``line`` is the cell's first line, shortened."""

    cell: int
    ranks: tuple[int, ...]
    logs: tuple[int, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnded(_Event):
    """A rank of a session is done with a cell: ``outcome`` is ok, error, interrupted, freed (from a wait for
    a rank that had failed), died, or unreachable (it had closed its socket, and was ended). ``log`` is how
    many bytes its log has."""

    cell: int
    rank: int
    outcome: str
    log: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined(_Event):
    """The ranks of a session have left their process group, and meet from now on at this port."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRank(_Event):
    """What is known of a rank on another machine: its state there, and its exit code once it has one."""

    rank: int
    state: RankState
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAwaited(_Event):
    """Other machines of the run are waited for until ``until``; none when all have come, and ``hosts`` are
    the addresses of all. Once the ranks run: machines that are there, and whose nbdist waits for its disk."""

    nodes: tuple[int, ...]
    until: float
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(_Event):
    """The run waits in the queue of an engine, as its job ``job``; ``reason`` says why."""

    job: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(_Event):
    """The run is to end: because a person or a program asked for it, or else what it depends on has gone."""

    reason: Reason
    requested: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(_Event):
    """These ranks were sent this signal."""

    ranks: tuple[int, ...]
    signal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(_Event):
    """An attempt is over and there will be another one. ``leftover`` as in RunEnded."""

    attempt: int
    reason: Reason
    leftover: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Event):
    """``leftover`` counts processes of the ranks that were still there and were ended."""

    state: RunState
    reason: Reason
    leftover: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLost(_Event):
    """The supervisor has gone without a word. ``leftover`` as in RunEnded."""

    reason: Reason
    leftover: int = 0


Event = Union[
    SupervisorStarted,
    AttemptStarted,
    RankStarted,
    ImportsAwaited,
    RankFinished,
    RankErrored,
    RankFreed,
    RankExited,
    Stalled,
    Resumed,
    CellStarted,
    CellEnded,
    Rejoined,
    RemoteRank,
    NodesAwaited,
    Queued,
    StopRequested,
    Escalated,
    AttemptFailed,
    RunEnded,
    RunLost,
]

_KINDS: dict[str, type[Event]] = {cls.__name__: cls for cls in get_args(Event)}


def encode_event(event: Event) -> str:
    """The line of the journal for ``event``, without its newline."""
    data = {field.name: getattr(event, field.name) for field in fields(event)}
    return json.dumps({"kind": type(event).__name__, **data}, default=Reason.encode)


def decode_event(line: str | bytes) -> Event | None:
    """The event on a line of the journal; None for a kind that only a newer nbdist knows.

    Raises ValueError when the line is torn or no event at all.
    """
    data = loads(line)
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise ValueError(f"no event: {line[:80]!r}")
    cls = _KINDS.get(data["kind"])
    if cls is None:
        return None
    try:
        return build(cls, data)
    except MALFORMED as error:
        raise ValueError(f"no {cls.__name__}: {error}") from error
