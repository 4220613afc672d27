"""Engines that place the ranks of a run on other machines: Slurm, Ray, and nodes of Slurm that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdist.errors import LaunchError

if TYPE_CHECKING:
    from nbdist.engines.engine import Engine
    from nbdist.model import RunSpec
    from nbdist.store.allocations import AllocationDirectory
    from nbdist.store.paths import RunDirectory


def engine_of(directory: RunDirectory, spec: RunSpec, allocation: AllocationDirectory | None) -> Engine:
    """What places a run: one of its user's allocations, or the queue of its engine. Raises LaunchError for
    one that this version does not know."""
    if allocation is not None:
        from nbdist.engines.allocation import AllocationEngine  # most runs are elsewhere

        return AllocationEngine(allocation, directory)
    if spec.engine == "slurm":
        from nbdist.engines.slurm import Slurm

        return Slurm()
    if spec.engine == "ray":
        from nbdist.engines.ray import Ray

        return Ray(spec.engine_options)
    raise LaunchError(f"no engine {spec.engine}: this version knows slurm and ray")
