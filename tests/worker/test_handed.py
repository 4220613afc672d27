"""What is told of a value that an error complains of: where the program has given it, or nothing."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nbdist.worker.failure.handed import first, handed

HEAD = """
from functools import wraps
class Rows:
    pass
ran = []
class Odd:
    def __getattribute__(self, name):
        ran.append(name)
        raise SystemExit
    def __eq__(self, other):
        ran.append("==")
        raise SystemExit
    def __repr__(self):
        ran.append("repr")
        raise SystemExit
def fails(what):
    raise TypeError(what)
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], list[Any]]]:
    """Runs a program that fails with a library that is installed, and gives what is told of it."""
    package = tmp_path / "site-packages"
    package.mkdir()
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(library: str, program: str) -> list[Any]:
        (package / "lent.py").write_text(HEAD + library)
        path = tmp_path / "program.py"
        path.write_text(program := f"import lent\nfrom lent import *\n{program}\n")
        sys.modules.pop("lent", None)
        importlib.invalidate_caches()
        for file in (path, package / "lent.py"):
            linecache.checkcache(str(file))
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whichever it is
            exec(compile(program, str(path), "exec"), namespace := {"__name__": "program"})
        found = handed(raised.value, raised.value.__traceback__)
        module: ModuleType = namespace["lent"]  # type: ignore[assignment]
        assert module.ran == []
        assert {file for file, *_ in found} <= {str(path), ""}
        return found

    yield run
    sys.modules.pop("lent", None)


def named(found: list[Any]) -> list[str]:
    """Line, function, parameter, place, value, and whether it is sure."""
    return [
        f"{line} {of} {name} {place} {what}" + ("" if sure else " ?")
        for _, line, of, name, place, what, _, _, sure in found
    ]


LIST = "def f(x, rest=0):\n    return x.shape\n"
PASSED_ON = """
def g(x):
    return x.shape
def f(data, y=1):
    return g(data)
"""
WRAPPED = """
def hands_on(f):
    @wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs)
    return inner
@hands_on
def f(one, x=2):
    return x.shape
class Layer:
    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)
    @hands_on
    def forward(self, one, x=2):
        return x.shape
def runs(layer, *args):
    return layer(*args)
"""
LOOPS = "def f(rows):\n    return [one.shape for one in rows]\n"

FOLLOWED = [
    pytest.param(LIST, "f([1])", ["3 f x 0 list of 1"], id="a parameter"),
    pytest.param(LIST, "f(x=[1])", ["3 f x 0 list of 1"], id="by its name"),
    pytest.param(LIST, "a = [1]\nf(\n a)", ["4 f x 0 list of 1"], id="several lines"),
    pytest.param(PASSED_ON, "f([1])", ["3 f data 0 list of 1"], id="under another name"),
    pytest.param(WRAPPED, "f(1, [1])", ["3 f x 1 list of 1"], id="through a decorator"),
    pytest.param(WRAPPED, "f(1, x=[1])", ["3 f x -1 list of 1"], id="by its name through a decorator"),
    pytest.param(WRAPPED, "Layer()(1, [1])", ["3 Layer x 1 list of 1"], id="the call of an object"),
    pytest.param(WRAPPED, "Layer()(1, x=[1])", ["3 Layer x -1 list of 1"], id="the same by its name"),
    pytest.param(WRAPPED, "runs(Layer(), 1, [1])", ["3 Layer x 2 list of 1"], id="handed to what calls it"),
    pytest.param(LOOPS, "f([[1], 2])", ["3 f rows 0 list of 2 (list)"], id="from a loop within a line"),
    pytest.param(
        "def f(rows):\n    return sum(one.shape for one in rows)\n",
        "f([[1], 2])",
        ["3 f rows 0 list of 2 (list)"],
        id="from a generator",
    ),
    pytest.param(
        "def f(x):\n    raise TypeError(f'x must be Rows, not {type(x).__name__}')\n",
        "f('ab')",
        ["3 f x 0 str of 2 characters"],
        id="a text",
    ),
    pytest.param(
        "def f(x, y):\n    raise TypeError(f'expected Rows but got {type(x)}', y)\n",
        "f({}, Rows())",
        ["3 f x 0 dict of 0"],
        id="and not what is wanted",
    ),
    pytest.param(
        "def f(x, y):\n    raise TypeError('an argument of type Rows is needed, got type dict', x, y)\n",
        "f({}, 2)",
        ["3 f x 0 dict of 0"],
        id="after the word type",
    ),
    pytest.param(LIST, "def call(y):\n    f(y)\ncall([1])", ["4 f x 0 list of 1"], id="the innermost call"),
    pytest.param(
        "def f(x, depth):\n    return x.shape if not depth else f(x, depth - 1)\n",
        "f([1], 3)",
        ["3 f x 0 list of 1"],
        id="a function that calls itself",
    ),
    pytest.param(
        "def back(call, x):\n    return call(x)\n" + LIST,
        "back(lambda x: f(x), [1])",
        ["3 f x 0 list of 1"],
        id="called back",
    ),
    pytest.param(
        "def f(x):\n    x = list(x) if False else x\n    return x.shape\n",
        "f([1])",
        ["3 f x 0 list of 1 ?"],
        id="what may be set anew is not sure",
    ),
    pytest.param("def f(x):\n    yield x.shape\n", "list(f([1]))", ["3 f x 0 list of 1"], id="a generator"),
    pytest.param(
        "def f(x):\n    raise TypeError('not Odd', x is None)\n",
        "f(Odd())",
        ["3 f x 0 Odd"],
        id="what answers to nothing",
    ),
    pytest.param(
        "class C:\n    @classmethod\n    def load(cls, x): return x.shape\n",
        "C.load([1])",
        ["3 C.load x 0 list of 1"],
        id="a method of a class",
    ),
    pytest.param(
        "class C:\n    def __new__(cls, x): return x.shape\n",
        "C([1])",
        ["3 C x 0 list of 1"],
        id="a constructor",
    ),
    pytest.param("def f(x):\n    return len(x)\n", "f(Rows)", ["3 f x 0 the class Rows"], id="a class"),
    pytest.param(
        "def f(x, y=None):\n    y = [1]\n    y.shape\n",
        "f([1])",
        ["3 f y 1 list of 1 ?"],
        id="what the library has made is not sure, either",
    ),
    pytest.param(
        "def f(x):\n    return [*x]\n",
        "class Mine: pass\nf(Mine)",
        ["4 f x 0 the class Mine"],
        id="a class of the program",
    ),
    pytest.param(
        "def f(rows):\n    for one, two in rows:\n        pass\n",
        "f(['abc'])",
        ["3 f rows 0 list of 1"],
        id="what a loop takes apart",
    ),
    pytest.param(
        "def f(*rows):\n    for one, two in rows:\n        pass\n",
        "f([1, 2, 3])",
        ["3 f *rows 0 list of 3"],
        id="each of what a loop takes apart",
    ),
    pytest.param(
        "def f(pair):\n    one, two = pair\n", "f((1, 2, 3))", ["3 f pair 0 (1, 2, 3)"], id="what is set"
    ),
    pytest.param(
        "def f(*args, **kwargs):\n    g(*args, **kwargs)\ng = lambda *a, **k: fails('not list')\n",
        "f(1, [2])",
        [],
        id="through what has no definition",
    ),
    pytest.param(
        "def f(*args, **kwargs):\n    return max(*args, **kwargs)\n",
        "f([1], key=Rows())",
        ["3 f key -1 Rows"],
        id="what is handed on by its name",
    ),
    pytest.param(
        "def f(*args):\n    return divmod(*args)\n",
        "f('ab', {})",
        ["3 f *args 0 str of 2 characters", "3 f *args 1 dict of 0"],
        id="what is handed on by its place",
    ),
]


@pytest.mark.parametrize(("library", "program", "expected"), FOLLOWED)
def test_a_value_is_followed_to_the_call_of_the_program(
    told: Callable[[str, str], list[Any]], library: str, program: str, expected: list[str]
) -> None:
    assert named(told(library, program)) == expected


NOTHING = [
    pytest.param(LIST, "[1].shape", id="no library"),
    pytest.param(LIST, "f(None)", id="None"),
    pytest.param(LIST, "f(1)", id="a number"),
    pytest.param("def f(x):\n    y = [1]\n    y.shape\n", "f([1])", id="what the library has made"),
    pytest.param("def f(x, y=[1]):\n    y.shape\n", "f(1)", id="a default"),
    pytest.param("def f(x, y='mean'):\n    y.shape\n", "f(1)", id="a text by default"),
    pytest.param("NONE = [1]\ndef f(x, y=NONE):\n    y.shape\n", "f(1)", id="the name of a default"),
    pytest.param("def f(x, *, y=(1.5, 2)):\n    y.shape\n", "f(1)", id="a default by name alone"),
    pytest.param("def f(x, y):\n    y.shape\n", "one = [1]\nf(one, one)", id="the same twice"),
    pytest.param(
        "def g(y):\n    y.shape\ndef f(x, mode):\n    g('mean')\n",
        "f(1, 'mean')",
        id="an equal text",
    ),
    pytest.param("def f(*x):\n    x[0].shape\n    x = 1\n", "f(1)", id="several"),
    pytest.param("def f(*x):\n    x = x[0]\n    x.shape\n", "f([1])", id="set anew of several"),
    pytest.param("f = lambda x: x.shape\n", "f([1])", id="a lambda"),
    pytest.param("exec('def f(x): x.shape')", "f([1])", id="a function that has no file"),
    pytest.param("def f(x):\n    raise TypeError('the list is empty')\n", "f([1])", id="no kind"),
    pytest.param("def f(x):\n    raise TypeError('x is not set')\n    x\n", "f({1})", id="not set"),
    pytest.param(
        "def f(x, y):\n    raise TypeError(f'expected an argument of type {type(y).__name__}', x)\n",
        "f(1, Rows())",
        id="the kind that is wanted",
    ),
    pytest.param(
        "class Model:\n    def run(self):\n        return self.shape\n",
        "Model().run()",
        id="the object itself",
    ),
    pytest.param(
        "class Base:\n    def __getattr__(self, name):\n"
        "        raise AttributeError(f\"'{type(self).__name__}' object has no attribute '{name}'\")\n",
        "class Net(Base):\n    def go(self):\n        return self.head\nNet().go()",
        id="the object of the program itself",
    ),
    pytest.param(
        "def read(rows):\n    return sum(rows)\ndef f(rows):\n    return read(one.shape for one in rows)\n",
        "f([[1]])",
        id="a generator that another function reads",
    ),
    pytest.param(
        "def f(x, y):\n    both = (x, y, 1)\n    one, two = both\n", "f([1], [2])", id="what is in a pair"
    ),
    pytest.param(
        "def f(rows):\n    for one, two in rows.items():\n        pass\n",
        "class Odd3(dict):\n    def items(self): return [(1, 2, 3)]\nf(Odd3())",
        id="what a call gives to a loop",
    ),
    pytest.param(
        "def f(call):\n    return call()\n", "f(lambda: fails('list'))", id="a callback's own error"
    ),
]


@pytest.mark.parametrize(("library", "program"), NOTHING)
def test_of_what_the_program_has_not_given_nothing_is_told(
    told: Callable[[str, str], list[Any]], library: str, program: str
) -> None:
    assert named(told(library, program)) == []


ASKS = """
class Base:
    def __getattr__(self, name):
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
class Trainer:
    def __init__(self, model):
        self.model = model
    def train(self):
        return self.model.step()
    def check(self):
        return self.model.config
"""
MINE = """
class Net(Base):
    def step(self):
        return self.head
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("Trainer(Net()).train()", [], id="the program asks"),
        pytest.param("Trainer(Net()).check()", ["0 Trainer model 0 Net"], id="the library asks"),
    ],
)
def test_an_object_is_told_that_a_library_and_not_the_program_asks_for_more(
    told: Callable[[str, str], list[Any]], call: str, expected: list[str]
) -> None:
    assert named(told(ASKS, MINE + call)) == expected


KEEPS = """
class Loader:
    def __init__(self, size, data=None, *, mode="min"):
        self.size = size
        self._data = data
        self.mode = mode
    def run(self):
        return self._data.shape
    def attach(self, data):
        self._data = data
    def says(self):
        raise TypeError(f"not {type(self.mode).__name__}: {self.mode}")
class Quick(Loader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
class Named(Loader):
    def __init__(self, data, name):
        super().__init__(3, data)
class Makes(Loader):
    def __init__(self, path):
        super().__init__(3, path)
class Turned:
    def __init__(self, data):
        self._data = list(data)
    def run(self):
        return self._data.shape
class Sets:
    def __init__(self, data):
        data = list(data)
        self._data = data
    run = Turned.run
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param(
            "Loader(1, [2]).run()",
            ["0 Loader data 1 list of 1", "0 Loader.attach data 0 list of 1"],
            id="a constructor, or a method",
        ),
        pytest.param(
            "Quick(1, [2]).run()",
            ["0 Quick data 1 list of 1", "0 Loader data 1 list of 1", "0 Loader.attach data 0 list of 1"],
            id="a class that hands on all",
        ),
        pytest.param(
            "Named([2], 1).run()",
            ["0 Named data 0 list of 1", "0 Loader data 0 list of 1", "0 Loader.attach data 0 list of 1"],
            id="a class with places of its own",
        ),
        pytest.param("Makes([2]).run()", ["0 Loader.attach data 0 list of 1"], id="a class with other names"),
        pytest.param(
            "class Mine(Loader):\n    def __init__(self, name, data):\n        super().__init__(1, data)\n"
            "Mine('a', [2]).run()",
            ["0 Loader.attach data 0 list of 1"],
            id="a class of the program",
        ),
        pytest.param("Turned((1, 2)).run()", [], id="what was made of it"),
        pytest.param("Sets((1, 2)).run()", [], id="what was made of it under its name"),
        pytest.param("Loader(1, mode='x').says()", ["0 Loader mode 2 str of 1 characters"], id="a text"),
        pytest.param(
            "Loader('min', Rows()).run()",
            [
                "0 Loader data 1 Rows",
                "0 Loader.attach data 0 Rows",
            ],
            id="an object",
        ),
    ],
)
def test_an_object_that_has_kept_it_is_told(
    told: Callable[[str, str], list[Any]], program: str, expected: list[str]
) -> None:
    assert named(told(KEEPS, program)) == expected


def test_all_parameters_are_told_with_it(told: Callable[[str, str], list[Any]]) -> None:
    (found,) = told("def f(a, x, *, y=1):\n    return x.shape\n", "f(1, [2])")

    assert found[1:] == (3, "f", "x", 1, "list of 1", "", "a x y", True)


def test_an_error_that_went_through_no_call_tells_nothing() -> None:
    assert handed(TypeError("'list' object is odd"), None) == []
    with pytest.raises(TypeError) as raised:
        raise TypeError("'list' object is odd")
    assert handed(raised.value, raised.value.__traceback__) == []


def test_many_values_cost_no_more_than_a_few(told: Callable[[str, str], list[Any]]) -> None:
    every = "def f(*x):\n    raise TypeError('not list', x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])\n"
    found = told(every, "f(*([one] for one in range(100_000)))")

    assert len(found) == 6


def test_what_is_complained_of_comes_first_with_its_annotation() -> None:
    def given(name: str, takes: str) -> Any:
        return ("program.py", 3, "f", name, 0, "list of 1", takes, "x y", True)

    complained, unfit = [given("y", ""), given("z", "")], [given("x", "int"), given("y", "Tensor")]

    assert first(complained, unfit) == [given("y", "Tensor"), given("z", ""), given("x", "int")]
    assert first([], unfit) == unfit
