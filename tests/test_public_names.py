"""The names that nbdist promises, and the cost of importing it."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import nbdist

FRAMEWORKS = {"torch", "paddle", "visualdl"}
NOTEBOOK = {"IPython", "ipykernel", "ipywidgets", "anywidget", "traitlets"}
LIBRARIES = {"numpy", "psutil", "pynvml", "nbdist.runner"}


def modules_after(program: str) -> set[str]:
    """Every module that a fresh interpreter holds after ``program``."""
    report = f"{program}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_promised_names_are_sorted_and_named_once() -> None:
    assert nbdist.__all__ == sorted(set(nbdist.__all__))


@pytest.mark.parametrize("name", nbdist.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    value = getattr(nbdist, name)

    assert not isinstance(value, ModuleType)
    assert name in dir(nbdist)


def test_what_is_defined_here_is_promised() -> None:
    defined = {
        name
        for name, value in vars(nbdist).items()
        if getattr(value, "__module__", "").startswith("nbdist") and not name.startswith("_")
    }

    # IPython looks for it by name, and nobody else calls it
    assert defined - {"unload_ipython_extension"} <= set(nbdist.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'nbdist' has no attribute 'lgo'"):
        nbdist.lgo  # noqa: B018


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        pytest.param("import nbdist", FRAMEWORKS | NOTEBOOK | LIBRARIES, id="the package"),
        pytest.param(
            "import nbdist; nbdist.log(loss=1.0)", FRAMEWORKS | NOTEBOOK | LIBRARIES, id="log in a rank"
        ),
        pytest.param("import nbdist; nbdist.runs", FRAMEWORKS, id="the kernel's side"),
        pytest.param("import nbdist.magics, nbdist.panel.widget", FRAMEWORKS, id="magics and panel"),
    ],
)
def test_an_import_brings_nothing_heavy(program: str, unwanted: set[str]) -> None:
    assert modules_after(program) & unwanted == set()


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("nbdist.launch.supervisor", id="the supervisor"),
        pytest.param("nbdist.worker.bootstrap", id="a rank"),
    ],
)
def test_what_keeps_a_run_alive_needs_the_standard_library_alone(module: str) -> None:
    before = modules_after("pass")

    brought = modules_after(f"import {module}") - before

    tops = {name.partition(".")[0] for name in brought}
    assert tops - sys.stdlib_module_names == {"nbdist"}
