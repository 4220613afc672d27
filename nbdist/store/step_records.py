"""The record of a rank's training steps: how its time divides, and facts of the training.

``worker.step_time`` writes it once a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_int, as_time, loads
from nbdist.store.paths import RunDirectory

PARTS = ("data", "forward", "backward", "wait", "optimizer", "other")
HOST_PARTS = ("data", "wait", "other")
"""The parts of a training on a GPU: its other calls return before the GPU has done their work."""

_LONGEST, _LARGEST = 40, 1e15  # characters of a name, a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Some steps: their number, seconds, samples, batches, backward passes, and the seconds of each part."""

    steps: int
    seconds: float
    samples: int
    fetches: int
    backwards: int
    parts: Mapping[str, float]

    @property
    def shares(self) -> dict[str, float]:
        """Return the parts of 1."""
        return {part: seconds / self.seconds for part, seconds in self.parts.items()}

    @property
    def rate(self) -> float:
        """Return the steps a second."""
        return self.steps / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A rank's training at ``time`` (Unix seconds): all steps but the first two, the ``recent`` ones,
    ``facts`` (framework, device, optimizer, parameters, gradient_bytes, lr, lr_first, schedule, and those of
    ``worker.training_facts``), and ``notes`` of ``worker.training_probe``, as the rank wrote them."""

    time: float
    total: Division
    recent: Division
    facts: Mapping[str, Any]
    notes: Mapping[str, Any]

    @property
    def on_host(self) -> bool:
        """Return whether the CPU computes, so that the time of a call is that of its work."""
        return self.facts.get("device") == "cpu"

    def number(self, name: str) -> float | None:
        """Return a fact that is a number; None where it is not known."""
        value = self.facts.get(name)
        return value if isinstance(value, (int, float)) else None


def read_steps(path: Path) -> StepRecord | None:
    """Return the record in a file; None where there is none."""
    try:
        data = loads(path.read_bytes())
        # a program may have written it
        facts = {name: value for name, value in data["facts"].items() if _is_plain(value)}
        on_host = facts.get("device") == "cpu"
        return StepRecord(
            time=as_time(data["time"]),
            total=_division(data["total"], on_host=on_host),
            recent=_division(data["recent"], on_host=on_host),
            facts=MappingProxyType(facts),
            notes=MappingProxyType(dict(data.get("notes", ()))),
        )
    except (OSError, *MALFORMED):
        return None


def read_records(run: Run, directory: RunDirectory) -> dict[int, StepRecord]:
    """Return what the ranks of a run have recorded of their training."""
    records = ((rank.rank, read_steps(directory.rank(rank.rank, run.attempt).steps)) for rank in run.ranks)
    return {rank: record for rank, record in records if record is not None}


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return value.isidentifier() and len(value) <= _LONGEST
    return isinstance(value, (int, float)) and 0 <= value <= _LARGEST


def _division(data: Mapping[str, Any], *, on_host: bool) -> Division:
    counts = {name: max(0, as_int(data[name])) for name in ("steps", "samples", "fetches", "backwards")}
    seconds = max(1e-6, as_time(data["seconds"]))
    parts = {name: max(0.0, as_time(data["parts"][name])) for name in PARTS}
    if not on_host:
        parts = {name: parts[name] for name in HOST_PARTS}
        parts["other"] = max(0.0, seconds - parts["data"] - parts["wait"])
    return Division(seconds=seconds, parts=MappingProxyType(parts), **counts)
