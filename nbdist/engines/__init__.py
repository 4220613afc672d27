"""Engines that run ranks on other machines: Slurm, by its queue or as a job step, and Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdist.errors import LaunchError

if TYPE_CHECKING:
    from nbdist.engines.engine import Engine
    from nbdist.model import RunSpec


def engine_of(spec: RunSpec, *, as_step: bool) -> Engine:
    """Return the engine of a run, ``as_step`` inside a Slurm allocation. Raises LaunchError for another."""
    if as_step:
        from nbdist.engines.slurm_step import SlurmStep

        return SlurmStep()
    if spec.engine == "slurm":
        from nbdist.engines.slurm import Slurm

        return Slurm()
    if spec.engine == "ray":
        from nbdist.engines.ray import Ray

        return Ray(spec.engine_options)
    raise LaunchError(f"no engine {spec.engine}: this version knows slurm and ray")
