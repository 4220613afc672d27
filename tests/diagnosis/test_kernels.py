"""What the check tells that a kernel printed on the GPU, and the call of the program that it belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

ASSERTED = "CUDA error: device-side assert triggered"
LABELS = (
    "/pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0],"
    " thread: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
)
INDEX = (
    "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:93: operator(): block: [0,0,0], thread: [28,0,0]"
    ' Assertion `index >= -sizes[i] && index < sizes[i] && "index out of bounds"` failed.\n'
)
IDS = (
    "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1292: indexSelectLargeIndex: block: [654,0,0],"
    " thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
)
TRAINING = """\
criterion = nn.CrossEntropyLoss()
def step(x, y):
    loss = criterion(model(x), y)
    loss.backward()
"""
TWO_LOSSES = """\
criterion = nn.CrossEntropyLoss()
def step(x, y):
    loss = criterion(a(x), y) \\
        + criterion(b(x), y)
    loss.backward()
"""
ELSEWHERE = """\
class Net(nn.Module):
    def __init__(self):
        self.table = nn.Embedding(10, 4)
    def forward(self, ids):
        return self.table(ids)
loss = F.cross_entropy(net(ids), y)
print(loss.item())
"""
GATHERED = """\
losses.append(accelerator.gather(loss))
plt.scatter(x, y)
seen.append(np.random.multinomial(1, p))
print(loss.item())
"""
TABLES = """\
class Net(nn.Module):
    def __init__(self):
        self.tables = nn.ModuleList([nn.Embedding(n, 8) for n in sizes])
        self.places = nn.Embedding(64, 8)
    def forward(self, columns):
        return sum(t(c) for t, c in zip(self.tables, columns)) + self.places(at)
print(net(columns).sum().item())
"""
PRETRAINED = """\
model = AutoModel.from_pretrained(name)
prompt = nn.Embedding(20, 768)
soft = prompt(places)
aside = F.cross_entropy(head(x), y)
model(ids).loss.item()
"""
GATHER = (
    "/pytorch/aten/src/ATen/native/cuda/ScatterGatherKernel.cu:144: operator(): block: [0,0,0], thread:"
    ' [1,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && "index out of bounds"` failed.\n'
)
SAMPLED = (
    "/pytorch/aten/src/ATen/native/cuda/TensorCompare.cu:109: _assert_async_cuda_kernel: block: [0,0,0],"
    " thread: [0,0,0] Assertion `probability tensor contains either `inf`, `nan` or element < 0` failed.\n"
)
TOKENS = """\
tokenizer.add_special_tokens({"pad_token": "[PAD]"})
out = model(**tokenizer(texts, padding=True))
"""


def told(
    tmp_path: Path, cell: str, line: int, function: str, printed: str, message: str = ASSERTED
) -> tuple[str, str]:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED).printed(1, printed)
    frames = [(a_spec().program, line, function, "")]
    written.raised(1, "RuntimeError", message, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    assert failure.hint is not None
    return failure.hint.signature, failure.hint.cause.en.partition("; most likely ")[2]


@pytest.mark.parametrize(
    ("cell", "line", "function", "printed", "row", "at"),
    [
        pytest.param(
            TRAINING,
            4,
            "step",
            LABELS,
            "kernel-labels",
            "line 3  loss = criterion(model(x), y)",
            id="of a loss",
        ),
        pytest.param(TRAINING, 4, "step", INDEX, "kernel-index", "", id="of an index"),
        pytest.param(TRAINING, 4, "step", "", "cuda-device-assert", "", id="not printed"),
        pytest.param(TWO_LOSSES, 5, "step", LABELS, "kernel-labels", "", id="two calls"),
        pytest.param(
            ELSEWHERE,
            7,
            "<module>",
            IDS,
            "kernel-embedding",
            "line 5  return self.table(ids)",
            id="of an embedding",
        ),
        pytest.param(
            ELSEWHERE,
            7,
            "<module>",
            LABELS * 3,
            "kernel-labels",
            "line 6  loss = F.cross_entropy(net(ids), y)",
            id="of a function",
        ),
        pytest.param(TOKENS, 2, "<module>", IDS, "kernel-embedding-of-new-tokens", "", id="new tokens"),
        pytest.param(
            TOKENS.replace('"[PAD]"', "tokenizer.eos_token"),
            2,
            "<module>",
            IDS,
            "kernel-embedding",
            "",
            id="no new token",
        ),
        pytest.param(
            TOKENS.replace("out", "model = GPT(vocab_size=len(tokenizer)); out"),
            2,
            "<module>",
            IDS,
            "kernel-embedding",
            "",
            id="made for the new tokens",
        ),
        pytest.param(GATHERED, 4, "<module>", GATHER, "kernel-gather", "", id="gather of another library"),
        pytest.param(GATHERED, 4, "<module>", SAMPLED, "kernel-sampling", "", id="sampling of numpy"),
        pytest.param(
            GATHERED + "picked = q.gather(1, moves)\n",
            4,
            "<module>",
            GATHER,
            "kernel-gather",
            "line 5  picked = q.gather(1, moves)",
            id="gather of torch",
        ),
        pytest.param(TABLES, 7, "<module>", IDS, "kernel-embedding", "", id="tables in a list"),
        pytest.param(
            PRETRAINED, 5, "<module>", IDS, "kernel-embedding", "", id="tables of a library's model"
        ),
        pytest.param(PRETRAINED, 5, "<module>", LABELS, "kernel-labels", "", id="its loss"),
        pytest.param(
            TOKENS.replace("out", "model.resize_token_embeddings(len(tokenizer)); out"),
            2,
            "<module>",
            IDS,
            "kernel-embedding",
            "",
            id="resized",
        ),
    ],
)
def test_the_check_that_failed_is_told_with_its_call(
    tmp_path: Path, cell: str, line: int, function: str, printed: str, row: str, at: str
) -> None:
    assert told(tmp_path, cell, line, function, printed) == (row, at)


def test_an_error_of_cublas_after_a_check_is_told_as_that(tmp_path: Path) -> None:
    message = "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"

    assert told(tmp_path, TRAINING, 4, "step", LABELS, message)[0] == "kernel-labels"


def test_an_error_of_another_kind_is_its_own(tmp_path: Path) -> None:
    message = "mat1 and mat2 shapes cannot be multiplied (1x1024 and 64x32)"

    assert told(tmp_path, TRAINING, 4, "step", LABELS, message)[0] == "matmul-by-hand"


CAPTURE = """\
def step():
    loss = criterion(net(x), y)
    return loss.item()
with torch.cuda.graph(graph):
    value = step()
"""
FLASH = """\
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    out = F.scaled_dot_product_attention(q, k, v)
"""
CAPTURING = "CUDA error: operation not permitted when stream is capturing"
NO_KERNEL = "No available kernel. Aborting execution."
ILLEGAL = "CUDA error: an illegal memory access was encountered"
LARGE, SMALL = "Tensor (3276800000,) float16 on cuda:0", "Tensor (8, 4) float32 on cuda:0"
TRITON = """\
@triton.jit
def kernel(x):
    pass
x.sum().item()
"""


@pytest.mark.parametrize(
    ("cell", "line", "message", "values", "row"),
    [
        pytest.param(CAPTURE, 3, CAPTURING, {}, "cuda-graph-waits", id="a wait in a capture"),
        pytest.param(CAPTURE, 2, CAPTURING, {}, "cuda-graph-capture", id="something else in a capture"),
        pytest.param(FLASH, 2, NO_KERNEL, {"q": SMALL, "k": SMALL}, "attention-float32", id="float32"),
        pytest.param(
            FLASH.replace("FLASH_ATTENTION", "FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION"),
            2,
            NO_KERNEL,
            {"q": SMALL},
            "attention-no-kernel",
            id="another kernel allowed",
        ),
        pytest.param(
            FLASH,
            2,
            NO_KERNEL,
            {"q": "Tensor (8, 4) bfloat16 on cuda:0"},
            "attention-no-kernel",
            id="half precision",
        ),
        pytest.param(
            FLASH.replace("v)", "v, attn_mask=m)"),
            2,
            NO_KERNEL,
            {"q": "Tensor (8, 4) bfloat16 on cuda:0", "m": SMALL},
            "attention-no-kernel",
            id="a mask",
        ),
        pytest.param(
            FLASH.replace("with ", "with torch.autocast('cuda'), "),
            2,
            NO_KERNEL,
            {"q": SMALL},
            "attention-no-kernel",
            id="autocast",
        ),
        pytest.param(TRITON, 4, ILLEGAL, {"x": LARGE}, "illegal-access-of-large", id="a large tensor"),
        pytest.param(TRITON, 4, ILLEGAL, {"x": SMALL}, "illegal-access-of-triton", id="a triton kernel"),
        pytest.param(
            TRITON[-len("x.sum().item()\n") :], 1, ILLEGAL, {"x": SMALL}, "cuda-illegal-access", id="unknown"
        ),
    ],
)
def test_what_the_failing_line_tells_of_an_error_of_the_gpu(
    tmp_path: Path, cell: str, line: int, message: str, values: dict[str, str], row: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    operands = [(program, line, *one) for one in values.items()]
    frames = [(program, line, "step", "")]
    written.raised(1, "RuntimeError", message, frames=frames, operands=operands, time=CREATED + 5)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == row
