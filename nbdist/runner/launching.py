"""From a plan to a run that goes on."""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.runner.handle import RunHandle, store
from nbdist.runner.planning import Plan
from nbdist.schedulers import local


def start(plan: Plan) -> RunHandle:
    """Start the run. Raises LaunchError, with nothing running."""
    collect_supervisors()
    directory = store().create(plan.spec, plan.cell)
    submitted = local.submit(directory, plan.environment, plan.spec.python, detached=plan.spec.detached)
    _children.append(submitted)
    return RunHandle(directory)


def board_url(handles: Sequence[RunHandle]) -> str:
    """Where a browser on this machine sees the curves of these runs; starts VisualDL where it must.

    Raises LaunchError when it does not start.
    """
    # its HTTP client takes a while to import, and most runs never ask for curves
    from nbdist.board import ensure_board

    return ensure_board(store().home).url([handle.run_id for handle in handles])


# Supervisors that this process started: kept until they have been waited for, or each would stay a
# zombie, and its lifeline would close.
_children: list[local.Submitted] = []


def collect_supervisors() -> None:
    """Wait for the supervisors that have ended."""
    for submitted in list(_children):
        if submitted.process.poll() is not None:
            if submitted.lifeline is not None:
                submitted.lifeline.close()
            _children.remove(submitted)
