"""The magics of nbdist in IPython, and hints for users of nbdistributed and jupyter-distributed."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from IPython.core.interactiveshell import InteractiveShell

from nbdist import options
from nbdist.errors import UsageMistake
from nbdist.magics.distributed import DistributedMagics
from nbdist.magics.line_magics import VerbMagics
from nbdist.magics.presentation import as_usage_errors, forget_errors, show_errors_calmly
from nbdist.magics.ranks import RanksMagics

MAGICS = (DistributedMagics, RanksMagics, VerbMagics)
_OF_ITS_OWN = "the ranks of a cell end with it"
_INSTEAD = {
    "dist_init": "there is nothing to start: write  %%distributed -n 2  above the program of the ranks, or "
    "%%ranks -n 2  above a cell for ranks that keep their variables",
    "dist_shutdown": f"{_OF_ITS_OWN}: stop a run with  %dist_stop , a session with  %dist_session end",
    "dist_reset": f"{_OF_ITS_OWN}: restart the ranks of %%ranks with  %dist_session reset",
    "dist_debug": "see the runs with  %dist_status , and where every rank is with  %dist_stacks",
    "sync": "ranks wait for each other in  dist.barrier()",
}


def load(shell: InteractiveShell) -> None:
    """Register the magics, and prepare the first cell."""
    for magics in MAGICS:
        shell.register_magics(magics)
    for name, text in _INSTEAD.items():
        # unless another extension has it
        if name not in shell.magics_manager.magics["line"]:
            shell.magics_manager.register_function(_answer(f"%{name}: {text}"), "line", name)
    show_errors_calmly(shell)
    for module in ("nbdist.preflight.capabilities", "nbdist.panel.terminal", "nbdist.panel.summary_view"):
        importlib.import_module(module)
    options.get_ready()


def unload(shell: InteractiveShell) -> None:
    """Remove the magics. Runs go on; they belong to their supervisors."""
    for magics in MAGICS:
        for kind, names in magics.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
    for name in _INSTEAD:
        known = shell.magics_manager.magics["line"].get(name)
        if getattr(known, "__module__", "") == __name__:
            del shell.magics_manager.magics["line"][name]
    forget_errors(shell)


def _answer(text: str) -> Callable[[str], None]:
    def answer(line: str) -> None:
        with as_usage_errors():
            raise UsageMistake(text)

    return answer
