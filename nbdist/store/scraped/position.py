"""At which step a reading stands, by all that was read before it.

A counter in the line (``step 400/938``) is the step. Where it begins again with each epoch it counts on:
epochs are as long as the line says, else as long as the one before was seen to be. A line with an epoch
alone stands where the counters stand, else at its epoch; one with neither stands where the counters
stand, else the points of a tag are counted. Evaluations are not counted: what is printed after one (its
end, where it has a counter of its own) stands at the training step before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nbdist.store.metrics import MetricPoint
from nbdist.store.scraped.line import Reading
from nbdist.store.scraped.place import Place

_EVALUATED = ("val_", "test_", "eval_", "valid_")


class Position:
    """Where training stands, by all that was read so far."""

    def __init__(self) -> None:
        self._counters: dict[str, _Counter] = {}
        self._epoch = Place()  # the last line with an epoch and no counter
        self._now: int | None = None
        self._last: dict[str, tuple[int, float]] = {}

    def step(self, reading: Reading) -> tuple[int | None, int | None]:
        """The step that a line tells, and the last there will be; None where it does not."""
        place = reading.place
        if place.at is None and place.epoch is not None and place.epoch.is_integer():
            self._epoch = place
        if not reading.values or reading.phase:
            return None, None
        if place.at is not None:
            epoch = place if place.epoch is not None else self._epoch
            self._now, total = self._counters.setdefault(place.unit, _Counter()).advance(place, epoch)
            return self._now, total
        if self._counters or place.epoch is None or not place.epoch.is_integer():
            return None, None
        return int(place.epoch), place.epochs

    def new(self, point: MetricPoint, *, bar: bool = False) -> list[MetricPoint]:
        """``point`` at its step, without what is there already; empty when nothing is left.

        A ``bar`` goes on showing the result of an evaluation until the next.
        """
        step = self._untold(point.values) if point.step is None else point.step
        values = {
            tag: value
            for tag, value in point.values.items()
            if not self._is_there(tag, step, value) and not (bar and self._is_shown_on(tag, value))
        }
        self._last |= {tag: (step, value) for tag, value in values.items()}
        if step == point.step and len(values) == len(point.values):
            return [point]
        return [replace(point, step=step, values=values)] if values else []

    def _is_there(self, tag: str, step: int, value: float) -> bool:
        """Whether this is the last point again: a result is often printed twice, and once rounded."""
        last = self._last.get(tag)
        if last is None or last[0] != step:
            return False
        rounding = 1e-3 if tag.startswith(_EVALUATED) else 0.0
        return math.isclose(last[1], value, rel_tol=rounding, abs_tol=rounding)

    def _is_shown_on(self, tag: str, value: float) -> bool:
        last = self._last.get(tag)
        return tag.startswith(_EVALUATED) and last is not None and last[1] == value

    def _untold(self, values: Mapping[str, float]) -> int:
        now = self._now
        if now is None and self._epoch.epoch is not None:
            now = int(self._epoch.epoch)
        if now is not None and all(self._is_there(tag, now, value) for tag, value in values.items()):
            return now
        after = [self._last[tag][0] + 1 for tag in values if tag in self._last]
        return max([now or 0, *after])


@dataclass(slots=True)
class _Counter:
    """A counter of the log, which may begin again with each epoch."""

    base: int = 0  # of the epoch's first step
    first: int = 0
    last: int = -1
    gap: int = 0
    of: int | None = None
    epoch: float | None = None
    laps: bool = False
    over_all: bool = False

    def advance(self, place: Place, epoch: Place) -> tuple[int, int | None]:
        """The step over all epochs, and how many there will be where that is known."""
        at = place.at or 0
        self.over_all |= place.over_all
        if self.last < 0:
            self.first = at
            self.base = self._before(epoch.epoch, place)
        elif not self.over_all:
            self._go_on(at, place, epoch.epoch)
        if at > self.last >= 0:
            self.gap = min(self.gap or at, at - self.last)
        self.last, self.of, self.epoch = at, place.of, epoch.epoch
        if self.over_all:
            return at, place.of
        return self.base + at, self._total(place, epoch)

    def _go_on(self, at: int, place: Place, epoch: float | None) -> None:
        grown = epoch - self.epoch if epoch is not None and self.epoch is not None else 0
        if grown > 0 and at > self.last and not self.laps:
            # a new epoch, and the counter went on
            self.over_all = True
        elif grown > 0:
            self._begin_again(at, int(grown) * self._length())
        elif grown < 0 or (at < self.last and (at <= self.first or place.unit == "bar")):
            self._begin_again(at, self._length())

    def _begin_again(self, at: int, length: int) -> None:
        self.laps, self.base, self.last = True, self.base + length, -1

    def _before(self, epoch: float | None, place: Place) -> int:
        """The steps of the epochs before the first that is seen; 0 and 1 are the first there is."""
        if epoch is None or place.of is None or self.over_all:
            return 0
        return int(max(epoch - 1, 0)) * place.of

    def _length(self) -> int:
        """Of the epoch that ends: what its lines said, else what keeps its points apart from the next."""
        least = self.last if self.first else self.last + 1
        return self.of or max(self.last - self.first + self.gap, least)

    def _total(self, place: Place, epoch: Place) -> int | None:
        if place.of is None:
            return None
        if epoch.epochs is not None:
            return epoch.epochs * place.of
        return place.of if epoch.epoch is None and not self.laps else None
