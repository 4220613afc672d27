"""Ranks that wait, as a kernel would keep them, and the cells that they run."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbdist import options, processes, runner
from nbdist.model.plan import Plan
from nbdist.warm import pool
from nbdist.warm.match import PRELOADED
from nbdist.warm.pool import Standby
from tests.programs import until

# what imports ahead does not come to its end
SLOW = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        while name == "numpy" and "--wait" in sys.orig_argv:
            time.sleep(0.05)
sys.meta_path.insert(0, Slow())
"""
MakePlan = Callable[..., Plan]

# what a rank, or a test, asks of torch itself
_ASKED = {
    "torch": """import os
THREADS = os.environ.get("OMP_NUM_THREADS")
class default_generator:
    manual_seed = int
""",
    "torch.distributed": "def is_available(): return False\n",
}


@pytest.fixture
def light_torch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an empty torch before the real one, whose import takes each rank 5 s of a core."""
    folder = tmp_path_factory.mktemp("light")
    for name in PRELOADED["torch"]:
        package = folder.joinpath(*name.split("."))
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(_ASKED.get(name, ""))
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def make_plan(home: Path, tmp_path: Path) -> MakePlan:
    """Return the plan of a cell; ``environ`` extends the environment."""

    def make(
        line: str,
        cell: str = "import torch",
        cwd: Path = tmp_path,
        namespace: runner.Namespace | None = None,
        **environ: str,
    ) -> Plan:
        return runner.plan(
            options.parse(line),
            cell=cell,
            cwd=str(cwd),
            python_path=["", *sys.path],
            environ={**os.environ, "OMP_NUM_THREADS": "1", **environ},
            namespace=namespace,
        )

    return make


@pytest.fixture
def stand_by() -> Iterator[Callable[..., Standby]]:
    """Start ranks that wait, and end the rest after the test."""
    made: list[Standby] = []

    def make(plan: Plan, *, ready: bool = True) -> Standby:
        made.append(Standby(plan, idle=900.0))
        until(lambda: made[-1].look() or made[-1].up)
        assert not ready or made[-1].wait_until_ready(90.0), made[-1].gone
        return made[-1]

    yield make
    for standby in made:
        with contextlib.suppress(OSError):
            standby.leave()
        standby.supervisor.process.wait(20)


@pytest.fixture
def run_on(
    stand_by: Callable[..., Standby], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Standby, Plan], runner.RunHandle]:
    """Start a run on waiting ranks, which may be slow to answer: other tests take the processors."""
    monkeypatch.setattr(pool, "_TAKE", 20.0)

    def run(standby: Standby, plan: Plan) -> runner.RunHandle:
        directory = runner.store().create(plan.spec, plan.cell, plan.write_inputs)
        assert standby.go(directory, plan.environment) == ""
        return runner.RunHandle(directory)

    return run


def processes_of(standby: Standby) -> list[processes.ProcessId]:
    """Return reaper, supervisor and ranks of a standby."""
    pid = standby.supervisor.process.pid
    reaper = processes.identify(pid)
    assert reaper is not None
    return [reaper, *processes.descendants(pid)]
