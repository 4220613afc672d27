"""The verbs on runs, nodes and this machine: their actions, and the parsers of their arguments.
``verbs.toml`` has their words; ``magics`` and ``cli`` show their results."""

from __future__ import annotations

from functools import partial
from typing import Any

from nbdist.engines.options import parse_slurm
from nbdist.feed.waiting import parse_moments
from nbdist.options import table as options
from nbdist.verbs import debug_actions, machines, runs, session_action
from nbdist.verbs.verb import Verb, make_verb

STATUS = make_verb("status", runs.status)
LOGS = make_verb(
    "logs",
    runs.logs,
    rank=int,
    tail=options.counted("--tail", "write a number of lines, for example  --tail 20"),
    since=runs.log_places,
)
EXPLAIN = make_verb("explain", runs.explain)
# for a terminal alone: a notebook has run.wait() and run.metrics()
WAIT = make_verb("wait", runs.wait, until=parse_moments, timeout=options.parse_duration)
METRICS = make_verb(
    "metrics",
    runs.metrics,
    last=options.counted("--last", "write a number of points, for example  --last 20", least=1),
)
COMPARE = make_verb(
    "compare", runs.compare, step=options.counted("--step", "write a step, for example  --step 500")
)
STOP = make_verb("stop", runs.stop)
STACKS = make_verb("stacks", runs.stacks)
PROFILE = make_verb("profile", runs.profile, span=partial(options.parse_duration, flag="--for"))
ATTACH = make_verb("attach", runs.attach)
RESUME = make_verb("resume", runs.resume)
SCALE = make_verb("scale", runs.scale, span=partial(options.parse_duration, flag="--for"))
BOARD: Verb[Any] = make_verb("board", runs.board, height=int)
DOCTOR = make_verb(
    "doctor", machines.doctor, nodes=options.count_of_nodes, slurm=parse_slurm, wait=options.wait
)
DEBUG = make_verb("debug", debug_actions.debug, rank=int)
EVAL = make_verb("eval", debug_actions.evaluate)
EXPORT = make_verb("export", runs.export)
# about a kernel, and a terminal has none
WARM = make_verb("warm", machines.warm)
SESSION = make_verb("session", session_action.session)
