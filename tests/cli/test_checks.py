"""Checks of a script before it starts."""

from __future__ import annotations

from tests.cli.conftest import Shell


def test_a_warning_goes_to_stderr_and_the_script_runs(shell: Shell) -> None:
    shell.script("train.py", "import os\nos.environ['CUDA_VISIABLE_DEVICES'] = '0'\nprint('ran')\n")

    done = shell.run("run", "-n", "1", "train.py")

    assert done.returncode == 0
    assert "[nbdist] line 2 of train.py sets CUDA_VISIABLE_DEVICES" in done.stderr
    assert "CUDA_VISIABLE_DEVICES" not in done.stdout


def test_no_check_runs_what_is_there(shell: Shell) -> None:
    shell.script("train.py", "print('started')\nprint(wieght)\n")

    done = shell.run("run", "-n", "1", "--no-check", "train.py")

    assert done.returncode == 1
    assert "started" in done.stdout


def test_a_module_beside_the_script_or_on_the_python_path_is_there(shell: Shell) -> None:
    shell.script("code/mine.py", "rate = 1\n")
    shell.script("more/yours.py", "rate = 2\n")
    shell.script("code/train.py", "import mine, yours\nprint(mine.rate + yours.rate)\n")

    done = shell.run("run", "-n", "1", "--env", "PYTHONPATH=more", "code/train.py")

    assert done.returncode == 0, done.stderr
    assert "not installed" not in done.stderr
