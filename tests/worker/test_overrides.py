"""Methods of the program's classes that are nearly those by which a library calls it."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.worker.failure.overrides import nearly

LIBRARY = """
class Module:
    def training_step(self, batch): ...
    def configure_optimizers(self): ...
    def _prepare_data(self): ...
    def fit(self, batch): ...
    def run(self):
        return 1 / 0
class Rows:
    def close_rows(self): ...
"""
HEAD = """
import hooked
ran = []
class Asks(type):
    def __getattribute__(cls, name):
        ran.append(name)
        raise SystemExit
"""
TWO = ("Net", "trainning_step", "Module", "training_step")


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A library that is installed."""
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "hooked.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    yield
    sys.modules.pop("hooked", None)


def told(program: str, folder: Path) -> list[tuple[str, str, str, str]]:
    path, text = folder / "program.py", HEAD + program
    path.write_text(text)
    linecache.checkcache(str(path))
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile(text, str(path), "exec"), namespace := {"__name__": "__main__"})
    found = nearly(raised.value.__traceback__)
    assert namespace["ran"] == []
    return found


NET = """
class Net(hooked.Module):
    {0}
net = Net()
{1}
"""


@pytest.mark.parametrize(
    ("method", "line", "expected"),
    [
        pytest.param("def trainning_step(self, batch): ...", "net.run()", [TWO], id="a letter more"),
        pytest.param("def trainning_step(self, batch): ...", "1 / 0", [TWO], id="no call of it"),
        pytest.param(
            "async def training_steps(self): ...",
            "net.run()",
            [("Net", "training_steps", "Module", "training_step")],
            id="a plural",
        ),
        pytest.param("def training_step(self, batch): ...", "net.run()", [], id="its name"),
        pytest.param("def validate_rows(self): ...", "net.run()", [], id="another name"),
        pytest.param("def fits(self, batch): ...", "net.run()", [], id="a short name"),
        pytest.param("def prepare_data(self): ...", "net.run()", [], id="what is for the library alone"),
        pytest.param("def _training_step(self): ...", "net.run()", [], id="what is for the program alone"),
        pytest.param("trainning_step = 3", "net.run()", [], id="no method"),
        pytest.param("def trainning_step(self): ...", "net.trainning_step(); net.run()", [], id="called"),
        pytest.param(
            "def trainning_step(self): ...\n    def step(self): self.trainning_step()",
            "net.run()",
            [],
            id="called by another method",
        ),
        pytest.param(
            "def trainning_step(self): ...\n    def training_step(self): ...",
            "net.run()",
            [],
            id="beside the hook itself",
        ),
    ],
)
@pytest.mark.usefixtures("hooked")
def test_a_method_that_is_nearly_a_hook_is_told(
    method: str, line: str, expected: list[tuple[str, str, str, str]], tmp_path: Path
) -> None:
    assert told(NET.format(method, line), tmp_path) == expected


@pytest.mark.usefixtures("hooked")
def test_a_class_that_was_made_by_another_of_the_program_counts_and_one_of_the_library_does_not(
    tmp_path: Path,
) -> None:
    base = "class Base(hooked.Module):\n    def trainning_step(self): ...\nclass Net(Base): ...\n"

    assert told(f"{base}net = Net()\n1 / 0\n", tmp_path) == [TWO]
    assert told("net = hooked.Module()\n1 / 0\n", tmp_path) == []
    assert told("class Net:\n    def trainning_step(self): ...\nnet = Net()\n1 / 0\n", tmp_path) == []


@pytest.mark.usefixtures("hooked")
def test_nothing_of_a_class_runs_and_no_more_than_two_are_told(tmp_path: Path) -> None:
    odd = "class Odd(hooked.Module, metaclass=Asks):\n    def trainning_step(self): ...\n"
    many = (
        "class {0}(hooked.Module):\n    def trainning_step(self): ...\n"
        "    def configure_optimizer(self): ...\n{1} = {0}()\n"
    )

    told(f"{odd}odd = object.__new__(Odd)\nran.clear()\n1 / 0\n", tmp_path)
    assert len(told(many.format("One", "one") + many.format("Two", "two") + "1 / 0\n", tmp_path)) == 2


def test_without_a_traceback_nothing_is_told() -> None:
    assert nearly(None) == []
