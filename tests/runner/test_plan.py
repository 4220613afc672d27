"""The checks before anything is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdist import options, runner
from nbdist.devices.usage import cpu_count
from nbdist.errors import LaunchError, UsageMistake
from nbdist.privacy import MASK, Privacy
from nbdist.runner.planning import check_disk


def plan(line: str, tmp_path: Path, cell: str = "pass") -> runner.Plan:
    environment = {"NBDIST_HOME": str(tmp_path / "home"), "PATH": "/usr/bin"}
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


def test_two_cpu_ranks_are_chosen_where_there_is_no_gpu_and_it_is_said(tmp_path: Path) -> None:
    planned = plan("", tmp_path)

    assert planned.spec.world_size == 2
    assert "no GPU here: 2 ranks on the CPU" in planned.notes[0]


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


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_PORT", "PADDLE_TRAINER_ID", "NBDIST_RANK"])
def test_what_nbdist_sets_itself_cannot_be_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        UsageMistake, match=f"--env {name} does not work, nbdist sets it in each rank: leave it out"
    ):
        plan(f"-n 2 --env {name}=7", tmp_path)


def test_gpus_are_chosen_by_their_option(tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match="--gpus 0,1"):
        plan("-n 2 --env CUDA_VISIBLE_DEVICES=3", tmp_path)


def test_ranks_of_which_nobody_says_where_are_on_the_cpu_where_there_are_too_few_gpus(tmp_path: Path) -> None:
    spec = plan("--nproc_per_node 3", tmp_path).spec

    assert [str(rank.device) for rank in spec.ranks] == ["CPU"] * 3


def test_what_another_launcher_means_by_auto_is_a_rank_for_each_processor(tmp_path: Path) -> None:
    assert plan("--nproc_per_node=auto", tmp_path).spec.world_size == cpu_count()


def test_what_has_no_effect_of_a_pasted_line_is_said(tmp_path: Path) -> None:
    assert any("--tee has no effect" in note for note in plan("-n 1 --tee 3", tmp_path).notes)


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
