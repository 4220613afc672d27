"""A run in Python says why it failed, and waits for what comes first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.errors import UsageMistake
from tests.conftest import RunCell

pytestmark = pytest.mark.usefixtures("leaves_nothing")

STEPS = """
import os, time, nbdist
for step in range(10_000):
    nbdist.log(step=step, loss=1.0)
    if step == 200 and os.environ["RANK"] == "1":
        raise ValueError("no such file")
    time.sleep(0.02)
"""


def test_a_step_comes_then_the_failure_which_has_its_line(start_cell: RunCell) -> None:
    handle = start_cell("-n 2", STEPS)

    assert handle.wait(30, until=["failed", "step=10"]) == "step=10"
    assert handle.failure is None
    assert handle.wait(30, until="step=5000,failed") == "failed"

    failure = handle.failure
    assert (failure.rank, failure.kind, failure.line) == (1, "ValueError", 6)
    assert failure.message == "ValueError: no such file"
    assert failure.source.lines[failure.source.line - failure.source.first].strip().startswith("raise")
    assert handle.wait(30) == "failed"
    assert "rank 1 failed first" in str(handle.explain())


def test_without_one_of_the_moments_the_status_is_told(start_cell: RunCell) -> None:
    handle = start_cell("-n 1", "import time\ntime.sleep(600)")

    assert handle.wait(30, until="running") == "running"
    assert handle.wait(0.1, until="failed,stalled") == "running"
    handle.stop()
    assert handle.wait(30, until="failed,step=3") == "stopped"
    with pytest.raises(UsageMistake, match="until=done is none of running, stalled, "):
        handle.wait(until="done")


def test_a_program_starts_a_run_and_looks_later(home: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv[1:])\nraise ValueError('no')\n")
    program = (
        "import nbdist\n"
        "run = nbdist.run('train.py', '--lr', 0.1, nproc=1, detach=True)\n"
        "print(run.wait(30, until='failed,finished'), run.failure.line, run.logs(0).splitlines()[0])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "failed 3 ['--lr', '0.1']", done.stderr
    assert runner.attach().wait(30) == "failed"
