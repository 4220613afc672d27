"""What a program tells of a call that fails by how it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import PACKAGES, cause_of
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

PROGRAM = a_spec().program
BATCH = ("x", "Tensor (3, 4) float32")
NET = ("net", "the class Net")
TAKES_NONE = "Net.__init__() takes 1 positional argument but 2 were given"
NEEDS_ONE = "Net.__init__() missing 1 required positional argument: 'width'"
NO_OBJECT = "Net.forward() missing 1 required positional argument: 'self'"


@pytest.mark.parametrize(
    ("first", "line", "kind", "message", "values"),
    [
        pytest.param("net = Net", "net(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="called"),
        pytest.param("net = models.Net", "net(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="of a module"),
        pytest.param("net = Net", "net(x)", "TypeError", NEEDS_ONE, (NET, BATCH), id="it needs something"),
        pytest.param("net = Net", "net(x.view(3))", "TypeError", TAKES_NONE, (NET, BATCH), id="more of it"),
        pytest.param("net = Net", "net.forward(x)", "TypeError", NO_OBJECT, (NET, BATCH), id="a method"),
        pytest.param(
            "net = Net",
            "net.cost",
            "AttributeError",
            "type object 'Net' has no attribute 'cost'",
            (NET,),
            id="an attribute",
        ),
        pytest.param(
            "net = Net", "run(net)", "TypeError", "'type' object is not iterable", (NET,), id="handed on"
        ),
    ],
)
def test_a_name_that_stands_for_a_class_is_told_with_its_line(
    tmp_path: Path, first: str, line: str, kind: str, message: str, values: tuple[tuple[str, str], ...]
) -> None:
    cause = cause_of(tmp_path, kind, message, 2, *values, cell=f"{first}\n{line}\n")

    given = first.partition(" = ")[2]
    assert cause.startswith(f"net is the class {given} itself, and no object of it: line 1 has no brackets")


@pytest.mark.parametrize(
    ("cell", "kind", "message", "values"),
    [
        pytest.param("net = Net\nnet(10)", "TypeError", NEEDS_ONE, (NET,), id="a factory that gets a number"),
        pytest.param("net = Net\nnet(n)", "TypeError", TAKES_NONE, (NET, ("n", "3")), id="by a name"),
        pytest.param("net = Net\nnet()", "TypeError", NEEDS_ONE, (NET,), id="that gets nothing"),
        pytest.param("net = Net()\nnet(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="with brackets"),
        pytest.param("net = make()\nnet(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="from a function"),
        pytest.param("net = KINDS['a']\nnet(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="from a table"),
        pytest.param("from a import net\nnet(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="imported"),
        pytest.param("class net: ...\nnet(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="defined"),
        pytest.param("for net in nets:\n net(x)", "TypeError", TAKES_NONE, (NET, BATCH), id="from a loop"),
        pytest.param("net = Net\nnet(x)", "TypeError", "unhashable", (NET, BATCH), id="not complained of"),
        pytest.param("net = Net\nnet(x)", "ValueError", TAKES_NONE, (NET, BATCH), id="another error"),
        pytest.param("net = Net\nnet(x)", "TypeError", TAKES_NONE, (BATCH,), id="no class"),
    ],
)
def test_a_class_may_be_what_is_meant(
    tmp_path: Path, cell: str, kind: str, message: str, values: tuple[tuple[str, str], ...]
) -> None:
    assert "has no brackets" not in cause_of(tmp_path, kind, message, 2, *values, cell=cell + "\n")


MISSES = "collate() missing 1 required positional argument: 'rows'"


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        pytest.param("pool.submit(collate(), data)", MISSES, "collate", id="by its place"),
        pytest.param("load(data, collate_fn=collate())", MISSES, "collate_fn=collate", id="by its name"),
        pytest.param("x = load(\n data,\n fn=collate())", MISSES, "fn=collate", id="several lines"),
        pytest.param("map(collate(), data)", MISSES, "collate", id="map"),
        pytest.param("load(fn=us.collate())", MISSES, "fn=us.collate", id="of a module"),
        pytest.param("load(data, collate())", MISSES, "", id="where a value may be meant"),
        pytest.param("load(rows=collate())", MISSES, "", id="where a value is meant"),
        pytest.param("load(collate(3))", MISSES, "", id="called with something"),
        pytest.param("collate()", MISSES, "", id="not handed on"),
        pytest.param("print(collate())", MISSES, "", id="its value is shown"),
        pytest.param("len(collate())", MISSES, "", id="its value is counted"),
        pytest.param("load(other())", MISSES, "", id="another function"),
        pytest.param(
            "load(Rows())",
            "Rows.__init__() missing 1 required positional argument: 'path'",
            "",
            id="an object",
        ),
    ],
)
def test_a_function_that_is_called_in_place_of_being_handed_on_is_told(
    tmp_path: Path, line: str, message: str, fix: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=f"import us\n{line}\n").happened(*STARTED)
    written.raised(1, "TypeError", message, frames=[(PROGRAM, 2, "<module>", "")], time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    said = failure.hint.fix.en if failure.hint.signature == "function-called" else ""
    assert said == (f"the name alone hands on the function:  {fix}" if fix else "")


DEFINES = """\
class Other:
    def step(self, x): ...
class Net:
    def __init__(self, width, depth=2): ...
    def step(self, x, y): ...
def train(x, *, rate):
    def step(z): ...
def twice(x): ...
def twice(x): ...
"""


@pytest.mark.parametrize(
    ("called", "names", "line", "fix"),
    [
        pytest.param("Net.step", "'y'", 5, "step(self, x, y)", id="a method"),
        pytest.param("Other.step", "'x'", 2, "step(self, x)", id="the same of another class"),
        pytest.param("Net.__init__", "'width'", 4, "Net(self, width, depth=2)", id="a constructor"),
        pytest.param("train", "'x'", 6, "train(x, *, rate)", id="a function"),
        pytest.param("train.<locals>.step", "'z'", 7, "step(z)", id="a function within"),
        pytest.param("twice", "'x'", 0, "", id="one that is there twice"),
        pytest.param("Net.step", "'other'", 0, "", id="one with other parameters"),
        pytest.param("Base.step", "'x'", 0, "", id="a class that is not there"),
        pytest.param("Lost.__init__", "'x'", 0, "", id="a constructor that is not there"),
        pytest.param("<lambda>", "'x'", 0, "", id="a lambda"),
        pytest.param("torch_full", "'x'", 0, "", id="a function that is not there"),
    ],
)
def test_what_a_call_leaves_out_is_told_as_its_function_is_defined(
    tmp_path: Path, called: str, names: str, line: int, fix: str
) -> None:
    message = f"{called}() missing 1 required positional argument: {names}"
    written = WrittenRun(tmp_path / "home", cell=f"{DEFINES}run(net)\n").happened(*STARTED)
    written.raised(1, "TypeError", message, frames=[(PROGRAM, 10, "<module>", "")], time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    name = called.removesuffix(".__init__").rpartition("<locals>.")[2]
    end = f" as line {line} defines it" if line else ""
    assert failure.hint.cause.en == f"{name}() is called without {names}, which it needs{end}"
    assert not line or failure.hint.fix.en == f"give it there, or a default in the definition:  {fix}"


@pytest.mark.parametrize(
    ("takes", "fix"),
    [
        pytest.param("size, fill_value", "it takes: size, fill_value", id="a few"),
        pytest.param("size, " * 100, "give it there, best by its name", id="more than one reads"),
    ],
)
def test_what_a_function_of_a_library_takes_is_told(tmp_path: Path, takes: str, fix: str) -> None:
    written = WrittenRun(tmp_path / "home", cell="fill(size)\n").happened(*STARTED)
    message = "fill() missing 2 required positional arguments: 'size' and 'fill_value'"
    frames = [(PROGRAM, 1, "<module>", "")]
    written.raised(1, "TypeError", message, frames=frames, time=CREATED + 5, takes=takes)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en == "fill() is called without 'size' and 'fill_value', which it needs"
    assert failure.hint.fix.en.startswith(fix)


CLAMP = " * (Tensor input, Tensor min = None, *, Tensor out = None)\n * (Tensor input, Number min = None)\n"
SUM = (
    " * (Tensor input, *, torch.dtype dtype = None)\n"
    " * (Tensor input, tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None)\n"
)
WHERE = (
    " * (Tensor condition)\n"
    " * (Tensor condition, Tensor input, Tensor other, *, Tensor out = None)\n"
    " * (Tensor condition, Number self, Number other)\n"
    "      didn't match because some of the arguments have invalid types: (Tensor, !list of [int]!, Tensor)\n"
)
RAND = " * (int high, tuple of ints size, *, torch.Generator generator = None, torch.dtype dtype = None)\n"
ZEROS = " * (tuple of ints size, *, torch.dtype dtype = None)\n"


@pytest.mark.parametrize(
    ("line", "called", "given", "takes", "said"),
    [
        pytest.param(
            "torch.clamp(x, low)",
            "clamp",
            "Tensor, str",
            CLAMP,
            "clamp() takes Tensor or Number as min, and argument 2 is of the kind str:  low",
            id="one argument",
        ),
        pytest.param(
            "x.sum(axis)",
            "sum",
            "Tensor, str",
            SUM,
            "sum() takes tuple of ints as dim, and argument 2 is of the kind str",
            id="of a method, whose places are others",
        ),
        pytest.param(
            "torch.where(x > 0, [1], x)",
            "where",
            "Tensor, list, Tensor",
            WHERE,
            "where() takes Tensor as input, and argument 2 is of the kind list:  [1]",
            id="the nearest signature",
        ),
        pytest.param(
            "torch.randint(9, (2,), torch.int32)",
            "randint",
            "int, tuple, torch.dtype",
            RAND,
            "randint() takes dtype by its name alone, and got it as argument 3:  torch.int32",
            id="by its name alone",
        ),
        pytest.param(
            "torch.randint(9, size=2.5)",
            "randint",
            "int, size=float",
            RAND,
            "randint() takes tuple of ints as size, and argument 2 is of the kind float:  2.5",
            id="by its name",
        ),
        pytest.param(
            "torch.zeros((n, 2))",
            "zeros",
            "tuple",
            ZEROS,
            "zeros() takes several ints as size, and something else is among them:  (n, 2)",
            id="within a tuple",
        ),
        pytest.param(
            "torch.zeros(2.5, 3)",
            "zeros",
            "float, int",
            ZEROS,
            "zeros() takes tuple of ints as size, and argument 1 is of the kind float:  2.5",
            id="sizes one by one",
        ),
        pytest.param(
            "torch.randint(9, 2, 2.5)",
            "randint",
            "int, int, float",
            RAND,
            "randint() takes tuple of ints as size, and argument 3 is of the kind float:  2.5",
            id="sizes behind another",
        ),
        pytest.param(
            "torch.zeros(2, 3, dtyp=torch.int32)",
            "zeros",
            "int, int, dtyp=torch.dtype",
            ZEROS,
            "zeros() takes no dtyp= in the installed version: it takes dtype=",
            id="a name that is nearly one",
        ),
        pytest.param(
            "x.sum(1, keepdims=True)",
            "sum",
            "Tensor, int, keepdims=bool",
            SUM,
            "sum() takes no keepdims= in the installed version: it takes keepdim=",
            id="of several signatures",
        ),
        pytest.param("torch.zeros(2, 3)", "zeros", "int, int", ZEROS, "", id="sizes that fit"),
        pytest.param("torch.zeros(2.5, 1.5)", "zeros", "float, float", ZEROS, "", id="two sizes do not"),
        pytest.param("torch.zeros(2, axis=1)", "zeros", "int, axis=int", ZEROS, "", id="another name"),
        pytest.param("torch.randint(9)", "randint", "int", RAND, "", id="one is missing"),
        pytest.param("torch.clamp('a', 'b')", "clamp", "str, str", CLAMP, "", id="two do not fit"),
        pytest.param("torch.randint(a=1)", "randint", "a=int", RAND, "", id="a name that is not there"),
        pytest.param("torch.randint(9, 2, 3, 4)", "randint", "int, int, int, int", RAND, "", id="too many"),
        pytest.param("torch.f(x)", "f", "Tensor", " * (Tensor x)\n", "", id="what fits"),
        pytest.param("torch.f(x)", "f", "", "", "", id="no signature"),
    ],
)
def test_the_argument_by_which_a_call_misses_a_signature_is_told(
    tmp_path: Path, line: str, called: str, given: str, takes: str, said: str
) -> None:
    message = (
        f"{called}() received an invalid combination of arguments - got ({given}), but expected one of:\n"
    )

    cause = cause_of(tmp_path, "TypeError", message + takes, 1, cell=f"{line}\n")

    assert cause.startswith(said)
    assert said or "argument" not in cause


def test_of_a_call_within_a_library_no_source_is_told(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell="net(torch.clamp(x, 1))\n").happened(*STARTED)
    message = "sum() received an invalid combination of arguments - got (Tensor, str), but expected one of:\n"
    frames = [(PROGRAM, 1, "<module>", ""), (f"{PACKAGES}/lent/sums.py", 3, "total", "return x.sum(axis)")]
    written.raised(1, "TypeError", message + SUM, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en == "sum() takes tuple of ints as dim, and argument 2 is of the kind str"


BOUND = """\
run(): incompatible function arguments. The following argument types are supported:
    1. (self: lent.Session, rows: List[int], *, limit: int = 3) -> None
    2. (self: lent.Session) -> None

Invoked with: <lent.Session object at 0x7f>"""
ONE = "rows: List[int], *, limit: int = 3 or nothing"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param("; kwargs: row=[1, 2]", "row", id="alone"),
        pytest.param(", [1]; kwargs: limit=2, size=3", "size", id="beside another"),
        pytest.param("; kwargs: size=Size(x=1, y=(2, z=3)), limit=2", "size", id="with names within it"),
        pytest.param("; kwargs: size='a, b=c'", "size", id="with a text"),
        pytest.param(
            "; kwargs: size=3\n\nDid you forget to `#include <pybind11/stl.h>`?",
            "size",
            id="with a word of help",
        ),
        pytest.param("; kwargs: limit=2", "", id="what it takes"),
        pytest.param("; kwargs: limit=Size(row=1)", "", id="what it takes, with a name within it"),
        pytest.param("; kwargs: row=1, size=2", "", id="two names"),
        pytest.param(", 3, 4", "", id="no names"),
    ],
)
def test_a_name_that_a_function_of_c_does_not_take_is_told_with_what_it_takes(
    tmp_path: Path, given: str, name: str
) -> None:
    cause = cause_of(tmp_path, "TypeError", BOUND + given, 1, cell="session.run(rows)\n")

    said = f"run() takes no {name}= in the installed version; it takes {ONE}"
    assert cause.startswith(said if name else "")
    assert name or "takes no" not in cause


def test_of_another_error_no_names_are_told(tmp_path: Path) -> None:
    other = BOUND.replace("run(): incompatible function arguments", "run() went wrong")

    assert "takes no" not in cause_of(tmp_path, "TypeError", f"{other}; kwargs: row=1", 1, cell="run(rows)\n")


KEPT = """\
class Positions:
    def __init__(self, width):
        self.table = torch.zeros(8, width)
class Net:
    def __init__(self):
        self.positions = Positions
    def forward(self, x):
        return self.positions(x)
net(x)
"""


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        pytest.param(KEPT, True, id="without brackets"),
        pytest.param(KEPT.replace("= Positions\n", "= Positions(4)\n"), False, id="an object"),
        pytest.param(KEPT.replace("def forward", "def build"), False, id="a method that makes layers"),
        pytest.param(KEPT.replace("self.positions(x)", "Positions(x)"), False, id="made there"),
    ],
)
def test_a_class_that_a_model_calls_as_a_layer_is_told(tmp_path: Path, cell: str, told: bool) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    method = "forward" if "def forward" in cell else "build"
    frames = [(PROGRAM, 9, "<module>", ""), (PROGRAM, 8, method, ""), (PROGRAM, 3, "__init__", "")]
    written.raised(1, "TypeError", "zeros(): argument 'size' must be tuple of ints", frames=frames)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    cause = failure.hint.cause.en if failure.hint is not None else ""
    assert (
        cause.startswith("self.positions is the class Positions itself, and no object of it: line 6") is told
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("num_layer", "Net(), from line 2, takes no num_layer= : it takes num_layers="),
        ("depth", "Net.__init__() is of the program and takes no depth= : misspelt"),
    ],
)
def test_a_keyword_that_is_nearly_one_of_the_program_s_is_told(tmp_path: Path, name: str, said: str) -> None:
    cell = f"class Net:\n    def __init__(self, width, *, num_layers=2): ...\nNet(4, {name}=3)\n"
    message = f"Net.__init__() got an unexpected keyword argument '{name}'"

    assert cause_of(tmp_path, "TypeError", message, 3, cell=cell).startswith(said)
