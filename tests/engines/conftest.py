"""Slurm of the session, and a home and a folder for each test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist import processes
from nbdist.model import Run
from nbdist.processes import read_at_once
from nbdist.runner.handle import RunHandle
from nbdist.store import RunStore
from tests import programs
from tests.engines.cluster import Cluster, NoSlurm, slurm
from tests.engines.notebook import Notebook

NBDIST = (sys.executable, "-m", "nbdist")


def until(condition: Callable[[], object], limit: float = 90.0) -> None:
    programs.until(condition, limit)


class Login:
    """Login node of the cluster: commands and their results."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.home = folder / "home"
        self._started: list[subprocess.Popen[str]] = []
        self._notebooks: list[Notebook] = []

    def notebook(self, **variables: str) -> Notebook:
        """Open a notebook."""
        notebook = Notebook(self.environment | variables, self.folder)
        self._notebooks.append(notebook)
        return notebook

    @property
    def environment(self) -> dict[str, str]:
        more = {"NBDIST_HOME": str(self.home), "LANG": "C.UTF-8"}
        return dict(os.environ) | dict(self.cluster.environment) | more

    def script(self, text: str, name: str = "train.py") -> None:
        (self.folder / name).write_text(text)

    def start(self, *words: str, before: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[str]:
        """Start ``nbdist`` with these words."""
        process = subprocess.Popen(
            [*before, *NBDIST, *words],
            cwd=self.folder,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, *words: str, limit: float = 60, **variables: str) -> tuple[int, str]:
        """Run ``nbdist run --on slurm`` with these words; return exit code and output."""
        return self.finish(self.begin(*words, **variables), limit)

    def begin(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return self.start("run", "--on", "slurm", *words, **variables)

    def finish(self, process: subprocess.Popen[str], limit: float = 120) -> tuple[int, str]:
        out, err = process.communicate(timeout=limit)
        return process.returncode, out + err

    @property
    def handle(self) -> RunHandle:
        """Return the only run."""
        until(lambda: any(run.job.exists() for run in RunStore(self.home).directories()))
        (directory,) = RunStore(self.home).directories()
        return RunHandle(directory)

    @property
    def job(self) -> str:
        """Return Slurm's number of the only run."""
        until(lambda: self.handle.run.job)
        return self.handle.run.job

    def examine(self, *words: str, **variables: str) -> tuple[int, dict[str, Any]]:
        """Examine the nodes; return the exit code, and the entries by title."""
        asking = self.start("doctor", "--on", "slurm", "--json", *words, **variables)
        out, err = asking.communicate(timeout=150)
        assert out, err
        return asking.returncode, {entry["title"]: entry for entry in json.loads(out)["entries"]}

    def until_ready(self, limit: float = 90.0) -> None:
        """Wait until every rank has printed "ready"."""
        handle = self.handle
        ranks = range(handle.run.spec.world_size)
        until(lambda: all("ready" in handle.logs(rank) for rank in ranks), limit)

    def supervisors(self, node: int) -> list[processes.ProcessId]:
        """Return the supervisor of a node and the process above it."""
        on_node = processes.marked("SLURM_NODEID", str(node))
        return [
            each for each in running(f"/engines/node.py\0{self.handle.directory.path}\0") if each in on_node
        ]

    def left(self) -> list[int]:
        """Return the remaining processes of the ranks."""
        runs = RunStore(self.home).directories()
        return [p.pid for run in runs for p in processes.marked("NBDIST_RUN_DIR", str(run.path))]

    def jobs(self) -> str:
        return self.cluster.call("squeue", "-h", "-o", "%i|%T|%r")

    def close(self) -> None:
        for notebook in self._notebooks:
            notebook.close()
        for process in self._started:
            process.terminate()
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def running(words: str) -> list[processes.ProcessId]:
    """Return the processes with these words in their command line."""
    rows = [row.process for row in processes.process_table()]
    return [each for each in rows if words.encode() in read_at_once(f"/proc/{each.pid}/cmdline")]


def watchers_of(run: Run) -> list[processes.ProcessId]:
    """Return the process that watches a run, and before it the one above, which would replace it."""
    watcher = run.supervisor
    assert watcher is not None
    (parent,) = [row.parent for row in processes.process_table() if row.process.pid == watcher.pid]
    above = processes.identify(parent)
    assert above is not None
    return [above, watcher]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    try:
        with slurm() as up:
            yield up
    except NoSlurm as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def login(cluster: Cluster, tmp_path: Path) -> Iterator[Login]:
    login = Login(cluster, tmp_path)
    yield login
    login.close()
    until(lambda: not login.left() and not login.jobs())


@pytest.fixture
def breakable(tmp_path: Path) -> Iterator[Login]:
    """Start a cluster that the test may break; yield its login node."""
    try:
        with slurm() as up:
            login = Login(up, tmp_path)
            yield login
            login.close()
            until(lambda: not login.left())
    except NoSlurm as why:
        pytest.skip(f"NOT TESTED: {why}")
