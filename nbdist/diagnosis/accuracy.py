"""Differences between trainings of one program with fewer and with more ranks, the likely causes of another
accuracy first. Pure; it reads what ``worker.training_facts`` has noted.

What a rank has not noted is no difference, and neither is what follows from more ranks in a right program: a
learning rate that grows with the batch of all ranks, a batch that they divide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

from nbdist.diagnosis.silent import share_fix
from nbdist.diagnosis.training import TrainingFacts, training_of
from nbdist.model.decoding import MALFORMED
from nbdist.store.step_records import StepRecord
from nbdist.text import Both, both

METRIC = "metric"  # it matters where rank 0 alone logs one
_NEAR, _SAME = 0.1, 0.01  # batches are those seen, of which the last may be smaller
_SOME, _FEW = 0.02, 0.001  # of the samples of an epoch, and of an evaluation
_SMALL = 32  # samples that BatchNorm's statistics are taken of
_RATELESS = frozenset({"Adadelta", "Adafactor", "LBFGS", "Prodigy", "Rprop"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference of a training from one with fewer ranks, and lines of code that undo it."""

    code: str
    text: Both
    fixes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "text": self.text.en, "text_zh": self.text.zh, "fixes": list(self.fixes)}


@dataclass(frozen=True)
class Trained:
    """A run's training of ``ranks`` as they recorded it."""

    ranks: int
    records: Mapping[int, StepRecord]

    @cached_property
    def facts(self) -> TrainingFacts | None:
        """Return the facts, where all ranks recorded them and are known to divide the data."""
        training, divides = training_of(self.records, live=False), self.all("is_data_parallel")
        known = training is not None and training.facts.ranks == self.ranks
        return training.facts if training and known and (self.ranks == 1 or all(divides)) else None

    def all(self, name: str) -> list[float]:
        """Return a fact of each rank; 0 where a rank has not noted it."""
        return [self.records[rank].number(name) or 0 for rank in sorted(self.records)]

    def first(self, name: str) -> Any:
        return self.records[min(self.records)].facts.get(name)

    def batches(self) -> tuple[int, int, int]:
        """Return the samples of a rank in a pass, of all ranks in a step, and the steps of an epoch; 0 for
        what is not known."""
        facts, seen = self.facts, filter(None, (self.first("batch_seen"), self.first("loader_batch")))
        if facts is None or any(self.all("is_cut")):
            return 0, 0, 0
        batch = int(min(seen, default=facts.batch or 0))
        passes = self.first("epoch_batches") or self.first("loader_batches") or 0
        return batch, batch * self.ranks * facts.accumulation, ceil(passes / facts.accumulation)

    def epoch(self) -> list[float]:
        """Return the samples that each rank reads in an epoch; 0 where they are not known."""
        read = [0.0] if any(self.all("is_cut")) else self.all("epoch_samples")
        sizes = zip(*map(self.all, ("shard", "loader_batches", "loader_batch")), strict=True)
        # fewer batches than its share has, where the loader drops the last
        return read if any(read) else [min(shard, number * size) for shard, number, size in sizes]


def changes(base: Trained, other: Trained) -> list[Change]:
    """Return the changes of ``other``, of more ranks, in the training of ``base``, the likeliest first."""
    found = list[Change]()
    if not base.facts or not other.facts or base.ranks >= other.ranks:
        return found
    # another program tells nothing of this one
    if all(base.first(name) == other.first(name) for name in ("framework", "optimizer", "parameters")):
        with suppress(*MALFORMED):  # a program may have written the records
            for look in (_data, _batches, _norms, _evaluation):
                found += look(base, other)
    last = ("dropped", METRIC, "norm", "counted-twice")
    return sorted(found, key=lambda change: change.code in last and 1 + last.index(change.code))


def _change(code: str, *fixes: str, **fields: object) -> Change:
    return Change(code=code, text=both(f"accuracy.{code}", **fields), fixes=fixes)


def _is_near(value: float, other: float, within: float = _NEAR) -> bool:
    return abs(value - other) <= within * max(value, other)


def _data(base: Trained, other: Trained) -> Iterator[Change]:
    """Compare the samples of an epoch."""
    own, own_before = other.epoch(), base.epoch()
    if not all(own) or not all(own_before):
        return
    before, now, sampler = int(sum(own_before)), int(sum(own)), str(other.first("sampler"))
    if all(_is_near(each, own_before[0], _SOME) for each in own):
        fix = share_fix(str(other.first("framework")), sampler)[1]
        if sampler == "WeightedRandomSampler":
            fix = f"num_samples={before} // dist.get_world_size()"
        # those of streams have names of torch's own
        shown = "" if sampler.startswith("_") else sampler
        yield _change("no-share", fix, each=int(own[0]), sampler=shown, samples=now, before=before)
    elif now < before * (1 - _SOME):
        fixes = ("drop_last=False",) if other.first("drop_last") else ()
        why = "drop_last=True" if fixes else ""
        yield _change("dropped", *fixes, why=why, samples=now, before=before)


def _batches(base: Trained, other: Trained) -> Iterator[Change]:
    """Compare the samples of a step, and the learning rate."""
    (own, before, steps_before), (_, batch, steps) = base.batches(), other.batches()
    rate, rate_before = other.first("lr_most"), base.first("lr_most")
    if not (batch and before and rate and rate_before) or other.first("optimizer") in _RATELESS:
        return
    name = "lr" if other.first("framework") == "torch" else "learning_rate"
    times = batch / before
    shown = {"batch": batch, "before": before, "lr": f"{rate:.3g}", "lr_before": f"{rate_before:.3g}"}
    if not _is_near(times, 1) and _is_near(rate, rate_before, _SAME):
        by = "dist.get_world_size()" if _is_near(times, other.ranks, _SAME) else f"{times:g}"
        shown |= {"steps": steps if steps != steps_before else "", "steps_before": steps_before}
        fixes = f"{name}={rate_before:g} * {by}", f"batch_size={own} // {by}"
        yield _change("lr-kept", *fixes, linear=f"{rate * times:.3g}", **shown)
    elif _is_near(times, 1) and _is_near(rate / rate_before, other.ranks / base.ranks, _SAME):
        yield _change("lr-twice", f"{name}={rate_before:g}", **shown)


def _norms(base: Trained, other: Trained) -> Iterator[Change]:
    """Name BatchNorm that is not synchronised, where few samples or fewer than before make its statistics."""
    norms, batch, before = int(other.first("batch_norms") or 0), other.batches()[0], base.batches()[0]
    fewer = batch < before * (1 - _NEAR)
    if norms and batch and (fewer or batch <= _SMALL):
        on = "  # on GPUs" if other.first("device") == "cpu" else ""
        fix = f"model = {other.first('framework')}.nn.SyncBatchNorm.convert_sync_batchnorm(model){on}"
        shown = {"norms": norms, "batch": batch, "before": before, "all": batch * other.ranks}
        yield _change("smaller-norm" if fewer else "norm", fix, **shown)


def _evaluation(base: Trained, other: Trained) -> Iterator[Change]:
    """Name an evaluation of a rank's share whose metric is not reduced, or counts samples twice."""
    read, total = other.all("eval_samples"), int(base.first("eval_dataset") or sum(base.all("eval_samples")))
    reduced = set(other.all("eval_reduced"))  # 0: by no collective, 1: by sums alone
    if not all(read) or not total or max(read) > total * (1 - _NEAR) or sum(read) < total * (1 - _NEAR):
        return
    if reduced == {0}:
        yield _change(METRIC, "dist.all_reduce(sums)", samples=int(read[0]), all=total)
    elif reduced == {1} and (more := int(sum(read)) - total) > total * _FEW:
        yield _change("counted-twice", more=more, all=total, sampler=other.first("eval_sampler"))
