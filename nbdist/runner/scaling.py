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
from nbdist.model.plan import Plan
from nbdist.model.spec import RANKS
from nbdist.model.sweep import Points, Sweep
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
    planned, devices = _plan_one(scale, place)
    spec, room = planned.spec, len(devices)
    counts, notes = fitting(scale.counts, devices)
    point = None if scale.handle is None else scale.handle.run.spec.sweep
    values = {} if point is None else point.values
    points: Points = tuple({**values, RANKS: str(count)} for count in counts)
    name, created = spec.name, spec.created
    sweep_id = new_run_id(f"{name}-scale", created)
    # what a run of some seconds saves is no state that any other goes on from
    checkpoints = str(sweeps_store().runs / sweep_id / "checkpoints")
    spec = replace(spec, checkpoints=checkpoints, detached=False, owner=processes.identify(os.getpid()))
    spec = replace(spec, timeout=None, until=None, limit="", retries=0, pull=(), log_dir="")
    places = [[devices[at % room] for at in range(count)] for count in counts]
    sweep = Sweep(
        sweep_id=sweep_id,
        name=name,
        created=created,
        spec=spec,
        runs=tuple(new_run_id(f"{name}-n{count}", created) for count in counts),
        points=points,
        slots=tuple(ranks_on(place, spec.backend) for place in places),
        warm=False,
        span=scale.span,
        cores=room if devices[0].kind == "cpu" else 0,
    )
    line = say("scale.begins", config.language(), label=sweep.label, counts=counts, seconds=scale.span)
    # each rank has as many threads as each other one: alone it would compute in all cores
    environment = with_threads(planned.environment, max(counts))
    first = replace(planned, spec=sweep.run_of(0, created=created), environment=environment)
    return SweepPlan(sweep=sweep, first=first, notes=(line, *notes, *filter(None, [planned.pushed])))


def fitting(wanted: tuple[int, ...], devices: Sequence[Device]) -> tuple[tuple[int, ...], list[str]]:
    """Return the numbers of ranks for which there are GPUs (by default 1, 2, 4 …), and notes on others, and
    on those that share cores. Raises UsageMistake where there is none."""
    language, room, on_cpu = config.language(), len(devices), devices[0].kind == "cpu"
    wanted = wanted or tuple(2**power for power in range(room.bit_length()))
    counts = tuple(count for count in wanted if on_cpu or count <= room)
    left, crowded = (tuple(count for count in some if count > room) for some in (wanted, counts))
    if crowded:
        return counts, [say("scale.crowded", language, counts=crowded, cores=room)]
    notes = [say("scale.no-room", language, counts=left, gpus=room)] if left else []
    if not counts:
        raise UsageMistake(f"{notes[0]}: write  %dist_scale {room}  or less")
    return counts, notes


def _plan_one(scale: Scale, place: dict[str, Any]) -> tuple[Plan, list[Device]]:
    """Return the plan of one rank, and the devices that there are for ranks: those that the options name,
    else as the run had, the cores, or its GPUs and then the other ones."""
    typed, run = parse_words(scale.changes), None if scale.handle is None else scale.handle.run
    elsewhere = {"-n": typed.nproc, "--sweep": typed.sweep, "--nodes": typed.nodes or typed.ips}
    elsewhere |= {"--on": typed.engine != "local", "-d": typed.detach, "--pull": typed.pull}
    if flag := next((flag for flag, given in elsewhere.items() if given), ""):
        raise UsageMistake(f"{flag} does not work with a scale: leave it out")
    if run is not None and (run.spec.engine or run.spec.nodes > 1):
        raise UsageMistake(f"{run.label} ran on other machines, and a scale runs on this one: name a script")
    gpus = usable_gpus(os.environ)
    devices = [Device()] * cpu_count()
    if typed.gpus is not None:
        devices = choose_devices(typed, os.environ)[0]
    elif run is None:
        devices = list(gpus.values()) or devices
    elif any(rank.device.kind == "gpu" for rank in run.spec.ranks):
        used = dict.fromkeys(rank.device.index for rank in run.spec.ranks)
        devices = [gpus[index] for index in [*used, *(gpus.keys() - used)] if index in gpus] or devices
    one = ["--gpus", str(devices[0].index)] if devices[0].kind == "gpu" else ["-n", "1"]
    words = [*scale.changes, *one]
    if scale.handle is not None:
        return plan_again(scale.handle, words, **place)[1], devices
    place = {name: place[name] for name in ("notebook", "cell_id") if name in place}
    return plan_script(parse_words(words), scale.program, cwd=os.getcwd(), **place), devices


def latest_program() -> RunHandle:
    """Return the latest run that is none of a scale, and no session. Raises UnknownRun."""
    for directory in store().directories():
        with contextlib.suppress(UnknownRun):
            spec = read_spec(directory)
            if spec.session is None and not (spec.sweep is not None and spec.sweep.of_scale):
                return RunHandle(directory)
    raise UnknownRun("there are no runs yet: start one with  %%distributed -n 2")
