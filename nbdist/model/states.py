"""The states of a run and of a rank.

Everything that decides which state may follow which is in this file; no other module assigns one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from nbdist.errors import IllegalTransition


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
