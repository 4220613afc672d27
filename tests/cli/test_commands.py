"""``nbdist`` itself: its help, its names, and its cost."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import nbdist
from nbdist.cli.commands import COMMANDS, main
from nbdist.options import OPTIONS

HEAVY = {
    "IPython",
    "ipykernel",
    "ipywidgets",
    "anywidget",
    "traitlets",
    "torch",
    "paddle",
    "visualdl",
    "numpy",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_fits_a_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert f"nbdist {name}" in capsys.readouterr().out

    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"nbdist {name}")
    assert max(map(len, text.splitlines())) <= 105


def test_the_help_of_run_names_the_options_of_a_cell_but_those_a_script_has_no_use_for() -> None:
    text = COMMANDS["run"].help()

    missing = [option.flags[-1] for option in OPTIONS if option.flags[-1] not in text]

    assert sorted(missing) == ["--args", "--cold", "--keep-inputs", "--no-panel", "--pull", "--push"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["statsu"], "did you mean  nbdist status?", id="misspelt"),
        pytest.param(["train.py"], "write  nbdist run train.py", id="a script without run"),
        pytest.param(["fly"], "there are run, status, logs, explain, ", id="unknown"),
    ],
)
def test_a_command_that_is_none_is_answered_with_what_there_is(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line


def test_without_a_command_there_is_help_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nbdist run" in printed.err


def test_the_script_is_installed() -> None:
    script = Path(sysconfig.get_path("scripts")) / "nbdist"

    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"nbdist {nbdist.__version__}\n"


def test_asking_for_the_status_imports_nothing_heavy(tmp_path: Path) -> None:
    program = "import sys; from nbdist.cli import main; main(['status']); print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"NBDIST_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    modules = set(done.stdout.split())
    assert "nbdist.cli.verb_results" in modules
    assert modules & HEAVY == set()
