"""The order in which states may follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from nbdist.errors import IllegalTransition
from nbdist.model import RankState, RunState
from nbdist.model.events import RANK_TRANSITIONS, RUN_TRANSITIONS, move


@pytest.mark.parametrize(
    ("table", "first"),
    [
        pytest.param(RUN_TRANSITIONS, RunState.PENDING, id="of a run"),
        pytest.param(RANK_TRANSITIONS, RankState.PENDING, id="of a rank"),
    ],
)
def test_every_state_can_be_reached(table: Mapping[Enum, frozenset[Enum]], first: Enum) -> None:
    reached: set[Enum] = set()
    ahead = {first}

    while ahead:
        reached |= ahead
        ahead = {after for state in ahead for after in table[state]} - reached

    assert reached == set(type(first)) == set(table)


def test_a_run_and_a_rank_have_four_ends() -> None:
    runs = {state for state in RunState if state.terminal}
    ranks = {state for state in RankState if state.terminal}

    assert runs == {RunState.FINISHED, RunState.FAILED, RunState.STOPPED, RunState.LOST}
    assert ranks == {RankState.FINISHED, RankState.FAILED, RankState.STOPPED, RankState.LOST}


@pytest.mark.parametrize(
    ("end", "after"),
    [
        pytest.param(end, after, id=f"{after.value} after {end.value}")
        for end in RunState
        for after in RunState
        if end.terminal and after is not end
    ],
)
def test_a_finished_run_does_not_start_again(end: RunState, after: RunState) -> None:
    with pytest.raises(IllegalTransition, match=f"{after.value} cannot follow {end.value}"):
        move(end, after)


@pytest.mark.parametrize(
    ("now", "to"),
    [
        pytest.param(RunState.PENDING, RunState.RUNNING, id="running before it was started"),
        pytest.param(RunState.PENDING, RunState.FINISHED, id="success of what never ran"),
        pytest.param(RunState.STOPPING, RunState.RUNNING, id="a stop that is taken back"),
        pytest.param(RankState.PENDING, RankState.FINISHED, id="success of what never ran"),
        pytest.param(RankState.PENDING, RankState.FAILED, id="failure of what never ran"),
        pytest.param(RankState.FAILED, RankState.FINISHED, id="a failure that is made good"),
        pytest.param(RankState.STOPPED, RankState.RUNNING, id="an ended rank that runs on"),
    ],
)
def test_neither_moves_against_the_table(now: Any, to: Any) -> None:
    with pytest.raises(IllegalTransition):
        move(now, to)


def test_a_state_may_follow_itself() -> None:
    assert [move(state, state) for state in RunState] == list(RunState)


@pytest.mark.parametrize("now", [RunState.STARTING, RunState.RUNNING, RunState.STOPPING])
def test_an_engine_may_put_a_run_back_into_its_queue(now: RunState) -> None:
    assert move(now, RunState.PENDING) is RunState.PENDING
