"""The names in the failing line, as a report describes them."""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
import threading
import types
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist.worker.operands import conditions, conditions_of, frames_of, is_library, operands

PROGRAM = """
import os
ran = []
class Batch:
    def __init__(self):
        self.labels, self.secret = [1, 2], "hunter2"
    @property
    def costly(self):
        ran.append("a property")
    def __repr__(self):
        ran.append("its repr")
        return ""
def divide(batch, by, rate=0.5, *, token="s3cret", many={"a": 1, "b": 2}, none=None):
    LINE
divide(Batch(), 0)
"""
SEVERAL_LINES = """return sum(
        [batch.labels[0] / by,
         rate])"""

LINES = [
    pytest.param("return len(batch.labels) / by", {"batch.labels": "list of 2", "by": "0"}, id="names"),
    pytest.param("none.append(token)", {"none": "None", "token": "str of 6 characters"}, id="no text"),
    pytest.param("return many['c']", {"many": "dict of 2 ('a', 'b')"}, id="a key that is not there"),
    pytest.param("return many['a'] / by", {"many['a']": "1", "by": "0"}, id="a key that is"),
    pytest.param("return none.x, batch.costly", {"none": "None", "batch": "Batch"}, id="no property"),
    pytest.param("return os.path.join(by)", {"by": "0"}, id="no modules and functions"),
    pytest.param("for x in by:\n        print(rate)", {"by": "0"}, id="the head of a loop"),
    pytest.param("return (lambda one: one / by)(rate)", {"one": "0.5", "by": "0"}, id="a lambda"),
    pytest.param("return Batch.x / by", {"by": "0"}, id="no class by its own name"),
    pytest.param("size = 3, 0.5; size.x", {"size": "(3, 0.5)"}, id="a few numbers as they are"),
    pytest.param("size = (1,) * 9; size.x", {"size": "tuple of 9"}, id="no more of them"),
    pytest.param("size = 1, 'a'; size.x", {"size": "tuple of 2"}, id="nor a text among them"),
    pytest.param("size = (); size.x", {"size": "tuple of 0"}, id="nor nothing"),
    pytest.param(SEVERAL_LINES, {"batch.labels[0]": "1", "by": "0", "rate": "0.5"}, id="several lines"),
]


def described(program: str, folder: Path) -> dict[str, str]:
    path = folder / "program.py"
    path.write_text(program)
    linecache.checkcache(str(path))
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whichever it is
        exec(compile(program, str(path), "exec"), namespace := {"__name__": "program"})
    names = operands(raised.value.__traceback__)
    assert not namespace.get("ran")
    assert {file for file, *_ in names} <= {str(path)}
    return {name: what for *_, name, what in names}


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_the_names_of_the_failing_line_are_told(line: str, expected: dict[str, str], tmp_path: Path) -> None:
    assert described(PROGRAM.replace("LINE", line), tmp_path) == expected


def test_of_a_file_that_has_gone_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile("x = 0\n1 / x", str(tmp_path / "gone.py"), "exec"), {})

    assert operands(raised.value.__traceback__) == []


def test_no_more_than_a_few_names_are_told(tmp_path: Path) -> None:
    names = [f"name_{number}" for number in range(20)]
    program = "\n".join(f"{name} = {number}" for number, name in enumerate(names))

    assert [*described(f"{program}\n0 / ({' + '.join(names)}) / name_0", tmp_path)] == names[:6]


@pytest.mark.parametrize(
    ("file", "of_library"),
    [
        pytest.param("pandas/_libs/lib.pyx", True, id="Cython"),
        pytest.param("pandas/_libs/lib.pxd", True, id="what it includes"),
        pytest.param("/v/site-packages/lent.py", True, id="installed"),
        pytest.param("<frozen importlib>", True, id="frozen"),
        pytest.param(json.__file__, True, id="of Python"),
        pytest.param("/srv/train.py", False, id="the program"),
        pytest.param("/srv/my.pyx.py", False, id="a name like it"),
    ],
)
def test_what_is_no_part_of_the_program_is_known_by_its_file(file: str, of_library: bool) -> None:
    assert is_library(file) is of_library


ASKED = """
import threading
begun, done = threading.Event(), threading.Event()
class Stopper:
    def __init__(self):
        self.bad, self.patience = 2, 3
def other(limit):
    if limit: pass
def train(steps, stopper):
    dropped = object()
    for step in range(steps):
        if stopper.bad >= stopper.patience:
            break
        begun.set()
        done.wait()
        raise ValueError
"""


def test_what_the_ifs_and_the_loops_around_ask_for_is_told(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(ASKED)
    exec(compile(ASKED, str(path), "exec"), program := {"__name__": "program"})
    errors: list[ValueError] = []

    def run() -> None:
        try:
            program["train"](5, program["Stopper"]())
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    program["begun"].wait()
    assert thread.ident is not None
    names = conditions(sys._current_frames()[thread.ident])
    program["done"].set()
    thread.join()

    expected = [(11, "steps", "5"), (12, "stopper.bad", "2"), (12, "stopper.patience", "3")]
    assert [(line, name, what) for _, line, name, what in names if line != 15] == expected
    assert [(line, name, what) for _, line, name, what in conditions_of(errors[0].__traceback__)] == expected


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def printed(program: str, folder: Path) -> list[str]:
    (folder / "program.py").write_text(
        f"import json, sys, torch\nfrom nbdist.worker.operands import *\n{program}"
    )
    command = [sys.executable, "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


SHAPES = """
linear, batch, ids = torch.nn.Linear(4, 2), torch.ones(3, 5), torch.arange(7)
item = {"x": [batch]}
moved = torch.nn.Linear(4, 2, device="meta")
apart, together = torch.nn.Sequential(linear, torch.nn.ReLU(), moved), torch.nn.Sequential(linear)
sparse, endless = torch.eye(2).to_sparse(), torch.tensor([1.0, float("inf")], requires_grad=True)
try:
    moved, apart, together, linear(batch)[ids]
except RuntimeError as error:
    print(json.dumps([one[2:] for one in operands(error.__traceback__)]))
try:
    linear(batch)[ids], item["x"], sparse, endless
except RuntimeError as error:
    print(json.dumps([one[2:] for one in operands(error.__traceback__)]))
"""


@needs_torch
def test_tensors_and_layers_have_shapes(tmp_path: Path) -> None:
    names = dict(pair for line in printed(SHAPES, tmp_path) for pair in json.loads(line))

    assert (
        names.items()
        >= {
            "linear": "Linear with weight (2, 4) float32",
            "moved": "Linear with weight (2, 4) float32 on meta",
            "apart": "Sequential on cpu and meta",
            "together": "Sequential",
            "batch": "Tensor (3, 5) float32",
            "ids": "Tensor (7,) int64, 0 to 6",
            "item['x']": "list of 1 (Tensor (3, 5))",
            "sparse": "Tensor (2, 2) float32",
            "endless": "Tensor (2,) float32, 50% inf",
        }.items()
    )


BATCHES = """
import numpy
def score(parts, alike):
    return numpy.concatenate(parts) / numpy.concatenate(alike) / None
score([numpy.ones((8, 2)), numpy.ones((8, 2)), numpy.ones((3, 2))], [numpy.ones(3), numpy.ones(3)])
"""


@pytest.mark.skipif(find_spec("numpy") is None, reason="numpy is not installed")
def test_a_list_of_arrays_is_told_with_the_first_that_has_another_shape(tmp_path: Path) -> None:
    names = described(BATCHES, tmp_path)

    parts = {"parts": "list of 3 (ndarray (8, 2), at 2: (3, 2))", "alike": "list of 2 (ndarray (3,))"}
    assert names == parts


LAYERS = """
from torch import nn
sys.path.insert(0, "site-packages")
from trains import Trainer
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"head": nn.Sequential(nn.Flatten(), nn.Linear(4, 2))})
    def forward(self, x):
        return self.layers["head"](x)
class Parallel(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Sequential(nn.Sequential(nn.Linear(4, 2)))
    forward = Trainer.forward
for model in (Net(), nn.Sequential(Net().layers["head"], nn.Identity()), nn.Linear(4, 2)):
    try:
        model(torch.ones(3, 5))
    except RuntimeError as error:
        print(json.dumps(operands(error.__traceback__)[-1][2:]))
for model in (nn.Sequential(nn.Linear(4, 2)), Parallel()):
    trainer = Trainer(model)
    try:
        trainer.train(torch.ones(3, 5))
    except RuntimeError as error:
        print(json.dumps(operands(error.__traceback__)[-1][2:]))
"""
TRAINER = """
class Trainer:
    def __init__(self, model):
        self.model = model
    def train(self, x):
        return self.model(x)
    def forward(self, x):
        return self.module(x)
"""


@needs_torch
def test_the_layer_that_failed_is_named_from_its_model_or_the_model_s_class(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "trains.py").write_text(TRAINER)

    failed = "Linear with weight (2, 4) float32, got Tensor (3, 5) float32"
    assert list(map(json.loads, printed(LAYERS, tmp_path))) == [
        ["self.layers['head'][1]", failed],
        ["model[0][1]", failed],
        ["model", "Linear with weight (2, 4) float32"],
        # a library calls it: nothing in the program's line is the model
        ["Sequential[0]", failed],
        ["Sequential[0][0]", failed],
    ]


NUMBERS = """
import numpy
from nbdist.worker.operands import not_finite, operands
def check(loss, batch):
    raise ValueError(loss, batch)
def train(x, rows):
    lowest = numpy.full(4, numpy.inf)
    check(x.mean(), {"x": x, "y": 1})
try:
    train(numpy.array([1.0, 2.0, 3.0, numpy.nan]), numpy.ones(3))
except ValueError as error:
    found, had = not_finite(error.__traceback__), operands(error.__traceback__)
"""


def test_arrays_that_are_not_finite_are_found_in_all_functions_of_a_traceback(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(NUMBERS)
    exec(compile(NUMBERS, str(program), "exec"), variables := {"__name__": "program"})

    assert [(line, name, what) for _, line, name, what in variables["found"]] == [
        (8, "x", "ndarray (4,) float64, 25% nan"),
        (8, "lowest", "ndarray (4,) float64, 100% inf"),
    ]
    assert [what for *_, name, what in variables["had"] if name == "batch"] == ["dict of 2 ('x' (4,), 'y')"]


UNUSED = """
import torch.distributed as dist
from torch import nn
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        names = ("one", "two", "three", "four", "five")
        self.heads = nn.ModuleDict({name: nn.Linear(4, 1) for name in names})
        self.shift = nn.Parameter(torch.zeros(4))
    def forward(self, x):
        return self.heads["two"](self.frozen(x))
def train(model):
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
try:
    train(nn.parallel.DistributedDataParallel(Net()))
except RuntimeError as error:
    print(json.dumps(layers_of_reducer(error, error.__traceback__)[0][1:]))
dist.destroy_process_group()
"""


@needs_torch
def test_layers_without_a_gradient_are_named(tmp_path: Path) -> None:
    layers = [18, "without gradient", "shift, heads.one, heads.three and 2 more"]
    assert json.loads(printed(UNUSED, tmp_path)[-1]) == layers


@pytest.mark.skipif(find_spec("executing") is None, reason="executing is not installed")
def test_the_names_of_what_failed_in_a_long_line_come_first(tmp_path: Path) -> None:
    program = "a = b = c = d = e = f = g = 1\nzero = 0\n(a + b) + (c + d) + (e + f) + g / zero"

    assert [*described(program, tmp_path)] == ["g", "zero", "a", "b", "c", "d"]


FRAMES = """
def step(x):
    return 1 / x
def {0}(x):{1}
    return step(x)
{0}(0)
"""


def trace_of(program: str, folder: Path) -> types.TracebackType:
    path = folder / "program.py"
    path.write_text(program)
    linecache.checkcache(str(path))
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile(program, str(path), "exec"), {"__name__": "program"})
    assert raised.value.__traceback__.tb_next is not None
    return raised.value.__traceback__.tb_next


def with_empty(trace: types.TracebackType, line: int) -> types.TracebackType:
    """Return a traceback with another frame of the same function, at this line, before its second."""
    below = trace.tb_next
    empty = types.TracebackType(below, below.tb_frame, below.tb_lasti, line)
    return types.TracebackType(empty, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        pytest.param(4, [6, 5, 3], id="at its first line"),
        pytest.param(5, [6, 5, 5, 3], id="where it calls itself"),
        pytest.param(2, [6, 2, 5, 3], id="at that of another function"),
    ],
)
def test_an_empty_frame_of_the_same_function_is_left_out(line: int, lines: list[int], tmp_path: Path) -> None:
    trace = with_empty(trace_of(FRAMES.format("run", ""), tmp_path), line)

    assert [at for _, at in frames_of(trace)] == lines


def test_a_function_of_one_line_that_another_calls_is_no_empty_frame(tmp_path: Path) -> None:
    trace = trace_of("def f(x): return 1 / x\ndef g(x): return f(x)\ng(0)\n", tmp_path)

    assert [(frame.f_code.co_name, at) for frame, at in frames_of(trace)] == [
        ("<module>", 3),
        ("g", 2),
        ("f", 1),
    ]
    assert frames_of(None) == []
