"""Profiles of real trainings, which go on unchanged."""

from __future__ import annotations

import time

import pytest

from nbdist import runner
from nbdist.errors import UsageMistake
from nbdist.feed.profile import read_profile, start_profile
from nbdist.server.handlers import detail_of
from tests.conftest import RunCell
from tests.programs import until
from tests.worker.test_step_hooks import PADDLE, TORCH

pytestmark = pytest.mark.usefixtures("leaves_nothing")


@pytest.fixture(params=["torch", "paddle"])
def training(request: pytest.FixtureRequest, start_cell: RunCell) -> runner.RunHandle:
    """Return a run that has trained for some steps, and goes on."""
    cell = (TORCH if request.param == "torch" else PADDLE).replace("range(3)", "range(100)")
    handle = start_cell(f"-n 2 --framework {request.param}", cell)
    until(lambda: handle.time() or handle.run.state.terminal, 60)
    return handle


def test_a_running_program_is_recorded_and_goes_on(training: runner.RunHandle) -> None:
    before = training.logs(0)
    process = start_profile(training.run, training.directory, 0.5)
    with pytest.raises(UsageMistake, match="is being profiled already"):
        start_profile(training.run, training.directory, 0.5)

    assert process.wait(30) == 0
    profile = read_profile(training.directory)
    assert profile is not None
    assert [rank.problem for rank in profile.ranks] == ["", ""]
    # rank 1 sleeps, and rank 0 waits for it
    first, second = (rank.parts for rank in profile.ranks)
    assert first["communication"] > 0.4 > second["communication"]
    assert second["idle"] > 0.4
    detail = detail_of(training.directory, time.time())
    assert detail is not None
    assert detail["view"]["profile"]["ranks"][0]["line"] == profile.ranks[0].line
    assert not list(training.directory.path.glob("ranks/*/answer-*"))
    # kineto prints nothing into the log, and the program has not noticed
    steps = training.time()
    assert "ERROR" not in training.logs(0).removeprefix(before)
    time.sleep(2.5)
    assert steps != training.time()


@pytest.mark.parametrize(("framework", "cell"), [("torch", TORCH), ("paddle", PADDLE)])
def test_chosen_steps_are_recorded_from_the_start(run_cell: RunCell, framework: str, cell: str) -> None:
    handle = run_cell(f"-n 2 --framework {framework} --profile 10:13", cell, 120.0)

    until(lambda: read_profile(handle.directory))
    profile = read_profile(handle.directory)
    assert profile is not None
    assert all(rank.line for rank in profile.ranks)
    # three steps of rank 1, which sleeps 50 ms in each
    assert 0.1 < profile.seconds < 2.0
