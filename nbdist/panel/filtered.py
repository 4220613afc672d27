"""A surface that is given the lines of some ranks alone."""

from __future__ import annotations

from collections.abc import Collection

from nbdist.model import RunSpec
from nbdist.panel.following import Surface
from nbdist.panel.rank_log import LogDelta
from nbdist.panel.view import RunView


class _OnlyRanks:
    def __init__(self, surface: Surface, ranks: frozenset[int]) -> None:
        self._surface = surface
        self._ranks = ranks

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        self._surface.update(view, [delta for delta in deltas if delta.rank in self._ranks])


def only_ranks(surface: Surface, spec: RunSpec, local_ranks: Collection[int] | None) -> Surface:
    """``surface``, for the lines of these local ranks of a run; of all where they are None."""
    if local_ranks is None:
        return surface
    return _OnlyRanks(surface, frozenset(r.rank for r in spec.ranks if r.local_rank in local_ranks))
