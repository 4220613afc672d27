"""Facts of a rank's training that its accuracy depends on: the samples of an epoch and of an evaluation,
whether a metric was reduced, BatchNorm, the highest learning rate. ``diagnosis.accuracy`` compares them; this
module alone decides how a rank notes them. A fact that is not sure is not noted.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from math import prod
from typing import Any

from nbdist.worker.step_time import StepTimer
from nbdist.worker.training_probe import TrainingProbe

_LONGEST = 40  # characters of a name
_MOST, _LOOKS = 16, 100  # iterators, batches of a training that are looked at
_SUMS = ("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_tensor")
SILENT = ("_broadcast_coalesced", "barrier", "monitored_barrier", "wait")  # collectives that tell no metric
_NORMS = ("torch.nn.modules.batchnorm", "paddle.nn.layer.norm")


@dataclass(slots=True)
class _Pass:
    """A pass through a DataLoader: its facts, what the order of the data depends on, the line that made it,
    and the backward passes that there were before."""

    facts: dict[str, Any]
    order: object
    place: object
    backwards: int
    samples: int = 0
    batches: int = 0


class TrainingNotes:
    """The notes of one process, as ``facts``."""

    def __init__(self, timer: StepTimer, probe: TrainingProbe) -> None:
        self.facts: dict[str, Any] = {}
        self._timer, self._sums, self._probe = timer, timer.sums, probe
        self._passes: dict[object, _Pass] = {}  # by iterator
        self.looks = _LOOKS  # batches still to be compared with what the model gets
        self._order: object = None  # of the last epoch
        self._told = 0  # since a pass began: 1 for sums of all ranks, 2 for other collectives
        self._given = self._called = self._read_at = self._summed = self._stepped = 0
        self._evaluated = -1  # backward passes at the end of the last evaluation

    def loader(self, iterator: object) -> dict[str, Any]:
        """Return the facts of an iterator's DataLoader."""
        return self._passes[iterator].facts if iterator in self._passes else {}

    @property
    def has_exchanged(self) -> bool:
        """Return whether ranks may keep their parameters the same by hand."""
        return self._told > 1 or "is_data_parallel" in self.facts

    def opens(self, iterator: int, facts: dict[str, Any], order: object, place: object) -> None:
        if len(self._passes) >= _MOST:
            del self._passes[next(iter(self._passes))]
        self._passes[iterator] = _Pass(facts, order, place, self._sums["backwards"])
        self._told = 0

    def reads(self, iterator: int, samples: int | None) -> None:
        """Take a batch, or the end (``samples`` is None)."""
        reading, facts, backwards = self._passes[iterator], self.facts, self._sums["backwards"]
        if samples is None:
            self._end(iterator, reading)
            return
        reading.samples += samples
        reading.batches += 1
        if reading.order and reading.order == self._order and backwards > reading.backwards:
            self._probe.notes["same_order"] = reading.place
        if self.looks and backwards > self._read_at:  # the model has got the batch before
            self.looks -= 1
            facts["batch_seen"] = max(facts.get("batch_seen", 0), self._given)
            if 0 < self._called < self._given:
                facts["is_cut"] = True  # the program takes a part of each batch
        self._read_at, self._given, self._called = backwards, samples, 0

    def _end(self, iterator: int, reading: _Pass) -> None:
        """Take the end of a pass: an epoch, or an evaluation, which has no backward passes."""
        facts = self.facts
        if self._sums["backwards"] == reading.backwards:
            self._evaluated = reading.backwards
            facts["eval_samples"] = reading.samples
            facts |= {f"eval_{name}": reading.facts[name] for name in ("dataset", "sampler")}
            self._note_told()
        elif iterator == self._timer.trained:
            self._order = reading.order
            facts["epochs"] = facts.get("epochs", 0) + 1
            facts |= {"epoch_samples": reading.samples, "epoch_batches": reading.batches}

    def calls(self, samples: int) -> None:
        self._called += samples

    def tells(self, name: str, shape: Any, is_back: bool) -> None:
        """Take a collective: of gradients before an optimizer's step, or of a metric after an evaluation."""
        self._told = max(self._told, 1 if name in _SUMS else 2)
        if self._sums["backwards"] == self._evaluated:
            self._note_told()
        if name in _SUMS and not is_back and self._sums["backwards"] > self._stepped:
            self._summed += count(shape)

    def _note_told(self) -> None:
        self.facts["eval_reduced"] = max(self._told, self.facts.get("eval_reduced", 0))

    def begins(self, facts: dict[str, Any]) -> None:
        """Take the first step of a training, and what is known of it."""
        self.facts, self.looks = facts, _LOOKS

    def steps(self, rate: float | None) -> None:
        """Take a step with a learning rate."""
        facts, summed = self.facts, self._summed
        self._summed, self._stepped = 0, self._sums["backwards"]
        facts["lr"] = rate
        if rate is not None and rate > facts.get("lr_most", 0.0):
            facts["lr_most"] = rate
        if summed and 2 * summed >= facts["parameters"] and "is_data_parallel" not in facts:
            facts["is_data_parallel"] = self._probe.divides_data(None)


def of_training(optimizer: Any, schedule: str | None, model: Any, probe: TrainingProbe) -> dict[str, Any]:
    """Return the facts of a training at its first step; ``model`` is the wrapped one, None where none was
    called."""
    parameters = trained_by(optimizer)
    sizes = [(count(parameter.shape), int(parameter.element_size())) for parameter in parameters]
    rate = getattr(optimizer, "_learning_rate", None)
    facts = {
        "framework": "torch" if hasattr(optimizer, "param_groups") else "paddle",
        "device": device_of(parameters[0]) if parameters else "",
        "optimizer": type(optimizer).__name__[:_LONGEST],
        "parameters": sum(count for count, _ in sizes),
        "gradient_bytes": sum(count * size for count, size in sizes),
        "lr_first": learning_rate(optimizer),
        # paddle's is the rate itself
        "schedule": type(rate).__name__ if hasattr(rate, "last_lr") else schedule,
    }
    if model is not None:
        modules = model.modules() if hasattr(model, "modules") else model.sublayers()
        facts["is_data_parallel"] = probe.divides_data(model)
        facts["batch_norms"] = sum(map(_is_batch_norm, modules))
    return facts


def trained_by(optimizer: Any) -> list[Any]:
    """Return the parameters that it changes."""
    groups = optimizer.param_groups if hasattr(optimizer, "param_groups") else optimizer._parameter_list
    lists = (group["params"] if isinstance(group, dict) else (group,) for group in groups or ())
    return [parameter for parameters in lists for parameter in parameters if trains(parameter)]


def learning_rate(optimizer: Any) -> float | None:
    groups = getattr(optimizer, "param_groups", None)
    rate = groups[0].get("lr") if groups else getattr(optimizer, "_learning_rate", None)
    if type(rate) is float:
        return rate
    rate = getattr(rate, "last_lr", rate)
    # reading a tensor may wait for a GPU
    return float(rate) if isinstance(rate, (int, float)) else None


def data_order(loader: Any) -> object:
    """Return what the order of a DataLoader's data depends on; None where nothing shuffles by epochs."""
    batches = getattr(loader, "batch_sampler", None)
    sampler: Any = getattr(batches, "sampler", batches)  # paddle's divides by batches
    shuffles = hasattr(sampler, "set_epoch") and sampler.shuffle
    return (weakref.ref(sampler), sampler.epoch) if shuffles else None


def loader_facts(loader: Any) -> dict[str, Any]:
    """Return the facts of a DataLoader."""
    # len(loader) would make torch warn about an IterableDataset that has more
    batches: Any = getattr(loader, "batch_sampler", None)
    size = getattr(loader, "batch_size", None) or getattr(batches, "batch_size", None)
    # paddle's DistributedBatchSampler divides the data itself
    divides = hasattr(batches, "num_samples") and hasattr(batches, "nranks")
    sampler: Any = None if divides else getattr(batches, "sampler", None)
    samplers = [each for each in (sampler, batches, getattr(loader, "sampler", None)) if each is not None]
    shares = (getattr(each, name, None) for each in samplers for name in ("rank", "local_rank"))
    return {
        "workers": loader.num_workers,
        "loader_batch": size if isinstance(size, int) else None,
        "loader_batches": _length(batches),
        "dataset": _length(getattr(loader, "dataset", None)),
        "shard": int(batches.num_samples) if divides else _length(sampler),
        "share": next((share for share in shares if type(share) is int), None),
        "sampler": type(samplers[0]).__name__[:_LONGEST] if samplers else None,
        "drop_last": any(getattr(each, "drop_last", False) is True for each in (loader, *samplers)),
    }


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, AttributeError, NotImplementedError, RuntimeError):
        return None


def count(shape: Any) -> int:
    return prod(map(int, shape))


def trains(parameter: Any) -> bool:
    return bool(getattr(parameter, "requires_grad", not getattr(parameter, "stop_gradient", False)))


def device_of(parameter: Any) -> str:
    """Return ``cpu``, ``cuda``, ``gpu``, …"""
    if hasattr(parameter, "place"):
        return str(parameter.place).rpartition("(")[2].rstrip(")").partition(":")[0]
    return str(parameter.device.type)


def _is_batch_norm(module: Any) -> bool:
    """Return whether a module is a BatchNorm of its rank alone that trains; classes of others may do more."""
    name, home = type(module).__name__, type(module).__module__
    return "BatchNorm" in name and name != "SyncBatchNorm" and home in _NORMS and bool(module.training)
