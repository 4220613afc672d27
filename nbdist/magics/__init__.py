"""The magics of nbdist in IPython. It answers to those of nbdistributed and of jupyter-distributed with what
to write here."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from IPython.core.interactiveshell import InteractiveShell

from nbdist import options
from nbdist.errors import UsageMistake
from nbdist.magics.distributed import DistributedMagics
from nbdist.magics.line_magics import VerbMagics
from nbdist.magics.presentation import as_usage_errors, forget_stops, show_stops_calmly
from nbdist.magics.ranks import RanksMagics

MAGICS = (DistributedMagics, RanksMagics, VerbMagics)
"""Every class of magics."""

_FOR_A_FIRST_CELL = ("nbdist.preflight.machine", "nbdist.panel.terminal", "nbdist.panel.summary")
_OF_ITS_OWN = "the ranks of a cell are processes of their own, which end with it"
_INSTEAD = {
    "dist_init": "nothing has to be started: write  %%distributed -n 2  above the program of the ranks, or "
    "%%ranks -n 2  above a cell for ranks that live on",
    "dist_shutdown": f"{_OF_ITS_OWN}; %dist_stop  ends a run that goes on,  %dist_session end  live ranks",
    "dist_reset": f"{_OF_ITS_OWN}; %dist_session reset  is for live ranks",
    "dist_debug": "%dist_status  shows what runs,  %dist_stacks  where every rank is",
    "sync": f"{_OF_ITS_OWN}; ranks of one program wait for each other in  dist.barrier()",
}


def load(shell: InteractiveShell) -> None:
    """Register the magics."""
    for magics in MAGICS:
        shell.register_magics(magics)
    _answer_to_peers(shell)
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
    _forget_peers(shell)
    forget_stops(shell)


def _answer_to_peers(shell: InteractiveShell) -> None:
    """Answer to these names, unless another extension has them."""
    for name, text in _INSTEAD.items():
        if name not in shell.magics_manager.magics["line"]:
            shell.magics_manager.register_function(_answer(f"%{name}: {text}"), "line", name)


def _forget_peers(shell: InteractiveShell) -> None:
    for name in _INSTEAD:
        known = shell.magics_manager.magics["line"].get(name)
        if getattr(known, "__module__", "") == __name__:
            del shell.magics_manager.magics["line"][name]


def _answer(text: str) -> Callable[[str], None]:
    def answer(line: str) -> None:
        with as_usage_errors():
            raise UsageMistake(text)

    return answer
