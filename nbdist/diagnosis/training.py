"""A training as its ranks record it: its facts, how the time of a step divides, and what limits it. Pure.

A sentence names the largest part that is no computation, where that takes a fifth of the time. The wait that
all ranks have in common is the exchange of gradients; what the others wait longer, they wait for the rank
that waits least.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from nbdist.store.step_records import HOST_PARTS, PARTS, Division, StepRecord
from nbdist.text import Both, both, say, size_text

_LARGE = 0.2
_STEPS, _SECONDS = 3, 1.0  # fewer tell nothing
_CURRENT = 10.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFacts:
    """Facts of a training; None where one is not known. ``batch``: samples of a rank in one pass, of which a
    step has ``accumulation``; ``global_batch``: those of all ranks in a step. ``epoch_samples`` are those of
    all ranks. Rates are a second, of all ranks and of each."""

    framework: str
    device: str
    optimizer: str
    ranks: int
    batch: int | None
    accumulation: int
    global_batch: int | None
    epoch_steps: int | None
    epoch_samples: int | None
    steps: int
    step_rate: float
    samples_rate: float | None
    samples_rates: Mapping[int, float]
    lr: float | None
    lr_first: float | None
    schedule: str | None
    parameters: float | None
    gradient_bytes: float | None
    workers: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The training of a run: ``parts`` are shares of 1 of each rank's time, ``mean`` those of all ranks.
    With a GPU (not ``on_host``) they are times of the host; forward, backward and optimizer are not known.
    ``limit`` is a sentence, empty where little is known; ``time`` that of the last record (Unix seconds) of
    a ``live`` one."""

    facts: TrainingFacts
    parts: Mapping[int, Mapping[str, float]]
    mean: Mapping[str, float]
    step_rates: Mapping[int, float]
    on_host: bool
    limit: Both
    live: bool
    time: float

    def rates_at(self, now: float) -> Mapping[int, float]:
        """Return the steps a second by rank; none while the ranks do something else for some steps' time."""
        longest = max(_CURRENT, _STEPS / self.facts.step_rate)
        return self.step_rates if not self.live or now - self.time <= longest else {}

    def waits_at(self, now: float) -> Mapping[int, float]:
        """Return the shares of time that ranks wait for others, in the steps of ``rates_at``."""
        return {rank: self.parts[rank]["wait"] for rank in self.rates_at(now) if self.on_host}

    def line(self, language: str) -> str:
        """Return ``batch 32 × 2 ranks = 64 · 63 steps an epoch · …``."""
        facts = self.facts
        rate, several = facts.samples_rate, facts.ranks * facts.accumulation > 1
        fields: dict[str, object] = asdict(facts) | {
            "accumulation": facts.accumulation if facts.accumulation > 1 else "",
            "ranks": facts.ranks if facts.ranks > 1 else "",
            "global_batch": facts.global_batch if several else "",
            "epoch_samples": facts.epoch_samples and f"{facts.epoch_samples:,}",
            "samples_rate": rate and (f"{rate:,.3g}" if rate < 1000 else f"{rate:,.0f}"),
            "step_rate": f"{facts.step_rate:.3g}",
            "lr": facts.lr and f"{facts.lr:.3g}",
            "parameters": _count(facts.parameters or 0),
            "size": size_text(facts.gradient_bytes or 0),
        }
        batch, epoch = facts.batch and "batch", facts.epoch_steps and "epoch"
        known = (batch, epoch, "rate", facts.lr and "lr", facts.parameters and "model")
        return " · ".join(say(f"training.{name}", language, **fields) for name in known if name)

    def bar(self, language: str) -> str:
        """Return ``data 29 % · forward 12 % · …``, the mean of all ranks."""
        shares = self.mean.items()
        parts = (f"{say(f'training.{part}', language)} {100 * share:.0f} %" for part, share in shares)
        text = " · ".join(parts)
        return text if self.on_host else say("training.host", language, parts=text)

    def lines(self, language: str) -> list[str]:
        """Return the facts, and what limits the training, with the parts of the time."""
        limit, bar = self.limit.text(language), self.bar(language)
        return [self.line(language), say("training.limit", language, limit=limit, parts=bar)]

    def to_dict(self, language: str = "en") -> dict[str, Any]:
        """Return it for JSON: known facts, the mean shares, and the sentence."""
        facts = {name: value for name, value in asdict(self.facts).items() if value is not None}
        del facts["samples_rates"], facts["ranks"]
        rates = {name: float(f"{facts[name]:.4g}") for name in ("step_rate", "samples_rate") if name in facts}
        parts = {part: round(share, 3) for part, share in self.mean.items()}
        return facts | rates | {"parts": parts, "on_host": self.on_host, "limit": self.limit.text(language)}


def training_of(records: Mapping[int, StepRecord], *, live: bool) -> Training | None:
    """Return the training that the ranks record, lately if ``live``; None where none has done some steps."""
    divisions = {rank: record.recent if live else record.total for rank, record in records.items()}
    divisions = {rank: division for rank, division in divisions.items() if division.steps}
    if not divisions:
        return None
    on_host = all(record.on_host for record in records.values())
    parts, names = {rank: each.shares for rank, each in divisions.items()}, PARTS if on_host else HOST_PARTS
    mean = {part: sum(shares[part] for shares in parts.values()) / len(parts) for part in names}
    facts = _facts({rank: records[rank] for rank in divisions}, divisions)
    enough = all(each.steps >= _STEPS and each.seconds >= _SECONDS for each in divisions.values())
    return Training(
        facts=facts,
        parts=parts,
        mean=mean,
        step_rates={rank: division.rate for rank, division in divisions.items()},
        on_host=on_host,
        limit=_limit(facts, parts, mean, on_host=on_host) if enough else Both("", ""),
        live=live,
        time=max(record.time for record in records.values()),
    )


def _facts(records: Mapping[int, StepRecord], divisions: Mapping[int, Division]) -> TrainingFacts:
    first, division = records[min(records)], divisions[min(divisions)]
    facts = first.facts
    # the last pass of an epoch may have fewer
    passes = min(division.backwards, division.fetches) or division.backwards
    accumulation = max(1, round(passes / division.steps))
    batches = {rank: _batch(records[rank], divisions[rank]) for rank in records}
    whole = all(batches.values())
    shards = [record.number("shard") for record in records.values()]
    loader = first.number("loader_batches")
    rates = {rank: each.samples / each.seconds for rank, each in divisions.items() if each.samples}
    return TrainingFacts(
        framework=str(facts.get("framework")),
        device=str(facts.get("device")),
        optimizer=str(facts.get("optimizer")),
        ranks=len(records),
        batch=batches[min(batches)],
        accumulation=accumulation,
        global_batch=accumulation * sum(batch or 0 for batch in batches.values()) if whole else None,
        epoch_steps=ceil(loader / accumulation) if loader else None,
        epoch_samples=int(sum(filter(None, shards))) if all(shards) else None,
        steps=max(record.total.steps for record in records.values()),
        step_rate=min(each.rate for each in divisions.values()),
        samples_rate=sum(rates.values()) if len(rates) == len(records) else None,
        samples_rates=rates,
        lr=first.number("lr"),
        lr_first=first.number("lr_first"),
        schedule=facts.get("schedule"),
        parameters=first.number("parameters"),
        gradient_bytes=first.number("gradient_bytes"),
        workers=first.number("workers"),
    )


def _batch(record: StepRecord, division: Division) -> int | None:
    """Return the samples of one pass: those of a DataLoader, else what the passes had."""
    known = record.number("loader_batch") or (division.fetches and division.samples / division.fetches)
    return round(known) or None


def _count(number: float) -> str:
    """Return ``1.1 M``."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _limit(
    facts: TrainingFacts,
    parts: Mapping[int, Mapping[str, float]],
    mean: Mapping[str, float],
    *,
    on_host: bool,
) -> Both:
    waits = {rank: shares["wait"] for rank, shares in parts.items()}
    least = min(waits, key=lambda rank: waits[rank])
    own = {"data": mean["data"]}
    if on_host:
        skew = sum(waits.values()) - len(waits) * waits[least]
        own |= {"send": waits[least], "rank": skew / max(1, len(waits) - 1)}
        own |= {"optimizer": mean["optimizer"], "other": mean["other"]}
    kind = max(own, key=lambda name: own[name])
    if own[kind] < _LARGE:
        share = round(100 * (mean["forward"] + mean["backward"])) if on_host else 0
        return both("training.limit-compute", share=share) if on_host else Both("", "")
    size = size_text(facts.gradient_bytes) if facts.gradient_bytes else ""
    more = {part: parts[least][part] - share for part, share in mean.items() if part != "wait"}
    most = max(more, key=lambda part: more[part])
    return both(
        f"training.limit-{kind}",
        share=round(100 * own[kind]),
        workers=facts.workers,
        size=size,
        rank=least,
        part=both(f"training.{most}"),
        ours=round(100 * parts[least][most]),
    )
