"""Supervisor and rank run on every Python that nbdist supports."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.options import Options
from nbdist.text import reason_text


def _find(version: str) -> str | None:
    """An interpreter of this version, on the path or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True):
        return str(candidate)
    return shutil.which(f"python{version}")


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_a_run_succeeds_and_another_fails_as_they_should(home: Path, tmp_path: Path, version: str) -> None:
    python = _find(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    cell = """
import multiprocessing as mp, os, platform, nbdist
def work(queue): queue.put(os.environ["RANK"])
context = mp.get_context("spawn")
queue = context.Queue()
child = context.Process(target=work, args=(queue,))
child.start()
nbdist.log(step=1, rank=int(queue.get(timeout=30)))
child.join()
print(platform.python_version())
import time
if os.environ["RANK"] == "1":
    while not os.path.exists(os.path.join(os.environ["NBDIST_RUN_DIR"], "ranks", "0", "metrics.jsonl")):
        time.sleep(0.01)
    raise ValueError("rank 1 fails")
time.sleep(60)
"""
    planned = runner.plan(Options(nproc=2), cell=cell, cwd=str(tmp_path))
    spec = dataclasses.replace(planned.spec, python=python, python_path=())

    handle = runner.start(dataclasses.replace(planned, spec=spec))
    status = handle.wait(60)

    assert (status, reason_text(handle.run.reason)) == ("failed", "rank 1 failed"), handle.logs(1)
    assert handle.logs(1).splitlines()[0].startswith(version)
    assert handle.metrics() == {"rank": 0.5}
    assert handle.directory.supervisor_log.read_text() == ""
