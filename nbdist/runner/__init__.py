"""Starts runs and hands them out: the only place that joins store, frameworks, devices and schedulers."""

from nbdist.runner.handle import RunHandle, attach, request_stop_of, runs, store
from nbdist.runner.launching import board_url, collect_supervisors, start
from nbdist.runner.planning import Plan, plan
from nbdist.runner.pruning import Pruned, prune

__all__ = [
    "Plan",
    "Pruned",
    "RunHandle",
    "attach",
    "board_url",
    "collect_supervisors",
    "plan",
    "prune",
    "request_stop_of",
    "runs",
    "start",
    "store",
]
