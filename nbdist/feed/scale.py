"""A scale as it stands: the rates of its points, and why more ranks give less than they could.

Costs are seconds of a rank for a sample, by the parts of a step. What the larger number of ranks adds to
them is its loss, and the part that adds most is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbdist.diagnosis.training import Training
from nbdist.feed.labels import state_word
from nbdist.feed.training_view import read_training
from nbdist.model import Run, RunState
from nbdist.store import RunDirectory
from nbdist.text import say, size_text

_GOOD = 0.9  # of the ideal: nothing to explain
_AS_FAST = 1.05
_MAIN = 0.3  # of the loss: less explains nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePoint:
    """A number of ranks. ``rate``: samples a second of all ranks, or steps where samples are not known;
    ``speedup``: over the smallest number measured; ``efficiency``: that of the ideal, 1. 0: not measured."""

    run: Run
    ranks: int
    training: Training | None
    rate: float = 0.0
    speedup: float = 0.0
    efficiency: float = 0.0

    @property
    def costs(self) -> Mapping[str, float]:
        """Return seconds of a rank for a sample, by part; with a GPU the host knows those of data alone."""
        if self.training is None:
            return {}
        mean, whole = self.training.mean, self.ranks / self.rate
        if not self.training.on_host:
            return {"data": mean["data"] * whole}
        least = min(shares["wait"] for shares in self.training.parts.values())
        shares = {
            "send": least,
            "rank": mean["wait"] - least,
            "data": mean["data"],
            "compute": mean["forward"] + mean["backward"] + mean["optimizer"],
            "other": mean["other"],
        }
        return {part: share * whole for part, share in shares.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The points of a scale. ``in_samples``: the rates are samples'."""

    points: tuple[ScalePoint, ...]
    in_samples: bool
    cores: int

    @property
    def measured(self) -> list[ScalePoint]:
        return [point for point in self.points if point.rate]

    def sentence(self, language: str) -> str:
        """Return ``2 ranks give 1.2 × (61 %): …``; empty without a measured point."""
        if not (measured := self.measured):
            return ""
        base, last = measured[0], measured[-1]
        if base is last:
            return say("scale.one", language, ranks=base.ranks)
        fast = [point.ranks for point in measured[:-1] if point.rate * _AS_FAST >= last.rate]
        return say(
            "scale.gives",
            language,
            ranks=last.ranks,
            base=base.ranks if base.ranks > 1 else "",
            speedup=last.speedup,
            efficiency=round(100 * last.efficiency),
            why=self._why(base, last, language),
            best=fast[0] if fast else "",
        )

    def _why(self, base: ScalePoint, point: ScalePoint, language: str) -> str:
        before, costs = base.costs, point.costs
        if costs.get("send", 1.0) + costs.get("rank", 1.0) == 0:
            return say("scale.why-alone", language)
        if point.efficiency >= _GOOD:
            return ""
        more = {part: cost - before.get(part, 0.0) for part, cost in costs.items()}
        part = max(more, key=lambda name: more[name])
        lost = point.ranks / point.rate - base.ranks / base.rate
        if point.training is None or more[part] < _MAIN * lost:
            return ""
        facts = point.training.facts
        return say(
            f"scale.why-{part}",
            language,
            share=round(100 * costs[part] * point.rate / point.ranks),
            size=size_text(facts.gradient_bytes) if facts.gradient_bytes else "",
            workers="" if facts.workers is None else facts.workers,
            times=costs[part] / before[part] if before.get(part) else 1.0,
            cores=self.cores or "",
            base=base.ranks,
        )

    def table(self, language: str) -> list[list[str]]:
        """Return the titles, and a row for each point."""
        rate = "samples" if self.in_samples else "rank-steps"
        codes = ("ranks", rate, "speedup", "efficiency", "step", "wait", "limit")
        return [
            [say(f"scale.{code}", language) for code in codes],
            *(self._row(point, language) for point in self.points),
        ]

    def _row(self, point: ScalePoint, language: str) -> list[str]:
        training, limit = point.training, ""
        waits = training is not None and training.on_host and point.ranks > 1
        if training is not None:
            limit = training.limit.text(language)
        elif point.run.state.terminal and point.run.started is not None:
            failed = point.run.state is not RunState.FINISHED
            limit = state_word(point.run.state, language) if failed else say("scale.not-measured", language)
        if 0 < self.cores < point.ranks:
            limit = say("scale.shares", language, cores=self.cores, limit=limit)
        return [
            str(point.ranks),
            f"{point.rate:,.0f}" if point.rate >= 100 else f"{point.rate:.3g}" if point.rate else "",
            f"{point.speedup:.2f} ×" if point.rate else "",
            f"{100 * point.efficiency:.0f} %" if point.rate else "",
            "" if training is None else f"{1000 / training.facts.step_rate:.3g}",
            f"{100 * training.mean['wait']:.0f} %" if training is not None and waits else "",
            limit,
        ]

    def to_dict(self, language: str) -> dict[str, Any]:
        """Return ``scale`` of the page's protocol."""
        return {
            "table": self.table(language),
            "ranks": [point.ranks for point in self.measured],
            "speedups": [round(point.speedup, 3) for point in self.measured],
            "names": [say(f"scale.{code}", language) for code in ("speedup", "ideal")],
            "sentence": self.sentence(language),
        }


def scaling_of(runs: Sequence[tuple[Run, RunDirectory]], cores: int) -> Scaling:
    """Return the points of a scale with these ``runs``, by their ranks' records."""
    pairs = [(run, read_training(run, directory)) for run, directory in runs]
    facts = [training.facts for _, training in pairs if training is not None]
    in_samples = all(each.samples_rate for each in facts)
    points: list[ScalePoint] = []
    base, least = 0.0, 1  # the rate of a rank, and the ranks, of the first point measured
    for run, training in pairs:
        ranks = run.spec.world_size
        point = ScalePoint(run=run, ranks=ranks, training=training)
        if training is not None:
            rate = (training.facts.samples_rate if in_samples else None) or training.facts.step_rate * ranks
            base, least = (base, least) if base else (rate / ranks, ranks)
            efficiency = rate / ranks / base
            speedup = efficiency * ranks / least
            point = replace(point, rate=rate, speedup=speedup, efficiency=efficiency)
        points.append(point)
    return Scaling(points=tuple(points), in_samples=in_samples, cores=cores)
