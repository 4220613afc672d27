"""A scale: one program on several numbers of ranks, one after another, planned as a sweep over them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Any

from nbdist import config, processes
from nbdist.devices.usage import cpu_count
from nbdist.errors import UsageMistake
from nbdist.model import Device
from nbdist.model.spec import RANKS
from nbdist.model.sweep import Sweep
from nbdist.options import parse_words
from nbdist.runner.handle import RunHandle
from nbdist.runner.placement import usable_gpus
from nbdist.runner.planning import new_run_id, plan_script, ranks_on
from nbdist.runner.resuming import resume_plan
from nbdist.runner.sweeps import SweepPlan, sweeps_store
from nbdist.text import say


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A scale as it was asked for: each of ``counts`` ranks (by default 1, 2, 4 …) for ``span`` seconds.
    The program is that of the run ``handle``, or a script with arguments; ``changes`` are options."""

    counts: tuple[int, ...]
    span: float
    handle: RunHandle | None = None
    program: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def plan_scale(scale: Scale, **place: Any) -> SweepPlan:
    """Plan a scale, and write nothing. ``place`` is as of ``resume_plan``. Raises as that."""
    if scale.handle is None:
        place.pop("namespace", None)
        planned = plan_script(parse_words(scale.changes), scale.program, cwd=os.getcwd(), **place)
    else:
        planned = resume_plan(scale.handle, scale.changes, **place)[1]
    if planned.spec.engine or planned.spec.nodes > 1:
        raise UsageMistake("a scale runs on this machine alone, and that run was on others: name a script")
    # the GPUs of the run, then the other ones, unless some were named
    own = [rank.device for rank in planned.spec.ranks if rank.device.kind == "gpu"]
    more = usable_gpus(os.environ).values() if own and parse_words(scale.changes).gpus is None else ()
    gpus = [*own, *(gpu for gpu in more if gpu not in own)]
    devices = gpus or [Device()] * cpu_count()
    counts = scale.counts or tuple(2**power for power in range(len(devices).bit_length()))
    if gpus and counts[-1] > len(gpus):
        raise UsageMistake(f"{counts[-1]} ranks need as many GPUs: write  %dist_scale {len(gpus)}  or less")
    # not that of a run of another scale
    name, created = re.sub(r"-n\d+$", "", planned.spec.name), planned.spec.created
    sweep_id = new_run_id(f"{name}-scale", created)
    spec = replace(
        planned.spec,
        # what a run of some seconds saves is no state that any other goes on from
        checkpoints=str(sweeps_store().runs / sweep_id / "checkpoints"),
        owner=processes.identify(os.getpid()),
        detached=False,
        timeout=None,
        until=None,
        limit="",
        retries=0,
        pull=(),
        log_dir="",
        resumed="",
    )
    point = scale.handle.run.spec.sweep if scale.handle else None
    values = point.values if point else {}
    places = [[devices[at % len(devices)] for at in range(count)] for count in counts]
    sweep = Sweep(
        sweep_id=sweep_id,
        name=name,
        created=created,
        spec=spec,
        runs=tuple(new_run_id(f"{name}-n{count}", created) for count in counts),
        points=tuple({**values, RANKS: str(count)} for count in counts),
        slots=tuple(ranks_on(place, spec.backend) for place in places),
        warm=False,
        span=scale.span,
    )
    line = say("scale.begins", config.language(), label=sweep.label, counts=counts, seconds=scale.span)
    # each rank has as many threads as each other one: alone it would compute in all cores
    environment = {"OMP_NUM_THREADS": "1", **planned.environment}
    first = replace(planned, spec=sweep.run_of(0, created=created), environment=environment)
    return SweepPlan(sweep=sweep, first=first, notes=(line, *filter(None, [planned.pushed])))
