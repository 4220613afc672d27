"""Loading and unloading nbdist in IPython."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from nbdist.magics.distributed import DistributedMagics
from nbdist.magics.runs import RunMagics


def load(shell: InteractiveShell) -> None:
    """Register the magics."""
    shell.register_magics(DistributedMagics)
    shell.register_magics(RunMagics)


def unload(shell: InteractiveShell) -> None:
    """Take the magics away again. Runs go on; they belong to their supervisors."""
    for magics in (DistributedMagics, RunMagics):
        for kind, names in magics.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
