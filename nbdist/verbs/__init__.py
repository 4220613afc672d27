"""What can be done to runs, nodes and this machine, once; ``magics`` and ``cli`` show what came of it."""

from nbdist.verbs.machines import Allocations, Examined, Released
from nbdist.verbs.runs import BoardEnded, Curves, Listed, Logs, Stacks, Stopped
from nbdist.verbs.table import (
    ALLOC,
    ATTACH,
    BOARD,
    DOCTOR,
    EXPORT,
    LOGS,
    STACKS,
    STATUS,
    STOP,
    VERBS,
    WARM,
)
from nbdist.verbs.verb import HELP, NOTEBOOK, TERMINAL, Argument, Place, Verb

__all__ = [
    "ALLOC",
    "ATTACH",
    "BOARD",
    "DOCTOR",
    "EXPORT",
    "HELP",
    "LOGS",
    "NOTEBOOK",
    "STACKS",
    "STATUS",
    "STOP",
    "TERMINAL",
    "VERBS",
    "WARM",
    "Allocations",
    "Argument",
    "BoardEnded",
    "Curves",
    "Examined",
    "Listed",
    "Logs",
    "Place",
    "Released",
    "Stacks",
    "Stopped",
    "Verb",
]
