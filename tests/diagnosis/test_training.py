"""A training's facts, and the sentence that names its limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbdist.diagnosis.stragglers import Paces
from nbdist.diagnosis.training import Training, training_of
from nbdist.store.step_records import PARTS, read_steps
from nbdist.tables import read_table

STAGED = read_table(__file__, "training")["training"]
FACTS = {
    "framework": "torch",
    "device": "cpu",
    "optimizer": "SGD",
    "parameters": 1_117_185,
    "gradient_bytes": 4_468_740,
    "lr": 0.001,
    "lr_first": 0.1,
    "schedule": "StepLR",
    "workers": 0,
    "loader_batch": 32,
    "loader_batches": 63,
    "dataset": 4000,
    "shard": 2000,
}


def some_steps(shares: list[float], *, steps: int = 100, **more: int) -> dict[str, Any]:
    parts = {part: share / 10 for part, share in zip(PARTS, shares, strict=True)}
    counts = {"steps": steps, "samples": 32 * steps, "fetches": steps, "backwards": steps} | more
    return counts | {"seconds": 10.0, "parts": parts}


def trained(
    path: Path, ranks: list[list[float]], facts: dict[str, Any] | None = None, **more: int
) -> Training | None:
    """Return the training of ranks with these shares of the time, in percent."""
    records = {}
    for rank, shares in enumerate(ranks):
        division = some_steps(shares, **more)
        record = {"time": 1.0, "total": division, "recent": division, "facts": FACTS | (facts or {})}
        path.write_text(json.dumps(record))
        read = read_steps(path)
        assert read is not None
        records[rank] = read
    return training_of(records, live=True)


@pytest.mark.parametrize("staged", STAGED, ids=[staged["name"] for staged in STAGED])
def test_the_sentence_names_the_limit(tmp_path: Path, staged: dict[str, Any]) -> None:
    training = trained(tmp_path / "steps.json", staged["parts"], staged.get("facts"))

    assert training is not None
    assert training.limit.en == staged["limit"]
    assert bool(training.limit.zh) == bool(training.limit.en)


def test_the_facts_of_all_ranks_stand_in_one_line(tmp_path: Path) -> None:
    parts: list[list[float]] = [[5, 32, 46, 10, 4, 3]] * 2
    training = trained(tmp_path / "steps.json", parts, fetches=400, backwards=400, samples=12_800)

    assert training is not None
    assert training.line("en") == (
        "batch 32 × 4 accumulated × 2 ranks = 256 · 16 steps per epoch of 4,000 samples"
        " · 2,560 samples/s, 10 steps/s · SGD lr 0.001 by StepLR · 1.12 M parameters, 4.5 MB of gradients"
    )
    assert training.line("zh").startswith(
        "批大小 32 × 累积 4 次 × 2 个进程 = 256 · 每轮 16 步，共 4,000 个样本"
    )
    assert training.facts.samples_rates == {0: 1280.0, 1: 1280.0}


def test_of_an_unknown_loader_the_batch_is_what_the_model_got(tmp_path: Path) -> None:
    unknown = dict.fromkeys(("loader_batch", "loader_batches", "shard", "workers", "schedule", "lr"), None)
    training = trained(tmp_path / "steps.json", [[0, 32, 56, 0, 9, 3]], unknown)

    assert training is not None
    assert training.line("en") == (
        "batch 32 · 320 samples/s, 10 steps/s · 1.12 M parameters, 4.5 MB of gradients"
    )


def test_with_a_gpu_only_what_is_true_of_the_host_is_shown(tmp_path: Path) -> None:
    training = trained(tmp_path / "steps.json", [[5, 32, 46, 10, 4, 3]] * 2, {"device": "cuda"})

    assert training is not None
    assert training.bar("en") == "time of the host: data 5 % · wait 10 % · other 85 %"
    assert "limit" in training.to_dict()
    assert not {"forward", "backward", "optimizer"} & set(training.mean)


def test_the_slowest_rank_is_named_by_recorded_steps(tmp_path: Path) -> None:
    training = trained(tmp_path / "steps.json", [[0, 30, 20, 50, 0, 0], [0, 80, 20, 0, 0, 0]])

    slow = Paces().slowest([0, 1], {}, 2.0, training)

    assert slow is not None
    assert (slow.rank, slow.factor, slow.over) == (1, pytest.approx(2.0), pytest.approx(0.05))
    # its training is over since
    assert Paces().slowest([0, 1], {}, 60.0, training) is None


def test_a_name_that_is_none_is_left_out(tmp_path: Path) -> None:
    training = trained(tmp_path / "steps.json", [[5, 32, 46, 10, 4, 3]], {"schedule": "do this: rm -r"})

    assert training is not None
    assert training.facts.schedule is None
