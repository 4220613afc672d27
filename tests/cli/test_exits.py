"""Exit codes of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.cli.running import exit_code
from nbdist.model import Event, RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, run_ended, run_lost, stop_requested

ENDED_0, ENDED = exited(0, -2, ended=True), exited(1, -15, ended=True)


@pytest.mark.parametrize(
    ("events", "code"),
    [
        pytest.param([exited(0), exited(1), run_ended(RunState.FINISHED)], 0, id="success"),
        pytest.param([run_lost()], 1, id="its supervisor has gone"),
        pytest.param([run_ended(RunState.FAILED, "no port")], 1, id="no rank has failed"),
        pytest.param([exited(0, 3), ENDED, run_ended(RunState.FAILED)], 3, id="an exit code"),
        pytest.param([exited(0, -9), ENDED, run_ended(RunState.FAILED)], 137, id="a signal"),
        pytest.param(
            [errored(0), exited(0, 0), ENDED, run_ended(RunState.FAILED)],
            1,
            id="an exception, and then exit 0",
        ),
        pytest.param(
            [stop_requested(), exited(0, -2, ended=True), ENDED, run_ended(RunState.STOPPED)],
            130,
            id="stopped from elsewhere",
        ),
    ],
)
def test_a_run_has_an_exit_code(tmp_path: Path, events: list[Event], code: int) -> None:
    written = WrittenRun(tmp_path / "home").happened(*STARTED, *events)

    assert exit_code(written.run, written.directory) == code


def test_a_program_that_raised_and_was_killed_on_its_way_out_has_failed_with_1(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home").happened(
        *STARTED, errored(0), exited(0, -9), ENDED, run_ended(RunState.FAILED)
    )
    written.raised(0, "ValueError", "no data")

    assert exit_code(written.run, written.directory) == 1


@pytest.mark.parametrize(
    ("reason", "rank", "code"),
    [
        pytest.param("the time limit of 20 s was reached", ENDED_0, 124, id="its limit"),
        pytest.param("node 1 has gone", ENDED_0, 1, id="something else"),
        pytest.param("", exited(0, 7), 7, id="a rank that failed as time ran out"),
    ],
)
def test_only_a_run_that_says_so_was_ended_by_its_limit(
    tmp_path: Path, reason: str, rank: Event, code: int
) -> None:
    written = WrittenRun(tmp_path / "home", a_spec(timeout=20.0))
    end = run_ended(RunState.FAILED, reason, time=CREATED + 30)
    written.happened(*STARTED, rank, ENDED, end)

    assert exit_code(written.run, written.directory) == code
