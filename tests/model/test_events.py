"""Events as lines of the journal, and back."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from nbdist.model import Event, RankState, Reason, RunState, decode_event, encode_event
from tests.fakes import runs

ONE_OF_EACH: tuple[Event, ...] = (
    runs.supervisor_started(),
    runs.attempt_started(2),
    runs.rank_started(1),
    runs.imports_awaited(0, 1),
    runs.finished(0),
    runs.errored(1),
    runs.freed(0),
    runs.held(0, file="cell.py", line=2, values=("x = 1",)),
    runs.saves(0),
    runs.cut(0, line=7, file="ckpt.pt", size=12),
    runs.exited(1, -9, ended=True),
    runs.stalled(),
    runs.resumed(),
    runs.cell_started(3, 0, 1),
    runs.cell_ended(3, 1, "freed"),
    runs.rejoined(),
    runs.remote_rank(1, RankState.FAILED, 1),
    runs.nodes_awaited(1, 2),
    runs.queued("it asks for 3 nodes, and partition main has 2"),
    runs.stop_requested(Reason.said("stopped by Ada: 够了\n\u2028")),
    runs.escalated(0, 1, signal="SIGINT"),
    runs.attempt_failed(1, Reason("ranks-failed", ranks=(0, 2)), leftover=1),
    runs.run_ended(
        RunState.STOPPED,
        Reason("reaper-ended-stuck", why=Reason("stopped-by", command="nbdist stop"), pid=7, half=0.5),
        leftover=2,
    ),
    runs.run_lost(),
)


def test_there_is_one_of_each_kind_here() -> None:
    assert {type(event) for event in ONE_OF_EACH} == set(get_args(Event))


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was_written(event: Event) -> None:
    line = encode_event(event)

    assert decode_event(line) == event
    assert line.splitlines() == [line]


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_the_kind_of_an_event_stands_first_in_its_line(event: Event) -> None:
    line = encode_event(event)

    assert line.startswith(f'{{"kind": "{type(event).__name__}", ')


def test_a_kind_that_only_a_newer_version_knows_is_none() -> None:
    line = '{"kind": "RankCheckpointed", "time": 1.0, "rank": 0}'

    assert decode_event(line) is None


def test_what_a_newer_version_added_to_an_event_is_left_out() -> None:
    event = runs.exited(1, 3)
    newer = json.loads(encode_event(event)) | {"core_dumped": True}

    assert decode_event(json.dumps(newer)) == event


def test_the_end_of_an_older_version_counts_no_leftover() -> None:
    event = runs.run_ended(RunState.FAILED, "rank 1 failed", leftover=0)
    older = json.loads(encode_event(event))
    del older["leftover"]

    assert decode_event(json.dumps(older)) == event


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_a_line_torn_anywhere_is_no_event(event: Event) -> None:
    line = encode_event(event)

    for length in range(len(line)):
        with pytest.raises(ValueError):  # noqa: PT011 - JSON's own messages
            decode_event(line[:length])


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("[]", id="a list"),
        pytest.param("null", id="null"),
        pytest.param('{"time": 1.0}', id="no kind"),
        pytest.param('{"kind": 7}', id="a kind that is no name"),
        pytest.param('{"kind": "RankFinished", "time": 1.0}', id="a field is missing"),
        pytest.param('{"kind": "RunEnded", "time": 1.0, "reason": ""}', id="an end without a state"),
        pytest.param(
            '{"kind": "RunEnded", "time": 1.0, "state": "great", "reason": ""}',
            id="a state that does not exist",
        ),
        pytest.param(
            '{"kind": "Escalated", "time": 1.0, "ranks": 3, "signal": "SIGINT"}', id="ranks that are no list"
        ),
    ],
)
def test_what_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"^no |is not a valid RunState"):
        decode_event(line)
