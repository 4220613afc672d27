"""A scale as it stands: the rates of its points, and why more ranks give less than they could.

Costs are seconds of a rank for a sample, by the parts of a step. What the larger number of ranks adds to
them is its loss, and the part that adds most is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.diagnosis.training import Training
from nbdist.feed.labels import state_word
from nbdist.feed.training_view import read_training
from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.text import say, size_text

_GOOD = 0.9  # of the ideal: nothing to explain
_AS_FAST = 1.05
_MAIN = 0.3  # of the loss: less explains nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePoint:
    """A number of ranks that was measured. ``rate``: samples a second of all ranks, or steps where samples
    are not known; ``speedup``: over the smallest number; ``efficiency``: that of the ideal, 1."""

    ranks: int
    training: Training
    rate: float
    speedup: float
    efficiency: float

    @property
    def costs(self) -> Mapping[str, float]:
        """Return seconds of a rank for a sample, by part; with a GPU the host knows those of data alone."""
        mean, whole = self.training.mean, self.ranks / self.rate
        shares = {"data": mean["data"]}
        if self.training.on_host:
            shares["send"] = min(parts["wait"] for parts in self.training.parts.values())
            shares["rank"] = mean["wait"] - shares["send"]
            shares["compute"] = mean["forward"] + mean["backward"] + mean["optimizer"]
            shares["other"] = mean["other"]
        return {part: share * whole for part, share in shares.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The ``runs`` of a scale, and the points of those that trained, the fewest ranks first. ``in_samples``:
    the rates are samples'."""

    runs: tuple[Run, ...]
    points: tuple[ScalePoint, ...]
    in_samples: bool

    def sentence(self, language: str) -> str:
        """Return ``2 ranks give 1.2 × (61 %): …``; empty until a run has ended or trained."""
        if not self.points:
            return say("scale.none", language) if self.runs[0].state.terminal else ""
        base, last = self.points[0], self.points[-1]
        if base is last:
            return say("scale.one", language, ranks=base.ranks)
        enough = [point.ranks for point in self.points[:-1] if point.rate * _AS_FAST >= last.rate]
        return say(
            "scale.gives",
            language,
            ranks=last.ranks,
            base=base.ranks if base.ranks > 1 else "",
            speedup=last.speedup,
            efficiency=round(100 * last.efficiency),
            why=_why(base, last, language),
            best=enough[0] if enough else "",
        )

    def table(self, language: str) -> list[list[str]]:
        """Return the titles, and a row for each run."""
        rate = "samples" if self.in_samples else "rank-steps"
        codes = ("ranks", rate, "speedup", "efficiency", "limit")
        rows = {run.spec.world_size: ["", "", "", state_word(run.state, language)] for run in self.runs}
        for point in self.points:
            rows[point.ranks] = [
                f"{point.rate:,.0f}" if point.rate >= 100 else f"{point.rate:.3g}",
                f"{point.speedup:.2f} ×",
                f"{100 * point.efficiency:.0f} %",
                point.training.limit.text(language),
            ]
        titles = [say(f"scale.{code}", language) for code in codes]
        return [titles, *([str(ranks), *cells] for ranks, cells in rows.items())]

    def to_dict(self, language: str) -> dict[str, Any]:
        """Return ``scale`` of the page's protocol."""
        return {
            "table": self.table(language),
            "ranks": [point.ranks for point in self.points],
            "speedups": [round(point.speedup, 3) for point in self.points],
            "names": [say(f"scale.{code}", language) for code in ("speedup", "ideal")],
            "sentence": self.sentence(language),
        }


def _why(base: ScalePoint, point: ScalePoint, language: str) -> str:
    """Return what the ranks of ``point`` lost; empty where that is little, or not known."""
    before, costs, facts = base.costs, point.costs, point.training.facts
    if point.training.on_host and not point.training.mean["wait"]:
        return say("scale.why-alone", language)
    more = {part: cost - before[part] for part, cost in costs.items()}
    part = max(more, key=lambda name: more[name])
    lost = point.ranks / point.rate - base.ranks / base.rate
    if point.efficiency >= _GOOD or more[part] < _MAIN * lost:
        return ""
    return say(
        f"scale.why-{part}",
        language,
        share=round(100 * costs[part] * point.rate / point.ranks),
        size=size_text(facts.gradient_bytes) if facts.gradient_bytes else "",
        workers="" if facts.workers is None else facts.workers,
        times=costs[part] / (before[part] or costs[part]),
    )


def scaling_of(runs: Sequence[tuple[Run, RunDirectory]]) -> Scaling:
    """Return how the runs of a scale, the fewest ranks first, have trained by their ranks' records."""
    read = {run.spec.world_size: read_training(run, directory) for run, directory in runs}
    trainings = {ranks: training for ranks, training in read.items() if training is not None}
    in_samples = all(training.facts.samples_rate for training in trainings.values())
    rates = {
        ranks: (in_samples and training.facts.samples_rate) or training.facts.step_rate * ranks
        for ranks, training in trainings.items()
    }
    least = min(rates, default=1)
    points = (
        ScalePoint(
            ranks=ranks,
            training=trainings[ranks],
            rate=rate,
            speedup=rate / rates[least],
            efficiency=rate / ranks / (rates[least] / least),
        )
        for ranks, rate in rates.items()
    )
    return Scaling(runs=tuple(run for run, _ in runs), points=tuple(points), in_samples=in_samples)
