"""A scale: one program on several numbers of ranks, one after another, planned as a sweep over them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbdist import config, processes
from nbdist.devices.usage import cpu_count
from nbdist.errors import UnknownRun, UsageMistake
from nbdist.frameworks.environment import with_threads
from nbdist.model import Device
from nbdist.model.spec import RANKS
from nbdist.model.sweep import Sweep
from nbdist.options import parse_words
from nbdist.runner.handle import RunHandle, store
from nbdist.runner.placement import choose_devices, usable_gpus
from nbdist.runner.planning import new_run_id, plan_script, ranks_on
from nbdist.runner.resuming import plan_again
from nbdist.runner.sweeps import SweepPlan, sweeps_store
from nbdist.store.run_store import read_spec
from nbdist.text import say


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A scale as it was asked for: each of ``counts`` ranks for ``span`` seconds. The program is that of the
    run ``handle``, or a script with its arguments; ``changes`` are options, as words."""

    counts: tuple[int, ...]
    span: float
    handle: RunHandle | None = None
    program: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def plan_scale(scale: Scale, **place: Any) -> SweepPlan:
    """Plan a scale, and write nothing. ``place`` is as of ``plan_again``. Raises as that."""
    devices = _devices(scale)
    counts, notes = fitting(scale.counts, devices)
    one = ["--gpus", str(devices[0].index)] if devices[0].kind == "gpu" else ["-n", "1"]
    words = [*scale.changes, *one]
    if scale.handle is None:
        place.pop("namespace", None)
        planned = plan_script(parse_words(words), scale.program, cwd=os.getcwd(), **place)
    else:
        planned = plan_again(scale.handle, words, **place)[1]
    spec = planned.spec
    if spec.engine or spec.nodes > 1:
        raise UsageMistake("a scale runs on this machine alone: leave out --on and --nodes, or name a script")
    name, created = spec.name, spec.created
    sweep_id = new_run_id(f"{name}-scale", created)
    # what a run of some seconds saves is no state that any other goes on from
    checkpoints = str(sweeps_store().runs / sweep_id / "checkpoints")
    spec = replace(spec, checkpoints=checkpoints, detached=False, owner=processes.identify(os.getpid()))
    spec = replace(spec, timeout=None, until=None, limit="", retries=0, pull=(), log_dir="")
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
    environment = with_threads(planned.environment, max(counts))
    first = replace(planned, spec=sweep.run_of(0, created=created), environment=environment)
    return SweepPlan(sweep=sweep, first=first, notes=(line, *notes, *filter(None, [planned.pushed])))


def fitting(wanted: tuple[int, ...], devices: Sequence[Device]) -> tuple[tuple[int, ...], list[str]]:
    """Return the numbers of ranks for which there are GPUs (by default 1, 2, 4 …), and a note on others, or
    on those that share cores. Raises UsageMistake where there is none."""
    language, room, on_cpu = config.language(), len(devices), devices[0].kind == "cpu"
    wanted = wanted or tuple(2**power for power in range(room.bit_length()))
    if not (more := tuple(count for count in wanted if count > room)):
        return wanted, []
    if on_cpu:
        return wanted, [say("scale.crowded", language, counts=more, cores=room)]
    note = say("scale.no-room", language, counts=more, gpus=room)
    if len(more) == len(wanted):
        raise UsageMistake(f"{note}: write  %dist_scale {room}  or less")
    return wanted[: -len(more)], [note]


def _devices(scale: Scale) -> list[Device]:
    """Return the devices that there are for ranks: those that the options name, else the cores for a run
    that was on them, else the GPUs, those of the run first. Raises UsageMistake."""
    typed, run = parse_words(scale.changes), scale.handle.run if scale.handle else None
    own = {"-n": typed.nproc, "--sweep": typed.sweep, "-d": typed.detach, "--pull": typed.pull}
    if flag := next((flag for flag, given in own.items() if given), ""):
        raise UsageMistake(f"{flag} does not work with a scale: leave it out")
    if typed.gpus is not None:
        return choose_devices(typed, os.environ)[0]
    used = [] if run is None else [rank.device.index for rank in run.spec.ranks if rank.device.kind == "gpu"]
    gpus = usable_gpus(os.environ) if used or run is None else {}
    return sorted(gpus.values(), key=lambda gpu: gpu.index not in used) or [Device()] * cpu_count()


def latest_program() -> RunHandle:
    """Return the latest run that is none of a scale, and no session. Raises UnknownRun."""
    for directory in store().directories():
        with contextlib.suppress(UnknownRun):
            spec = read_spec(directory)
            if spec.session is None and not (spec.sweep is not None and spec.sweep.of_scale):
                return RunHandle(directory)
    raise UnknownRun("there are no runs yet: start one with  %%distributed -n 2")
