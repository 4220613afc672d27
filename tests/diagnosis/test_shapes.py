"""What a program tells of tensors that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.clue_cells import PACKAGES
from tests.diagnosis.clue_cells import cause_in_function as cause_of

PADDLE_ROWS = (
    "(InvalidArgument) Broadcast dimension mismatch. Operands could not be broadcast together with the"
    " shape of X = [22, 24] and the shape of Y = [32, 24]."
    " Received [22] in X is not equal to [32] in Y at i:0."
)
TORCH_ROWS = "The size of tensor a (22) must match the size of tensor b (32) at non-singleton dimension 0"
COLUMNS = "The size of tensor a (22) must match the size of tensor b (32) at non-singleton dimension 1"

TABLES = {"words": 1000, "places": 64}


def step(h: str, count: str = "BATCH = 32") -> str:
    return f"{count}\ndef step(x):\n    h = {h}\n    return mix(x, h)\n"


@pytest.mark.parametrize(
    ("cell", "message", "told"),
    [
        pytest.param(step("paddle.zeros([BATCH, 24])"), PADDLE_ROWS, True, id="a fixed number, paddle"),
        pytest.param(step("torch.zeros(BATCH, 24)"), TORCH_ROWS, True, id="a fixed number, torch"),
        pytest.param(step("torch.zeros(BATCH, 24)"), COLUMNS, False, id="of columns"),
        pytest.param(step("torch.zeros(x.shape[0], 24)"), TORCH_ROWS, False, id="of the batch"),
        pytest.param(
            step("torch.zeros(BATCH, 24)", "BATCH = first.size(0)"), TORCH_ROWS, False, id="of another batch"
        ),
        pytest.param(step("torch.load(path)"), TORCH_ROWS, False, id="not made"),
    ],
)
def test_rows_that_the_program_fixes_are_told_by_their_line(
    tmp_path: Path, cell: str, message: str, told: bool
) -> None:
    values = (("x", "Tensor (22, 10, 6) float32"), ("h", "Tensor (32, 24) float32"))

    cause = cause_of(tmp_path, cell, message, (4, "step"), *values)

    assert cause.startswith("h has 32 rows, which line 3 gives it") is told
    assert not told or cause.endswith("and x has 22")


LENGTHS = (
    "(InvalidArgument) Input(Logits) and Input(Label) should in same shape in dimensions except axis."
    " [Hint: Expected logits_dims[i] == labels_dims[i], but received logits_dims[i]:15 != labels_dims[i]:13.]"
)


@pytest.mark.parametrize(
    ("scores", "labels", "told"),
    [
        pytest.param("(8, 15, 5) float32", "(8, 13) int64", True, id="two more"),
        pytest.param("(8, 15, 13) float32", "(8, 13) int64", False, id="as many as classes"),
        pytest.param("(7, 15, 5) float32", "(8, 13) int64", False, id="of another batch"),
        pytest.param("(8, 15, 5) float32", "(8, 13) float32", False, id="no labels"),
    ],
)
def test_positions_without_a_label_are_told_by_their_number(
    tmp_path: Path, scores: str, labels: str, told: bool
) -> None:
    values = (("logits", f"Tensor {scores}"), ("labels", f"Tensor {labels}"))

    cause = cause_of(tmp_path, "loss(logits, labels)\n", LENGTHS, (1, "<module>"), *values)

    assert cause.startswith("logits has 15 positions, labels 13") is told


def looked_up(made: str, ids: str = "pos") -> str:
    return f"def step(x):\n    pos = {made}\n    return words(x) + places({ids})\n"


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        pytest.param(looked_up("paddle.arange(x.shape[1]).unsqueeze(0)"), True, id="counted above"),
        pytest.param(looked_up("1", "paddle.arange(x.shape[1])"), True, id="counted in the line"),
        pytest.param(looked_up("paddle.arange(x.shape[1]) + 1"), False, id="from one"),
        pytest.param(looked_up("paddle.arange(1, count)"), False, id="from one on"),
        pytest.param(looked_up("ids_of(x)"), False, id="of something else"),
    ],
)
def test_places_that_the_program_counts_itself_are_told_from_words(
    tmp_path: Path, cell: str, told: bool
) -> None:
    message = "(InvalidArgument) Variable value (input) of OP(embedding) expected >= 0 and < 64, but got 64."
    tables = [(name, f"Embedding with weight ({rows}, 8) float32") for name, rows in TABLES.items()]

    cause = cause_of(tmp_path, cell, message, (3, "step"), *tables, ("pos", "Tensor (1, 80) int64"))

    assert ("a text is longer than 64" in cause) is told
    assert told or "an embedding with 64 rows (0 to 64 - 1)" in cause


@pytest.mark.parametrize(
    ("made", "told"),
    [
        pytest.param("model(x)", True, id="as the model gives them"),
        pytest.param("model(x)[mask].reshape([8, -1, 5])", False, id="chosen by a mask"),
    ],
)
def test_positions_that_were_chosen_are_not_those_of_the_text(tmp_path: Path, made: str, told: bool) -> None:
    values = (("logits", "Tensor (8, 15, 5) float32"), ("labels", "Tensor (8, 13) int64"))
    cell = f"logits = {made}\nloss(logits, labels)\n"

    cause = cause_of(tmp_path, cell, LENGTHS, (2, "<module>"), *values)

    assert cause.startswith("logits has 15 positions, labels 13") is told


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        pytest.param("(12, 32, 32)", True, id="its channels first"),
        pytest.param("(16, 32, 32)", False, id="a batch of grey images"),
        pytest.param("(2, 12, 32, 32)", False, id="a batch"),
    ],
)
def test_one_sample_in_place_of_a_batch_is_told_by_the_channels(
    tmp_path: Path, shape: str, told: bool
) -> None:
    sizes = "(16, 32, 32)" if told is False else shape
    message = f"The input of Op(Conv) should be a 4-D or 5-D Tensor. input's shape is [{sizes[1:-1]}]."
    layer = ("net.conv", f"Conv2D with weight (16, 12, 3, 3) float32, got Tensor {shape} float32")

    cause = cause_of(tmp_path, "net(x)\n", message, (1, "<module>"), layer)

    assert cause.startswith("net.conv got one sample of (12, 32, 32)") is told


LAYERS = "self.up = nn.Linear(32, 64)\nself.down = nn.Linear(65, 32)\nself.down(self.up(x))\n"
OF_TORCH = "mat1 and mat2 shapes cannot be multiplied (16x64 and 65x32)"
OF_PADDLE = (
    "(InvalidArgument) In operator matmul, the [1] dimension of Input(X) must be equal to the [0] dimension"
    " of Input(Y). But receiving the [1]dimension of Input(X) is [64],"
    " and the [0] dimension of Input(Y) is [65]."
)


@pytest.mark.parametrize(
    ("message", "up", "down", "said"),
    [
        pytest.param(OF_TORCH, "(64, 32)", "(32, 65)", "self.down takes 65 features, and", id="torch"),
        pytest.param(OF_PADDLE, "(32, 64)", "(65, 32)", "self.down takes 65 features, and", id="paddle"),
        pytest.param(OF_PADDLE, "(65, 64)", "(65, 32)", "self.up / self.down takes 65", id="two of them"),
        pytest.param(OF_PADDLE, "(32, 64)", "(64, 32)", "a linear layer or matmul got", id="none"),
    ],
)
def test_the_layer_that_other_features_come_to_is_named(
    tmp_path: Path, message: str, up: str, down: str, said: str
) -> None:
    values = (
        ("self.up", f"Linear with weight {up} float32"),
        ("self.down", f"Linear with weight {down} float32"),
    )

    linear = (f"{PACKAGES}/torch/nn/modules/linear.py", 134, "forward", "")
    cause = cause_of(tmp_path, LAYERS, message, (3, "<module>"), *values, inner=(linear,))

    assert cause.startswith(said)
    assert not said.startswith("self.down") or cause.endswith("has 64: line 2  self.down = nn.Linear(65, 32)")


@pytest.mark.parametrize(
    ("shape", "message", "told"),
    [
        pytest.param("(2048,)", OF_PADDLE.replace("[64]", "[2048]").replace("[65]", "[128]"), True, id="all"),
        pytest.param(
            "(4, 512)", OF_PADDLE.replace("[64]", "[512]").replace("[65]", "[128]"), False, id="a batch"
        ),
        pytest.param("(64,)", OF_PADDLE.replace("[65]", "[128]"), False, id="no multiple"),
    ],
)
def test_a_batch_among_the_features_is_told(tmp_path: Path, shape: str, message: str, told: bool) -> None:
    values = (("self.fc", "Linear with weight (128, 64) float32"), ("x", f"Tensor {shape} float32"))

    cause = cause_of(tmp_path, "self.fc(x)\n", message, (1, "<module>"), *values)

    assert cause.startswith("x has one axis: 2048 is 16 x 128, so the batch is among the features") is told
    assert told or cause.startswith("self.fc takes 128 features")
