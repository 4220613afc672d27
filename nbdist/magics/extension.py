"""Loading and unloading nbdist in IPython: its magics, and an answer to those of nbdistributed and of
jupyter-distributed, each with what to write here."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from IPython.core.interactiveshell import InteractiveShell

from nbdist import options
from nbdist.errors import UsageMistake
from nbdist.magics.distributed import DistributedMagics
from nbdist.magics.line_magics import VerbMagics
from nbdist.magics.presentation import as_usage_errors, forget_stops, show_stops_calmly

MAGICS = (DistributedMagics, VerbMagics)
"""Every class of magics."""

_FOR_A_FIRST_CELL = ("nbdist.diagnosis.checks.machine", "nbdist.panel.terminal", "nbdist.panel.summary")
_OF_ITS_OWN = "the ranks of a cell are processes of their own, which end with it"
_INSTEAD = {
    "dist_init": "nothing has to be started: write  %%distributed -n 2  above the program of the ranks",
    "dist_shutdown": f"{_OF_ITS_OWN}; %dist_stop  ends a run that goes on",
    "dist_reset": f"{_OF_ITS_OWN}; %dist_stop  ends a run that goes on",
    "dist_debug": "%dist_status  shows what runs,  %dist_stacks  where every rank is",
    "sync": f"{_OF_ITS_OWN}; ranks of one program wait for each other in  dist.barrier()",
}
_INSTEAD_OF_A_CELL = {
    "rank": 'write  %%distributed -n 2  and in the program  if int(os.environ["RANK"]) == 0:',
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
    for kind, instead in (("line", _INSTEAD), ("cell", _INSTEAD_OF_A_CELL)):
        for name, text in instead.items():
            if name not in shell.magics_manager.magics[kind]:
                mark = "%" if kind == "line" else "%%"
                shell.magics_manager.register_function(_answer(f"{mark}{name}: {text}"), kind, name)


def _forget_peers(shell: InteractiveShell) -> None:
    for kind, instead in (("line", _INSTEAD), ("cell", _INSTEAD_OF_A_CELL)):
        for name in instead:
            known = shell.magics_manager.magics[kind].get(name)
            if getattr(known, "__module__", "") == __name__:
                del shell.magics_manager.magics[kind][name]


def _answer(text: str) -> Callable[[str, str], None]:
    def answer(line: str, cell: str = "") -> None:
        with as_usage_errors():
            raise UsageMistake(text)

    return answer
