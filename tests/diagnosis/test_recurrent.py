"""What is told of the sequences and the states that a recurrent layer gets, and of how they are packed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.signatures import Hint
from tests.diagnosis.clue_cells import PACKAGES
from tests.diagnosis.clue_cells import cause_in_function as cause_of
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


TORCH_FEATURES = "mat1 and mat2 shapes cannot be multiplied (1x1024 and 64x32)"
PADDLE_FEATURES = (
    "(InvalidArgument) In operator matmul, the [1] dimension of Input(X) must be equal to the [0] dimension"
    " of Input(Y). But receiving the [1]dimension of Input(X) is [1024],"
    " and the [0] dimension of Input(Y) is [64]."
)
LSTM = "self.lstm = nn.LSTM(2, 64)\n_, (h, _) = self.lstm(x)\nself.fc(h.flatten(1))\n"


@pytest.mark.parametrize(
    ("cell", "message", "shape", "told"),
    [
        pytest.param(LSTM, TORCH_FEATURES, "(1, 1024)", True, id="torch"),
        pytest.param(LSTM, PADDLE_FEATURES, "(1, 1024)", True, id="paddle"),
        pytest.param(LSTM, PADDLE_FEATURES, "(16, 1024)", False, id="several rows"),
        pytest.param(LSTM.replace("LSTM", "Linear"), TORCH_FEATURES, "(1, 1024)", False, id="another layer"),
        pytest.param(LSTM, TORCH_FEATURES.replace("1024", "100"), "(1, 100)", False, id="no multiple"),
    ],
)
def test_a_state_with_its_batch_among_the_features_is_told(
    tmp_path: Path, cell: str, message: str, shape: str, told: bool
) -> None:
    cause = cause_of(tmp_path, cell, message, (3, "forward"), ("x", f"Tensor {shape} float32"))

    assert cause.startswith("1024 is 16 x 64: the batch is among the features") is told


RNN = "/v/lib/python3.11/site-packages/torch/nn/modules/rnn.py"


@pytest.mark.parametrize(
    ("kind", "file", "source", "told"),
    [
        pytest.param("tuple", RNN, "if hx is not None and hx.dim() != 3:", True, id="a batch"),
        pytest.param("tuple", RNN, "if hx.size() != expected_hidden_size:", True, id="packed"),
        pytest.param("tuple", RNN, "if hx[0].dim() != 3 or hx[1].dim() != 3:", False, id="an LSTM"),
        pytest.param("list", RNN, "if hx is not None and hx.dim() != 3:", False, id="a list"),
        pytest.param("tuple", RNN, "if input.dim() not in (2, 3):", False, id="what it gets"),
        pytest.param("tuple", "/v/site-packages/lent/rnn.py", "if hx.dim() != 3:", False, id="elsewhere"),
        pytest.param("tuple", "", "", False, id="the program"),
    ],
)
def test_the_state_of_an_lstm_is_told_where_a_gru_gets_it(
    tmp_path: Path, kind: str, file: str, source: str, told: bool
) -> None:
    written = WrittenRun(tmp_path / "home", cell="y, h = rnn(x, (h, c))\n").happened(*STARTED)
    frames = [(a_spec().program, 1, "<module>", ""), *([(file, 717, "forward", source)] if file else [])]
    message = f"'{kind}' object has no attribute 'dim'"
    written.raised(1, "AttributeError", message, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith("nn.GRU and nn.RNN take one tensor as their state") is told


MADE = """\
class Net:
    def __init__(self):
        self.lstm = nn.LSTM(5, 32)
    def forward(self, x, h):
        return self.lstm(x, h)
"""
TORCH_STATES = "Expected hidden[0] size (2, 24, 32), got [2, 16, 32]"
PADDLE_STATES = (
    "(InvalidArgument) The second dimension size (representing for batch size) of Input and PreState"
    " should be equal. But received 24 and 16."
)


@pytest.mark.parametrize("message", [TORCH_STATES, PADDLE_STATES], ids=["torch", "paddle"])
@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("(16, 24, 5)", "the layer takes the second axis of x [16, 24, 5] for the batch (24), and"),
        ("(24, 16, 5)", "the layer takes the first axis of x [24, 16, 5] for the batch (24), and"),
        ("(24, 7, 5)", ""),
        ("(16, 24)", ""),
    ],
)
def test_a_layer_that_takes_another_axis_for_the_batch_is_told(
    tmp_path: Path, message: str, shape: str, said: str
) -> None:
    values = (("self.lstm", "LSTM"), ("x", f"Tensor {shape} float32"))

    cause = cause_of(tmp_path, MADE, message, (5, "forward"), *values)

    if said:
        assert cause.startswith(said)
        assert cause.endswith("line 3  self.lstm = nn.LSTM(5, 32)")
    else:
        assert "takes the" not in cause
