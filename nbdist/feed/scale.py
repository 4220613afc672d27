"""A scale as it stands: the rates of its points, and why more ranks give less than they could."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.diagnosis.training import Training
from nbdist.feed.labels import state_word
from nbdist.feed.training_view import read_training
from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.text import say

_GOOD = 0.9  # of the ideal: nothing to explain
_AS_FAST = 1.05
_BAR = 20  # characters of the ideal


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The ``runs`` of a scale. Those that trained have a training and a rate by their number of ranks,
    the smallest first: samples a second of all ranks, or steps where samples are not known."""

    runs: tuple[Run, ...]
    trainings: Mapping[int, Training]
    rates: Mapping[int, float]
    in_samples: bool

    @property
    def speedups(self) -> dict[int, float]:
        """Return the rates, each over that of the smallest number of ranks."""
        return {ranks: rate / self.rates[min(self.rates)] for ranks, rate in self.rates.items()}

    @property
    def efficiencies(self) -> dict[int, float]:
        """Return the speed-ups, of which the ideal is 1."""
        return {ranks: speedup * min(self.rates) / ranks for ranks, speedup in self.speedups.items()}

    def sentence(self, language: str) -> str:
        """Return ``2 ranks give 1.2 × (61 %): …``; empty until a run has ended or trained."""
        if not self.rates:
            return say("scale.none", language) if self.runs[0].state.terminal else ""
        base, last = min(self.rates), max(self.rates)
        if base == last:
            return say("scale.one", language, ranks=base)
        enough = [ranks for ranks, rate in self.rates.items() if rate * _AS_FAST >= self.rates[last]]
        return say(
            "scale.gives",
            language,
            ranks=last,
            base=base if base > 1 else "",
            speedup=self.speedups[last],
            efficiency=round(100 * self.efficiencies[last]),
            why=self._why(base, last, language),
            best="" if enough[0] == last else enough[0],
        )

    def _why(self, base: int, last: int, language: str) -> str:
        """Return what more ranks lost; empty where that is little. It is the limit of their training, but for
        a time of computing that grew more than the others of a rank for a sample."""
        training = self.trainings[last]
        if training.on_host and not training.mean["wait"]:
            return say("scale.why-alone", language)
        if self.efficiencies[last] >= _GOOD:
            return ""
        limit = training.limit.text(language)
        before, costs = (
            {part: share * ranks / self.rates[ranks] for part, share in self.trainings[ranks].mean.items()}
            for ranks in (base, last)
        )
        part = max(costs, key=lambda name: costs[name] - before[name])
        if part == "wait" and training.on_host:
            return say("scale.why-wait", language, limit=limit)
        if part not in ("data", "wait", "other"):
            return say("scale.why-compute", language, times=costs[part] / (before[part] or costs[part]))
        return limit

    def table(self, language: str) -> list[list[str]]:
        """Return the titles, and a row for each run."""
        codes = ("ranks", "samples" if self.in_samples else "rank-steps", "speedup", "efficiency", "limit")
        rows = {run.spec.world_size: ["", "", "", state_word(run.state, language)] for run in self.runs}
        for ranks, rate in self.rates.items():
            rows[ranks] = [
                f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}",
                f"{self.speedups[ranks]:.2f} ×",
                _bar(self.efficiencies[ranks]),
                self.trainings[ranks].limit.text(language),
            ]
        titles = [say(f"scale.{code}", language) for code in codes]
        return [titles, *([str(ranks), *cells] for ranks, cells in rows.items())]

    def to_dict(self, language: str) -> dict[str, Any]:
        """Return ``scale`` of the page's protocol."""
        return {"table": self.table(language), "sentence": self.sentence(language)}


def _bar(efficiency: float) -> str:
    """Return ``60 % ██████░░░░``."""
    return f"{100 * efficiency:.0f} % {'█' * round(_BAR * efficiency):░<{_BAR}}"


def scaling_of(runs: Sequence[tuple[Run, RunDirectory]]) -> Scaling:
    """Return how the runs of a scale, the fewest ranks first, have trained by their ranks' records."""
    read = {run.spec.world_size: read_training(run, directory) for run, directory in runs}
    trainings = {ranks: training for ranks, training in read.items() if training is not None}
    in_samples = all(training.facts.samples_rate for training in trainings.values())
    rates = {
        ranks: (in_samples and training.facts.samples_rate) or training.facts.step_rate * ranks
        for ranks, training in trainings.items()
    }
    return Scaling(
        runs=tuple(run for run, _ in runs), trainings=trainings, rates=rates, in_samples=in_samples
    )
