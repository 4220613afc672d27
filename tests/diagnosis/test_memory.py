"""What a program and the message tell of memory that ran out."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.clues.memory import Room, room_of
from nbdist.model import Device
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

GIB, MIB = 1 << 30, 1 << 20
FULL = (
    "CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which"
    " 20.00 MiB is free. Including non-PyTorch memory, this process has 78.50 GiB memory in use. Of the"
    " allocated memory 77.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but"
    " unallocated. If reserved"
)
LAYERS = "/v/lib/python3.12/site-packages/torch/nn/modules/module.py"
CONV = [(LAYERS, 1790, "_call_impl", ""), (LAYERS.replace("module.", "conv."), 548, "_conv_forward", "")]
STATE = [("/v/lib/python3.12/site-packages/torch/optim/adam.py", 178, "_init_group", "")]
BACK = [("/v/lib/python3.12/site-packages/torch/autograd/__init__.py", 347, "backward", "")]


def hint_of(
    tmp_path: Path,
    cell: str,
    lines: list[tuple[int, str]],
    *operands: tuple[str, str],
    below: list[tuple[str, int, str, str]] = CONV,
    message: str = FULL,
    kind: str = "torch.OutOfMemoryError",
    known: tuple[str, str] | None = None,
    framework: str = "torch",
) -> tuple[str, str, str]:
    """The row, the cause and the fix, of a run whose rank failed at these lines and functions of its cell."""
    written = WrittenRun(tmp_path / "home", a_spec(framework=framework), cell=cell).happened(*STARTED)
    program, last = a_spec().program, lines[-1][0]
    frames = [*((program, line, function, "") for line, function in lines), *below]
    told = [(program, last, *one) for one in operands]
    values = [(program, last, *known)] if known else []
    written.raised(1, kind, message, frames=frames, operands=told, values=values, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))
    failure = diagnose(written.run, written.directory)
    assert failure is not None
    assert failure.hint is not None
    return failure.hint.signature, failure.hint.cause.en, failure.hint.fix.en


@pytest.mark.parametrize(
    ("message", "room"),
    [
        pytest.param(
            FULL,
            Room(asked=392 * MIB, total=int(79.15 * GIB), own=int(78.5 * GIB), unused=300 * MIB),
            id="2.x",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of"
            " which 133.48 GiB is free. Process 1328 has 2.00 GiB memory in use. Including non-PyTorch"
            " memory, this process has 3.72 GiB memory in use. Process 15 has 512.00 MiB memory in use."
            " 3.00 GiB allowed; Of the allocated memory 3.00 GiB is allocated by PyTorch, and 0 bytes is"
            " reserved by PyTorch but unallocated.",
            Room(
                asked=2 * GIB,
                total=int(139.8 * GIB),
                own=3 * GIB,
                others=2 * GIB + 512 * MIB,
                allowed=3 * GIB,
            ),
            id="a limit",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 16.00 GiB total capacity; 2.00 GiB"
            " already allocated; 1.00 GiB free; 3.00 GiB reserved in total by PyTorch) If reserved"
            " memory is >> allocated",
            Room(asked=20 * MIB, total=16 * GIB, own=3 * GIB, others=int(10.5 * GIB), unused=GIB),
            id="1.x",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 16.00 GiB of"
            " which 0.50 GiB is free. Process 81 has 15.50 GiB memory in use. Of the allocated memory"
            " 14.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
            Room(asked=GIB, total=16 * GIB, own=int(14.5 * GIB), unused=512 * MIB),
            id="by another number",
        ),
        pytest.param(
            "Out of memory error on GPU 0. Cannot allocate 32.000000GB memory on GPU 0, 14.000000GB"
            " memory has been allocated and available memory is only 2.000000GB.",
            Room(asked=32 * GIB, total=16 * GIB),
            id="paddle",
        ),
        pytest.param("CUDA error: out of memory", Room(), id="no numbers"),
    ],
)
def test_a_message_is_read(message: str, room: Room) -> None:
    assert room_of(message) == room


SUMMED = """\
model = Tagger().to(device)
optimizer = Adam(model.parameters())
for epoch in range(3):
    total = 0
    for frames, tags in loader:
        logits = model(frames)
        loss = criterion(logits, tags)
        total = total + loss
    total.backward()
    optimizer.step()
"""
STEPPED = SUMMED.replace("    total.backward()\n    optimizer.step()\n", "").replace(
    "        total = ", "        loss.backward()\n        optimizer.step()\n        total = "
)


@pytest.mark.parametrize(
    ("cell", "row", "said"),
    [
        pytest.param(
            SUMMED,
            "graphs-kept-for-backward",
            "total  keeps the graphs and activations of all rounds until line 9 calls backward(): line 8",
            id="a sum that is trained with",
        ),
        pytest.param(
            SUMMED.replace("total = total + loss", "total += loss / 400"),
            "graphs-kept-for-backward",
            "line 8  total += loss / 400",
            id="+=",
        ),
        pytest.param(
            SUMMED.replace("total = 0", "kept = []").replace("total = total + loss", "kept.append(logits)"),
            "graphs-kept",
            "line 8 keeps logits of each round with its graph",
            id="a list",
        ),
        pytest.param(STEPPED, "gpu-forward", "no room for 392 MiB more", id="backward in each round"),
        pytest.param(
            SUMMED.replace("+ loss", "+ loss.item()"), "gpu-forward", "no room for 392 MiB", id="a number"
        ),
        pytest.param(
            SUMMED.replace("+ loss", "+ (logits.argmax(-1) == tags).sum()"),
            "gpu-forward",
            "no room for 392 MiB",
            id="what has no graph",
        ),
        pytest.param(
            SUMMED.replace("in loader", "in terms"), "gpu-forward", "no room for 392 MiB", id="within a batch"
        ),
        pytest.param(
            SUMMED.replace("in loader", "in pair.batches").replace("epoch in range(3)", "pair in loader"),
            "gpu-forward",
            "no room for 392 MiB",
            id="of what one batch has",
        ),
        pytest.param(
            SUMMED.replace("    total.backward()\n    optimizer.step()\n", "").replace(
                "+ loss\n", "+ loss\n        if full: total.backward(); optimizer.step(); total = 0\n"
            ),
            "gpu-forward",
            "no room for 392 MiB",
            id="backward now and then",
        ),
        pytest.param(
            SUMMED.replace("logits = model(frames)", "logits = model(frames).detach()"),
            "gpu-forward",
            "no room for 392 MiB",
            id="detached before",
        ),
        pytest.param(
            SUMMED.replace("for epoch", "torch.set_grad_enabled(False)\nfor epoch"),
            "gpu-forward",
            "no room for 392 MiB",
            id="autograd is off",
        ),
    ],
)
def test_graphs_that_a_loop_keeps_are_told_by_the_line(
    tmp_path: Path, cell: str, row: str, said: str
) -> None:
    line = 1 + cell.partition("logits = model(frames)")[0].count("\n")

    told = hint_of(tmp_path, cell, [(line, "<module>")], ("frames", "Tensor (16, 391, 40) float32 on cuda:0"))

    assert told[0] == row
    assert said in told[1]


LISTED = """\
model = Tagger().to(device)
optimizer = Adam(model.parameters())
losses = [criterion(model(frames), tags) for frames, tags in batches]
sum(losses).backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("cell", "row"),
    [
        pytest.param(LISTED, "graphs-kept-for-backward", id="losses"),
        pytest.param(LISTED.replace("tags) for", "tags).item() for"), "gpu-full", id="numbers"),
        pytest.param(LISTED.replace("in batches", "in heads"), "gpu-full", id="of one batch"),
    ],
)
def test_graphs_in_a_list_that_is_made_at_once_are_told(tmp_path: Path, cell: str, row: str) -> None:
    assert hint_of(tmp_path, cell, [(3, "<module>")])[0] == row


JOINED = """\
for images in loader:
    with torch.no_grad():
        found.append(model(images))
masks = torch.cat(found)
"""


@pytest.mark.parametrize(
    ("cell", "row"),
    [
        pytest.param(JOINED, "gpu-joined", id="on the GPU"),
        pytest.param(JOINED.replace("images))", "images).cpu())"), "gpu-full", id="on the CPU"),
        pytest.param(JOINED.replace("in loader", "in blocks"), "gpu-full", id="of layers"),
    ],
)
def test_results_that_are_joined_on_the_gpu_are_told(tmp_path: Path, cell: str, row: str) -> None:
    what = ("found", "list of 50 (Tensor (16, 2, 256, 256))")

    assert hint_of(tmp_path, cell, [(4, "<module>")], what, below=[])[0] == row


@pytest.mark.parametrize(
    ("was", "row"),
    [
        pytest.param("0", "gpu-forward", id="nothing yet"),
        pytest.param("Tensor () float32 on cuda:0; with a graph", "graphs-kept-for-backward", id="something"),
        pytest.param("Tensor () float32 on cuda:0; without a graph", "gpu-forward", id="no graph"),
    ],
)
def test_what_nothing_was_added_to_is_not_the_cause(tmp_path: Path, was: str, row: str) -> None:
    shape = ("frames", "Tensor (16, 391, 40) float32 on cuda:0")

    assert hint_of(tmp_path, SUMMED, [(6, "<module>")], shape, known=("total", was))[0] == row


VALIDATED = """\
def train(model, loader):
    model.train()
    for image, mask in loader:
        loss = criterion(model(image), mask)
        loss.backward()
        optimizer.step()

def validate(model, loader):
    model.eval()
    found, losses = [], []
    for image, mask in loader:
        logits = model(image)
        losses.append(criterion(logits, mask))
        found.append(logits.argmax(1))
    return losses

model = Net().to(device)
optimizer = Adam(model.parameters())
train(model, loader)
validate(model, loader)
"""


@pytest.mark.parametrize(
    ("cell", "row", "said"),
    [
        pytest.param(
            VALIDATED,
            "graphs-kept-untrained",
            "line 13 keeps criterion(logits, mask) of each round with all activations, since the loop of"
            " line 11",
            id="kept",
        ),
        pytest.param(
            VALIDATED.replace("mask))\n        found", "mask).item())\n        found"),
            "no-grad-missing",
            "validate() (line 8) trains nothing, and is not in torch.no_grad()",
            id="numbers",
        ),
        pytest.param(
            VALIDATED.replace(
                "logits = model(image)", "logits = model(image); slope = grad(logits, image)"
            ).replace("losses.append(criterion(logits, mask))", "pass"),
            "gpu-forward",
            "no room",
            id="asks for gradients",
        ),
        pytest.param(
            VALIDATED.replace("def validate", "@torch.no_grad()\ndef validate"),
            "gpu-forward",
            "no room",
            id="decorated",
        ),
        pytest.param(
            VALIDATED.replace("logits =", "with torch.inference_mode(): logits ="),
            "gpu-forward",
            "no room",
            id="within inference_mode",
        ),
        pytest.param(
            VALIDATED.replace("validate(model, loader)\n", "validate(model, loader).backward()\n").replace(
                "def validate(model, loader).backward()", "def validate(model, loader)"
            ),
            "graphs-kept",
            "line 13 keeps",
            id="trained with",
        ),
    ],
)
def test_an_evaluation_that_keeps_gradients_is_told(tmp_path: Path, cell: str, row: str, said: str) -> None:
    lines = cell.splitlines()
    here = next(at for at, line in enumerate(lines, 1) if "logits = model(image)" in line)
    shape = ("image", "Tensor (16, 3, 256, 256) float32 on cuda:0")

    told = hint_of(tmp_path, cell, [(len(lines), "<module>"), (here, "validate")], shape)

    assert told[0] == row
    assert said in told[1]


def test_what_a_decorator_has_switched_off_is_seen_in_the_traceback(tmp_path: Path) -> None:
    program = a_spec().program
    off = [("/v/lib/python3.12/site-packages/torch/utils/_contextlib.py", 120, "decorate_context", "")]
    below = [*off, (program, 12, "validate", ""), *CONV]

    row, _, _ = hint_of(tmp_path, VALIDATED, [(20, "<module>")], below=below)

    assert row == "gpu-full"


FOLDS = """\
results = []
for k in range(5):
    model = build().to(device)
    optimizer = Adam(model.parameters())
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    results.append({"fold": k, "model": model})
"""


@pytest.mark.parametrize(
    ("cell", "known", "row"),
    [
        pytest.param(FOLDS, "list of 2 (dict)", "models-kept", id="in a list"),
        pytest.param(
            FOLDS.replace('results.append({"fold": k, "model": model})', "results[k] = model"),
            "dict of 1",
            "models-kept",
            id="in a dict",
        ),
        pytest.param(
            FOLDS.replace("    for x, y", "    model.train()\n    for x, y").replace(
                "        criterion(model(x), y).backward()\n        optimizer.step()\n", "        show(x)\n"
            ),
            "list of 2 (dict)",
            "gpu-optimizer-state",
            id="made before the training",
        ),
        pytest.param(FOLDS, "list of 0", "gpu-optimizer-state", id="the first of them"),
        pytest.param(
            FOLDS.replace('"model": model', '"score": score(model)'),
            "list of 2",
            "gpu-optimizer-state",
            id="a score",
        ),
        pytest.param(
            FOLDS.replace("    results", "    model.cpu()\n    results"),
            "list of 2",
            "gpu-optimizer-state",
            id="on the CPU",
        ),
    ],
)
def test_models_that_a_loop_keeps_are_told(tmp_path: Path, cell: str, known: str, row: str) -> None:
    told = hint_of(tmp_path, cell, [(7, "<module>")], below=STATE, known=("results", known))

    assert told[0] == row


def test_layers_that_a_model_is_made_of_are_not_told_as_models(tmp_path: Path) -> None:
    cell = "blocks = []\nfor k in range(99):\n"
    cell += "    block = nn.Linear(4096, 4096).to(device)\n    blocks.append(block)\n"

    row, _, _ = hint_of(tmp_path, cell, [(3, "<module>")], below=[(LAYERS, 1381, "to", "")])

    assert row == "gpu-model-moved"


HELD = FULL.replace("this process has 78.50", "this process has 8.50").replace(
    "Including", "Process 71 has 70.00 GiB memory in use. Including"
)
STEP = """\
output = model(images)
loss = criterion(logits, y)
loss.backward()
x = rows.to(device)
d = torch.cdist(a, b)
"""


@pytest.mark.parametrize(
    ("message", "line", "below", "operand", "row", "said"),
    [
        pytest.param(
            HELD,
            1,
            CONV,
            None,
            "gpu-held-by-others",
            "other processes hold 70.0 GiB of the GPU's",
            id="others",
        ),
        pytest.param(
            FULL.replace("392.00 MiB", "300.00 GiB"),
            5,
            [],
            None,
            "gpu-asked-too-much",
            "300.0 GiB is asked for in one piece, and there is the GPU's 79.1 GiB in all",
            id="more than there is",
        ),
        pytest.param(
            FULL.replace("300.00 MiB is reserved", "12.00 GiB is reserved"),
            1,
            CONV,
            None,
            "gpu-in-pieces",
            "12.0 GiB is reserved and unused",
            id="in pieces",
        ),
        pytest.param(
            FULL,
            1,
            CONV,
            ("images", "Tensor (512, 3, 224, 224) float32 on cuda:0"),
            "gpu-forward",
            "in the forward pass, at  images  (512, 3, 224, 224): 78.5 GiB of the GPU's 79.1 GiB in use",
            id="forward",
        ),
        pytest.param(
            FULL,
            2,
            [],
            ("logits", "Tensor (16384, 128256) bfloat16 on cuda:0"),
            "gpu-vocabulary",
            "logits  (16384, 128256) has 128256 numbers (words, classes) a row",
            id="a vocabulary",
        ),
        pytest.param(
            FULL, 3, BACK, None, "gpu-backward", "no room for 392 MiB more in backward()", id="backward"
        ),
        pytest.param(
            FULL,
            4,
            [],
            ("rows", "Tensor (60000, 3, 224, 224) float32"),
            "gpu-data-moved",
            "rows  (60000, 3, 224, 224) is brought to the GPU as a whole",
            id="all data",
        ),
        pytest.param(
            FULL,
            5,
            [],
            ("a", "Tensor (90000, 64) float32 on cuda:0"),
            "gpu-line",
            "no room for 392 MiB more in this line, with  a  (90000, 64)",
            id="a line",
        ),
        pytest.param(
            "CUDA error: out of memory",
            5,
            [],
            None,
            "cuda-out-of-memory",
            "the GPU's memory is full",
            id="no word",
        ),
    ],
)
def test_memory_is_told_by_the_message_and_the_line(
    tmp_path: Path,
    message: str,
    line: int,
    below: list[tuple[str, int, str, str]],
    operand: tuple[str, str] | None,
    row: str,
    said: str,
) -> None:
    given = [operand] if operand else []

    told = hint_of(tmp_path, STEP, [(line, "<module>")], *given, below=below, message=message)

    assert told[0] == row
    assert said in told[1]


def test_a_batch_that_a_function_brings_to_the_gpu_is_no_data_set(tmp_path: Path) -> None:
    cell = "def put(x):\n    return x.to(device)\nfor x in loader:\n    x = put(x)\n"
    shape = ("x", "Tensor (64, 3, 224, 224) float32")

    assert hint_of(tmp_path, cell, [(4, "<module>"), (2, "put")], shape, below=[])[0] == "gpu-full"


def test_a_limit_of_the_program_is_told_with_its_line(tmp_path: Path) -> None:
    cell = "torch.cuda.set_per_process_memory_fraction(0.1)\n" + STEP
    message = FULL.replace(
        "Of the allocated memory 77.00 GiB", "8.00 GiB allowed; Of the allocated memory 7.50 GiB"
    )

    _, cause, fix = hint_of(tmp_path, cell, [(2, "<module>")], message=message)

    assert cause.endswith("7.8 GiB of the 8.0 GiB that the program allows itself (line 1) in use")
    assert "or a higher limit" in fix


def test_memory_of_the_machine_is_told_by_what_the_program_keeps(tmp_path: Path) -> None:
    message = "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried to"
    message += " allocate 33554432 bytes. Error code 12 (Cannot allocate memory)"

    told = hint_of(tmp_path, SUMMED, [(6, "<module>")], message=message, kind="RuntimeError")

    assert told[0] == "graphs-kept-for-backward"


def test_memory_of_a_program_of_paddle_is_told_in_its_words(tmp_path: Path) -> None:
    message = (
        "Out of memory error on GPU 0. Cannot allocate 64.000000MB memory on GPU 0, 15.000000GB memory"
        " has been allocated and available memory is only 32.000000MB."
    )
    layers = [("/v/lib/python3.12/site-packages/paddle/nn/layer/layers.py", 1576, "__call__", "")]
    lines = [(20, "<module>"), (12, "validate")]

    told = hint_of(
        tmp_path, VALIDATED, lines, below=layers, message=message, kind="MemoryError", framework="paddle"
    )

    assert told[0] == "graphs-kept-untrained"
    assert "paddle.no_grad()" in told[2]


@pytest.mark.parametrize(
    ("devices", "message", "said"),
    [
        pytest.param(
            (0, 1),
            FULL,
            "GPU 0 is full, and has tensors of ranks 0, 1",
            id="the GPU of another rank",
        ),
        pytest.param((0, 1), FULL.replace("GPU 0", "GPU 1"), "no room for 392 MiB more", id="its own"),
        pytest.param(
            (0, 1),
            FULL.replace("GPU 0", "GPU 1").replace(
                "Including", "Process 4001 has 9.00 GiB memory in use. Including"
            ),
            "GPU 1 is full, and has tensors of ranks 0, 1",
            id="another rank is on its own",
        ),
        pytest.param(
            (0, 1),
            FULL.replace("GPU 0", "GPU 1").replace(
                "Including", "Process 4001 has 500.00 MiB memory in use. Including"
            ),
            "no room for 392 MiB more",
            id="with hardly anything",
        ),
        pytest.param((0, 0), FULL, "no room for 392 MiB more", id="one for both, as was asked"),
    ],
)
def test_a_gpu_that_several_ranks_use_is_told(
    tmp_path: Path, devices: tuple[int, ...], message: str, said: str
) -> None:
    spec = a_spec(devices=tuple(Device(kind="gpu", index=index) for index in devices))
    written = WrittenRun(tmp_path / "home", spec, cell=STEP).happened(*STARTED)
    written.raised(
        1, "torch.OutOfMemoryError", message, frames=[(spec.program, 1, "<module>", "")], time=CREATED + 5
    )
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        pytest.param("335.28 GiB", "arrays-broadcast", id="each with each"),
        pytest.param("2.00 GiB", "gpu-line", id="another size"),
    ],
)
def test_a_column_against_a_row_is_told_on_a_gpu_by_the_size(tmp_path: Path, asked: str, row: str) -> None:
    shapes = [
        ("guess", "Tensor (300000, 1) float32 on cuda:0"),
        ("y", "Tensor (300000,) float32 on cuda:0"),
    ]

    message = FULL.replace("392.00 MiB", asked)

    assert hint_of(tmp_path, STEP, [(5, "<module>")], *shapes, below=[], message=message)[0] == row


KEPT = """\
model = Net().to(device)
optimizer = Adam(model.parameters())
losses = []
for x, y in loader:
    out = model(x)
    losses.append(criterion(out, y))
"""
HELPER = """\
def embed(x):
    with torch.no_grad():
        return model(x)
model = Net().to(device)
model.eval()
found = []
for x, y in loader:
    found.append(embed(x))
    out = model.other(x)
"""
CARRIED = """\
model = Net().to(device)
optimizer = Adam(model.parameters())
hidden, loss = None, 0
for x, y in loader:
    out, hidden = model(x, hidden)
    loss += criterion(out, y)
loss.backward()
optimizer.step()
"""
FEATURES = """\
model = Net().to(device)
optimizer = Adam(model.parameters())
found = []
for x in batches:
    found.append(model(x))
loss = contrast(torch.cat(found))
loss.backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("cell", "at", "row"),
    [
        pytest.param(KEPT, "out =", "graphs-kept", id="losses"),
        pytest.param(
            KEPT.replace("    losses", "    loss_scaler(out, optimizer)\n    losses"),
            "out =",
            "gpu-forward",
            id="trained by a function of another file",
        ),
        pytest.param(
            KEPT.replace("    losses", "    save(model, optimizer)\n    losses"),
            "out =",
            "graphs-kept",
            id="an optimizer that is saved",
        ),
        pytest.param(KEPT.replace("= []", "= deque([], 9)"), "out =", "gpu-forward", id="a deque"),
        pytest.param(KEPT.replace("= []", "= Meter()"), "out =", "gpu-forward", id="an object of its own"),
        pytest.param(KEPT + "    losses[:] = losses[-9:]\n", "out =", "gpu-forward", id="cut short"),
        pytest.param(KEPT.replace("(out, y))", "(out, y)); use(losses)"), "out =", "gpu-forward", id="used"),
        pytest.param(
            KEPT.replace("criterion(out, y)", "reduce_loss(criterion(out, y))"),
            "out =",
            "gpu-forward",
            id="the number of a loss",
        ),
        pytest.param(
            KEPT.replace("criterion(out, y)", "sum(one.item() for one in out)"),
            "out =",
            "gpu-forward",
            id="a sum of numbers",
        ),
        pytest.param(
            "off = torch.no_grad()\n"
            + KEPT.replace("for x", "with off:\n  for x")
            .replace("    out", "      out")
            .replace("    losses.", "      losses."),
            "out =",
            "gpu-forward",
            id="no_grad by another name",
        ),
        pytest.param(
            KEPT.replace("losses = []", "losses = []\nfor p in ps: p.requires_grad=False"),
            "out =",
            "gpu-forward",
            id="frozen",
        ),
        pytest.param(
            KEPT.replace("losses = []", "losses = []\nfreeze(model)"), "out =", "gpu-forward", id="freeze"
        ),
        pytest.param(HELPER, "out =", "gpu-forward", id="a function that keeps none"),
        pytest.param(CARRIED, "out, hidden", "gpu-forward", id="each round goes on with the last"),
        pytest.param(FEATURES, "found.append", "gpu-forward", id="one loss of all"),
    ],
)
def test_what_may_keep_no_graph_is_not_told(tmp_path: Path, cell: str, at: str, row: str) -> None:
    line = 1 + cell.partition(at)[0].count("\n")
    shape = ("x", "Tensor (16, 3, 224, 224) float32 on cuda:0")

    assert hint_of(tmp_path, cell, [(line, "<module>")], shape)[0] == row


@pytest.mark.parametrize("known", ["list of 12", "list of 12 (ndarray (16, 9))", "12.5"])
def test_numbers_and_arrays_have_no_graph(tmp_path: Path, known: str) -> None:
    shape = ("x", "Tensor (16, 3, 224, 224) float32 on cuda:0")

    assert hint_of(tmp_path, KEPT, [(5, "<module>")], shape, known=("losses", known))[0] == "gpu-forward"


PREDICTED = """\
model = Net().to(device)
optimizer = Adam(model.parameters())
def predict(x):
    return model(x)
for x, y in loader:
    losses = {}
    losses["a"] = criterion(predict(x), y)
    sum(losses.values()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("cell", "row"),
    [
        pytest.param(PREDICTED, "gpu-forward", id="in a dict"),
        pytest.param(
            PREDICTED.replace("{}", "[]").replace('["a"] = criterion(predict(x), y)', ".append(predict(x))"),
            "gpu-forward",
            id="in a list",
        ),
        pytest.param(
            PREDICTED.replace("sum(losses.values()).backward()", "update_all(losses, optimizer)"),
            "gpu-forward",
            id="by another function",
        ),
        pytest.param(PREDICTED.replace("sum(losses.values())", "other"), "no-grad-missing", id="not at all"),
    ],
)
def test_what_a_prediction_is_trained_with_is_seen(tmp_path: Path, cell: str, row: str) -> None:
    shape = ("x", "Tensor (16, 3, 224, 224) float32 on cuda:0")

    assert hint_of(tmp_path, cell, [(7, "<module>"), (4, "predict")], shape)[0] == row


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        pytest.param(
            "", "with 20.00 GiB allocated in private pools (e.g., CUDA Graphs), and 12.00", id="of graphs"
        ),
        pytest.param(
            "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'\n", "12.00", id="set"
        ),
    ],
)
def test_pieces_are_told_where_the_allocator_can_be_told_otherwise(
    tmp_path: Path, ahead: str, said: str
) -> None:
    message = FULL.replace("300.00 MiB is reserved", f"{said} GiB is reserved")

    row, _, _ = hint_of(tmp_path, ahead + STEP, [(1 + ahead.count("\n"), "<module>")], message=message)

    assert row == "gpu-full"


def test_ranks_that_share_a_gpu_as_they_were_started_are_no_other_processes(tmp_path: Path) -> None:
    spec = a_spec(devices=(Device(kind="gpu", index=0), Device(kind="gpu", index=0)))
    written = WrittenRun(tmp_path / "home", spec, cell=STEP).happened(*STARTED)
    written.raised(
        1, "torch.OutOfMemoryError", HELD, frames=[(spec.program, 1, "<module>", "")], time=CREATED + 5
    )

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == "gpu-full"


BOUNDED = FOLDS.replace("results = []", "results = deque(maxlen=2)")


@pytest.mark.parametrize("cell", [BOUNDED, FOLDS + "    if k > 1: results.pop(0)\n"])
def test_models_of_which_few_are_kept_are_not_told(tmp_path: Path, cell: str) -> None:
    assert hint_of(tmp_path, cell, [(7, "<module>")], below=STATE)[0] == "gpu-optimizer-state"


@pytest.mark.parametrize(
    ("below", "row"),
    [
        pytest.param(
            [(STATE[0][0].replace("adam", "sgd"), 430, "_multi_tensor_sgd", "")], "gpu-full", id="sgd"
        ),
        pytest.param([(STATE[0][0], 700, "_multi_tensor_adam", "")], "gpu-optimizer-copies", id="adam"),
        pytest.param([*BACK, (a_spec().program, 1, "forward", ""), *CONV], "gpu-backward", id="recomputed"),
    ],
)
def test_where_memory_ran_out_is_told_by_the_frames(
    tmp_path: Path, below: list[tuple[str, int, str, str]], row: str
) -> None:
    assert hint_of(tmp_path, STEP, [(3, "<module>")], below=below)[0] == row


def test_a_batch_of_a_single_call_is_no_data_set(tmp_path: Path) -> None:
    shape = ("rows", "Tensor (8, 3, 224, 224) float32")

    assert hint_of(tmp_path, STEP, [(4, "<module>")], shape, below=[])[0] == "gpu-full"
