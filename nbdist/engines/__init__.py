"""Engines that place the ranks of a run on other machines: Slurm, Ray, and nodes of Slurm that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdist.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbdist.engines.engine import Engine


def engine_by_name(name: str, options: Sequence[str] = ()) -> Engine:
    """The engine of a run, whose ``engine_options`` may be needed. Raises LaunchError for one that this
    version does not know."""
    if name == "slurm":
        from nbdist.engines.slurm import Slurm

        return Slurm()
    if name == "ray":
        from nbdist.engines.ray import Ray

        return Ray(options)
    raise LaunchError(f"no engine {name}: this version knows slurm and ray")
