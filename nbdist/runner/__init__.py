"""Starts runs and hands them out: the only place that joins store, frameworks, devices and schedulers."""

from nbdist.runner.choosing import (
    chosen_runs,
    line_count,
    live_run,
    live_runs,
    log_pattern,
    matching_lines,
    rank_numbers,
    stop_runs,
)
from nbdist.runner.handle import RunHandle, attach, request_stop_of, runs, store
from nbdist.runner.launching import board_url, collect_supervisors, start
from nbdist.runner.planning import Plan, plan, plan_script
from nbdist.runner.pruning import Pruned, prune

__all__ = [
    "Plan",
    "Pruned",
    "RunHandle",
    "attach",
    "board_url",
    "chosen_runs",
    "collect_supervisors",
    "line_count",
    "live_run",
    "live_runs",
    "log_pattern",
    "matching_lines",
    "plan",
    "plan_script",
    "prune",
    "rank_numbers",
    "request_stop_of",
    "runs",
    "start",
    "stop_runs",
    "store",
]
