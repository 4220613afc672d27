"""Scales: what they run, with which ranks, and when a run of them is to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.errors import UnknownRun, UsageMistake
from nbdist.model import RunState
from nbdist.model.spec import RANKS, SweepPoint
from nbdist.runner.sweeps import start_sweep
from nbdist.verbs.runs import resume, scale
from nbdist.verbs.verb import NOTEBOOK, Frontend
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec, run_ended

TRAINS = """\
import time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters())
while True:
    model(torch.randn(32, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
"""
HERE = Frontend(NOTEBOOK, print)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return tmp_path / "home"


def ended(home: Path, run_id: str, point: SweepPoint) -> WrittenRun:
    program = str(home / "runs" / run_id / "cell.py")
    spec = a_spec(run_id=run_id, name=run_id[16:-5], program=program, cwd=str(home.parent), sweep=point)
    return WrittenRun(home, spec).happened(*STARTED, run_ended(RunState.FINISHED))


def test_a_scale_is_of_a_run_or_of_one_of_another_scale(home: Path) -> None:
    point = SweepPoint(sweep="20261120-141503-lenet-k3f9", number=0, values={"lr": "0.1", RANKS: "2"})
    first = ended(home, "20261120-141503-lenet-aaaa", replace(point, values={"lr": "0.1"}))
    ended(home, "20261120-141504-lenet-n2-aaab", point)

    planned = runner.plan_scale(
        scale(HERE, words=["4,2,2", "--env", "A=1", first.directory.path.name], span=30.0)
    )
    runs = [planned.sweep.run_of(number, created=1.0) for number in (0, 1)]

    assert [len(run.ranks) for run in runs] == [2, 4]
    assert {rank.environment["WORLD_SIZE"] for rank in runs[1].ranks} == {"4"}
    assert [run.sweep and run.sweep.text for run in runs] == ["lr=0.1 -n 2", "lr=0.1 -n 4"]
    assert [run.sweep and run.sweep.params for run in runs] == [{"lr": 0.1}] * 2
    assert planned.first.environment["OMP_NUM_THREADS"] == planned.first.environment["A"] == "1"
    assert planned.first.program.text == first.directory.cell.read_text()
    # nothing goes on from what a run of a scale saves
    places = {run.checkpoints for run in runs}
    assert len(places) == 2
    assert all(place.startswith(str(home / "sweeps")) for place in places)
    assert (runs[0].resumed, runs[0].detached) == ("", False)
    assert runner.plan_scale(scale(HERE, words=[], span=30.0)).sweep.name == "lenet"
    with pytest.raises(UsageMistake, match="was a run of a scale"):
        resume(HERE, words=[])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("0,2", "0,2: write numbers of ranks, as in  %dist_scale 1,2,4"),
        ("1,2 nothing", "no run nothing"),
        ("1,2 train.py", "no script train.py"),
    ],
)
def test_what_cannot_be_measured_says_what_to_type(words: str, message: str) -> None:
    with pytest.raises((UsageMistake, UnknownRun)) as refused:
        runner.plan_scale(scale(HERE, words=words.split(), span=30.0))

    assert message in str(refused.value)


def test_a_run_ends_some_time_after_its_first_steps(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINS)

    handle = start_sweep(runner.plan_scale(scale(HERE, words=["1", str(script)], span=0.5)))

    assert handle.wait(120) == "finished"
    scaling = handle.look().scaling
    assert scaling is not None
    assert list(scaling.rates) == [1]
    assert not list(handle.directory.path.glob("checkpoints/*"))
