"""A program written for TensorBoard's SummaryWriter runs with ours."""

from __future__ import annotations

import ast
import inspect
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nbdist import SummaryWriter

if TYPE_CHECKING:
    from tests.worker.conftest import Rank


def methods_of_torch() -> dict[str, list[tuple[str, object]]]:
    """Return torch's arguments and defaults, read and not imported: the import may lack a package."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    source = Path(spec.origin).parent / "utils" / "tensorboard" / "writer.py"
    (writer,) = (
        node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "SummaryWriter"
    )
    return {
        node.name: arguments(node)
        for node in writer.body
        if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name.startswith("__"))
    }


def arguments(function: ast.FunctionDef) -> list[tuple[str, object]]:
    names = [argument.arg for argument in function.args.args]
    defaults = [ast.literal_eval(default) for default in function.args.defaults]
    return list(zip(names, [inspect.Parameter.empty] * (len(names) - len(defaults)) + defaults, strict=True))


def test_it_has_the_methods_and_arguments_of_torch() -> None:
    theirs = methods_of_torch()

    signatures = {name: inspect.signature(getattr(SummaryWriter, name)).parameters for name in theirs}
    ours = {name: [(p.name, p.default) for p in known.values()] for name, known in signatures.items()}

    assert len(theirs) > 20
    assert ours == theirs


def test_scalars_are_points_of_the_rank(rank: Rank) -> None:
    rank.does(
        """
with nbdist.SummaryWriter("logs", comment="ignored") as writer:
    writer.add_scalar("train/loss", 0.5, 3)
    writer.add_scalar("train/loss", 0.25, global_step=4, walltime=1763712345.5)
    writer.add_scalar("plain", 1.0)
    writer.add_scalars("pair", {"a": 1, "b": 2}, 5)
writer.add_scalar("after/close", 1.0, 6)
writer.flush()
"""
    )

    assert rank.points() == [
        (3, {"train/loss": 0.5}),
        (4, {"train/loss": 0.25}),
        (None, {"plain": 1.0}),
        (5, {"pair/a": 1, "pair/b": 2}),
        (6, {"after/close": 1.0}),
    ]
    assert rank.lines()[1]["t"] == 1763712345.5


def test_everything_else_becomes_a_record(rank: Rank) -> None:
    rank.does(
        """
import numpy
from matplotlib.figure import Figure
writer = nbdist.SummaryWriter()
pixels = numpy.zeros((3, 8, 6), numpy.float32)
writer.add_image("image", pixels, 1)
writer.add_images("images", numpy.stack([pixels, pixels]), 1)
writer.add_image_with_boxes("boxes", pixels, [[1, 1, 4, 5]], 1)
writer.add_figure("figure", Figure(), 1)
writer.add_figure("figures", [Figure(), Figure()], 1)
writer.add_histogram("weights", numpy.arange(10), 1, bins="auto")
writer.add_histogram_raw("raw", 0, 3, 4, 6, 14, [1, 2, 3], [1, 2, 1], 1)
writer.add_text("text", "hello", 1)
writer.add_audio("audio", numpy.zeros((1, 100)), 1, sample_rate=8000)
writer.add_embedding(numpy.eye(2), ["a", "b"], global_step=1)
writer.add_pr_curve("pr", numpy.array([0, 1]), numpy.array([0.1, 0.9]), 1)
writer.add_pr_curve_raw("raw", [1], [2], [3], [4], [0.5], [0.25], 1)
writer.add_hparams({"lr": 0.1}, {"hparam/acc": 0.9}, run_name="one")
"""
    )

    tags = {name: [value.tag for value in rank.records(name)] for name in rank.directories()}
    assert tags == {
        "rank0.image": ["image", "images", "boxes", "figure", "figures"],
        "rank0.histogram": ["weights", "raw"],
        "rank0.text": ["text"],
        "rank0.audio": ["audio"],
        "rank0.embeddings": ["default:1"],
        "rank0.pr_curve": ["pr", "raw"],
    }
    raw = rank.records("rank0.histogram")[1].histogram
    assert (list(raw.hist), list(raw.bin_edges)) == ([1, 2, 1], [0, 1, 2, 3])
    assert rank.lines()[0]["hparams"] == {"lr": 0.1}
    assert rank.points() == [(None, {"hparam/acc": 0.9})]


def test_what_visualdl_cannot_show_is_accepted_and_said_once(rank: Rank) -> None:
    done = rank.does(
        """
writer = nbdist.SummaryWriter()
for _ in range(3):
    writer.add_graph(None); writer.add_video("v", None); writer.add_mesh("m", None)
    writer.add_tensor("t", None); writer.add_onnx_graph(None); writer.add_custom_scalars({})
writer.add_scalar("loss", 1)
"""
    )

    assert len(done.stderr.splitlines()) == 6
    assert "VisualDL shows no graphs of torch's models (add_graph); the program goes on" in done.stderr
    assert rank.points() == [(None, {"loss": 1})]


@pytest.mark.parametrize(
    ("writers", "tags"),
    [
        (["'a/train'", "'a/val/'", "'a/train'"], ["loss", "val/loss", "loss"]),
        (["'a/train'", "'b/val'", "'c/val'"], ["loss", "val/loss", "c/val/loss"]),
        (["'a'", ""], ["loss", "loss"]),
        (["", "comment='_lr0.1'"], ["loss", "lr0.1/loss"]),
    ],
    ids=["train and val", "one name", "no directory", "a comment"],
)
def test_writers_to_different_directories_keep_their_curves_apart(
    rank: Rank, writers: list[str], tags: list[str]
) -> None:
    rank.does("\n".join(f"nbdist.SummaryWriter({given}).add_scalar('loss', 1.0, 1)" for given in writers))

    assert [tuple(values) for _, values in rank.points()] == [(tag,) for tag in tags]


def test_its_directory_is_there_for_the_programs_own_files(rank: Rank) -> None:
    done = rank.does(
        """
import os
for writer in (nbdist.SummaryWriter("mine"), nbdist.SummaryWriter(comment="_lr")):
    open(os.path.join(writer.log_dir, "checkpoint"), "w").close()
    print(writer.get_logdir())
"""
    )

    assert done.stdout.split() == ["mine", str(rank.files.path / "summary_lr")]
