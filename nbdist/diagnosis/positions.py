"""Ranks at one place of a program, for comparison with ranks elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbdist.diagnosis.exits import ranks_in_words
from nbdist.programs.sources import CodeLocation
from nbdist.store.reports import Call, Operand
from nbdist.text import Both, both

OF_GRADIENTS = frozenset({"all_reduce", "_all_reduce", "reduce_scatter_tensor", "_reduce_scatter_base"})
"""Calls of a model in backward(), whose line torch does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Ranks at one place. ``way``: calls in the user's files, outermost first; ``calls``: with libraries;
    ``name``: the collective in torch's words ("": unknown); ``handled``: the exception being handled;
    ``beside``: paths of other threads; ``values``: what ifs and loops on the way read; ``workers``: calls of
    DataLoader workers, innermost first."""

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
        """Return the call that they are in: ``all_reduce in backward``, ``barrier in metrics.compute``."""
        what = self.place.what
        if (what == "backward" or self.place.on_device) and self.name:
            return f"{self.name} in {what}" if what else self.name
        through = self.place.through
        return f"{what} in {through}" if through else what or self.name or "?"

    @property
    def called_elsewhere(self) -> bool:
        """Return whether backward() called what their device waits in, not their line."""
        return self.place.on_device and self.name in OF_GRADIENTS

    @property
    def direction(self) -> str:
        """Return ``send`` or ``recv`` of ranks that wait in one, else empty."""
        called = self.place.what.rpartition(".")[2]  # not the variable that holds a work
        named = (set(re.findall("send|recv", words)) for words in (self.name, called))
        kinds = next(filter(None, named), set())
        return kinds.pop() if len(kinds) == 1 else ""

    def had(self, file: str, line: int) -> dict[str, str]:
        """Return the values of the names in a line."""
        return values_at(self.values, file, line)


def values_at(values: Iterable[Operand], file: str, line: int) -> dict[str, str]:
    """Return the values of the names in a line."""
    return {value.name: value.what for value in values if (value.file, value.line) == (file, line)}


def by_ranks(pairs: Iterable[tuple[Sequence[int], str | Both]]) -> Both:
    """Return ``training_step on rank 0, _finalize_training on rank 1``."""
    parts = [both("diagnosis.value-on", what=what, who=ranks_in_words(ranks)) for ranks, what in pairs]
    return Both(", ".join(part.en for part in parts), "，".join(part.zh for part in parts))


def ranks_of(sides: Iterable[Side]) -> tuple[int, ...]:
    """Return all ranks of these sides."""
    return tuple(sorted(rank for side in sides for rank in side.ranks))
