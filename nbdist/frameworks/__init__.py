"""What a framework needs in the environment of each rank. Starts nothing, imports no framework."""

from nbdist.frameworks.environment import (
    Placement,
    check_framework,
    frameworks_of,
    imported_modules,
    inherited,
    is_installed,
    rank_environment,
)

__all__ = [
    "Placement",
    "check_framework",
    "frameworks_of",
    "imported_modules",
    "inherited",
    "is_installed",
    "rank_environment",
]
