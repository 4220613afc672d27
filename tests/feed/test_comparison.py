"""Runs beside each other: their differences, and those of their programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.comparison import Comparison, Value, arguments_of, best_of, compare, letter_of
from nbdist.model import Device, Input, RunState
from nbdist.panel import comparison_bundle, comparison_text
from nbdist.privacy import MASK
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, run_ended

CELL = "import torch\nlr = 0.1\nfor epoch in range(3):\n    train(lr)\n"


def written(
    home: Path,
    end: str,
    *,
    cell: str = CELL,
    losses: Mapping[int, float] | None = None,
    hparams: Mapping[str, Any] | None = None,
    git: str = "",
    **changes: Any,
) -> WrittenRun:
    name = f"20261120-141503-lenet-{end}"
    program = str(home / "runs" / name / "cell.py")
    run = WrittenRun(home, a_spec(**({"run_id": name, "program": program} | changes)), cell=cell)
    with run.directory.rank(0).metrics.open("w") as metrics:
        if hparams is not None:
            line = {"t": CREATED, "v": {}, "hparams": hparams, "metrics": []}
            metrics.write(json.dumps(line) + "\n")
        for step, loss in (losses or {}).items():
            metrics.write(json.dumps({"t": CREATED + step, "step": step, "v": {"loss": loss}}) + "\n")
    if git:
        run.directory.git.write_text(git)
    return run.happened(*STARTED, run_ended(RunState.FINISHED))


def compared(*runs: WrittenRun, step: int | None = None) -> Comparison:
    return compare([(run.run, run.directory) for run in runs], step=step)


def differing(comparison: Comparison) -> dict[tuple[str, str], tuple[Value, ...]]:
    return {(row.group, row.name): row.values for row in comparison.shown(all_rows=False)}


def test_what_was_asked_for_and_given_is_compared(home: Path) -> None:
    first = written(
        home,
        "aaaa",
        args=("--lr", "0.1", "--fast", "width=64", "--api-key", "hf_abcdefghijklmnop"),
        environment={"NCCL_DEBUG": "INFO"},
        versions={"Python": "3.12.1", "torch": "2.8.0"},
        inputs=(
            Input(name="df", type="DataFrame", size=48_000_000, digest="1a2b3c4d"),
            Input(name="wd", type="float", size=24, value="0.01"),
        ),
        devices=(Device(kind="gpu", name="NVIDIA H200"), Device(kind="gpu", index=1, name="NVIDIA H200")),
        git="# branch.oid 0123456789abcdef\n# branch.head main\n",
    )
    other = written(
        home,
        "bbbb",
        args=("--lr", "0.3", "width=64"),
        retries=3,
        versions={"Python": "3.12.1", "torch": "2.9.0"},
        inputs=(Input(name="df", type="DataFrame", size=48_000_000, digest="5e6f7a8b"),),
        git="# branch.oid 0123456789abcdef\n# branch.head main\n1 .M N... 100644 train.py\n",
    )

    rows = differing(compared(first, other))

    assert rows["argument", "--lr"] == ("0.1", "0.3")
    assert rows["argument", "--fast"] == (True, None)
    assert rows["argument", "--api-key"] == (MASK, None)
    assert ("argument", "width") not in rows
    assert rows["option", "--env NCCL_DEBUG"] == ("INFO", None)
    assert rows["option", "--retries"] == (0, 3)
    assert rows["input", "df"] == ("DataFrame, 48 MB, 1a2b3c4d", "DataFrame, 48 MB, 5e6f7a8b")
    assert rows["input", "wd"] == ("0.01", None)
    assert rows["version", "torch"] == ("2.8.0", "2.9.0")
    assert ("version", "Python") not in rows
    assert rows["code", "clean"] == (True, False)
    assert ("code", "commit") not in rows
    assert rows["machine", "gpus"] == ("NVIDIA H200", "")


def test_metrics_are_compared_at_their_end_at_their_best_and_at_the_same_step(home: Path) -> None:
    longer = written(home, "aaaa", losses={0: 3.0, 1: 0.5, 2: 1.0, 9: 0.75})
    shorter = written(home, "bbbb", losses={0: 4.0, 2: 2.0})

    comparison = compared(longer, shorter)

    rows = {row.group: row for row in comparison.rows if row.name == "loss"}
    assert rows["last"].values == (0.75, 2.0)
    assert (rows["best"].values, rows["best"].steps) == ((0.5, 2.0), (1, 2))
    assert (comparison.step, rows["at"].values) == (2, (1.0, 2.0))
    at = {row.group: row.values for row in compared(longer, shorter, step=1).rows if row.name == "loss"}
    assert at["at"] == (0.5, 4.0)
    assert compared(shorter, shorter).step is None


def test_hyperparameters_are_what_the_ranks_logged(home: Path) -> None:
    hparams = {"lr": 0.1, "optimizer": "sgd", "api_token": "hf_abc", "secret_rate": 0.1}
    first = written(home, "aaaa", hparams=hparams, losses={0: 1.0})
    other = written(home, "bbbb", hparams=hparams | {"lr": 0.2}, losses={0: 1.0})

    comparison = compared(first, other).to_dict(all_rows=True)

    values = {row["name"]: row["values"] for row in comparison["untrusted"]["rows"]}
    assert values == {
        "lr": [0.1, 0.2],
        "optimizer": ["sgd", "sgd"],
        "api_token": [MASK, MASK],
        "secret_rate": [0.1, 0.1],
    }
    assert not [row for row in comparison["rows"] if row["group"] == "hparam"]


def test_programs_are_compared_line_by_line(home: Path) -> None:
    first = written(home, "aaaa")
    other = written(home, "bbbb", cell=CELL.replace("0.1", "0.3"))
    same = written(home, "cccc", cell=f"\n{CELL}")
    script = written(home, "dddd", program=str(home / "gone.py"))

    comparison = compared(first, other, same, script)

    diffs = [each.diff for each in comparison.runs]
    assert [line for line in diffs[1] or () if line[0] in "+-"] == ["-lr = 0.1", "+lr = 0.3"]
    assert (diffs[2], diffs[3]) == ((), None)
    assert differing(comparison)["code", "program"] == ("=", "+1 −1", "=", None)


def test_a_script_that_was_changed_since_is_not_what_ran(home: Path) -> None:
    script = home / "train.py"
    home.mkdir(exist_ok=True, mode=0o700)
    script.write_text("print(1)\n")
    before, after = (
        written(home, end, program=str(script), created=script.stat().st_mtime + seconds)
        for end, seconds in (("aaaa", -60), ("bbbb", 60))
    )

    assert compared(after, after).runs[1].diff == ()
    assert compared(after, before).runs[1].diff is None


def test_curves_have_steps_and_the_seconds_of_their_own_run(home: Path) -> None:
    first = written(home, "aaaa", losses={step: 1 / (step + 1) for step in range(2000)})
    other = written(home, "bbbb")

    curves, none = compared(first, other).to_dict(all_rows=True, curves=True)["curves"]

    (loss,) = curves
    assert (loss["steps"][0], loss["steps"][-1], len(loss["values"])) == (0, 1999, 600)
    assert loss["times"][1] - loss["times"][0] == pytest.approx(loss["steps"][1])
    assert none == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--lr", "0.1", "--fast", "-v"], {"--lr": "0.1", "--fast": True, "-v": True}),
        (["--lr=-1", "--shift", "-0.5"], {"--lr": "-1", "--shift": "-0.5"}),
        (["+model.lr=3", "data.csv"], {"+model.lr": "3", "[1]": "data.csv"}),
        (["--tag", "a", "--tag", "b"], {"--tag": "a b"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_arguments_are_known_by_their_names(words: list[str], expected: dict[str, Value]) -> None:
    assert dict(arguments_of(words)) == expected


@pytest.mark.parametrize(
    ("tag", "best"),
    [("loss", min), ("val/top1", max), ("train_loss", min), ("loss_scale", None), ("lr", None), ("wer", min)],
)
def test_what_is_best_is_told_by_the_name(tag: str, best: object) -> None:
    assert best_of(tag) is best


def test_runs_have_letters() -> None:
    assert [letter_of(number) for number in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]


def test_the_table_is_text_and_html(home: Path) -> None:
    first = written(home, "aaaa", losses={0: 1.0, 5: 0.25}, cell=CELL)
    other = written(home, "bbbb", losses={0: 2.0, 5: 0.5}, cell=CELL.replace("0.1", "'<b>'"), retries=3)
    comparison = compared(first, other)

    text = comparison_text(comparison, "en", all_rows=False)
    bundle = comparison_bundle(comparison, "zh", all_rows=False)

    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["A", "lenet-aaaa", "B", "lenet-bbbb"]
    assert ["last", "loss", "0.25", "0.5"] in lines
    assert ["best", "loss", "0.25", "(5)", "0.5", "(5)"] in lines
    assert ["option", "--retries", "0", "3"] in lines
    assert "    +lr = '<b>'" in text
    assert "state" not in text
    assert "最后值" in bundle["text/html"]
    assert "&lt;b&gt;" in bundle["text/html"]
    assert "<b>'" not in bundle["text/html"]
    assert "the runs do not differ" in comparison_text(compared(first, first), "en", all_rows=False)


def test_many_runs_are_rows(home: Path) -> None:
    runs = [written(home, f"aaa{number}", retries=number) for number in range(7)]

    lines = comparison_text(compared(*runs), "en", all_rows=False).splitlines()

    assert len(lines) == 2 + len(runs)
    assert lines[1].split() == ["--retries"]
    assert lines[4].split() == ["C", "lenet-aaa2", "2"]


def test_a_run_that_diverged_is_not_the_best(home: Path) -> None:
    steady = written(home, "aaaa", losses={0: 3.0, 1: 1.0, 2: 0.5})
    diverged = written(home, "bbbb", losses={0: 3.0, 1: 0.1, 2: 9.0})

    data = compared(diverged, steady).to_dict(all_rows=True, curves=True)

    assert (data["best"], data["diverged"]) == (1, [0])
