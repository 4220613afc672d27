"""Metrics for VisualDL. Only the server, ``python -m nbdist.board``, imports it."""

from nbdist.board.server import BoardRoute, Reach, ensure_board, find_board, reach, route_to_board, stop_board

__all__ = ["BoardRoute", "Reach", "ensure_board", "find_board", "reach", "route_to_board", "stop_board"]
