"""Metrics to VisualDL: the records of a run, and the server that shows them.

This side of it is for kernels and other short-lived readers and imports no VisualDL; the server is
a process of its own, ``python -m nbdist.board``.
"""

from nbdist.board.server import (
    Board,
    BoardRoute,
    Reach,
    ensure_board,
    find_board,
    reach,
    route_to_board,
    status_of,
    stop_board,
)

__all__ = [
    "Board",
    "BoardRoute",
    "Reach",
    "ensure_board",
    "find_board",
    "reach",
    "route_to_board",
    "status_of",
    "stop_board",
]
