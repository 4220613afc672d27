"""The rows of a chart: at most so many, however many points come. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

ROWS = 400
SAMPLING = 2.0  # seconds between two looks of the supervisor
_NAN = math.nan

_Row = list[float]
"""Of a band: x and time of its last point, count, sum, least, greatest. Of lines: the time of its last
point, then sum and count of each rank."""


class Band:
    """Mean, least and greatest along ``x``, in at most ROWS rows.

    Rows are ``width`` of ``x`` wide; when there are too many, neighbours become one. So points may come
    in any order, and what came early weighs as much as what comes late.
    """

    def __init__(self, width: float) -> None:
        self._width = width
        self._rows: dict[float, _Row] = {}

    def add(self, x: float, time: float, value: float) -> None:
        key = x // self._width
        row = self._rows.get(key)
        if row is None:
            self._rows[key] = [x, time, 1, value, value, value]
            if len(self._rows) > ROWS:
                self._rows, self._width = _narrowed(self._rows, self._width, _merge)
            return
        if x > row[0]:
            row[0] = x
        if time > row[1]:
            row[1] = time
        row[2] += 1
        row[3] += value
        if value < row[4]:
            row[4] = value
        elif value > row[5]:
            row[5] = value

    def columns(self) -> list[array[float]]:
        rows = [self._rows[key] for key in sorted(self._rows)]
        return [
            array("f", [row[0] for row in rows]),
            array("f", [row[1] for row in rows]),
            array("f", [row[3] / row[2] for row in rows]),
            array("f", [row[4] for row in rows]),
            array("f", [row[5] for row in rows]),
        ]


def _merge(row: _Row, other: _Row) -> None:
    row[0], row[1] = max(row[0], other[0]), max(row[1], other[1])
    row[2] += other[2]
    row[3] += other[3]
    row[4], row[5] = min(row[4], other[4]), max(row[5], other[5])


class Lines:
    """A value of each rank along the time, in at most ROWS rows; values that share a row are averaged."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self._places = {rank: 2 * place + 1 for place, rank in enumerate(ranks)}
        self._width = SAMPLING
        self._rows: dict[float, _Row] = {}

    def add(self, rank: int, time: float, value: float) -> None:
        place = self._places.get(rank)
        if place is None:
            return
        key = time // self._width
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = [time] + [0.0] * (2 * len(self._places))
        row[0] = max(row[0], time)
        row[place] += value
        row[place + 1] += 1
        if len(self._rows) > ROWS:
            self._rows, self._width = _narrowed(self._rows, self._width, _add_up)

    def columns(self) -> list[array[float]]:
        rows = [self._rows[key] for key in sorted(self._rows)]
        times = array("f", [row[0] for row in rows])
        return [
            times,
            times,
            *(
                array("f", [row[at] / row[at + 1] if row[at + 1] else _NAN for row in rows])
                for at in self._places.values()
            ),
        ]


def _add_up(row: _Row, other: _Row) -> None:
    row[0] = max(row[0], other[0])
    row[1:] = [one + two for one, two in zip(row[1:], other[1:], strict=True)]


def _narrowed(
    rows: dict[float, _Row], width: float, merge: Callable[[_Row, _Row], None]
) -> tuple[dict[float, _Row], float]:
    """The rows in wider ones, as few as it takes to be under the bound, and their width."""
    while len(rows) > ROWS:
        width *= 2
        wider: dict[float, _Row] = {}
        for key, row in rows.items():
            there = wider.setdefault(key // 2, row)
            if there is not row:
                merge(there, row)
        rows = wider
    return rows, width
