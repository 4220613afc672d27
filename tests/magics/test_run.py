"""``nbdist.run``: functions, scripts and cells by a call, in a kernel and in a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdist import options
from nbdist.errors import UsageMistake
from nbdist.options import Options
from tests.magics.conftest import Kernel

TRAIN = """
import os, nbdist
scale = 10
class Config:
    def __init__(self, lr): self.lr = lr
def train(config, steps=1):
    rank = int(os.environ["RANK"])
    nbdist.result(rank=rank)
    return Config(scale * config.lr * steps + rank)
"""


def test_a_function_of_the_notebook_runs_in_ranks_and_returns(used_kernel: Kernel) -> None:
    used_kernel.run(TRAIN)

    reply = used_kernel.run("run = nbdist.run(train, Config(0.5), steps=2, nproc=2)")
    seen = used_kernel.run(
        "back = run.result()\n"
        "print(run.status, back.lr, type(back) is Config, run.result(1).lr, run.results.gather('rank'))"
    )

    assert reply.status == "ok", reply.error
    assert "Finished · 2 ranks" in reply.stdout
    assert reply.data == []
    assert seen.stdout == "finished 10.0 True 11.0 [0, 1]\n", seen
    assert used_kernel.run("print(run.run.spec.name, list(run.results))").stdout == "train ['rank']\n"


def test_a_failure_is_shown_and_raised_when_the_value_is_asked_for(used_kernel: Kernel) -> None:
    used_kernel.run("import nbdist\ndef train(x):\n    return 1 / x")

    reply = used_kernel.run("run = nbdist.run(train, 0, nproc=1)")
    result = used_kernel.run("run.result()")

    assert reply.status == "ok"
    assert "Failed" in reply.stdout
    assert result.error.startswith("RunFailed: run train-")
    assert "ZeroDivisionError" in result.error
    assert "return 1 / x" in result.error


def test_a_run_that_goes_on_returns_at_once_and_its_result_waits(used_kernel: Kernel) -> None:
    used_kernel.run("import nbdist, time\ndef slow():\n    time.sleep(1)\n    return 'done'")

    seen = used_kernel.run(
        "run = nbdist.run(slow, nproc=1, detach=True)\nprint(run.run.spec.detached, run.result())"
    )

    assert "True done\n" in seen.stdout
    late = used_kernel.run("nbdist.run(slow, nproc=1, detach=True, name='late').result(timeout=0.01)")
    assert late.error.startswith("TimeoutError: run late-")
    used_kernel.run("%dist_stop late")


def test_scripts_and_cells_run_too(used_kernel: Kernel) -> None:
    (used_kernel.home.parent / "train.py").write_text("import nbdist, sys\nnbdist.result(args=sys.argv[1:])")
    used_kernel.run("import nbdist\nlr = 0.5")

    script = used_kernel.run("print(nbdist.run('train.py', '--lr', 0.1, nproc=1).results['args'])")
    cell = used_kernel.run(
        "run = nbdist.run('import nbdist\\nnbdist.result(lr=lr)\\n', nproc=1, push=['lr'], env={'A': 1})\n"
        "print(run.results['lr'], dict(run.run.spec.environment).keys())"
    )
    result = used_kernel.run("run.result()")

    assert script.stdout.endswith("['--lr', '0.1']\n")
    assert cell.stdout.endswith("0.5 dict_keys(['A'])\n")
    assert "ran no function" in result.error


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("nbdist.run(train, nproc=0)", "starts no rank", id="an option that cannot be"),
        pytest.param(
            "nbdist.run('a.py', nprc=2)", "no option nprc: did you mean nproc=?", id="an unknown one"
        ),
        pytest.param(
            "nbdist.run(named, name='x')", "name= is an option of nbdist.run, and named has", id="both"
        ),
        pytest.param("nbdist.run('no.py')", "no script no.py", id="no script"),
        pytest.param(
            "nbdist.run(train, open('/dev/null'))", "nbdist.run(train, …) holds an open file", id="a file"
        ),
        pytest.param("nbdist.run(train, pull='a')", "read  run.results", id="pull"),
    ],
)
def test_mistakes_start_nothing(same_kernel: Kernel, call: str, expected: str) -> None:
    same_kernel.run("import nbdist\ndef train(x=1): pass\ndef named(name): pass")

    reply = same_kernel.run(call)

    assert reply.error.startswith("UsageMistake: "), reply.error
    assert expected in reply.error
    assert not (same_kernel.home / "runs").exists()


def test_a_program_runs_its_functions_too(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        f"{TRAIN}\nif __name__ == '__main__':\n"
        "    run = nbdist.run(train, Config(1.0), nproc=2)\n    print('back', run.result(1).lr)\n"
    )

    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env={"NBDIST_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "NBDIST_WARM": "off"}
        | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert done.stdout.endswith("back 11.0\n"), done.stderr
    assert "Finished · 2 ranks" in done.stdout


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        pytest.param({"nproc": 2}, Options(nproc=2), id="a number"),
        pytest.param({"gpus": [0, 1], "detach": True}, Options(gpus=(0, 1), detach=True), id="a list"),
        pytest.param({"env": {"A": 1, "B": "x y"}}, Options(env=(("A", "1"), ("B", "x y"))), id="a dict"),
        pytest.param({"warm": False, "panel": False}, Options(warm=False, panel=False), id="off"),
        pytest.param({"scrape": True, "check": True, "detach": False}, Options(), id="as it is anyway"),
        pytest.param({"timeout": 90, "hang_after": "5m"}, Options(timeout=90, hang_after=300), id="times"),
        pytest.param({"name": None, "args": "--lr -1"}, Options(args=("--lr", "-1")), id="None and args"),
    ],
)
def test_keywords_are_the_options_of_a_line(keywords: dict[str, object], expected: Options) -> None:
    assert options.parse_keywords(keywords) == expected


def test_a_switch_takes_true_or_false() -> None:
    with pytest.raises(UsageMistake, match=r"detach=1: write  detach=True  or  False"):
        options.parse_keywords({"detach": 1})
