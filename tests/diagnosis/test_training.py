"""What a program tells of an error in a training step."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose, meetings
from nbdist.store.reports import Call, Issued
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, finished

TWICE = "Trying to backward through the graph a second time (or directly access saved tensors …)"


def cause_of(
    tmp_path: Path,
    kind: str,
    message: str,
    cell: str,
    frames: list[tuple[int, str]],
    *values: tuple[str, str],
) -> str:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program, last = a_spec().program, frames[-1][0]
    places = [(program, line, function, "") for line, function in frames]
    operands = [(program, last, *one) for one in values]
    written.raised(1, kind, message, frames=places, operands=operands, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))
    failure = diagnose(written.run, written.directory)
    assert failure is not None
    assert failure.hint is not None
    return failure.hint.cause.en


SHARPNESS = """\
for images, target in loader:
    images = images.to(device)
    output = model(images)
    loss = criterion(output, target)
    loss.backward()
    optimizer.first_step()
    criterion(output, target).backward()
    optimizer.second_step()
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(
            SHARPNESS, "line 5 went backward through output (line 3) already, and freed its graph", id="one"
        ),
        pytest.param(
            SHARPNESS.replace("criterion(output, target).b", "criterion(model(images), target).b"),
            "backward() ran again over the same graph: a loss or hidden",
            id="the data alone",
        ),
        pytest.param(
            SHARPNESS.replace("loss = criterion(output,", "loss = criterion(output.detach(),"),
            "backward() ran again over the same graph: a loss or hidden",
            id="without its graph",
        ),
        pytest.param(
            SHARPNESS.replace("loss.backward()", "loss.backward(retain_graph=True)"),
            "backward() ran again over the same graph: a loss or hidden",
            id="kept",
        ),
        pytest.param(
            SHARPNESS.replace("    output =", "    with torch.no_grad(): output ="),
            "backward() ran again over the same graph: a loss or hidden",
            id="no graph",
        ),
        pytest.param(
            SHARPNESS.replace("    loss.backward()", "    if warm: loss.backward()"),
            "backward() ran again over the same graph: a loss or hidden",
            id="not in each round",
        ),
        pytest.param(
            SHARPNESS.replace("    output = model(images)\n", "").replace(
                "for ", "output = model(all)\nfor "
            ),
            "backward() ran again over the same graph: a loss or hidden",
            id="made before the loop",
        ),
    ],
)
def test_a_graph_that_a_line_above_has_freed_is_told_with_that(tmp_path: Path, cell: str, said: str) -> None:
    cause = cause_of(tmp_path, "RuntimeError", TWICE, cell, [(7, "<module>")])

    assert cause.startswith(said)


GAN = """\
critic = paddle.DataParallel(Critic())
for real in loader:
    fake = generator(noise)
    seen, _ = critic(real)
    made, _ = critic(fake.detach())
    first = loss(made, zeros)
    first.backward()
    second = loss(seen, ones)
    second.backward()
    optimizer.step()
"""
PADDLE_TWICE = "Error happened, when parameter[3][linear_3.b_0] has been ready before."
TORCH_TWICE = "Expected to mark a variable ready only once."
NOT_TWICE = "a parameter unused in the first step has a gradient now"


@pytest.mark.parametrize(
    ("message", "cell", "said"),
    [
        pytest.param(PADDLE_TWICE, GAN, "line 7 called backward() for critic, too", id="paddle"),
        pytest.param(TORCH_TWICE, GAN, "line 7 called backward() for critic, too", id="torch"),
        pytest.param(
            PADDLE_TWICE, GAN.replace("loss(seen", "loss(critic(real)"), NOT_TWICE, id="forward between"
        ),
        pytest.param(PADDLE_TWICE, GAN.replace("critic(real)", "other(real)"), NOT_TWICE, id="another model"),
        pytest.param(PADDLE_TWICE, GAN.replace("paddle.DataParallel", ""), NOT_TWICE, id="not wrapped"),
        pytest.param(
            PADDLE_TWICE, GAN.replace("    first.b", "    if warm: first.b"), NOT_TWICE, id="not always"
        ),
        pytest.param(
            PADDLE_TWICE,
            GAN.replace("fake.detach())", "fake.detach()).detach()"),
            NOT_TWICE,
            id="no gradient",
        ),
    ],
)
def test_gradients_that_come_twice_for_a_forward_are_told_with_the_first(
    tmp_path: Path, message: str, cell: str, said: str
) -> None:
    cause = cause_of(tmp_path, "RuntimeError", message, cell, [(9, "<module>")])

    assert cause.startswith(said)


REPLACED = """\
model = build()
optimizer = AdamW(grouped(model), lr=1e-3)
model = load_pretrained(path)
model = DDP(model)
scaler.step(optimizer)
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(
            REPLACED, "optimizer (line 2) has the parameters of a model that line 3 has replaced", id="new"
        ),
        pytest.param(
            REPLACED.replace("load_pretrained(path)", "compile(model)"),
            "no parameter of this optimizer has a gradient",
            id="wrapped",
        ),
        pytest.param(
            REPLACED.replace("model = load", "if resume: model = load"),
            "no parameter of this optimizer has a gradient",
            id="perhaps",
        ),
        pytest.param(
            REPLACED.replace("lr=1e-3", "lr=lr").replace("model = load_pretrained(path)", "lr = read(path)"),
            "no parameter of this optimizer has a gradient",
            id="another argument",
        ),
        pytest.param(
            REPLACED.replace("model = load", "other = load"),
            "no parameter of this optimizer has a gradient",
            id="another name",
        ),
    ],
)
def test_an_optimizer_of_a_model_that_was_replaced_is_told(tmp_path: Path, cell: str, said: str) -> None:
    message = "No inf checks were recorded for this optimizer."

    assert cause_of(tmp_path, "AssertionError", message, cell, [(5, "<module>")]).startswith(said)


SQUEEZES = """\
def forward(x):
    return head(pool(x).squeeze())

for x, y in loader:
    out = forward(x)
    right = (out.argmax(1) == y).sum()
"""


@pytest.mark.parametrize(
    ("cell", "rows", "said"),
    [
        pytest.param(SQUEEZES, 1, "y is a batch of one sample, mostly the last batch, and squ", id="one"),
        pytest.param(SQUEEZES, 2, "a tensor of one dimension is asked for a second", id="more samples"),
        pytest.param(
            SQUEEZES.replace("squeeze()", "squeeze(-1)"),
            1,
            "a tensor of one dimension is asked for a second",
            id="one dimension alone",
        ),
        pytest.param(
            SQUEEZES.replace("for x, y in loader:", "if (y := target) is not None:"),
            1,
            "a tensor of one dimension is asked for a second",
            id="no loader",
        ),
    ],
)
def test_a_batch_of_one_that_squeeze_took_apart_is_told(
    tmp_path: Path, cell: str, rows: int, said: str
) -> None:
    message = "Dimension out of range (expected to be in range of [-1, 0], but got 1)"
    values = [("out", "Tensor (10,) float32"), ("y", f"Tensor ({rows},) int64")]

    assert cause_of(tmp_path, "IndexError", message, cell, [(6, "<module>")], *values).startswith(said)


WRAPS = """\
class Timed(nn.Module):
    def __getattr__(self, name):
        return getattr(self.model, name)
"""


@pytest.mark.parametrize(
    ("base", "functions", "said"),
    [
        pytest.param(
            "", ("copy", "__getattr__", "__getattr__"), "__getattr__ asks self.model, which is not set (yet)"
        ),
        pytest.param(
            "(nn.Module)",
            ("<module>", "__getattr__", "__getattr__"),
            "__getattr__ asks self.model, which a module finds by its own __getattr__ alone",
        ),
        pytest.param("", ("<module>", "fit", "fit"), "a function calls itself without end"),
    ],
)
def test_a_getattr_that_calls_itself_is_told_with_what_it_asks_for(
    tmp_path: Path, base: str, functions: tuple[str, ...], said: str
) -> None:
    frames = [(3, function) for function in functions]
    cell = WRAPS.replace("(nn.Module)", base)

    cause = cause_of(tmp_path, "RecursionError", "maximum recursion depth exceeded", cell, frames)

    assert cause.startswith(said)


METER = """\
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, value):
        self.sum += value
        self.count += 1
    def mean(self):
        return self.sum / self.count

def epoch(loader):
    meter = Meter()
    for batch in loader:
        meter.update(step(batch))
    return meter.mean()

epoch(loader)
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(
            METER, "self.count is still 0 on rank 1: the loop of line 12  for batch in loader:", id="a loop"
        ),
        pytest.param(
            METER.replace("meter.update(", "bar.update("), "self.count is 0: line 3  self.sum", id="not"
        ),
    ],
)
def test_a_meter_that_counted_nothing_is_told_with_the_caller_s_loop(
    tmp_path: Path, cell: str, said: str
) -> None:
    frames = [(16, "<module>"), (14, "epoch"), (8, "mean")]
    values = [("self.sum", "0.0"), ("self.count", "0")]

    cause = cause_of(tmp_path, "ZeroDivisionError", "float division by zero", cell, frames, *values)

    assert cause.startswith(said)


SUMS = """\
total = 0.0
for x, y in loader:
    loss = criterion(model(x), y)
    total += loss.detach()
dist.all_reduce(total)
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(
            SUMS, "total is the 0 of line 1 still on rank 1, and no tensor: the loop of", id="tensors"
        ),
        pytest.param(
            SUMS.replace("+= loss", "+= loss.detach().float()"),
            "total is the 0 of line 1 still on rank 1, and no tensor: the loop of",
            id="tensors of another dtype",
        ),
        pytest.param(
            SUMS.replace("detach", "item"),
            "a collective got something else than a torch.Tensor",
            id="numbers",
        ),
    ],
)
def test_a_sum_that_no_loop_made_a_tensor_is_told(tmp_path: Path, cell: str, said: str) -> None:
    message = "Invalid function argument. Expected parameter `tensor` of type torch.Tensor\n but got a float"

    cause = cause_of(tmp_path, "TypeError", message, cell, [(5, "<module>")], ("total", "0.0"))

    assert cause.startswith(said)


STOPS = """\
for epoch in range(30):
    for x, y in loader:
        loss_of(model(x), y).backward()
    if rank == 0:
        if stopper.step(evaluate(model)):
            print("early stopping")
            sys.exit(0)
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(
            STOPS, "most likely it left the program by line 5  if stopper.step(evaluate(model)):", id="rank 0"
        ),
        pytest.param(
            STOPS.replace("rank == 0", "validates"),
            "or an end before it: see line 5  if stopper.step(evaluate(model)):",
            id="any",
        ),
        pytest.param(
            STOPS.replace("sys.exit(0)", "sys.exit(1)"), "or left before the others", id="a failure"
        ),
    ],
)
def test_a_rank_that_ended_in_a_loop_is_told_with_what_ends_it(tmp_path: Path, cell: str, said: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    message = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:17799"
    frames = [(a_spec().program, 3, "<module>", "")]
    written.raised(1, "RuntimeError", message, frames=frames, time=CREATED + 9)
    written.happened(finished(0, time=CREATED + 7), exited(0, 0, time=CREATED + 7.5))
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert said in failure.hint.cause.en


LOADER = "/v/lib/python3.11/site-packages/torch/utils/data"


@pytest.mark.parametrize(
    ("batch", "message", "said"),
    [
        pytest.param("(1, 5), at 1: (3, 5)", "", "samples of 1 and of 3 rows of 5 numbers", id="boxes"),
        pytest.param("(7,), at 2: (9,)", "", "samples of other lengths", id="texts"),
        pytest.param("(3, 64, 64), at 2: (1, 64, 64)", "", "pictures of other channels", id="a grey one"),
        pytest.param("(64, 64), at 2: (3, 64, 64)", "", "pictures of other channels", id="no channels"),
        pytest.param("(3, 64, 64), at 2: (3, 64, 60)", "", "pictures of other sizes", id="sizes"),
        pytest.param("(64, 64, 3), at 2: (60, 64, 3)", "", "pictures of other sizes", id="channels last"),
        pytest.param("(1, 17, 3), at 2: (3, 17, 3)", "", "samples of different shapes", id="persons"),
        pytest.param("(2, 17, 3), at 2: (5, 17, 3)", "", "samples of different shapes", id="more persons"),
        pytest.param("(8, 64, 64), at 2: (9, 64, 64)", "", "samples of different shapes", id="of what"),
        pytest.param("(80, 120), at 2: (80, 98)", "", "samples of different shapes", id="time last"),
        pytest.param(
            "",
            "stack expects each tensor to be equal size, but got [4, 32, 32] at entry 0 and [3, 32, 32] at "
            "entry 5",
            "pictures of other channels in one batch: [4, 32, 32] and, as number 5 of it, [3, 32,",
            id="as the error says",
        ),
    ],
)
def test_samples_that_make_no_batch_are_told_by_their_shapes(
    tmp_path: Path, batch: str, message: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell="for x in loader:\n    pass\n").happened(*STARTED)
    frames = [(a_spec().program, 1, "<module>", ""), (f"{LOADER}/_utils/collate.py", 275, "collate", "")]
    operands = (
        [(f"{LOADER}/_utils/collate.py", 275, "batch", f"tuple of 8 (Tensor {batch})")] if batch else []
    )
    message = message or "Trying to resize storage that is not resizable"
    written.raised(1, "RuntimeError", message, frames=frames, operands=operands, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


ONCE = """\
trained = filter(lambda one: one.requires_grad, model.parameters())
print(sum(one.numel() for one in trained))
optimizer = AdamW(trained, lr=1e-3)
"""


@pytest.mark.parametrize(
    ("cell", "what", "said"),
    [
        pytest.param(
            ONCE, "filter", "trained (line 1) gives its parameters only once, and line 2", id="once"
        ),
        pytest.param(ONCE, "list of 0", "the optimizer was given no parameters", id="a list"),
        pytest.param(
            ONCE.replace("for one in trained", "for one in all"),
            "filter",
            "the optimizer was given",
            id="not",
        ),
    ],
)
def test_parameters_that_were_gone_through_before_are_told(
    tmp_path: Path, cell: str, what: str, said: str
) -> None:
    message = "optimizer got an empty parameter list"

    cause = cause_of(tmp_path, "ValueError", message, cell, [(3, "<module>")], ("trained", what))

    assert cause.startswith(said)


@pytest.mark.parametrize(
    ("sizes", "values", "said"),
    [
        pytest.param(
            (32, 10, 1),
            {"guess": "Tensor (32,) int64, 0 to 9", "labels": "Tensor (32, 10) float32"},
            "guess has one number for a sample, and labels has 10 of them",
            id="one-hot",
        ),
        pytest.param(
            (32, 10, 1),
            {"weights": "Tensor (32,) float32", "x": "Tensor (32, 10) float32"},
            "weights has one number for each row of x, and is matched with the 10 columns",
            id="a number for each row",
        ),
        pytest.param(
            (5, 7, 1),
            {"x": "Tensor (7, 5) float32", "y": "Tensor (5, 7) float32"},
            "x is [7, 5] and y is [5, 7]: one of them is turned",
            id="turned",
        ),
        pytest.param(
            (50, 64, 1),
            {"ids": "Tensor (4, 50) int64", "self.pos": "Parameter (1, 64, 32) float32"},
            "self.pos was made for a length of 64, and what it meets has 50",
            id="positions",
        ),
        pytest.param(
            (50, 64, 1),
            {"ids": "Tensor (4, 50) int64", "pos": "Tensor (1, 64, 32) float32"},
            "two tensors of different lengths (50 and 64) meet",
            id="any tensor",
        ),
        pytest.param(
            (32, 8, 0),
            {"x": "Tensor (32, 4) float32", "y": "Tensor (8, 4) float32"},
            "two tensors of different lengths (32 and 8) meet",
            id="another batch",
        ),
    ],
)
def test_two_tensors_of_other_sizes_are_told_by_their_shapes(
    tmp_path: Path, sizes: tuple[int, int, int], values: dict[str, str], said: str
) -> None:
    a, b, dim = sizes
    message = (
        f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"
    )

    cell = "right = guess == labels\n" if "guess" in values else "a + b\n"
    cause = cause_of(tmp_path, "RuntimeError", message, cell, [(1, "<module>")], *values.items())

    assert cause.startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(
            "float32 (3,)", "the ranks gave tensors of different sizes to collective number 1", id="other"
        ),
        pytest.param("float32 (6,)", "rank 0 ended while rank 1 still had a step to do", id="the same"),
    ],
)
def test_a_rank_that_gave_less_and_ended_is_told_by_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    cell = "for name in sums:\n    all_reduce(sums[name])\n"
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    way = (Call(file=a_spec().program, line=2, function="<module>"),)
    histories = {
        rank: {"0": [Issued(number=1, name="gloo:all_reduce", given=what, way=way)]}
        for rank, what in enumerate((given, "float32 (6,)"))
    }
    monkeypatch.setattr(meetings, "histories_of", lambda run, directory: histories)
    message = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:17799"
    frames = [(a_spec().program, 2, "<module>", "")]
    written.raised(1, "RuntimeError", message, frames=frames, time=CREATED + 9)
    written.happened(finished(0, time=CREATED + 7), exited(0, 0, time=CREATED + 7.5))
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


FREEZES = """\
model = Net()
if is_main():
    print("parameters", count(model))
if rank == 0:
    freeze(model.encoder)
model = DDP(model)
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(FREEZES, "line 4,  if rank == 0: ", id="frozen on one rank"),
        pytest.param(FREEZES.replace("model.encoder", "head"), "other layers frozen", id="another"),
        pytest.param(FREEZES.replace("freeze(", "print("), "other layers frozen", id="printed"),
    ],
)
def test_an_if_for_some_ranks_that_changes_the_model_is_named(tmp_path: Path, cell: str, said: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    told = (
        "DDP expects same model across all ranks, but Rank 0 has 6 params, while rank 1 has inconsistent 11"
    )
    written.raised(0, "RuntimeError", told, frames=[(a_spec().program, 6, "<module>", "model = DDP(model)")])

    failure = diagnose(written.happened(errored(0), exited(0, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert said in failure.hint.cause.en
