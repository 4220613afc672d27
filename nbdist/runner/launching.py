"""From a plan to a run that goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nbdist.engines.engine import PROCESS
from nbdist.errors import LaunchError, UsageMistake
from nbdist.frameworks.environment import is_installed
from nbdist.launch import local
from nbdist.launch.handover import ahead_of
from nbdist.model import Plan, RunSpec
from nbdist.options import Options
from nbdist.runner.allocations import choose_allocation
from nbdist.runner.handle import RunHandle, store
from nbdist.runner.placement import submit_job
from nbdist.runner.planning import plan
from nbdist.store.paths import RunDirectory
from nbdist.warm.match import PRELOADED
from nbdist.warm.pool import ranks


def start(plan: Plan, *, warm: bool | None = None) -> RunHandle:
    """Start the run: with ranks that wait where there are such and ``warm`` is not False.

    Waits for nothing that takes longer than a moment. Raises LaunchError, with nothing running.
    """
    ranks.collect()
    _make_log_dir(plan.spec)
    standby, cold = ranks.engage(plan, warm=warm)
    directory = store().create(plan.spec, plan.cell)
    placed = ""
    if plan.spec.engine:
        allocation, placed = choose_allocation(plan.spec)
        submit_job(directory, plan, allocation)
    if standby is not None:
        if not (cold := standby.go(directory, plan.environment)):
            local.look_after(standby.submitted, directory)
            return RunHandle(directory)
        standby.leave()
    _submit(directory, plan)
    return RunHandle(directory, started_cold=cold, placed=placed)


def keep_ready(count: int, framework: str) -> None:
    """Keep so many ranks of a framework ("": the first that is installed) ready for the next runs. Raises
    UsageMistake or LaunchError."""
    name = framework or next((name for name in PRELOADED if is_installed(name)), "")
    if not name or not is_installed(name):
        raise UsageMistake(
            f"{name or 'none of torch, paddle, jax'} is not installed: nothing can be kept ready"
        )
    options = Options(nproc=count, framework=name)
    ranks.keep(lambda: plan(options, cell="", cwd=os.getcwd(), python_path=sys.path))


def _submit(directory: RunDirectory, plan: Plan) -> None:
    ahead = ahead_of(directory, plan.spec, plan.environment)
    try:
        local.submit(
            directory,
            plan.environment,
            plan.spec.python,
            detached=plan.spec.detached,
            ahead=ahead.descriptors if ahead is not None else (),
            entry=PROCESS if plan.spec.engine else local.SUPERVISOR,
        )
    finally:
        if ahead is not None:
            ahead.close()


def _make_log_dir(spec: RunSpec) -> None:
    if not (path := spec.log_dir):
        return
    from nbdist.launch.log_watch import check_log_dir  # most runs have none

    try:
        os.makedirs(path, exist_ok=True)
        # the nodes of an engine write into directories of their own
        check_log_dir(Path(path), [] if spec.engine else [rank.local_rank for rank in spec.here])
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename not in (None, path) else error.strerror
        raise LaunchError(f"--log-dir {path}: {what}: name a directory of yours") from None
