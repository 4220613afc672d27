"""What a framework needs in the environment of each rank. Starts nothing, imports no framework."""

from nbdist.frameworks.base import Framework, Placement
from nbdist.frameworks.environment import (
    FRAMEWORKS,
    by_name,
    imported_modules,
    inherited,
    is_installed,
    rank_environment,
)

__all__ = [
    "FRAMEWORKS",
    "Framework",
    "Placement",
    "by_name",
    "imported_modules",
    "inherited",
    "is_installed",
    "rank_environment",
]
