"""Runs, planned, started and read: the only place that joins store, frameworks, devices and engines."""

from nbdist.model.plan import Plan
from nbdist.runner.exporting import Export, export, export_text
from nbdist.runner.handle import (
    Interrupts,
    RunHandle,
    attach,
    describe_refused,
    history,
    reach_board,
    runs,
    store,
)
from nbdist.runner.launching import keep_ready, launch, start
from nbdist.runner.placement import TOKEN, words_of_node_1
from nbdist.runner.planning import plan, plan_script, thread_advice
from nbdist.runner.pruning import Pruned, Pruner, prune, pruner
from nbdist.runner.pushing import Namespace, check_pulled, describe_inputs, pack_inputs
from nbdist.runner.resuming import resume_plan
from nbdist.runner.scaling import Scale, plan_scale
from nbdist.runner.sessions import IDLE, LiveCell, request, session_plan, sessions, settled
from nbdist.runner.sweeps import (
    SweepHandle,
    SweepPlan,
    describe_sweep,
    launch_sweep,
    live_sweeps,
    plan_sweep,
    sweep,
)
from nbdist.warm.pool import describe_warm
from nbdist.warm.pool import ranks as warm_ranks
from nbdist.warm.state import WarmState
