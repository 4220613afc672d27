"""Loading and unloading nbdist in IPython."""

from __future__ import annotations

import importlib

from IPython.core.interactiveshell import InteractiveShell

from nbdist import options
from nbdist.magics import peers
from nbdist.magics.alloc import AllocationMagics
from nbdist.magics.boards import BoardMagics
from nbdist.magics.distributed import DistributedMagics
from nbdist.magics.doctor import DoctorMagics
from nbdist.magics.export import ExportMagics
from nbdist.magics.presentation import forget_stops, show_stops_calmly
from nbdist.magics.runs import RunMagics
from nbdist.magics.stacks import StackMagics
from nbdist.magics.warm import WarmMagics

MAGICS = (
    DistributedMagics,
    RunMagics,
    ExportMagics,
    BoardMagics,
    StackMagics,
    DoctorMagics,
    WarmMagics,
    AllocationMagics,
)
"""Every class of magics."""

_FOR_A_FIRST_CELL = ("nbdist.diagnosis.checks.builds", "nbdist.panel.terminal", "nbdist.panel.summary")


def load(shell: InteractiveShell) -> None:
    """Register the magics."""
    for magics in MAGICS:
        shell.register_magics(magics)
    peers.register(shell)
    show_stops_calmly(shell)
    _get_ready()


def _get_ready() -> None:
    """Do now what the first cell would do before it starts its ranks."""
    for module in _FOR_A_FIRST_CELL:
        importlib.import_module(module)
    options.get_ready()


def unload(shell: InteractiveShell) -> None:
    """Take the magics away again. Runs go on; they belong to their supervisors."""
    for magics in MAGICS:
        for kind, names in magics.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
    peers.unregister(shell)
    forget_stops(shell)
