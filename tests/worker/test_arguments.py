"""What a report says that a library was given: and of what it says nothing."""

from __future__ import annotations

import collections
import functools
import importlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nbdist.worker.failure.arguments import arguments

HEAD = """
from __future__ import annotations
import abc, enum, numbers, os, pathlib, re, typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal, Optional, Protocol, TypeVar, Union, TYPE_CHECKING
if TYPE_CHECKING:
    from .shapes import Square
    from . import shapes
    from nowhere import Missing
T = TypeVar("T")
Number = Union[int, float]
Lost = None
Huge = Union[tuple(type(f"Kind{one}", (), {}) for one in range(500))]
class Closes(Protocol):
    def close(self) -> None: ...
class Model:
    pass
class Layer(Model):
    def __call__(self): ...
class Data(typing.Generic[T]):
    def __getitem__(self, at): ...
class Asks(type):
    def __instancecheck__(cls, one):
        ran.append("its check")
        return True
class Short(metaclass=Asks):
    pass
class Taken(abc.ABC):
    pass
Taken.register(dict)
class Mode(str, enum.Enum):
    fast = "fast"
ran = []
"""

SHAPES = """
class Square:
    pass
class Cube(Square):
    pass
"""

CALLS = """
def f(x: TAKES, rest: int = 0):
    y = rest
    return 1 / y
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Makes a module of a library that is installed."""
    package = tmp_path / "site-packages" / "lent"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "shapes.py").write_text(SHAPES)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    count = iter(range(100))

    def make(text: str) -> ModuleType:
        name = f"part{next(count)}"
        (package / f"{name}.py").write_text(HEAD + text)
        importlib.invalidate_caches()
        importlib.import_module("lent.shapes")
        return importlib.import_module(f"lent.{name}")

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "lent"]:
        del sys.modules[name]


def told(call: Callable[[], object]) -> list[Any]:
    with pytest.raises(ZeroDivisionError) as raised:
        call()
    return arguments(raised.value.__traceback__)


def said(call: Callable[[], object]) -> dict[str, str]:
    return {f"{one[2]} {one[3]}": f"{one[6]}: {one[5]}" for one in told(call)}


class Object:
    """Answers to nothing without being seen."""

    ran: list[str] = []  # noqa: RUF012

    def __getattribute__(self, name: str) -> Any:
        Object.ran.append(name)
        raise SystemExit

    def __eq__(self, other: object) -> bool:
        Object.ran.append("==")
        raise SystemExit

    def __repr__(self) -> str:
        Object.ran.append("repr")
        raise SystemExit

    __hash__ = object.__hash__


class Called:
    def __call__(self) -> None: ...


class Iterated:
    def __iter__(self) -> Iterator[int]:
        raise SystemExit


class Text(str):
    __slots__ = ()


UNFIT = [
    pytest.param("int", "3", "int: str of 1 characters", id="a text for a number"),
    pytest.param("int", None, "int: None", id="None"),
    pytest.param("int", 2.5, "int: 2.5", id="a fraction"),
    pytest.param("str", 3, "str: 3", id="a number for a text"),
    pytest.param("Optional[int]", "3", "Optional[int]: str of 1 characters", id="Optional"),
    pytest.param("int | None", "3", "int | None: str of 1 characters", id="a union"),
    pytest.param("Union[int, Sequence[int]]", {1: 2}, "dict of 1 (1)", id="a union of several"),
    pytest.param("Number", "3", "Union[int, float]: str of 1 characters", id="the name of a union"),
    pytest.param("'int'", "3", "int: str of 1 characters", id="a text as annotation"),
    pytest.param("typing.Annotated[int, 'of rows']", "3", "str of 1", id="Annotated"),
    pytest.param("Literal['sum', 'mean']", "max", "Literal['sum', 'mean']: str of 3", id="Literal"),
    pytest.param("Model", [1], "Model: list of 1", id="a list for an object"),
    pytest.param("Model", json, "Model: the module json", id="a module"),
    pytest.param("Square", 3, "Square: 3", id="a class for type checkers"),
    pytest.param("shapes.Square", 3, "shapes.Square: 3", id="a module for type checkers"),
    pytest.param("Callable[[int], int]", "relu", "Callable[[int], int]: str of 4", id="no function"),
    pytest.param("Callable", [1], "Callable: list of 1", id="a list for a function"),
    pytest.param("Callable", Iterated(), "Callable: Iterated", id="an object that is not called"),
    pytest.param("Iterable[int]", 3, "Iterable[int]: 3", id="one for several"),
    pytest.param("Iterable[int]", Called(), "Iterable[int]: Called", id="an object without items"),
    pytest.param("list[int]", [1, "2"], "list[int]: list of 2", id="an item"),
    pytest.param("Mapping[str, int]", "path", "Mapping[str, int]: str of 4", id="a path for what it has"),
    pytest.param("Huge", 3, "Union[", id="a union of hundreds"),
]


@pytest.mark.parametrize(("takes", "value", "expected"), UNFIT)
def test_what_does_not_fit_its_annotation_is_told(
    library: Callable[[str], ModuleType], takes: str, value: object, expected: str
) -> None:
    f = library(CALLS.replace("TAKES", takes)).f

    found = said(lambda: f(value))

    assert [*found] == ["f x"]
    assert expected in found["f x"]
    assert len(found["f x"]) <= 170


MAY_PASS = [
    pytest.param("int", True, id="a bool for a number"),
    pytest.param("float", 3, id="a whole number"),
    pytest.param("Any", "3", id="anything"),
    pytest.param("T", "3", id="a type variable"),
    pytest.param("Missing", "3", id="a module that is not there"),
    pytest.param("Unknown", "3", id="a name that is not there"),
    pytest.param("Lost", "3", id="an import that has failed"),
    pytest.param("Optional[Lost]", "3", id="within Optional"),
    pytest.param("Optional[int]", None, id="None for Optional"),
    pytest.param("int | None", None, id="None for a union"),
    pytest.param("Sequence[int]", [1], id="a list"),
    pytest.param("Sequence[int]", range(3), id="a range"),
    pytest.param("list[int]", (1, 2), id="a tuple for a list"),
    pytest.param("Mapping", collections.OrderedDict(), id="a kind of dict"),
    pytest.param("dict", collections.UserDict(), id="what is like a dict"),
    pytest.param("str", Text("x"), id="a kind of text"),
    pytest.param("str", pathlib.Path("x"), id="a path for a text"),
    pytest.param("pathlib.Path", "x", id="a text for a path"),
    pytest.param("os.PathLike", "x", id="a text for what is like a path"),
    pytest.param("re.Pattern", "x", id="a text for a pattern"),
    pytest.param("numbers.Number", 3, id="a number by its abstract class"),
    pytest.param("numbers.Real", 2.5, id="a fraction by its abstract class"),
    pytest.param("Callable", len, id="a function"),
    pytest.param("Callable", dict, id="a class is called"),
    pytest.param("Callable[[], int]", functools.partial(len), id="partial"),
    pytest.param("Callable[[], int]", Called(), id="an object that is called"),
    pytest.param("Iterable[int]", Iterated(), id="an object with items"),
    pytest.param("Iterable[int]", (one for one in ()), id="a generator"),
    pytest.param("Closes", 3, id="a protocol"),
    pytest.param("Data[int]", [1], id="a list for what has items"),
    pytest.param("Taken", {}, id="a class that was registered"),
    pytest.param("Short", 3, id="a class that says itself what is one"),
    pytest.param("Mode", "fast", id="a text for an enum"),
    pytest.param("Model", Called(), id="an object for another"),
    pytest.param("Model", dict, id="a class of another kind"),
    pytest.param("type[Model]", dict, id="a class where one is wanted"),
    pytest.param("Literal['sum', 'mean']", "mean", id="one of several texts"),
    pytest.param("Literal['sum', 'mean']", "MEAN", id="the same in capitals"),
    pytest.param("Literal['sum'] | None", None, id="none of several texts"),
    pytest.param("Literal['sum']", Text("max"), id="a kind of text for one"),
    pytest.param("'int |'", "3", id="a text that is no annotation"),
    pytest.param("'\\x00'", "3", id="nor can be one"),
    pytest.param("int * 2", "3", id="what is computed"),
    pytest.param("Model", Object(), id="what answers to nothing"),
    pytest.param("Literal['sum']", Object(), id="nor is it compared"),
    pytest.param("Union[int, list[int]]", Object(), id="nor of a union"),
    pytest.param("Mapping[str, Literal['a']]", {"a": Object()}, id="nor within a dict"),
    pytest.param("list[Model]", [Object()], id="nor within a list"),
]


@pytest.mark.parametrize(("takes", "value"), MAY_PASS)
def test_of_what_may_pass_nothing_is_told(
    library: Callable[[str], ModuleType], takes: str, value: object
) -> None:
    module = library(CALLS.replace("TAKES", takes))
    Object.ran.clear()

    assert said(lambda: module.f(value)) == {}
    assert module.ran == Object.ran == []


LAX = [
    pytest.param("def f(x: int = None): 1 / 0", None, id="None by default"),
    pytest.param("def f(x: int = 'auto'): 1 / 0", "auto", id="a default of another kind"),
    pytest.param("def f(x: int = 'auto'): 1 / 0", "most", id="a value like it"),
    pytest.param("def f(x: int = Model): 1 / 0", Called, id="a class by default"),
    pytest.param("def f(x: int = len('ab')): 1 / 0", "3", id="a default that is computed"),
    pytest.param("def f(x: int):\n    x = 'set'\n    1 / 0", 3, id="set anew"),
    pytest.param("def f(x: int):\n    for x in 'ab': 1 / 0", 3, id="by a loop"),
    pytest.param(
        "def f(x: int):\n    for one in (1, 0):\n        1 / one\n        x = 'set'", 3, id="below, in a loop"
    ),
    pytest.param("def f(x: int):\n    try:\n        1 / 0\n    finally:\n        x = None", 3, id="after it"),
    pytest.param("def f(x: list[int]):\n    x[0] = 'set'\n    1 / 0", [3], id="an item"),
    pytest.param("def f(x: int):\n    if x is None: pass\n    1 / 0", None, id="it asks for None"),
    pytest.param("def f(x: int):\n    y = x or 3\n    1 / 0", None, id="it has another in its place"),
    pytest.param("def f(x: int):\n    if isinstance(x, str): pass\n    1 / 0", "3", id="it asks for a text"),
    pytest.param("def f(x: Model):\n    y = list(x)\n    1 / 0", {3}, id="it makes a list"),
    pytest.param("def f(x: Model):\n    y = str(x)\n    1 / 0", 3, id="it makes a text"),
    pytest.param("def f(*x: int): 1 / 0", "3", id="several"),
    pytest.param("def f(x): 1 / 0", "3", id="no annotation"),
    pytest.param(
        "def f[S](x: S): 1 / 0",
        "3",
        id="a type parameter",
        marks=pytest.mark.skipif("sys.version_info < (3, 12)"),
    ),
    pytest.param("f = lambda x: 1 / 0", "3", id="a lambda"),
    pytest.param("exec('def f(x: int): 1 / 0')", "3", id="a function that has no file"),
    pytest.param(
        "class C:\n    class Model: pass\n    @staticmethod\n    def f(x: Model): 1 / 0\nf = C.f",
        3,
        id="a name of its class",
    ),
]


@pytest.mark.parametrize(("text", "value"), LAX)
def test_a_function_may_take_more_than_it_says(
    library: Callable[[str], ModuleType], text: str, value: object
) -> None:
    f = library(text).f

    assert said(lambda: f(value)) == {}


def test_the_call_is_told_with_its_place_and_all_parameters(library: Callable[[str], ModuleType]) -> None:
    f = library("def f(a, x: int, *, y: str = ''): 1 / 0").f

    (first, second) = told(lambda: f(1, "2", y=3))

    line = test_the_call_is_told_with_its_place_and_all_parameters.__code__.co_firstlineno + 3
    assert first == (__file__, line, "f", "x", 1, "str of 1 characters", "int", "a x y", True)
    assert second == (__file__, line, "f", "y", -1, "3", "str", "a x y", True)


OBJECTS = """
class Loader:
    def __init__(self, data: Model, size: int = 1, mode: str = "a"):
        self.data = data
        self.size = size
        self.mode = mode
    def run(self):
        1 / 0
    def later(self, size):
        self.mode = 3
class Own(Loader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
class Other(Loader):
    def __init__(self, size):
        super().__init__(3, size)
def hands_on(f):
    @wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs)
    return inner
@hands_on
def f(x: int): 1 / 0
class Net:
    def __call__(self, *args):
        return self.forward(*args)
    def forward(self, x: Model): 1 / 0
def outer(x: int):
    return inner(f"{x}")
def inner(y: int): 1 / 0
def back(call: Callable):
    call()
"""


def test_an_object_remembers_what_it_was_made_of(library: Callable[[str], ModuleType]) -> None:
    module = library(OBJECTS)
    loader = module.Loader([1, 2], size="3")

    found = told(lambda: loader.run())

    names = "self data size mode"
    assert found == [
        ("", 0, "Loader", "data", 0, "list of 2", "Model", names, True),
        ("", 0, "Loader", "size", 1, "str of 1 characters", "int", names, True),
    ]


@pytest.mark.parametrize("kind", ["Own", "Other"])
def test_of_a_class_that_inherits_its_own_constructor_counts(
    library: Callable[[str], ModuleType], kind: str
) -> None:
    module = library(OBJECTS)

    assert bool(told(lambda: getattr(module, kind)("3").run())) is (kind == "Own")


def test_of_a_class_of_the_program_no_place_is_known(library: Callable[[str], ModuleType]) -> None:
    base = library(OBJECTS).Loader

    class Mine(base):  # type: ignore[misc,valid-type]
        def __init__(self, name: str, data: object) -> None:
            super().__init__(data)

    assert told(lambda: Mine("name", 3).run()) == []


def test_what_an_object_sets_later_is_not_what_it_was_given(library: Callable[[str], ModuleType]) -> None:
    module = library(OBJECTS)
    loader = module.Loader(module.Model())
    loader.later(1)

    assert told(lambda: loader.run()) == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("f('3')", {"f x": "int: str of 1 characters"}, id="through a decorator"),
        pytest.param("Net()(3)", {"Net x": "Model: 3"}, id="through the call of an object"),
        pytest.param("outer(3)", {}, id="what the library has made itself"),
        pytest.param("outer('3')", {"outer x": "int: str of 1 characters"}, id="the outer one"),
        pytest.param("back(lambda: f('3'))", {"f x": "int: str of 1 characters"}, id="called back"),
        pytest.param("back(lambda: 1 / 0)", {}, id="no library"),
    ],
)
def test_the_calls_of_the_program_count(
    library: Callable[[str], ModuleType], call: str, expected: dict[str, str]
) -> None:
    module = library(OBJECTS)

    program = compile(call, "program.py", "eval")
    assert said(lambda: eval(program, vars(module) | {"__name__": "program"})) == expected


def test_of_a_library_that_has_changed_or_gone_nothing_is_told(
    library: Callable[[str], ModuleType],
) -> None:
    module = library(CALLS.replace("TAKES", "int"))
    path = Path(str(module.__file__))

    for text in ("def f(x: int", "\x00", "x = 1", "(" * 5_000):
        path.write_text(text)
        assert said(lambda: module.f("3")) == {}
    path.unlink()
    assert said(lambda: module.f("3")) == {}


def test_of_the_standard_library_nothing_is_told() -> None:
    def fails(one: object) -> None:
        raise ZeroDivisionError

    assert said(lambda: json.dumps({1: object()}, default=fails, indent="x")) == {}
    assert arguments(None) == []


def test_what_a_value_is_takes_no_more_than_a_line(library: Callable[[str], ModuleType]) -> None:
    f = library(CALLS.replace("TAKES", "int")).f

    (one,) = told(lambda: f({f"a long name {key}": 1 for key in range(100_000)}))

    assert len(one[5]) <= 80


OF_TORCH = """
import json, sys
import numpy, torch
from torch import nn
from nbdist.worker.failure.arguments import arguments
sys.path.insert(0, "site-packages")
import lends
class Boom(nn.Module):
    def forward(self, x):
        1 / 0
calls = {
    "a number of no dimension": lambda: lends.number(torch.tensor(3)),
    "a parameter": lambda: lends.tensor(nn.Parameter(torch.ones(1))),
    "a device": lambda: lends.device("cpu"),
    "a dtype": lambda: lends.dtype("float32"),
    "a kind of tensor": lambda: lends.longs(torch.ones(1)),
    "a list for a dataset": lambda: lends.data([1, 2]),
    "a wrapper": lambda: nn.DataParallel(Boom())(torch.ones(1)),
    "layers": lambda: nn.Sequential(nn.Identity(), Boom())(torch.ones(1)),
    "an array for a tensor": lambda: lends.tensor(numpy.ones(1)),
    "a path for weights": lambda: lends.weights("x.pt"),
    "a list for a tensor": lambda: lends.tensor([1]),
    "a tensor for a list": lambda: lends.text(torch.ones(1)),
    "a model for its parameters": lambda: lends.parameters(Boom()),
    "a class for a model": lambda: lends.model(Boom),
}
for name, call in calls.items():
    try:
        call()
    except ZeroDivisionError as error:
        print(json.dumps([name, [one[5] for one in arguments(error.__traceback__)]]))
"""
LENDS = """
import torch
from collections import OrderedDict
from typing import Iterable, Mapping
from torch.utils.data import Dataset
def number(x: float): 1 / 0
def tensor(x: torch.Tensor): 1 / 0
def device(x: torch.device): 1 / 0
def dtype(x: torch.dtype): 1 / 0
def longs(x: torch.LongTensor): 1 / 0
def data(x: Dataset[int]): 1 / 0
def text(x: str): 1 / 0
def weights(x: Mapping[str, torch.Tensor]):
    1 / 0
    return OrderedDict(x)
def parameters(x: Iterable[torch.nn.Parameter]): 1 / 0
def model(x: torch.nn.Module): 1 / 0
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_tensors_devices_and_models_pass_for_what_they_may(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(OF_TORCH)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "lends.py").write_text(LENDS)

    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(found) == 14
    assert {name: what for name, what in found.items() if what} == {
        "an array for a tensor": ["ndarray (1,) float64"],
        "a path for weights": ["str of 4 characters"],
        "a list for a tensor": ["list of 1"],
        "a tensor for a list": ["Tensor (1,) float32"],
        "a model for its parameters": ["Boom"],
        "a class for a model": ["the class Boom"],
    }
