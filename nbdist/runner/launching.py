"""From a plan to a run that goes on."""

from __future__ import annotations

import os

from nbdist.errors import LaunchError
from nbdist.launch.ahead import ahead_of
from nbdist.runner.allocations import collect_caretakers
from nbdist.runner.engines import submit_job
from nbdist.runner.handle import RunHandle, store
from nbdist.runner.held import choose_allocation
from nbdist.runner.planning import Plan
from nbdist.runner.warm import ranks
from nbdist.schedulers import local
from nbdist.store.paths import RunDirectory


def start(plan: Plan, *, warm: bool | None = None) -> RunHandle:
    """Start the run: with ranks that wait where there are such and ``warm`` is not False. Raises
    LaunchError, with nothing running."""
    collect_supervisors()
    _make_log_dir(plan.spec.log_dir)
    standby, cold = ranks.engage(plan, warm=warm)
    directory = store().create(plan.spec, plan.cell)
    placed = ""
    if plan.spec.engine:
        allocation, placed = choose_allocation(plan.spec)
        submit_job(directory, plan, allocation)
    if standby is not None:
        _children.append(standby.submitted)
        if standby.go(directory, plan.environment):
            return RunHandle(directory)
    _children.append(_submit(directory, plan))
    return RunHandle(directory, started_cold=cold, placed=placed)


def _submit(directory: RunDirectory, plan: Plan) -> local.Submitted:
    ahead = ahead_of(directory, plan.spec, plan.environment)
    try:
        return local.submit(
            directory,
            plan.environment,
            plan.spec.python,
            detached=plan.spec.detached,
            ahead=ahead.descriptors if ahead is not None else (),
        )
    finally:
        if ahead is not None:
            ahead.close()


def _make_log_dir(path: str) -> None:
    if path:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"--log-dir {path}: {error.strerror}: name a directory of yours") from None


# Supervisors that this process started: kept until they have been waited for, or each would stay a
# zombie, and its lifeline would close.
_children: list[local.Submitted] = []


def collect_supervisors() -> None:
    """Wait for the supervisors that have ended."""
    ranks.collect()
    collect_caretakers()
    for submitted in list(_children):
        if submitted.process.poll() is not None:
            if submitted.lifeline is not None:
                submitted.lifeline.close()
            _children.remove(submitted)
