"""What a framework needs in the environment of each rank. Starts nothing, imports no framework."""

from nbdist.frameworks.base import Framework, Placement
from nbdist.frameworks.detect import detect_framework, imported_modules, is_installed
from nbdist.frameworks.environment import inherited, rank_environment
from nbdist.frameworks.registry import FRAMEWORKS, by_name

__all__ = [
    "FRAMEWORKS",
    "Framework",
    "Placement",
    "by_name",
    "detect_framework",
    "imported_modules",
    "inherited",
    "is_installed",
    "rank_environment",
]
