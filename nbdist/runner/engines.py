"""Runs that an engine places: what can be said of their ranks before anybody knows on which machines, and
how they get to the engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist.errors import LaunchError, UsageMistake
from nbdist.frameworks import Placement, rank_environment
from nbdist.model import Device
from nbdist.options import Options
from nbdist.schedulers.engine import Engine, engine_by_name
from nbdist.schedulers.ray_address import find_address
from nbdist.schedulers.ray_engine import address_option
from nbdist.store.allocations import AllocationDirectory
from nbdist.store.paths import RunDirectory, make_private, write_private

if TYPE_CHECKING:
    from nbdist.model import Plan

_WHERE = ("SLURM_CONF", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE")
"""What whoever looks after a run later needs of the environment. A token is not among it."""


def engine_devices(options: Options) -> tuple[list[Device], list[str]]:
    """A device for each rank of a node, and what to say about the choice."""
    if options.gpus is None:
        return [Device()] * (options.nproc or 1), []
    return [Device(kind="gpu", index=index) for index in range(int(options.gpus[0]))], []


def unplaced_environment(place: Placement, backend: str) -> dict[str, str]:
    """As ``rank_environment``, but which GPUs a rank sees is what the engine has set on the node."""
    environment = rank_environment(place, backend)
    for key in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        environment.pop(key, None)
    return environment


def engine_options(options: Options, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What the engine is told, as the run's spec keeps it. Raises UsageMistake."""
    if options.engine == "ray":
        return (address_option(find_address(options.ray, environ)),)
    return options.slurm


def check_shared(home: Path, environ: Mapping[str, str]) -> None:
    """Refuse a place for the runs that was chosen because no other machine sees it. Raises UsageMistake."""
    if not environ.get("NBDIST_HOME") and home.parts[:2] == ("/", "tmp"):
        raise UsageMistake(
            f"--on: the runs lie in {home}, which the nodes do not see: name a directory that all machines "
            "share, for example  %env NBDIST_HOME=~/nbdist"
        )


def submit_job(directory: RunDirectory, plan: Plan, allocation: AllocationDirectory | None = None) -> None:
    """Hand the run to its engine, or begin it in one of its allocations. Raises LaunchError, with nothing
    submitted and nothing left on disk."""
    spec = plan.spec
    engine: Engine
    if allocation is not None:
        from nbdist.launch.jobs.allocated import Allocated  # most runs are elsewhere

        engine = Allocated(allocation, directory)
    else:
        engine = engine_by_name(spec.engine, spec.engine_options)
    try:
        make_private(directory.nodes)
        job = engine.submit(directory, plan.spec, plan.environment)
    except LaunchError:
        shutil.rmtree(directory.path, ignore_errors=True)
        raise
    # whoever watches the run one day may have another environment
    where = {key: plan.environment[key] for key in _WHERE if key in plan.environment}
    about: dict[str, object] = {"engine": plan.spec.engine, "job": job, "environment": where}
    if allocation is not None:
        about["allocation"] = str(allocation.path)
    write_private(directory.job, json.dumps(about))
