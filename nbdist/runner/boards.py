"""VisualDL, or TensorBoard, over runs: started where it must be, and how a browser gets there."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nbdist.errors import LaunchError, UsageMistake
from nbdist.runner.handle import RunHandle, store

if TYPE_CHECKING:
    from nbdist.board import Reach


def reach_board(handles: Sequence[RunHandle], *, tensorboard: bool = False) -> Reach:
    """Where a browser sees the curves of these runs; starts the server where it must.

    Raises LaunchError when it does not start, UsageMistake when there is no TensorBoard.
    """
    # its HTTP client takes a while to import, and most runs never ask for curves
    from nbdist.board import TENSORBOARD, VISUALDL, ensure_board, reach

    if tensorboard and find_spec("tensorboard") is None:
        raise UsageMistake(
            "--tensorboard: TensorBoard is not installed here: %pip install tensorboard, or leave the "
            "option out for VisualDL"
        )
    board = ensure_board(store().home)
    run_ids = [handle.run_id for handle in handles]
    if tensorboard and not board.can_show(run_ids, TENSORBOARD):
        raise LaunchError(
            "TensorBoard did not start in the server that shows the curves: %dist_board --stop  ends it, and "
            "the next  %dist_board --tensorboard  starts one of this kernel's Python"
        )
    return reach(board, run_ids, TENSORBOARD if tensorboard else VISUALDL)


def board_url(handles: Sequence[RunHandle]) -> str:
    """What a notebook's page opens for the curves of these runs.

    Raises LaunchError when VisualDL does not start, or cannot be reached from a browser.
    """
    found = reach_board(handles)
    if not found.url:
        raise LaunchError(found.problem)
    return found.url


def stop_the_board() -> bool:
    """End the server; whether there was one. It ends by itself, too, when no page asks it for anything."""
    from nbdist.board import stop_board

    return stop_board(store().home)
