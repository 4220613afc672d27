"""The states of a run and of its ranks, and the events that change them. This module alone decides which
state may follow which.

An event stands in the journal as one JSON object a line, ``kind`` first. Only the supervisor writes events,
except RunLost, by the process that finds a run without its supervisor. ``time`` is Unix seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, TypeVar, Union, get_args

from nbdist.errors import IllegalTransition
from nbdist.model.decoding import MALFORMED, build, loads
from nbdist.model.reason import Reason
from nbdist.model.spec import ProcessId


class _State(str, Enum):
    """A state whose value is on disk, and was another word in journals of earlier versions."""

    @classmethod
    def _missing_(cls, value: object) -> _State | None:
        earlier = {"succeeded": "finished", "cancelled": "stopped", "ended": "stopped"}
        return cls(earlier[value]) if isinstance(value, str) and value in earlier else None


class RunState(_State):
    """The state of a run."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        """Return whether no state can follow."""
        return not RUN_TRANSITIONS[self]


class RankState(_State):
    """The state of a rank. nbdist stopped a STOPPED rank; a FAILED one failed by itself."""

    PENDING = "pending"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        """Return whether no state can follow, within one attempt."""
        return not RANK_TRANSITIONS[self]


_R = RunState
_ENDS = frozenset({_R.FINISHED, _R.FAILED, _R.STOPPED, _R.LOST})
RUN_TRANSITIONS: Mapping[RunState, frozenset[RunState]] = {
    _R.PENDING: frozenset({_R.STARTING, _R.STOPPING, _R.FAILED, _R.STOPPED, _R.LOST}),
    # back to PENDING: an engine has queued it
    _R.STARTING: frozenset({_R.PENDING, _R.RUNNING, _R.STOPPING}) | _ENDS,
    # back to STARTING: the next attempt
    _R.RUNNING: frozenset({_R.PENDING, _R.STARTING, _R.STOPPING}) | _ENDS,
    _R.STOPPING: frozenset({_R.PENDING, _R.STARTING}) | _ENDS,
    **{end: frozenset() for end in _ENDS},
}

_K = RankState
_EXITS = frozenset({_K.FINISHED, _K.FAILED, _K.STOPPED, _K.LOST})
RANK_TRANSITIONS: Mapping[RankState, frozenset[RankState]] = {
    _K.PENDING: frozenset({_K.RUNNING, _K.STOPPED, _K.LOST}),
    _K.RUNNING: _EXITS,
    **{end: frozenset() for end in _EXITS},
}

_TRANSITIONS: Mapping[type, Mapping[Any, frozenset[Any]]] = {_R: RUN_TRANSITIONS, _K: RANK_TRANSITIONS}
S = TypeVar("S", RunState, RankState)


def move(now: S, to: S) -> S:
    """Return ``to`` when it may follow ``now``; raise IllegalTransition otherwise."""
    # a state may always follow itself: some events change no state
    if to is now or to in _TRANSITIONS[type(now)][now]:
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
    """The start of the supervisor. Usually the first event."""

    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(_Event):
    """The start of an attempt, whose ranks meet at this host and port."""

    attempt: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStarted(_Started):
    """The start of a rank's process."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportsAwaited(_Event):
    """The ranks whose program begins when their imports, begun before the run, are done; none at last."""

    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFinished(_Event):
    """The end of a rank's program; its process exits next. ``joined``: the rank was in a process group."""

    rank: int
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankErrored(_Event):
    """An exception that left the program; the rank writes error.json, and exits."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFreed(_Event):
    """The end of a wait for others, by nbdist at the run's end: later exceptions are no cause of anything."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHeld(_Event):
    """A rank that a debugger holds, at a line of a file. ``why``: breakpoint, error, pause, step; empty when
    it goes on. ``what`` is the line or the exception, ``values`` are those of the names at the line."""

    rank: int
    why: str = ""
    file: str = ""
    line: int = 0
    what: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSaves(_Event):
    """A rank on its way out, which has time to save its work; or one that no longer is."""

    rank: int
    saves: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCut(_Event):
    """The end of that time, at ``line`` of the program (0: unknown), with ``size`` bytes in the open ``file``
    (empty: none)."""

    rank: int
    line: int = 0
    file: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExited(_Event):
    """A rank's exit. ``code`` is the exit code, or the negative signal. ``ended``: nbdist ended the rank
    before it failed or exited by itself. ``oom``: the system's out-of-memory killer struck during the
    attempt. ``memory``: the most bytes held; 0 when unknown. ``log``: bytes of its log, which another
    machine may see later. ``limit``: the bytes beyond which nbdist killed it; else 0. ``full``: a full
    disk that the rank may have needed."""

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
    """No write, log or computation of any rank since ``since`` (Unix seconds)."""

    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(_Event):
    """The end of a stall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStarted(_Event):
    """The start of a session's cell, numbered from 1, on ``ranks`` with ``logs`` of so many bytes."""

    cell: int
    ranks: tuple[int, ...]
    logs: tuple[int, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnded(_Event):
    """The end of a cell on a rank. ``outcome``: ok, error, interrupted, freed (from a wait for a failed
    rank), died, or unreachable (its socket was closed, and nbdist ended it). ``log``: bytes of its log."""

    cell: int
    rank: int
    outcome: str
    log: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined(_Event):
    """A session's ranks left their process group, and meet at this port from now on."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRank(_Event):
    """The state of a rank on another machine, and its exit code once it has one."""

    rank: int
    state: RankState
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAwaited(_Event):
    """Machines that the run waits for until ``until``; none when all have come, at the addresses
    ``hosts``. Once the ranks run: machines whose nbdist waits for its disk."""

    nodes: tuple[int, ...]
    until: float
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(_Event):
    """A run in the queue of an engine, as its job ``job``, for this ``reason``."""

    job: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(_Event):
    """A stop: ``requested`` by a person or a program, or else because what the run depends on has gone."""

    reason: Reason
    requested: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(_Event):
    """A signal to these ranks."""

    ranks: tuple[int, ...]
    signal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(_Event):
    """The end of an attempt before another. ``leftover`` as in RunEnded."""

    attempt: int
    reason: Reason
    leftover: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Event):
    """The end of a run. ``leftover`` counts processes of the ranks that still lived and nbdist ended."""

    state: RunState
    reason: Reason
    leftover: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLost(_Event):
    """The disappearance of the supervisor. ``leftover`` as in RunEnded."""

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
    RankHeld,
    RankSaves,
    RankCut,
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
    """Return the line of the journal for ``event``, without its newline."""
    data = {field.name: getattr(event, field.name) for field in fields(event)}
    return json.dumps({"kind": type(event).__name__, **data}, default=Reason.encode)


def decode_event(line: str | bytes) -> Event | None:
    """Return a line's event; None for a newer nbdist's. Raises ValueError for a torn line, or no event."""
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
