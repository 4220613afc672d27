"""A run as files: what they say, and that they give the same result without nbdist."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.model import Device, RankSpec
from nbdist.runner.exporting import Export, export, export_text
from nbdist.runner.handle import RunHandle
from nbdist.store import RunStore
from tests.conftest import RunCell
from tests.fakes.runs import a_spec

TORCH = """
import os, sys
import torch, torch.distributed as dist
import beside
import nbdist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
nbdist.log(step=1, total=3, loss=total.item())
writer = nbdist.SummaryWriter()
writer.add_scalar("loss", total.item(), 1)
writer.close()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()} {sys.argv[1:]} "
      f"{os.environ['COLOUR']} {os.getcwd()} {beside.VALUE} {__name__} over", flush=True)
dist.destroy_process_group()
"""

PADDLE = """
import os, sys
import paddle, paddle.distributed as dist
import nbdist

dist.init_parallel_env()
total = paddle.to_tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
nbdist.log(step=1, loss=total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()} {sys.argv[1:]} "
      f"{os.environ['COLOUR']} {os.getcwd()} over", flush=True)
"""


def output_of_ranks(text: str) -> list[str]:
    """Return the sorted lines of the ranks: torchrun lets them run into each other."""
    return sorted(re.findall(r"rank \d of .*? over", text))


def shell(command: str, folder: Path, **variables: str) -> str:
    """Run a command line in a shell without this environment; return its output."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **variables}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def the_line(exported: Export, launcher: str) -> str:
    return dict(exported.lines)[launcher]


def test_a_cell_of_torch_gives_the_same_by_torchrun(run_cell: RunCell, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    line = "-n 2 --env COLOUR='dark red' --args \"--lr 0.1 'two words'\" --name lenet"
    handle = run_cell(line, TORCH)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    exported = export(handle, elsewhere / "lenet")

    here = output_of_ranks("\n".join(handle.logs(rank) for rank in range(2)))
    assert len(here) == 2
    assert output_of_ranks(shell(the_line(exported, "torchrun"), elsewhere, COLOUR="dark red")) == here
    assert (elsewhere / "lenet/lenet.py").read_text() == TORCH.lstrip("\n")


def test_a_cell_of_paddle_gives_the_same_by_fleetrun(run_cell: RunCell, tmp_path: Path) -> None:
    pytest.importorskip("paddle")
    handle = run_cell("-n 2 --env COLOUR=red --args x --name lenet", PADDLE)

    exported = export(handle, tmp_path / "lenet")

    shell(the_line(exported, "fleetrun"), tmp_path, COLOUR="red")
    outside = "\n".join(path.read_text() for path in (tmp_path / "lenet/log").glob("workerlog.*"))
    here = output_of_ranks("\n".join(handle.logs(rank) for rank in range(2)))
    assert len(here) == 2
    assert output_of_ranks(outside) == here


def stored(tmp_path: Path, **spec: Any) -> RunHandle:
    """A run that is on disk and was never started."""
    directory = RunStore(tmp_path / "home").create(replace(a_spec(), **spec), "print(1)\n")
    return RunHandle(directory)


def all_of(exported: Export) -> str:
    return "\n".join([*export_text(exported), *(path.read_text() for path in exported.files)])


def text_of(tmp_path: Path, **spec: Any) -> str:
    return all_of(export(stored(tmp_path, **spec), tmp_path / "out"))


def test_a_script_stays_where_it_is(tmp_path: Path) -> None:
    text = text_of(tmp_path, program="/home/ada/my train.py", args=("-v",), retries=2)

    assert "--max-restarts=2 '/home/ada/my train.py' -v" in text
    assert not (tmp_path / "out/lenet.py").exists()


def test_a_module_is_one_for_torchrun_and_a_file_for_fleetrun(tmp_path: Path) -> None:
    text = text_of(tmp_path, program="/home/ada/job/train.py", module="job.train", framework="none")

    assert "--nproc-per-node=2 -m job.train" in text
    assert f"{tmp_path}/out/lenet.py" in text
    assert "run_module('job.train'" in text
    assert "PYTHONPATH=/home/ada" in text


def test_gpus_are_those_of_the_run_and_in_a_job_those_that_it_is_given(tmp_path: Path) -> None:
    ranks = tuple(
        RankSpec(rank=rank, local_rank=rank, device=Device(kind="gpu", index=index))
        for rank, index in enumerate((3, 5))
    )

    text = text_of(tmp_path, ranks=ranks, timeout=5400.0)

    assert "CUDA_VISIBLE_DEVICES=3,5 CUDA_DEVICE_ORDER=PCI_BUS_ID" in text
    job = (tmp_path / "out/job.sbatch").read_text()
    assert "#SBATCH --gpus-per-node=2" in job
    assert "#SBATCH --time=90" in job
    assert "export CUDA_VISIBLE_DEVICES" not in job


@pytest.mark.parametrize(
    ("framework", "line"),
    [
        pytest.param("torch", "--node-rank=1 --master-addr=10.0.0.1 --master-port=29400", id="torch"),
        pytest.param("paddle", "--rank=1 --master=10.0.0.1:29400 --nproc_per_node=1", id="paddle"),
    ],
)
def test_several_machines_are_written_as_they_are_and_a_job_finds_its_own(
    tmp_path: Path, framework: str, line: str
) -> None:
    ranks = tuple(RankSpec(rank=rank, local_rank=0, node_rank=rank) for rank in range(2))
    spec = {"ranks": ranks, "nodes": 2, "node_rank": 1, "master": "10.0.0.1:29400", "framework": framework}

    text = text_of(tmp_path, **spec, args=("--token", "hunter2"), environment={"DB_PASS": "hunter2"})

    assert f"--nnodes=2 {line}" in text
    assert '--token "${ARG_TOKEN?}"' in text
    assert "hunter2" not in text
    job = (tmp_path / "out/job.sbatch").read_text()
    assert "#SBATCH --nodes=2" in job
    assert "10.0.0.1" not in job
    assert "$SLURM_NODEID" in job


def test_a_variable_that_may_be_a_secret_is_in_no_file_and_asked_for(tmp_path: Path) -> None:
    environ = {"NBDIST_HOME": str(tmp_path / "home"), "PATH": "/usr/bin"}
    planned = runner.plan(
        options.parse("-n 1 --env AUTH=hunter2 --env NCCL_DEBUG=INFO"),
        cell="pass",
        cwd=str(tmp_path),
        environ=environ,
    )
    directory = RunStore(tmp_path / "home").create(planned.spec, planned.cell)

    exported = export(RunHandle(directory), tmp_path / "out")

    everything = all_of(exported)
    assert "hunter2" not in everything
    assert 'AUTH="${AUTH?}"' in everything
    assert "AUTH was not stored" in everything
    assert "NCCL_DEBUG=INFO" in everything


def test_an_argument_that_may_be_a_secret_is_a_variable_of_each_script(tmp_path: Path) -> None:
    prints = 'printf "%s|" "$PWD" "$CUDA_VISIBLE_DEVICES" "$@"'
    for name, text in {"torchrun": prints, "srun": 'shift; exec "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    args = ("--api-key", "hunter 2", "--to=pg://ann:hunter2@host/x y", "db.password=it's hunter2")
    spec = {"python": str(tmp_path / "python3"), "cwd": str(tmp_path), "args": args}
    exported = export(stored(tmp_path, **spec), tmp_path / "out")
    given = {"ARG_API_KEY": "hunter 2", "ARG_SECRET": "ann:hunter2", "ARG_DB_PASSWORD": "it's hunter2"}

    by_hand = shell(the_line(exported, "torchrun"), tmp_path, **given)

    assert by_hand.startswith(f"{tmp_path}||")
    assert by_hand.endswith("|".join([*args, ""]))
    assert shell(f"bash {tmp_path}/out/job.sbatch", tmp_path, **given) == by_hand
    assert shell(f"bash {tmp_path}/out/torchrun.sh", tmp_path, **given) == by_hand
    everything = all_of(exported)
    assert "hunter" not in everything
    assert "ARG_DB_PASSWORD stands for an argument" in everything


def test_what_is_not_set_is_missed_before_anything_starts(tmp_path: Path) -> None:
    exported = export(stored(tmp_path, environment={"AUTH": "•••"}, cwd=str(tmp_path)), tmp_path / "out")

    done = subprocess.run(["bash", "-c", the_line(exported, "torchrun")], capture_output=True, text=True)

    assert done.returncode != 0
    assert "AUTH: parameter" in done.stderr


def test_files_are_their_users_alone_and_none_is_overwritten(tmp_path: Path) -> None:
    handle = stored(tmp_path)
    exported = export(handle, tmp_path / "out")
    export(handle, tmp_path / "out")
    assert {path.stat().st_mode & 0o777 for path in exported.files} == {0o600}
    exported.files[0].write_text("mine\n")

    with pytest.raises(UsageMistake, match="exists with other contents: write  --to"):
        export(handle, tmp_path / "out")

    assert exported.files[0].read_text() == "mine\n"


@pytest.mark.parametrize("framework", ["torch", "paddle", "none"])
def test_every_script_is_one_that_a_shell_can_read(tmp_path: Path, framework: str) -> None:
    exported = export(stored(tmp_path, framework=framework), tmp_path / "out")

    scripts = [path for path in exported.files if path.suffix != ".py"]
    assert not any(subprocess.run(["bash", "-n", path]).returncode for path in scripts)
