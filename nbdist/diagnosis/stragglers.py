"""The rank that holds the others up at each step, from its own time: the step without waiting. Pure.

In synchronous training all ranks do the same number of steps a second, so only that tells them apart. The
share of its time that a rank waits is measured by looks at its main thread (``worker.stacks``) and, where
none of these waits, at the collectives that are under way; the rate by the steps that it logs or prints.
Where either is unknown for a rank, nbdist names no straggler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from nbdist.store import MetricPoint
from nbdist.text import Both, both, say

_WINDOW = 30.0
_LEAST = 10.0
"""Seconds that are looked at, at most and at least: a tenth of a second is 3 % of the 80 looks of 10 s."""

_STEPS = 10
_FACTOR = 1.25
_SHARE = 0.1
"""A rank is slow when it took so many times the others' own time, over so many steps, and when the
difference is this part of a step; less is within what chance makes of the looks."""

_HARDLY = 0.05
_STARVED = 0.1
_FULL = 0.92


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One rank, lately: the share of the time that it waited for others, that it did so or had a collective
    under way beside its program, and that its main thread waited for a core, each 0 to 1; whether its GPU
    was slowed down; how full its memory is."""

    waited: float
    exchanged: float = 0.0
    starved: float = 0.0
    throttled: bool = False
    full: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """``factor`` is the rank's own time over the median of the others', ``over`` the difference in seconds
    (None where the rate of steps is not known). ``reason`` is what its device says; empty for nothing."""

    rank: int
    factor: float
    over: float | None = None
    reason: str = ""
    reason_zh: str = ""


class Paces:
    """The paces of the ranks of one attempt, from what the supervisor measures of them."""

    def __init__(self) -> None:
        self._points: dict[int, deque[MetricPoint]] = {}

    def take(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """Take what was measured of a rank next, in the order in which it was."""
        kept = self._points.setdefault(rank, deque())
        kept.extend(point for point in points if "wait" in point.values)
        while kept and kept[-1].time - kept[0].time > _WINDOW:
            kept.popleft()

    def pace(self, rank: int, now: float) -> Pace | None:
        """Return None while too little is known."""
        points = self._points.get(rank)
        if not points or points[-1].time - points[0].time < _LEAST or now - points[-1].time > _WINDOW:
            return None
        last = points[-1].values
        total = last.get("memory_total")
        throttled = sum(point.values.get("throttled", 0.0) for point in points)
        return Pace(
            waited=_mean(points, "wait") / 100,
            exchanged=_mean(points, "exchange") / 100,
            starved=_mean(points, "starved") / 100,
            throttled=throttled > len(points) / 2,
            full=last.get("memory", 0.0) / total if total else 0.0,
        )

    def slowest(self, ranks: Iterable[int], rates: Mapping[int, float | None], now: float) -> Slow | None:
        """Return the one of these ranks, all that run, that holds the others up; ``rates``: steps/s."""
        paces = {rank: pace for rank in ranks if (pace := self.pace(rank, now)) is not None}
        known = {rank: rate for rank in paces if (rate := rates.get(rank))}
        if set(paces) != set(ranks):
            return None
        return slowest(paces, known if len(known) == len(paces) else {})


def slowest(paces: Mapping[int, Pace], rates: Mapping[int, float]) -> Slow | None:
    """Return the rank whose own time is clearly longer than the others', if there is one."""
    if len(paces) < 2 or (rates and min(rates.values()) * _WINDOW < _STEPS):
        return None
    step = {rank: 1 / rates[rank] if rates else 1.0 for rank in paces}
    # where no main thread waits, what goes on beside it tells: in a stream of a GPU, or in another thread
    beside = all(pace.waited < _HARDLY for pace in paces.values())
    waited = {rank: pace.exchanged if beside else pace.waited for rank, pace in paces.items()}
    own = {rank: (1 - waited[rank]) * step[rank] for rank in paces}
    last = max(own, key=lambda rank: own[rank])
    others = median(seconds for rank, seconds in own.items() if rank != last)
    over = own[last] - others
    if own[last] < _FACTOR * others or over < _SHARE * step[last]:
        return None
    reasons = _reasons(last, paces)
    return Slow(
        rank=last,
        factor=own[last] / max(others, 0.01 * step[last]),
        over=over if rates else None,
        reason=say("diagnosis.and", "en").join(one.en for one in reasons),
        reason_zh=say("diagnosis.and", "zh").join(one.zh for one in reasons),
    )


def _reasons(rank: int, paces: Mapping[int, Pace]) -> list[Both]:
    """Return the reasons that the rank's device gives and the others' do not."""
    pace = paces[rank]
    others = median(other.starved for number, other in paces.items() if number != rank)
    found = []
    if pace.throttled:
        found.append(both("diagnosis.throttled"))
    if pace.starved >= _STARVED + others:
        found.append(both("diagnosis.starved", share=pace.starved))
    if pace.full >= _FULL:
        found.append(both("diagnosis.memory-full"))
    return found


def _mean(points: Iterable[MetricPoint], tag: str) -> float:
    values = [point.values[tag] for point in points if tag in point.values]
    return sum(values) / len(values) if values else 0.0
