"""The moments of a run that have come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbdist.errors import UsageMistake
from nbdist.feed.waiting import Awaited, parse_moments
from nbdist.model import Event, RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import (
    CREATED,
    STARTED,
    a_spec,
    attempt_failed,
    attempt_started,
    errored,
    exited,
    resumed,
    run_ended,
    stalled,
    supervisor_started,
)

FINISHED = (*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
FAILED = (*STARTED, errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))
RETRIED = (*STARTED, exited(0, 1), exited(1, 1), attempt_failed(1, "rank 0 failed"), attempt_started(2))


def came(written: WrittenRun, until: str) -> str:
    return Awaited(written.directory, parse_moments(until)).came(written.run)


@pytest.mark.parametrize(
    ("events", "moments"),
    [
        pytest.param((supervisor_started(), attempt_started()), (), id="its ranks are being started"),
        pytest.param(STARTED, ("running",), id="it runs"),
        pytest.param((*STARTED, stalled()), ("running", "stalled"), id="nothing happens"),
        pytest.param((*STARTED, stalled(), resumed()), ("running",), id="it goes on again"),
        pytest.param((*STARTED, errored(1)), ("running",), id="why a rank has failed is being written"),
        pytest.param(RETRIED, ("failed",), id="an attempt has failed"),
        pytest.param(FINISHED, ("running", "finished", "ended"), id="it has finished"),
        pytest.param(FAILED, ("running", "failed", "ended"), id="it has failed"),
    ],
)
def test_a_moment_has_come_or_not(tmp_path: Path, events: Sequence[Event], moments: Sequence[str]) -> None:
    written = WrittenRun(tmp_path / "home", a_spec(retries=1)).happened(*events)

    reached = [name for name in ("running", "stalled", "failed", "finished", "ended") if came(written, name)]

    assert tuple(reached) == tuple(moments)


def test_a_rank_has_failed_once_it_can_be_read_why(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home").happened(*STARTED, errored(1))
    error = written.directory.rank(1, 1).error
    error.parent.mkdir(parents=True, exist_ok=True)
    error.write_text("{}")

    assert came(written, "failed") == "failed"


def test_of_several_the_first_counts(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home").happened(*FAILED)

    assert came(written, "stalled,ended,failed") == "ended"
    assert came(written, "stalled, failed, ended") == "failed"


def record(written: WrittenRun, rank: int, step: int) -> None:
    with written.directory.rank(rank).metrics.open("a") as metrics:
        metrics.write(json.dumps({"t": CREATED, "step": step, "v": {"loss": 0.5}}) + "\n")


def test_a_step_has_come_when_every_rank_that_records_steps_has_come_so_far(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", a_spec(ranks=3)).happened(*STARTED)
    awaited = Awaited(written.directory, ["step=20"])
    assert not awaited.came(written.run)

    record(written, 0, 30)
    record(written, 1, 10)
    assert not awaited.came(written.run)
    record(written, 1, 20)

    assert awaited.came(written.run) == "step=20"
    with written.directory.rank(1).metrics.open("a") as metrics:
        metrics.writelines(json.dumps({"t": CREATED, "v": {"lr": 0.1}}) + "\n" for _ in range(1000))
    assert awaited.came(written.run) == "step=20", "what has no step is passed over"


def test_a_step_that_is_only_printed_counts_too(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home").happened(*STARTED)
    awaited = Awaited(written.directory, ["step=40"])
    written.printed(0, "step 30/100 loss: 0.5\n")
    assert not awaited.came(written.run)

    written.printed(0, "step 40/100 loss: 0.4\nstep 41/100 loss: 0.4\n")

    assert awaited.came(written.run) == "step=40"


@pytest.mark.parametrize("text", ["", "done", "step", "step=", "step=x", "failed,", "step=-1"])
def test_another_moment_is_a_mistake_that_names_those_there_are(text: str) -> None:
    with pytest.raises(UsageMistake, match="is none of running, stalled, failed, finished, ended, step=N"):
        parse_moments(text)
