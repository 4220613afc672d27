"""``nbdist autoload``, and an IPython that starts after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Finished, Shell


@pytest.fixture
def shell(shell: Shell) -> Shell:
    shell.environment |= {"IPYTHONDIR": str(shell.folder / "ipython")}
    return shell


def ipython(shell: Shell, code: str) -> Finished[str]:
    return shell.finish(shell.start_python("-m", "IPython", "--no-banner", "--colors=NoColor", "-c", code))


def test_every_ipython_has_the_magics_until_it_is_off_again(shell: Shell) -> None:
    assert shell.run("autoload").stdout.startswith("[nbdist] off")

    assert "on: kernels that start from now on" in shell.run("autoload", "on").stdout
    on = ipython(shell, "%load_ext nbdist\n%distributed --help\n%who")
    assert shell.run("autoload", "off").stdout.startswith("[nbdist] off")
    off = ipython(shell, "%distributed --help")

    assert "--nproc" in on.stdout
    assert "already loaded" not in on.stdout, "a notebook that loads it, too, is not told off"
    assert "Interactive namespace is empty" in on.stdout
    assert "`%distributed` not found" in off.stderr


def test_an_ipython_without_nbdist_starts_as_ever(shell: Shell) -> None:
    shell.run("autoload", "on")
    shell.script("without/sitecustomize.py", "import sys; sys.modules['nbdist'] = None")
    shell.environment |= {"PYTHONPATH": str(shell.folder / "without")}

    done = ipython(shell, "print(6 * 7)")

    assert done.stdout == "42\n"
    assert "nbdist" not in done.stderr


def test_a_folder_that_cannot_be_written_is_one_line(shell: Shell) -> None:
    Path(shell.environment["IPYTHONDIR"]).mkdir()
    (shell.folder / "ipython/profile_default").write_text("no folder")

    done = shell.run("autoload", "on")

    assert done.returncode == 1
    assert "startup/50-nbdist.py cannot be changed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["maybe"], ["on", "--profile", "../elsewhere"]], ids=["wish", "profile"])
def test_what_is_no_wish_is_a_mistake(shell: Shell, words: list[str]) -> None:
    done = shell.run("autoload", *words)

    assert done.returncode == 2
    assert "--profile" in done.stderr
