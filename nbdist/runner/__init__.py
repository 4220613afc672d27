"""Starts runs and hands them out: the only place that joins store, frameworks, devices and schedulers."""

from nbdist.model import Plan
from nbdist.runner.allocations import allocate, await_allocation, release_allocations
from nbdist.runner.boards import board_url, reach_board, stop_the_board
from nbdist.runner.checking import check_program
from nbdist.runner.exporting import Export, export, export_text
from nbdist.runner.handle import RunHandle, attach, describe_refused, request_stop_of, runs, store
from nbdist.runner.held import AllocationView, allocation_views, describe_allocations
from nbdist.runner.held import held as held_allocations
from nbdist.runner.interrupts import Interrupts
from nbdist.runner.launching import keep_ready, start
from nbdist.runner.nodes import TOKEN, words_of_node_1
from nbdist.runner.planning import plan, plan_script, thread_advice
from nbdist.runner.pruning import Pruned, Pruner, keeping, prune, pruner
from nbdist.runner.warm import WarmState, describe_warm
from nbdist.runner.warm import ranks as warm_ranks

__all__ = [
    "TOKEN",
    "AllocationView",
    "Export",
    "Interrupts",
    "Plan",
    "Pruned",
    "Pruner",
    "RunHandle",
    "WarmState",
    "allocate",
    "allocation_views",
    "attach",
    "await_allocation",
    "board_url",
    "check_program",
    "describe_allocations",
    "describe_refused",
    "describe_warm",
    "export",
    "export_text",
    "held_allocations",
    "keep_ready",
    "keeping",
    "plan",
    "plan_script",
    "prune",
    "pruner",
    "reach_board",
    "release_allocations",
    "request_stop_of",
    "runs",
    "start",
    "stop_the_board",
    "store",
    "thread_advice",
    "warm_ranks",
    "words_of_node_1",
]
