"""The rank that slows the others at each step, by its own time: the step without waiting. Pure.

In synchronous training all ranks do equally many steps a second, so only their own time differs. Its share
and the rate come from the records of the ranks' steps; where a rank has none or a GPU, from samples of the
main thread (``worker.stack_answers``) or, where no main thread waits, from pending collectives, and from the
steps that a rank logs or prints. Where either is unknown for a rank, nbdist names none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from nbdist.diagnosis.training import Training
from nbdist.store import MetricPoint
from nbdist.text import Both, both, say

_WINDOW = 30.0
_LEAST = 10.0
"""Seconds of samples, at most and at least: a tenth of a second is 3 % of the 80 samples in 10 s."""

_RECORDED = 4.0
"""Seconds of recorded steps, at least: one step may be unlike the others."""

_STEPS = 10
_FACTOR = 1.25
_SHARE = 0.1
"""A slow rank takes this multiple of the others' own time, over so many steps, and the difference is this
part of a step; less is within chance."""

_HARDLY = 0.05
_STARVED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One rank, lately: shares of its time (0 to 1) waiting for others, waiting or with a collective pending,
    and without a core; whether its GPU was throttled."""

    waited: float
    exchanged: float = 0.0
    starved: float = 0.0
    throttled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """The rank that slows the others: ``factor`` times their median own time, ``over`` by seconds (None
    without a rate). ``reason`` comes from its device; empty for none."""

    rank: int
    factor: float
    over: float | None = None
    reason: str = ""
    reason_zh: str = ""


class Paces:
    """The paces of the ranks of one attempt, from the supervisor's measurements."""

    def __init__(self) -> None:
        self._points: dict[int, deque[MetricPoint]] = {}

    def take(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """Add a rank's next measurements, in order of time."""
        kept = self._points.setdefault(rank, deque())
        kept.extend(point for point in points if "wait" in point.values)
        while kept and kept[-1].time - kept[0].time > _WINDOW:
            kept.popleft()

    def pace(self, rank: int, now: float) -> Pace | None:
        """Return the pace of a rank; None while too little is known."""
        points = self._points.get(rank)
        if not points or points[-1].time - points[0].time < _LEAST or now - points[-1].time > _WINDOW:
            return None
        throttled = sum(point.values.get("throttled", 0.0) for point in points)
        return Pace(
            waited=_mean(points, "wait") / 100,
            exchanged=_mean(points, "exchange") / 100,
            starved=_mean(points, "starved") / 100,
            throttled=throttled > len(points) / 2,
        )

    def slowest(
        self,
        ranks: Iterable[int],
        rates: Mapping[int, float | None],
        now: float,
        training: Training | None = None,
    ) -> Slow | None:
        """Return the slowest of all running ranks, if clear; ``rates``: steps/s."""
        paces = {rank: pace for rank in ranks if (pace := self.pace(rank, now)) is not None}
        if training is not None and training.on_host and training.rates_at(now).keys() >= set(ranks):
            if training.facts.steps < max(_STEPS, _RECORDED * training.facts.step_rate):
                return None
            rates = training.step_rates
            paces = {
                rank: replace(paces.get(rank, _UNKNOWN), waited=training.parts[rank]["wait"], exchanged=0.0)
                for rank in ranks
            }
        known = {rank: rate for rank in paces if (rate := rates.get(rank))}
        if set(paces) != set(ranks):
            return None
        return slowest(paces, known if len(known) == len(paces) else {})


_UNKNOWN = Pace(waited=0.0)


def slowest(paces: Mapping[int, Pace], rates: Mapping[int, float]) -> Slow | None:
    """Return the rank whose own time is clearly longer than the others', if there is one."""
    if len(paces) < 2 or (rates and min(rates.values()) * _WINDOW < _STEPS):
        return None
    step = {rank: 1 / rates[rank] if rates else 1.0 for rank in paces}
    # if no main thread waits, use work beside it: in a stream of a GPU, or in another thread
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
        reason=say("diagnosis.and", "en").join(reason.en for reason in reasons),
        reason_zh=say("diagnosis.and", "zh").join(reason.zh for reason in reasons),
    )


def _reasons(rank: int, paces: Mapping[int, Pace]) -> list[Both]:
    pace = paces[rank]
    others = median(other.starved for number, other in paces.items() if number != rank)
    reasons = []
    if pace.throttled:
        reasons.append(both("diagnosis.throttled"))
    if pace.starved >= _STARVED + others:
        reasons.append(both("diagnosis.starved", share=pace.starved))
    return reasons


def _mean(points: Iterable[MetricPoint], tag: str) -> float:
    values = [point.values[tag] for point in points if tag in point.values]
    return sum(values) / len(values) if values else 0.0
