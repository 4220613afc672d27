"""Real runs of real cells, each in a home of its own: for every test that asks for one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbdist import options, processes, runner
from nbdist.errors import UnknownRun

RunCell = Callable[..., runner.RunHandle]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the runs of one test."""
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def start_cell(home: Path, tmp_path: Path) -> Iterator[RunCell]:
    """Start a cell as the magic would; what is left at the end is stopped."""
    handles: list[runner.RunHandle] = []

    def start(line: str, cell: str, cwd: Path = tmp_path) -> runner.RunHandle:
        plan = runner.plan(options.parse(line), cell=cell, cwd=str(cwd), python_path=["", *sys.path])
        handles.append(runner.start(plan))
        return handles[-1]

    yield start
    for handle in handles:
        with contextlib.suppress(UnknownRun):  # its directory was what the test deleted
            handle.stop("the test is over")
    runner.collect_supervisors()


@pytest.fixture
def run_cell(start_cell: RunCell) -> RunCell:
    """Start a cell and wait for its end."""

    def run(line: str, cell: str, limit: float = 60.0, **more: object) -> runner.RunHandle:
        handle = start_cell(line, cell, **more)
        assert handle.wait(limit) not in ("pending", "starting", "running"), handle.logs(0)
        return handle

    return run


@pytest.fixture
def leaves_nothing(home: Path) -> Iterator[None]:
    """Fails the test when a process of its runs is left behind."""
    yield
    left = [
        process
        for handle in runner.runs()
        for process in processes.marked("NBDIST_RUN_DIR", str(handle.directory.path))
    ]
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, 9)
    assert not left
