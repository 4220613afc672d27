"""A run that resumes another: what it keeps, what may change, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.model import Device, RunState
from nbdist.model.spec import SweepPoint
from nbdist.options import first_line, parse, recorded_options
from nbdist.privacy import MASK
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec, run_ended

COUNTING = """
import os, time, nbdist
latest = nbdist.latest_checkpoint()
first = int((latest / "step").read_text()) + 1 if latest else 0
print("from", first, os.environ["WORLD_SIZE"], os.environ.get("OMP_NUM_THREADS"), len(data), flush=True)
for step in range(first, 6):
    if step == 3 and first == 0:
        while not (nbdist.checkpoint_dir() / "step-00000002").exists(): time.sleep(0.01)
        raise SystemExit(9)
    with nbdist.checkpoint(step) as path:
        if os.environ["RANK"] == "0":
            (path / "step").write_text(str(step))
"""


def ended(home: Path, tmp_path: Path, **spec: Any) -> runner.RunHandle:
    """A run that has failed, of a program that needs nothing."""
    program = a_spec(framework="none", cwd=str(tmp_path), **spec)
    written = WrittenRun(home, program, cell="\npass").happened(*STARTED)
    return runner.RunHandle(written.happened(run_ended(RunState.FAILED, "rank 1 failed")).directory)


def test_a_run_goes_on_from_what_another_one_has_saved(run_cell, tmp_path: Path) -> None:
    given = runner.Namespace(values={"data": [1, 2, 3]})
    line = "-n 2 --env OMP_NUM_THREADS=2 --push data --keep-inputs --name count"
    plan = runner.plan(parse(line), cell=COUNTING, cwd=str(tmp_path), namespace=given)
    first = runner.start(plan)
    assert first.wait(60) == "failed"
    assert "from 0 2 2 3\n" in first.logs(0)

    chosen, planned = runner.resume_plan(first, ["-n", "1"])
    second = runner.start(planned)

    assert second.wait(60) == "finished", second.logs(0)
    assert "from 3 1 2 3\n" in second.logs(0)
    assert planned.spec.resumed == first.run_id
    assert planned.spec.checkpoints == first.run.spec.checkpoints
    assert Path(planned.spec.checkpoints) == tmp_path / "checkpoints" / first.run.label
    assert planned.notes[-1].startswith(f"goes on from {first.run.label}: step-00000002 in ")
    assert chosen.name == "count"


def test_options_are_taken_over_and_what_is_typed_replaces_them(home: Path, tmp_path: Path) -> None:
    handle = ended(home, tmp_path, retries=2, timeout=90.0, args=("--lr", "0.1"), hang_after=None)

    chosen, planned = runner.resume_plan(handle, ["--timeout", "5m", "--args", "--lr 0.2", "--env", "A=b"])

    assert (chosen.retries, chosen.hang_after, chosen.args) == (2, 0.0, ("--lr", "0.2"))
    assert (planned.spec.world_size, planned.spec.retries, planned.spec.timeout) == (2, 2, 300.0)
    assert planned.cell == "\npass"
    assert planned.environment["A"] == "b"


def test_a_point_of_a_sweep_goes_on_with_its_values(home: Path, tmp_path: Path) -> None:
    point = SweepPoint(sweep="20261123-120000-lenet-bbbb", number=1, values={"lr": "0.1"})
    handle = ended(home, tmp_path, sweep=point)

    _, planned = runner.resume_plan(handle)

    assert planned.spec.sweep == point
    assert first_line(handle.run.spec).endswith(" --sweep lr=0.1")
    with pytest.raises(UsageMistake, match=r"--sweep does not work here, .* was one run"):
        runner.resume_plan(handle, ["--sweep", "lr=0.2"])


def test_a_secret_that_was_not_written_down_is_asked_for(home: Path, tmp_path: Path) -> None:
    handle = ended(home, tmp_path, environment={"HF_TOKEN": MASK})

    with pytest.raises(UsageMistake, match="add  --env HF_TOKEN=VALUE"):
        runner.resume_plan(handle)
    _, planned = runner.resume_plan(handle, ["--env", "HF_TOKEN=abc"])

    assert planned.environment["HF_TOKEN"] == "abc"


def test_inputs_that_are_gone_come_from_the_notebook_or_are_named(home: Path, tmp_path: Path) -> None:
    plan = runner.plan(
        parse("-n 2 --push rows"),
        cell="print(rows)",
        cwd=str(tmp_path),
        namespace=runner.Namespace(values={"rows": [1]}),
    )
    handle = ended(home, tmp_path, inputs=plan.spec.inputs)

    with pytest.raises(UsageMistake, match=r"needs rows from its notebook again: make it in the notebook"):
        runner.resume_plan(handle)
    _, planned = runner.resume_plan(handle, namespace=runner.Namespace(values={"rows": [1, 2]}))

    assert [item.name for item in planned.spec.inputs] == ["rows"]
    assert planned.write_inputs is not None
    assert planned.notes[-1] == "changed since lenet-k3f9: rows"


def test_a_run_that_goes_on_is_not_started_again(home: Path) -> None:
    handle = runner.RunHandle(WrittenRun(home).happened(*STARTED).directory)

    with pytest.raises(UsageMistake, match=r"lenet-k3f9 still runs: .*%dist_stop lenet-k3f9"):
        runner.resume_plan(handle)


def test_two_live_runs_do_not_write_into_one_directory(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    live = WrittenRun(home, a_spec(checkpoints=str(place))).happened(*STARTED)
    plan = runner.plan(parse(f"-n 1 --checkpoints {place}"), cell="pass", cwd=str(tmp_path))

    with pytest.raises(UsageMistake, match="is in use by lenet-k3f9"):
        runner.start(plan)
    assert [run.run_id for run in runner.runs()] == [live.directory.run_id]


@pytest.mark.parametrize(
    "line",
    [
        "-n 2",
        "--gpus 1,3 --retries 2",
        "-n 2 --debug",
        "-n 3 --args \"--lr 0.1 --name 'a b'\" --env OMP_NUM_THREADS=2 --timeout 90 --memory 512M",
        "-n 1 --hang-after off --name mine --detach --no-scrape --backend gloo --framework torch",
        "--on slurm --nodes 2 -n 4 --slurm partition=gpu,time=1:00:00",
        "--on ray --ray http://head:8265 -n 2",
    ],
)
def test_the_first_line_of_a_run_means_what_was_typed(line: str) -> None:
    """From a spec that such a line leads to, without the machine's part in it."""
    typed = parse(line)
    engine = "" if typed.engine == "local" else typed.engine
    gpus = tuple(Device(kind="gpu", index=index) for index in typed.gpus or ())
    ranks = (typed.nodes or 1) * (typed.nproc or 0)
    spec = a_spec(
        ranks=ranks,
        devices=gpus,
        name=typed.name or "run",
        framework="none" if typed.framework == "auto" else typed.framework,
        backend=typed.backend,
        args=typed.args,
        environment=dict(typed.env),
        detached=typed.detach,
        timeout=typed.timeout,
        hang_after=typed.hang_after or None,
        retries=typed.retries,
        debug=typed.debug,
        memory=typed.memory,
        scrape=typed.scrape,
        nodes=typed.nodes or 1,
        engine=engine,
        engine_options=typed.slurm or ((f"address={typed.ray}",) if typed.ray else ()),
    )

    magic, _, rest = first_line(spec).partition(" ")

    assert magic == "%%distributed"
    again = parse(rest)
    assert again == options.Options(
        **{name: getattr(typed, name) for name in typed.__slots__} | {"framework": again.framework}
    )
    assert again.framework == ("auto" if spec.framework == "none" else spec.framework)
    assert recorded_options(spec).get("cwd") == "/home/ada"
