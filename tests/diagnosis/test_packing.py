"""What is told of sequences that could not be packed for a recurrent layer."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.signatures import Hint
from tests.diagnosis.clue_cells import PACKAGES
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

PROGRAM = a_spec().program
IN_TORCH = f"{PACKAGES}/torch/nn/utils/rnn.py"
GATHERS = 321
PACKED = "packed = pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)\n"
TURNED = "packed = pack_padded_sequence(n, x, batch_first=True, enforce_sorted=False)\n"
BY_NAME = "packed = rnn.pack_padded_sequence(lengths=x, input=n)\n"
ROWS, LENGTHS = "Tensor (16, 9, 4) float32", "Tensor (16,) int64, 3 to 9"
SORTED = "Tensor (16, 9, 4) int64, 0 to 15"
OF_SIZE = "index out of range in self"


def hint_of(
    folder: Path,
    message: str,
    *inside: tuple[str, str],
    cell: str = PACKED,
    function: str = "pack_padded_sequence",
) -> Hint | None:
    written = WrittenRun(folder / "home", cell=cell).happened(*STARTED)
    frames = [(PROGRAM, 1, "<module>", cell.strip()), (IN_TORCH, GATHERS, function, "")]
    told = [(IN_TORCH, GATHERS, *one) for one in inside]
    written.raised(1, "IndexError", message, frames=frames, inside=told, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return failure.hint


def inside(rows: str, axis: str, count: str) -> list[tuple[str, str]]:
    return [("input", rows), ("batch_dim", axis), ("sorted_indices", count)]


@pytest.mark.parametrize(
    ("message", "told", "said"),
    [
        pytest.param(
            OF_SIZE,
            inside("Tensor (9, 16, 4) float32", "0", LENGTHS),
            "batch_first=True takes the first axis of x (9, 16, 4) for the batch, and the 16 lengths are",
            id="time is the first axis",
        ),
        pytest.param(
            "INDICES element is out of DATA bounds, id=9 axis_dim=9",
            inside(ROWS, "1", LENGTHS),
            "without batch_first=True the second axis of x (16, 9, 4) is the batch, and the 16 lengths are",
            id="time is the second axis",
        ),
        pytest.param(
            "Expected `len(lengths)` to be equal to batch_size, but got 16 (batch_size=9)",
            [("input", "Tensor (9, 16, 4) float32"), ("lengths", LENGTHS)],
            "batch_first=True takes the first axis of x (9, 16, 4) for the batch, and the 16 lengths are",
            id="of sorted sequences",
        ),
        pytest.param(
            OF_SIZE,
            inside(ROWS, "0", "Tensor (20,) int64, 0 to 19"),
            "pack_padded_sequence() got 20 lengths for a batch of 16",
            id="lengths of another batch",
        ),
        pytest.param(
            "index_select(): Index is supposed to be a vector",
            inside(ROWS, "0", "Tensor (16, 1) int64, 0"),
            "pack_padded_sequence() takes the lengths as whole numbers in one dimension",
            id="lengths in a column",
        ),
    ],
)
def test_lengths_that_do_not_fit_are_told_by_the_axis_of_the_batch(
    tmp_path: Path, message: str, told: list[tuple[str, str]], said: str
) -> None:
    hint = hint_of(tmp_path, message, *told)

    assert hint is not None
    assert hint.cause.en.startswith(said)


@pytest.mark.parametrize(
    ("message", "told", "cell"),
    [
        pytest.param(
            "index_select(): Index is supposed to be a vector",
            inside(LENGTHS, "0", SORTED),
            TURNED,
            id="batch first",
        ),
        pytest.param(
            "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
            inside(LENGTHS, "1", SORTED),
            BY_NAME,
            id="by their names",
        ),
        pytest.param(
            "'lengths' argument should be a 1D CPU int64 tensor, but got 3D cpu Long tensor",
            [("input", LENGTHS), ("lengths", SORTED)],
            TURNED,
            id="sorted",
        ),
        pytest.param(
            "'list' object has no attribute 'device'",
            [("input", "list of 16"), ("sorted_indices", SORTED)],
            TURNED,
            id="a list of lengths",
        ),
    ],
)
def test_lengths_in_the_place_of_the_sequences_are_told(
    tmp_path: Path, message: str, told: list[tuple[str, str]], cell: str
) -> None:
    hint = hint_of(tmp_path, message, *told, cell=cell)

    assert hint is not None
    assert hint.signature == "packed-swapped"
    assert hint.cause.en.endswith("got the lengths first: n")
    assert hint.fix.en == "pack_padded_sequence(x, n, …)"


def test_an_id_of_an_embedding_and_other_errors_are_told_by_their_rows(tmp_path: Path) -> None:
    turned = inside("Tensor (9, 16, 4) float32", "0", LENGTHS)

    embedding = hint_of(tmp_path / "1", OF_SIZE, *turned, function="embedding")
    empty = hint_of(tmp_path / "2", "Length of all samples has to be greater than 0, but found", *turned)

    assert embedding is not None
    assert embedding.signature == "index-out-of-range"
    assert empty is not None
    assert empty.signature == "lengths-of-zero"
