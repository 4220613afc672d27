"""The file of a script or a module, found and read without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.runner.scripts import Script, find_script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script and packages that fail when they are imported."""
    for name, text in {
        "train.py": "import torch",
        "my net.py": "pass",
        "latin.py": b"# coding: latin-1\nname = '\xe9'",
        "nul.py": b"x = 1\0",
        "odd.py": "x = 1\nif x\n",
        "job/__init__.py": "raise AssertionError",
        "job/__main__.py": "pass",
        "job/train.py": "pass",
        "job/deep/step.py": "pass",
        "plain/__init__.py": "raise AssertionError",
        "src/other/run.py": "pass",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path


def script_of(folder: Path, *words: str, python_path: str = "") -> Script:
    return find_script(words, cwd=folder, folder=folder, python_path=python_path)


@pytest.mark.parametrize(
    ("words", "program", "module", "name"),
    [
        pytest.param(["train.py"], "train.py", "", "train", id="a script"),
        pytest.param(["job/../my net.py"], "my net.py", "", "my-net", id="a script with a crooked path"),
        pytest.param(["-m", "job.train"], "job/train.py", "job.train", "train", id="a module"),
        pytest.param(["--module", "train"], "train.py", "train", "train", id="a module in no package"),
        pytest.param(["-m", "job"], "job/__main__.py", "job.__main__", "job", id="a package"),
        pytest.param(["-m", "job.deep.step"], "job/deep/step.py", "job.deep.step", "step", id="deeper"),
    ],
)
def test_a_program_is_found(folder: Path, words: list[str], program: str, module: str, name: str) -> None:
    script = script_of(folder, *words, "--lr", "0.1")

    assert script.path == str(folder / program)
    assert (script.module, script.name, script.args) == (module, name, ("--lr", "0.1"))


def test_a_module_is_found_on_the_python_path_of_the_ranks(folder: Path) -> None:
    assert script_of(folder, "-m", "other.run", python_path="src").path == str(folder / "src/other/run.py")


def test_a_source_is_read_in_its_own_encoding(folder: Path) -> None:
    assert "name = 'é'" in script_of(folder, "latin.py").program.text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["gone.py"], r"no script gone\.py: there is no file /.*/gone\.py", id="no file"),
        pytest.param(["job"], "job is a directory", id="a directory"),
        pytest.param(["odd.py"], r"odd\.py, line 2, does not compile: .*: if x", id="a syntax error"),
        pytest.param(["nul.py"], r"nul\.py", id="a NUL character"),
        pytest.param(["-m", "job.gone"], r"no module job\.gone in /", id="no module in the package"),
        pytest.param(["-m", "train.deep"], r"no module train\.deep", id="a module that is no package"),
        pytest.param(["-m", "plain"], r"plain is a package without __main__\.py", id="a package"),
        pytest.param(["-m", "_json"], "_json is no Python file", id="a module in C"),
        pytest.param(["-m", "sys"], "sys is no Python file", id="a module built into Python"),
    ],
)
def test_what_cannot_be_run_is_a_usage_mistake(folder: Path, words: list[str], expected: str) -> None:
    with pytest.raises(UsageMistake, match=expected):
        script_of(folder, *words)


def test_the_plan_of_a_script_leaves_its_path_to_python_and_keeps_no_copy(folder: Path) -> None:
    environment = {"NBDIST_HOME": str(folder / "home"), "PATH": "/usr/bin"}

    planned = runner.plan_script(
        options.parse("-n 1 --framework none"), ["train.py", "-x"], cwd=str(folder), environ=environment
    )

    spec = planned.spec
    assert planned.cell is None
    assert (spec.program, spec.args, spec.python_path) == (str(folder / "train.py"), ("-x",), ())
    assert (spec.name, spec.cwd) == ("train", str(folder))
