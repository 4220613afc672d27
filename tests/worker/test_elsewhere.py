"""Where a library has the name that an error misses."""

from __future__ import annotations

import importlib
import linecache
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist.worker.failure.elsewhere import elsewhere, takes

FILES = {
    "__init__.py": "from . import deep, other\nfrom .deep import Saver\n",
    "deep.py": """
class Saver:
    def __init__(self, path, every=1, *, keep=None, learning_rate=0.1): ...
    @classmethod
    def load(cls, path, strict=True): ...
class Wrapper:
    def __init__(self, **members):
        self.__dict__.update(members)
    @property
    def broken(self):
        return self.nothing
def measure(x, axis=-1): ...
""",
    "other.py": """
from collections import Counter
class Reader:
    def __init__(self, source): ...
def encode(x): ...
""",
}
PROGRAM = """
import kept
from kept import deep, other
from kept.deep import Wrapper, Saver, measure
ran = []
class Net:
    def __init__(self):
        self._modules = {}
    def embed(self): ...
class Own:
    def __init__(self, **members):
        self.__dict__.update(members)
    def __getattr__(self, name):
        ran.append(name)
        raise AttributeError(f"'Own' object has no attribute '{name}'")
class Sly:
    @property
    def __class__(self):
        ran.append("its class")
        return type
    def __call__(self): ...
    def __getattr__(self, name):
        ran.append(name)
        raise SystemExit
class Mine(Saver):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
class Told(Saver):
    def __init__(self, said):
        raise TypeError(said)
sly = Sly()
def run():
    LINE
run()
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A library that is installed."""
    package = tmp_path / "site-packages" / "kept"
    package.mkdir(parents=True)
    for name, text in FILES.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "kept"]:
        del sys.modules[name]


def error_of(line: str, folder: Path) -> Exception:
    path, text = folder / "program.py", PROGRAM.replace("LINE", line)
    path.write_text(text)
    linecache.checkcache(str(path))
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whichever it is
        exec(compile(text, str(path), "exec"), namespace := {"__name__": "program"})
    namespace["ran"].clear()
    error: Any = raised.value
    error.ran = namespace["ran"]
    return raised.value


NAMES = [
    pytest.param("kept.encode(1)", "kept.other.encode", id="a function of another module"),
    pytest.param("from kept import Reader", "kept.other.Reader", id="an import"),
    pytest.param("deep.Reader()", "kept.other.Reader", id="of a module within"),
    pytest.param("Wrapper().Reader", "kept.other.Reader", id="a class by an object"),
    pytest.param("Wrapper(module=Net()).embed()", ".module.embed", id="within an object"),
    pytest.param("Own(net=Net()).embed()", ".net.embed", id="a layer within one of the program"),
    pytest.param("Saver(1, keeps=2)", "keep=", id="a parameter by nearly its name"),
    pytest.param("Saver(1, lr=2)", "learning_rate=", id="by its first letters"),
    pytest.param("measure(1, source=2)", "", id="a parameter of another module"),
    pytest.param("measure(1, strict=2)", "", id="of a method"),
    pytest.param("measure(1, every=2)", "Saver", id="of another class"),
    pytest.param("Saver.load(1, stricts=2)", "strict=", id="of a method of a class"),
    pytest.param("Mine(1, keeps=2)", "keep=", id="of the constructor of a base"),
    pytest.param("Told('Other.__init__() got an unexpected keyword argument \\'keeps\\'')", "", id="of none"),
    pytest.param("kept.nothing", "", id="nothing has it"),
    pytest.param("kept.Counter()", "", id="what a module has imported of Python"),
    pytest.param("Wrapper(one=Net(), two=Net()).embed()", "", id="two objects have it"),
    pytest.param("Wrapper(out='text').upper()", "", id="a text within"),
    pytest.param("Own(sly=sly).embed()", "", id="an object that is no layer"),
    pytest.param("Own().Reader", "", id="a class by an object of the program"),
    pytest.param("Wrapper(net=Net()).broken", "", id="a property that has failed"),
    pytest.param("sly(1)", "", id="a call of an object"),
    pytest.param("import argparse, pathlib; argparse.Namespace(a=pathlib.Path()).name", "", id="a namespace"),
    pytest.param("raise AttributeError('no name')", "", id="another message"),
    pytest.param("raise TypeError('f() got an unexpected keyword argument \\'x\\'')", "", id="no call"),
    pytest.param("[].Reader", "", id="a list"),
]


@pytest.mark.parametrize(("line", "expected"), NAMES)
@pytest.mark.usefixtures("kept")
def test_another_place_of_a_name_is_found(line: str, expected: str, tmp_path: Path) -> None:
    error: Any = error_of(line, tmp_path)

    assert elsewhere(error, error.__traceback__) == expected
    assert not error.ran


@pytest.mark.usefixtures("kept")
def test_a_module_of_the_program_is_not_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch_of_mine")
    module.__file__ = "/home/me/torch_of_mine.py"
    monkeypatch.setitem(sys.modules, "torch_of_mine", module)
    error = ImportError("cannot import name 'Module' from 'torch_of_mine' (/home/me/torch_of_mine.py)")

    assert elsewhere(error, None) == ""


@pytest.mark.usefixtures("kept")
def test_a_module_that_is_loaded_when_it_is_used_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(types.ModuleType):
        def __getattribute__(self, name: str) -> object:
            raise SystemExit

    error = error_of("kept.Reader", tmp_path)
    monkeypatch.setitem(sys.modules, "kept.aa", Late("kept.aa"))
    monkeypatch.setitem(sys.modules, "kept.ab", None)
    monkeypatch.setitem(sys.modules, "kept.ac", object())  # type: ignore[arg-type]

    assert elsewhere(error, error.__traceback__) == "kept.other.Reader"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("Saver(1, keeps=2)", "path, every=1, keep=None, learning_rate=0.1", id="a class"),
        pytest.param("Mine()", "path, every=1, keep=None, learning_rate=0.1", id="a base"),
        pytest.param("measure()", "x, axis=-1", id="one that is missing"),
        pytest.param("measure(1, 2, 3)", "x, axis=-1", id="one too many"),
        pytest.param("Saver.load()", "path, strict=True", id="of a class"),
        pytest.param("Net(3)", "", id="a class of the program"),
        pytest.param("sly(3)", "", id="an object of the program"),
        pytest.param("len()", "", id="built in"),
        pytest.param("1 / 0", "", id="another error"),
    ],
)
@pytest.mark.usefixtures("kept")
def test_the_parameters_of_what_was_called_wrongly_are_told(line: str, expected: str, tmp_path: Path) -> None:
    error: Any = error_of(line, tmp_path)

    assert takes(error, error.__traceback__) == expected
    assert not error.ran
