"""Ranks that are at one place of a program, as they are compared with others that are elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbdist.diagnosis.exits import ranks_in_words
from nbdist.programs.sources import CodeLocation
from nbdist.store.reports import Call, Operand
from nbdist.text import Both

OF_GRADIENTS = frozenset({"all_reduce", "_all_reduce", "reduce_scatter_tensor", "_reduce_scatter_base"})
"""Calls of a model in backward(), whose line torch does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """``way`` are the calls in the user's files, outermost first, ``calls`` those in libraries, too, ``name``
    the collective that the ranks wait in, as torch calls it ("" where that is not known). ``handled`` is the
    exception that they handle, ``beside`` the ways of their other threads, ``values`` what the ifs and the
    loops on their way asked for, ``workers`` the calls of their DataLoader workers, innermost first."""

    ranks: tuple[int, ...]
    way: tuple[Call, ...]
    place: CodeLocation
    calls: tuple[Call, ...] = ()
    name: str = ""
    handled: str = ""
    beside: tuple[tuple[Call, ...], ...] = ()
    values: tuple[Operand, ...] = ()
    workers: tuple[tuple[Call, ...], ...] = ()

    @property
    def call(self) -> str:
        """Return what they are in: ``all_reduce in backward``, ``barrier in metrics.compute``."""
        what = self.place.what
        if (what == "backward" or self.place.on_device) and self.name:
            return f"{self.name} in {what}" if what else self.name
        through = self.place.through
        return f"{what} in {through}" if through else what or self.name or "?"

    @property
    def called_elsewhere(self) -> bool:
        """Return whether they wait for their device in what a model may have called in backward(): an if
        around the line where they stand has nothing to do with that."""
        return self.place.on_device and self.name in OF_GRADIENTS

    @property
    def direction(self) -> str:
        """``send`` or ``recv`` of ranks that wait in one, else empty."""
        said = f"{self.name} {self.place.what}"
        return "recv" if "recv" in said else "send" if re.search(r"\bi?send", said) else ""

    def had(self, file: str, line: int) -> dict[str, str]:
        """Return the names in a line, and what they stood for."""
        return {one.name: one.what for one in self.values if (one.file, one.line) == (file, line)}


def by_ranks(pairs: Iterable[tuple[Sequence[int], str | Both]]) -> Both:
    """``rank 0: training_step, rank 1: _finalize_training``."""
    words = [
        (ranks_in_words(ranks), what if isinstance(what, Both) else Both(what, what)) for ranks, what in pairs
    ]
    return Both(*(", ".join(f"{who[at]}: {what[at]}" for who, what in words) for at in (0, 1)))


def ranks_of(sides: Iterable[Side]) -> tuple[int, ...]:
    """Return all ranks of these sides."""
    return tuple(sorted(rank for side in sides for rank in side.ranks))
