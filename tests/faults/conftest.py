"""Every history of this directory, as often as NBDIST_FAULT_ROUNDS says (once where it says nothing)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nbdist import runner
from tests.engines.conftest import cluster, login
from tests.magics.conftest import kernel, leaves_nothing_in

__all__ = ["cluster", "kernel", "leaves_nothing_in", "login"]

ROUNDS = int(os.environ.get("NBDIST_FAULT_ROUNDS", "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if ROUNDS > 1:
        metafunc.fixturenames.append("fault_round")
        metafunc.parametrize("fault_round", range(1, ROUNDS + 1), ids=lambda number: f"round {number}")


OWNER = """
import sys
from nbdist import options, runner
plan = runner.plan(options.parse(sys.argv[1]), cell=sys.argv[2], cwd=".", python_path=sys.path)
print(runner.start(plan).run_id, flush=True)
"""


@dataclass(frozen=True)
class Owner:
    """A process that has started a run, as a kernel does, and then waits."""

    process: subprocess.Popen[str]
    run_id: str

    @property
    def handle(self) -> runner.RunHandle:
        return runner.attach(self.run_id)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_owner(home: Path, tmp_path: Path) -> Iterator[Callable[..., Owner]]:
    """Start a run from a process of its own, which executes ``before`` it and ``after``; ``more`` goes to
    that process."""
    owners: list[Owner] = []

    def start(
        line: str,
        cell: str,
        *,
        before: str = "",
        after: str = "sys.stdin.read()",
        python: str = sys.executable,
        **more,
    ) -> Owner:
        process = subprocess.Popen(
            [python, "-c", f"{before}\n{OWNER}{after}\n", line, cell],
            **{"cwd": tmp_path, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True} | more,
        )
        assert process.stdout is not None
        owners.append(Owner(process, process.stdout.readline().strip()))
        assert owners[-1].run_id, "the owner could not start its run"
        return owners[-1]

    yield start
    for owner in owners:
        owner.kill()
