"""What the failing line tells of tensors of two devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

TWO = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
GPUS = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!"
ONE = (
    "Expected all tensors to be on the same device, but got {} is on {}, different from other tensors on {}"
    " (when checking argument in method wrapper_CUDA_{})"
)
INPUT = "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same"
WEIGHT = "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same"
LABELS = ONE.format("target", "cpu", "cuda:0", "nll_loss_forward")
MAT1 = ONE.format("mat1", "cuda:0", "cpu", "addmm")
IDS = ONE.format("index", "cpu", "cuda:0", "_index_select")
SITE = "/v/lib/python3.12/site-packages/"
HERE, GPU = "Tensor (8, 3) float32", "Tensor (8, 3) float32 on cuda:0"
STEP = """\
for x, y in loader:
    x.to(device)
    y = y.to(device)
    out = model(x)
"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.zeros(8, 3)
        self.layers = [nn.Linear(3, 3)]
        self.head = nn.Linear(3, 3)
    def forward(self, x):
        h = torch.zeros(8, 3)
        x = x + self.table
        x = x + h
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
model = Net().cuda()
for images, labels in loader:
    images.cuda()
    loss = model(images)
"""
PLAIN = NET.replace("nn.Module", "Base")
BUFFER = NET.replace("self.table = torch.zeros(8, 3)", "self.register_buffer('table', torch.zeros(8, 3))")
LISTED = NET.replace("[nn.Linear(3, 3)]", "nn.ModuleList([nn.Linear(3, 3)])")
TRANSFORMS = NET.replace("[nn.Linear(3, 3)]", "[Resize(3)]")


def told(
    tmp_path: Path,
    cell: str,
    message: str,
    at: tuple[tuple[int, str], ...],
    *values: tuple[str, str],
    below: str = "",
) -> str:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames = [(program, *one, "") for one in at]
    frames += [(SITE + below, 10, "forward", "")] if below else []
    operands = [(program, at[-1][0], *one) for one in values]
    written.raised(1, "RuntimeError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    assert failure.hint is not None
    return f"{failure.hint.signature}: {failure.hint.cause.en}"


TOP, FORWARD = "<module>", "forward"
ATTRIBUTE = (("x", GPU), ("self.table", HERE))


@pytest.mark.parametrize(
    ("cell", "message", "at", "values", "said"),
    [
        pytest.param(
            STEP,
            INPUT,
            ((4, TOP),),
            (("model", "Net"), ("x", HERE)),
            "device-thrown-away: x is still on the CPU: line 2  x.to(device) ",
            id="thrown away",
        ),
        pytest.param(
            STEP.replace("x.to", "x = x.to"),
            INPUT,
            ((4, TOP),),
            (("model", "Net"), ("x", HERE)),
            "device-of-value: on the CPU: x; the weights that meet it on the GPU",
            id="not moved",
        ),
        pytest.param(
            NET,
            TWO,
            ((17, TOP), (9, FORWARD)),
            ATTRIBUTE,
            "device-plain-tensor: self.table is on the CPU, x on cuda:0: a plain tensor",
            id="attribute",
        ),
        pytest.param(
            NET,
            TWO,
            ((17, TOP), (9, FORWARD)),
            (("x", HERE), ("self.table", GPU)),
            "device-thrown-away: images is still on the CPU: line 16  images.cuda()",
            id="thrown away by the caller",
        ),
        pytest.param(
            PLAIN,
            TWO,
            ((9, FORWARD),),
            ATTRIBUTE,
            "device-made-here: self.table is on the CPU",
            id="of no module",
        ),
        pytest.param(
            BUFFER, TWO, ((9, FORWARD),), ATTRIBUTE, "device-of-value: on the CPU: self.table", id="a buffer"
        ),
        pytest.param(
            NET,
            TWO,
            ((10, FORWARD),),
            (("x", GPU), ("h", HERE)),
            "device-made-here: h is on the CPU, x on cuda:0: it was made there at line 8  h = torch.zeros",
            id="made on the way",
        ),
        pytest.param(
            NET,
            MAT1,
            ((12, FORWARD),),
            (("layer", "Linear with weight (3, 3) float32"), ("x", GPU)),
            "device-layers-in-list: a layer is on the CPU, its input on the GPU: self.layers (line 5)",
            id="layers in a list",
        ),
        pytest.param(
            LISTED,
            MAT1,
            ((12, FORWARD),),
            (("layer", "Linear with weight (3, 3) float32"), ("x", GPU)),
            "device-of-layer: the weights of layer are on the CPU",
            id="layers in a ModuleList",
        ),
        pytest.param(
            TRANSFORMS,
            MAT1,
            ((12, FORWARD),),
            (("layer", "Linear with weight (3, 3) float32"), ("x", GPU)),
            "device-of-layer: the weights of layer are on the CPU",
            id="a list of other things",
        ),
        pytest.param(
            NET,
            WEIGHT,
            ((13, FORWARD),),
            (("self.head", "Linear with weight (3, 3) float32"), ("x", GPU)),
            "device-of-layer: the weights of self.head are on the CPU",
            id="a model not moved",
        ),
        pytest.param(
            STEP,
            ONE.format("weight", "cpu", "cuda:0", "nll_loss_forward"),
            ((4, TOP),),
            (("out", GPU), ("y", "Tensor (8,) int64 on cuda:0")),
            "device-of-loss-weights: the weights of the classes",
            id="weights of classes",
        ),
        pytest.param(
            "loss = criterion(out, y)\n",
            LABELS,
            ((1, TOP),),
            (("out", GPU), ("y", "Tensor (8,) int64, 0 to 5")),
            "device-of-value: on the CPU: y; out on cuda:0",
            id="labels",
        ),
        pytest.param(
            "out = a + b\n",
            GPUS,
            ((1, TOP),),
            (("a", GPU), ("b", "Tensor (3,) float32 on cuda:1")),
            "device-of-two-gpus: a is on cuda:0, b on cuda:1",
            id="two GPUs",
        ),
        pytest.param(
            "out = a + b\n", GPUS, ((1, TOP),), (("a", GPU),), "devices-of-two-gpus: ", id="of two GPUs, one"
        ),
        pytest.param(
            "model = nn.DataParallel(net)\nout = a + b\n",
            GPUS,
            ((2, TOP),),
            (("a", GPU), ("b", "Tensor (3,) float32 on cuda:1")),
            "devices-of-replicas: ",
            id="two GPUs of DataParallel",
        ),
        pytest.param(
            "out = x @ self.w\n",
            ONE.format("mat2", "cpu", "cuda:0", "mm"),
            ((1, FORWARD),),
            (("x", GPU), ("self.w", "Parameter (3, 4) float32")),
            "device-of-parameter: self.w is a parameter on the CPU; x on cuda:0",
            id="a parameter",
        ),
        pytest.param(
            NET.replace("nn.Module", "BertModel"),
            TWO,
            ((9, FORWARD),),
            (("x", GPU), ("self.ids", HERE)),
            "device-of-value: on the CPU: self.ids; x on cuda:0",
            id="of a library's base",
        ),
        pytest.param(
            "out = a + b\n",
            TWO.replace("cuda:0", "xla:0"),
            ((1, TOP),),
            (("a", HERE), ("b", HERE)),
            "devices-differ: ",
            id="a device that is not known",
        ),
        pytest.param(
            "out = torch.where(m, a, b)\n",
            "Expected condition, x and y to be on the same device, but condition is on cpu and x and y are on"
            " cuda:0 and cuda:0 respectively",
            ((1, TOP),),
            (("m", "Tensor (8, 3) bool"), ("a", GPU)),
            "device-of-value: on the CPU: m; a on cuda:0",
            id="where",
        ),
        pytest.param(
            "model = load(device_map='auto')\nout = a + b\n",
            GPUS,
            ((2, TOP),),
            (("a", GPU), ("b", "Tensor (3,) float32 on cuda:1")),
            "devices-of-two-gpus: ",
            id="two GPUs on purpose",
        ),
        pytest.param(
            STEP.replace("x.to(device)", "x.to(torch.float32)"),
            INPUT,
            ((4, TOP),),
            (("model", "Net on cuda:0"), ("x", HERE)),
            "device-of-value: on the CPU: x",
            id="thrown away, and not to the GPU",
        ),
        pytest.param(
            "out = model(lengths=lengths, **batch)\n",
            IDS,
            ((1, TOP),),
            (("model", "Net on cuda:0"), ("lengths", "Tensor (8,) int64, 3 to 40")),
            "devices-differ: ",
            id="lengths that a call may want on the CPU",
        ),
        pytest.param(
            "mask = places < lengths\n",
            TWO,
            ((1, TOP),),
            (("places", GPU), ("lengths", "Tensor (8,) int64, 3 to 40")),
            "device-of-value: on the CPU: lengths",
            id="lengths that meet a tensor",
        ),
        pytest.param(
            "out = self.b(self.a(x))\n",
            ONE.format("mat1", "cpu", "cuda:0", "addmm"),
            ((1, FORWARD),),
            (
                ("self.b", "Linear with weight (3, 3) float32 on cuda:0"),
                ("self.a", "Linear with weight (3, 3) float32"),
                ("x", HERE),
            ),
            "devices-differ: ",
            id="half of a model",
        ),
        pytest.param(
            "error = out.cpu() - y + base\n",
            TWO,
            ((1, TOP),),
            (("out", GPU), ("y", GPU), ("base", HERE)),
            "devices-differ: ",
            id="on the CPU on purpose",
        ),
        pytest.param(
            STEP.replace("x.to(device)", "pass").replace("model(x)", "model(x).argmax(1).cpu().numpy()"),
            INPUT,
            ((4, TOP),),
            (("model", "Net on cuda:0"), ("x", HERE)),
            "device-of-value: on the CPU: x",
            id="its result brought to the CPU",
        ),
        pytest.param("out = a + f()\n", TWO, ((1, TOP),), (("a", GPU),), "devices-differ: ", id="not seen"),
        pytest.param(
            "out = a + b\n",
            TWO,
            ((1, TOP),),
            (("a", GPU), ("b", "Tensor () float32")),
            "devices-differ: ",
            id="one number",
        ),
    ],
)
def test_the_value_that_stayed_behind_is_told(
    tmp_path: Path,
    cell: str,
    message: str,
    at: tuple[tuple[int, str], ...],
    values: tuple[tuple[str, str], ...],
    said: str,
) -> None:
    assert told(tmp_path, cell, message, at, *values).startswith(said)


@pytest.mark.parametrize(
    ("below", "message", "values", "row"),
    [
        pytest.param(
            "transformers/models/bert/modeling_bert.py",
            IDS,
            (("x", HERE), ("model.embed", f"Embedding with weight (9, 3) float32, got {HERE}")),
            "device-of-value",
            id="got by a layer",
        ),
        pytest.param(
            "diffusers/pipeline.py", TWO, (("x", HERE), ("y", GPU)), "devices-differ", id="of a library's own"
        ),
        pytest.param(
            "torch/nn/modules/loss.py", TWO, (("x", HERE), ("y", GPU)), "device-of-value", id="a loss"
        ),
        pytest.param(
            "transformers/generation/utils.py",
            IDS,
            (("model", "GPT2LMHeadModel on cuda:0"), ("x", HERE)),
            "device-of-value",
            id="a model on the GPU",
        ),
        pytest.param(
            "transformers/models/bert/modeling_bert.py",
            IDS,
            (("y", GPU), ("model.embed", f"Embedding with weight (9, 3) float32 on cuda:0, got {HERE}")),
            "device-of-layer-input",
            id="a batch in a dict",
        ),
        pytest.param(
            "torch/nn/modules/loss.py", TWO, (("x", GPU), ("y", GPU)), "device-of-loss-weights", id="weights"
        ),
        pytest.param(
            "torch/nn/modules/loss.py", TWO, (("z", HERE), ("y", GPU)), "devices-differ", id="two calls"
        ),
        pytest.param("torch/nn/modules/conv.py", TWO, (("x", GPU), ("y", GPU)), "devices-differ", id="conv"),
        pytest.param(
            "torch/optim/adam.py", TWO, (("x", HERE), ("y", GPU)), "devices-of-optimizer", id="an optimizer"
        ),
    ],
)  # fmt: skip
def test_what_a_library_does_with_a_value_is_not_guessed(
    tmp_path: Path, below: str, message: str, values: tuple[tuple[str, str], ...], row: str
) -> None:
    cell = "out = criterion(x, y)" + (" + model(z)\n" if ("z", HERE) in values else "\n")
    found = told(tmp_path, cell, message, ((1, TOP),), *values, below=below)

    assert found.partition(":")[0] == row


METRICS = """\
class Net(L.LightningModule):
    def __init__(self):
        self.metrics = {"acc": Accuracy()}
        self.acc = Accuracy()
    def validation_step(self, batch, at):
        for metric in self.metrics.values():
            metric.update(out, y)
        self.acc.update(out, y)
"""


@pytest.mark.parametrize(("line", "row"), [(7, "metrics-in-dict"), (8, "metric-on-other-device")])
def test_a_metric_that_is_not_moved_is_told(tmp_path: Path, line: int, row: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=METRICS).happened(*STARTED)
    message = "Encountered different devices in metric calculation (see stacktrace for details)."
    frames = [(a_spec().program, line, "validation_step", "")]
    report = (
        "Traceback (most recent call last):\n"
        f'  File "{SITE}torchmetrics/metric.py", line 549, in wrapped_func\n    update(*args, **kwargs)\n'
        f"RuntimeError: {TWO}\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        f'  File "{a_spec().program}", line {line}, in validation_step\n    metric.update(out, y)\n'
        f"RuntimeError: {message}\n"
    )
    written.raised(1, "RuntimeError", message, frames=frames, text=report, time=CREATED + 5)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == row


ABSENT = "Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1."


@pytest.mark.parametrize(
    ("call", "values", "row"),
    [
        pytest.param("torch.load(p, map_location='cuda:1')", (), "map-location-not-there", id="written out"),
        pytest.param(
            "torch.load(p, map_location=place)",
            (("place", "str of 6 characters"),),
            "map-location-not-there",
            id="a name",
        ),
        pytest.param(
            "torch.load(p, map_location=place)",
            (("place", "dict of 1 ('cuda:0')"),),
            "checkpoint-device",
            id="a dict",
        ),
        pytest.param("torch.load(p)", (), "checkpoint-device", id="none"),
        pytest.param("torch.load(p, map_location=None)", (), "checkpoint-device", id="None"),
    ],
)
def test_a_checkpoint_for_a_gpu_that_is_not_there(
    tmp_path: Path, call: str, values: tuple[tuple[str, str], ...], row: str
) -> None:
    assert told(tmp_path, f"state = {call}\n", ABSENT, ((1, TOP),), *values).partition(":")[0] == row


def test_a_closure_that_an_optimizer_calls_is_not_the_optimizer(tmp_path: Path) -> None:
    cell = "def closure():\n    return criterion(model(x), y)\noptimizer.step(closure)\n"
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames = [
        (program, 3, TOP, ""),
        (f"{SITE}torch/optim/lbfgs.py", 330, "step", ""),
        (program, 2, "closure", ""),
        (f"{SITE}torch/nn/modules/linear.py", 125, FORWARD, ""),
    ]
    written.raised(1, "RuntimeError", TWO, frames=frames, time=CREATED + 5)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == "devices-differ"
