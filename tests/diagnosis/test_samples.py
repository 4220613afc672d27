"""What is told of a loop over the dataset in place of its loader."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import PACKAGES
from tests.fakes.directories import Frame, WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

PROGRAM = a_spec().program
CELL = """\
for x, y in {0}:
    {1}
    loss = cost({2}, y)
"""
DATASET = "TensorDataset of 64"
WORDS = "Expected input to have 4 dimensions, but got shape [3, 32, 32]"
OF_LIBRARY = (f"{PACKAGES}/torch/nn/modules/conv.py", 548, "forward", "")


def cause_of(
    tmp_path: Path, cell: str, message: str = WORDS, kind: str = DATASET, inner: Frame | None = OF_LIBRARY
) -> str:
    line = next(at for at, one in enumerate(cell.splitlines(), 1) if "cost(" in one)
    loop = next(at for at, one in enumerate(cell.splitlines(), 1) if one.startswith("for "))
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(PROGRAM, line, "<module>", ""), *([inner] if inner else [])]
    values = [(PROGRAM, loop, name, kind) for name in ("data", "self.data")]
    written.raised(1, "RuntimeError", message, frames=frames, values=values, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return failure.hint.cause.en if failure.hint is not None else ""


def over(data: str, first: str = "begin()", given: str = "net(x)") -> str:
    return CELL.format(data, first, given)


@pytest.mark.parametrize(
    "data",
    ["data", "self.data", "loader.dataset", "tqdm(data)", "enumerate(tqdm(data))", "enumerate(data, 1)"],
)
def test_a_loop_over_a_dataset_is_told_to_have_no_batches(tmp_path: Path, data: str) -> None:
    cause = cause_of(tmp_path, over(data))

    assert cause.startswith("line 1 goes over the dataset, not over its loader: each round has one sample")
    assert cause.endswith(f"no batch:  for x, y in {data}:")


OWN = """\
class StreamDataset(IterableDataset):
    def __iter__(self):
        yield from batches()
"""


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        pytest.param(over("data"), "DataLoader of 8", id="a loader"),
        pytest.param(over("data"), "list of 8", id="a list"),
        pytest.param(over("data"), "BatchedDataset of 8", id="batches by its name"),
        pytest.param(over("data"), "WebDataset", id="a stream that may batch"),
        pytest.param(OWN + over("data"), "StreamDataset", id="one of the program that yields batches"),
        pytest.param(over("data", "x = x.unsqueeze(0)"), DATASET, id="it makes a batch above"),
        pytest.param(over("data", given="net(x[None])"), DATASET, id="it makes one in the line"),
        pytest.param(over("data", given="net(torch.stack([x]))"), DATASET, id="it stacks"),
        pytest.param(over("data", given="net(image)").replace(", y)", ")"), DATASET, id="of something else"),
        pytest.param(over("zip(data, other)"), DATASET, id="several at a time"),
    ],
)
def test_what_may_be_a_batch_is_not_said_to_be_none(tmp_path: Path, cell: str, kind: str) -> None:
    assert "goes over the dataset" not in cause_of(tmp_path, cell, kind=kind)


def test_it_is_told_where_a_library_speaks_of_shapes_alone(tmp_path: Path) -> None:
    assert "goes over" not in cause_of(tmp_path / "1", over("data"), "the file is closed")
    assert "goes over" not in cause_of(tmp_path / "2", over("data"), inner=None)
    behind = "for x, y in data:\n    pass\nloss = cost(net(x), y)\n"
    assert "goes over" not in cause_of(tmp_path / "3", behind)


@pytest.mark.parametrize(
    ("message", "cell", "told"),
    [
        pytest.param(
            "too many indices for array: array is 1-dimensional, but 2 were indexed",
            over("loader.dataset", given="net(x[:, 1:])"),
            True,
            id="indices",
        ),
        pytest.param("too many indices for tensor of dimension 1", over("data"), True, id="of torch"),
        pytest.param("index 7 is out of bounds", over("data"), False, id="another error"),
        pytest.param("too many indices for tensor", over("data", "x = x.unsqueeze(0)"), False, id="batch"),
        pytest.param("too many indices for tensor", over("data", "h = x.unsqueeze(-1)"), True, id="an axis"),
        pytest.param("too many indices for tensor", over("loader"), False, id="a loader"),
    ],
)
def test_a_line_of_the_program_that_takes_a_sample_for_a_batch_is_told_of_the_loop(
    tmp_path: Path, message: str, cell: str, told: bool
) -> None:
    kind = DATASET if "loader:" not in cell else "DataLoader"

    assert cause_of(tmp_path, cell, message, kind, None).startswith("line 1 goes over the dataset") is told


@pytest.mark.parametrize(("data", "told"), [("loader.dataset", True), ("loader", False)])
def test_samples_with_fewer_parts_than_a_batch_are_told(tmp_path: Path, data: str, told: bool) -> None:
    written = WrittenRun(tmp_path / "home", cell=f"for x, size, y in {data}:\n    net(x)\n").happened(
        *STARTED
    )
    message, frames = "not enough values to unpack (expected 3, got 2)", [(PROGRAM, 1, "<module>", "")]
    written.raised(1, "ValueError", message, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert (failure.hint.signature == "loop-over-dataset") is told
