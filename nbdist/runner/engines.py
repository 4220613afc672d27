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
from nbdist.schedulers.engine import engine_by_name
from nbdist.store.paths import RunDirectory, make_private, write_private

if TYPE_CHECKING:
    from nbdist.runner.planning import Plan

_WHERE = ("SLURM_CONF",)


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


def check_shared(home: Path, environ: Mapping[str, str]) -> None:
    """Refuse a place for the runs that was chosen because no other machine sees it. Raises UsageMistake."""
    if not environ.get("NBDIST_HOME") and home.parts[:2] == ("/", "tmp"):
        raise UsageMistake(
            f"--on: the runs lie in {home}, which the nodes do not see: name a directory that all machines "
            "share, for example  %env NBDIST_HOME=~/nbdist"
        )


def submit_job(directory: RunDirectory, plan: Plan) -> None:
    """Hand the run to its engine. Raises LaunchError, with nothing submitted and nothing left on disk."""
    try:
        make_private(directory.nodes)
        job = engine_by_name(plan.spec.engine).submit(directory, plan.spec, plan.environment)
    except LaunchError:
        shutil.rmtree(directory.path, ignore_errors=True)
        raise
    # whoever watches the run one day may have another environment
    where = {key: plan.environment[key] for key in _WHERE if key in plan.environment}
    about = {"engine": plan.spec.engine, "job": job, "environment": where}
    write_private(directory.job, json.dumps(about))
