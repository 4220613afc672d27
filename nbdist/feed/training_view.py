"""The training of a run as screens show it, from the records of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.diagnosis.training import Training, training_of
from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.store.step_records import read_records


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingView:
    """A training: its facts, and the sentence that names its limit, in words. ``parts`` are shares of 1, the
    mean of the ranks, in order; not ``on_host`` with a GPU, for which they are times of the host."""

    text: str
    text_zh: str
    limit: str
    limit_zh: str
    on_host: bool
    parts: Mapping[str, float]

    def lines(self, language: str) -> tuple[str, str]:
        return (self.text_zh, self.limit_zh) if language == "zh" else (self.text, self.limit)


def read_training(run: Run, directory: RunDirectory) -> Training | None:
    """Return the training of a run, lately while it goes on; None for a run that does not train."""
    return training_of(read_records(run, directory), live=not run.state.terminal)


def training_view(training: Training | None) -> TrainingView | None:
    if training is None:
        return None
    return TrainingView(
        text=training.line("en"),
        text_zh=training.line("zh"),
        limit=training.limit.en,
        limit_zh=training.limit.zh,
        on_host=training.on_host,
        parts={part: round(share, 3) for part, share in training.mean.items()},
    )
