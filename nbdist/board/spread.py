"""Mean, lowest and highest over the ranks: for each tag and step one point of each.

A step is told once every rank that logs the tag has passed it, or the run has ended, so that it never
has to be told again. Which ranks these are is settled WINDOW seconds (of the points' own times) after
the first of them began; whoever begins later does not count. Hence what comes out depends on the
points alone, and not on when they were read, as long as no rank falls MOST_ROWS steps behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

WINDOW = 30.0
MOST_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class SpreadPoint:
    """What the ranks say together about one step of a tag; the time is that of the last of them."""

    tag: str
    step: int
    milliseconds: int
    mean: float
    lowest: float
    highest: float


class Spread:
    """The points of all ranks of one attempt, until they are told."""

    def __init__(self) -> None:
        self._curves: dict[str, _Curve] = {}

    def add(self, rank: int, milliseconds: int, tag: str, step: int, value: float) -> None:
        """Take one point. Of a rank's points of a tag those count whose step is beyond all before."""
        curve = self._curves.get(tag)
        if curve is None:
            curve = self._curves[tag] = _Curve()
        if curve.over:
            return
        last = curve.last.get(rank)
        if last is None:
            curve.begun[rank] = milliseconds
        elif step <= last:
            return
        curve.last[rank] = step
        row = curve.rows.get(step)
        if row is None:
            curve.rows[step] = {rank: (value, milliseconds)}
        else:
            row[rank] = (value, milliseconds)

    def settle(self, *, ranks: int | None, horizon: float, ended: bool) -> Iterator[SpreadPoint]:
        """What can be told now, each point once, the steps of a tag in their order.

        ``ranks`` is how many there are, if known; up to ``horizon`` (Unix seconds) every point has
        been taken; ``ended`` says that no more will come.
        """
        for tag, curve in self._curves.items():
            if not curve.over:
                yield from curve.told(tag, ranks, horizon * 1000, ended)


@dataclass(slots=True)
class _Curve:
    """One tag. ``members`` is None until it is settled who they are."""

    begun: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    rows: dict[int, dict[int, tuple[float, int]]] = field(default_factory=dict)
    members: set[int] | None = None
    over: bool = False

    def told(self, tag: str, ranks: int | None, horizon: float, ended: bool) -> Iterator[SpreadPoint]:
        if self.members is None:
            close = min(self.begun.values()) + WINDOW * 1000
            if not (ended or len(self.begun) == ranks or horizon > close):
                return
            self.members = {rank for rank, began in self.begun.items() if began <= close}
        while len(self.rows) > MOST_ROWS and len(self.members) > 1:
            # a rank that logs this tag no more would have us keep everything for ever
            self.members.discard(min(self.members, key=lambda rank: (self.last[rank], rank)))
            yield from self._passed(tag, self._frontier())
        if len(self.members) < 2:
            self.over = True
            self.rows.clear()
            return
        yield from self._passed(tag, math.inf if ended else self._frontier())

    def _frontier(self) -> float:
        assert self.members is not None
        return min(self.last[rank] for rank in self.members)

    def _passed(self, tag: str, frontier: float) -> Iterator[SpreadPoint]:
        assert self.members is not None
        for step in sorted(step for step in self.rows if step <= frontier):
            row = self.rows.pop(step)
            points = [row[rank] for rank in sorted(self.members & row.keys())]
            if len(points) > 1:
                values = [value for value, _ in points]
                numbers = [value for value in values if value == value]  # neither is NaN the lowest
                yield SpreadPoint(
                    tag=tag,
                    step=step,
                    milliseconds=max(milliseconds for _, milliseconds in points),
                    mean=sum(values) / len(values),
                    lowest=min(numbers, default=math.nan),
                    highest=max(numbers, default=math.nan),
                )
