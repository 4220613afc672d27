"""What a program tells of tensors that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import PACKAGES
from tests.fakes.directories import Frame, WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

PADDLE_ROWS = (
    "(InvalidArgument) Broadcast dimension mismatch. Operands could not be broadcast together with the"
    " shape of X = [22, 24] and the shape of Y = [32, 24]."
    " Received [22] in X is not equal to [32] in Y at i:0."
)
TORCH_ROWS = "The size of tensor a (22) must match the size of tensor b (32) at non-singleton dimension 0"
COLUMNS = "The size of tensor a (22) must match the size of tensor b (32) at non-singleton dimension 1"
TORCH_FEATURES = "mat1 and mat2 shapes cannot be multiplied (1x1024 and 64x32)"
PADDLE_FEATURES = (
    "(InvalidArgument) In operator matmul, the [1] dimension of Input(X) must be equal to the [0] dimension"
    " of Input(Y). But receiving the [1]dimension of Input(X) is [1024],"
    " and the [0] dimension of Input(Y) is [64]."
)

TABLES = {"words": 1000, "places": 64}


def cause_of(
    tmp_path: Path,
    cell: str,
    message: str,
    at: tuple[int, str],
    *values: tuple[str, str],
    inner: tuple[Frame, ...] = (),
) -> str:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames = [(program, *at, ""), *inner]
    operands = [(program, at[0], *one) for one in values]
    written.raised(1, "RuntimeError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return failure.hint.cause.en if failure.hint is not None else ""


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


RESIZED = """\
def grown(picture, size):
    return ndimage.zoom(picture, size / len(picture), order=3)
def __getitem__(self, i):
    return grown(self.images[i], 32), grown(self.masks[i], 32)
loss = criterion(logits, labels)
"""
NO_CLASS = "Target 9 is out of bounds."
OF_PIXELS = ("labels", "Tensor (4, 32, 32) int64")


@pytest.mark.parametrize(
    ("cell", "values", "told"),
    [
        pytest.param(RESIZED, OF_PIXELS, True, id="masks"),
        pytest.param(RESIZED.replace("order=3", "order=0"), OF_PIXELS, False, id="by nearest neighbour"),
        pytest.param(
            RESIZED.replace("grown(self.masks[i], 32)", "self.masks[i]"), OF_PIXELS, False, id="images"
        ),
        pytest.param(RESIZED, ("labels", "Tensor (4,) int64"), False, id="of whole pictures"),
        pytest.param(
            "resize = transforms.Compose([transforms.Resize(32)])\n\nitem = resize(x), resize(mask)\n\n"
            "loss = criterion(logits, labels)\n",
            OF_PIXELS,
            True,
            id="by a transform",
        ),
    ],
)
def test_masks_with_values_that_are_no_class_are_told_by_what_resizes_them(
    tmp_path: Path, cell: str, values: tuple[str, str], told: bool
) -> None:
    at = cell.count("\n")
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, at, "<module>", "")], [(program, at, *values)]
    written.raised(1, "IndexError", NO_CLASS, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert (failure.hint.signature == "masks-resized") is told


@pytest.mark.parametrize(
    ("kind", "message", "told"),
    [
        ("Image", "too many indices for array: array is 2-dimensional, but 3 were indexed", True),
        (
            "ndarray (24, 24) uint8",
            "too many indices for array: array is 2-dimensional, but 3 were indexed",
            False,
        ),
        ("Image", "too many indices for array: array is 3-dimensional, but 4 were indexed", False),
    ],
)
def test_a_picture_without_colours_is_told(tmp_path: Path, kind: str, message: str, told: bool) -> None:
    cause = cause_of(tmp_path, "x = np.asarray(img)[:, :, ::-1]\n", message, (1, "<module>"), ("img", kind))

    assert cause.startswith("a picture without colours") is told


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
