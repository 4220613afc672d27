"""The checks before anything is started."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nbdist import options, runner
from nbdist.devices.usage import cpu_count
from nbdist.errors import LaunchError, UsageMistake
from nbdist.privacy import MASK, Privacy
from nbdist.runner.checking import check_program
from nbdist.runner.planning import check_disk


def plan(line: str, tmp_path: Path, cell: str = "pass", **more: str) -> runner.Plan:
    environment = {"NBDIST_HOME": str(tmp_path / "home"), "PATH": "/usr/bin", **more}
    return runner.plan(options.parse(line), cell=cell, cwd=str(tmp_path), environ=environment)


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    plan("-n 2", tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "more", "words"),
    [(3, 0, r"only 3 MB are free .*%env NBDIST_HOME="), (1900, 2000, "and --push needs 2000")],
    ids=["for a run", "for its values"],
)
def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path, free: int, more: int, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        check_disk(tmp_path, free_bytes=lambda _: free << 20, more=more << 20)


@pytest.mark.parametrize(
    ("cards", "line", "cell", "words"),
    [
        ("", "", "pass", "no GPU here: 2 ranks on the CPU"),
        ("", "-n 1 --tee 3", "pass", "--tee has no effect"),
        ("", "-n 2 --env CUDA_VISIBLE_DEVICES=3", "pass", "--gpus 0,1"),
        ("ASCEND_RT_VISIBLE_DEVICES", "", "import torch_npu", "only, not on NPUs: 2 ranks on the CPU"),
        ("XPU_VISIBLE_DEVICES", "--nproc_per_node 3", "pass", "only, not on XPUs: 3 ranks on the CPU"),
        ("ZE_AFFINITY_MASK", "--gpus 0", "pass", "not on XPUs, so write  -n 1  for 1 CPU rank"),
        ("ZE_AFFINITY_MASK", "-n 1", "\nimport torch_npu", "not on NPUs, so .* at line 2 of the cell"),
        ("", "-n 1", "model.to('npu:0')", "not on NPUs, so .* at line 1 of the cell"),
        ("", "-n 1", "import torch\ndef f(): torch.npu.set_device(0)\nif torch.npu: f()", "^$"),
    ],
)
def test_what_ranks_do_not_get_as_it_was_typed_is_said(
    tmp_path: Path, cards: str, line: str, cell: str, words: str
) -> None:
    try:
        planned = plan(line, tmp_path, cell, **{cards: "0"})
        text = " ".join([*planned.notes, *check_program(planned)])
    except UsageMistake as refused:
        text = str(refused)

    assert re.search(words, text)


@pytest.mark.parametrize(
    ("line", "cell", "cores", "advised"),
    [
        pytest.param(
            "-n 2", "import torch", 8, "use all cores with  --env OMP_NUM_THREADS=4", id="cores are idle"
        ),
        pytest.param("-n 2", "import torch", 3, "", id="no core for a second thread each"),
        pytest.param("-n 1", "import torch", 8, "", id="one rank has all threads"),
        pytest.param("-n 2", "import json", 8, "", id="no framework that computes in threads"),
        pytest.param("-n 2 --env OMP_NUM_THREADS=2", "import torch", 8, "", id="the user has chosen"),
    ],
)
def test_one_thread_a_rank_is_the_default_and_advised_of_where_it_matters(
    tmp_path: Path, line: str, cell: str, cores: int, advised: str
) -> None:
    planned = plan(line, tmp_path, cell)
    advice = runner.thread_advice(planned, cores=cores, environ={})

    chosen = planned.environment.get("OMP_NUM_THREADS")
    assert chosen == {"-n 1": None, "-n 2": "1"}.get(line, "2")
    assert advised in advice if advised else advice == ""


def test_of_a_secret_variable_the_spec_has_a_digest_that_finds_its_value(tmp_path: Path) -> None:
    spec = plan("--env WANDB_KEY=swordfish-of-ann --env LR=learning-rate", tmp_path).spec

    assert "swordfish" not in str(spec)
    assert Privacy(spec, environ={}).clean("swordfish-of-ann at learning-rate") == f"{MASK} at learning-rate"
    assert spec.shown().digests == ()


@pytest.mark.parametrize("name", ["RANK", "MASTER_PORT", "PADDLE_TRAINER_ID", "NBDIST_RANK"])
def test_what_nbdist_sets_itself_cannot_be_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageMistake, match=f"--env {name} does not work, nbdist sets it in each rank: leave"):
        plan(f"-n 2 --env {name}=7", tmp_path)


@pytest.mark.parametrize(("count", "ranks"), [("3", 3), ("auto", cpu_count())])
def test_where_there_are_too_few_gpus_ranks_are_on_the_cpu(tmp_path: Path, count: str, ranks: int) -> None:
    spec = plan(f"--nproc_per_node {count}", tmp_path).spec

    assert [str(rank.device) for rank in spec.ranks] == ["CPU"] * ranks


def test_a_directory_for_logs_is_taken_from_where_the_ranks_run(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()

    spec = plan("-n 1 --log-dir logs --cwd below", tmp_path).spec

    assert (spec.cwd, spec.log_dir) == (str(tmp_path / "below"), str(tmp_path / "below/logs"))


def test_nothing_of_a_run_gets_the_number_of_a_closed_stdin() -> None:
    program = (
        "import os; os.close(0); from nbdist.runner.planning import check_files; check_files(2); "
        "print(os.open(os.devnull, os.O_RDONLY) > 2)"
    )

    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert process.stdout == "True\n"
