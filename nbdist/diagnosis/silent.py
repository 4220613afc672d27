"""Training mistakes that raise nothing, from the ranks' notes (``worker.training_probe``): every rank reads
the same batches, every epoch has the same order, a wrapper that averages gradients is never called.

nbdist reports none where a correct program might look the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_int
from nbdist.programs.sources import Sources
from nbdist.store import RunDirectory
from nbdist.store.metrics import LineReader, decoded
from nbdist.text import Both, both

_PERIOD = 1.0
_BATCHES = 3
_SHARES = {
    "torch": ("DistributedSampler", "DataLoader(…, sampler=DistributedSampler(dataset, shuffle=True))"),
    "paddle": (
        "DistributedBatchSampler",
        "DataLoader(…, batch_sampler=paddle.io.DistributedBatchSampler(dataset, batch_size, shuffle=True))",
    ),
}
_PLAIN = frozenset(
    {"SequentialSampler", "RandomSampler", "SubsetRandomSampler", "SequenceSampler", "BatchSampler"}
)
"""Samplers that those of ``_SHARES`` can replace."""

_WEIGHTED = {"WeightedRandomSampler": "generator=torch.Generator().manual_seed(seed + rank)"}
_SHARE_OF_STREAM = "itertools.islice(data, rank, None, world_size)"
_SHARE_OF_BATCHES = "itertools.islice(batches, rank, None, world_size)"
_WRAPPERS = {
    "torch": {"wrapper": "DistributedDataParallel", "inner": "model.module"},
    "paddle": {"wrapper": "paddle.DataParallel", "inner": "model._layers"},
}
_STREAMS = frozenset({"_InfiniteConstantSampler", "_InfiniteIterableSampler"})
"""Stand-ins for a sampler where the data set is an iterable."""


def share_fix(library: str, sampler: str) -> tuple[str, str]:
    """Return the mistake of ranks that read the same data by a sampler, and the code that divides it."""
    if sampler in _STREAMS:
        return "same-stream", _SHARE_OF_STREAM
    if sampler == _SHARES[library][0]:
        return "same-share", f"{sampler}(dataset, …)"
    if sampler in _WEIGHTED:
        return "same-draws", _WEIGHTED[sampler]
    if sampler in _PLAIN:
        return "same-batches", _SHARES[library][1]
    return "same-own-share", _SHARE_OF_BATCHES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """A batch: ``at`` is the line that made its loader, ``sampler`` the sampler's type, ``share`` the share
    it takes."""

    digest: int
    library: str
    at: tuple[str, int] | None
    sampler: str
    share: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameters:
    """Sums of sampled absolute values, one for each tensor, which may differ by the part ``within``."""

    sums: tuple[float, ...]
    within: float

    def differs(self, other: _Parameters) -> bool:
        within = max(self.within, other.within)
        return any(abs(a - b) > within * max(a, b) for a, b in zip(self.sums, other.sums, strict=True))


class MistakeReader:
    """The mistakes of one run's current attempt, read as its ranks write notes; each is reported once."""

    def __init__(self, directory: RunDirectory, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._clock = clock
        self._attempt = 0
        self._looked = 0.0
        self._complete = False

    def look(self, run: Run) -> tuple[Both, ...]:
        """Return the mistakes so far, as sentences. Reads files once a second, and at the run's end."""
        if len(run.ranks) < 2 or run.spec.session is not None:
            return ()  # in a session a rank may well do alone what it does
        if run.attempt != self._attempt:
            self._begin(run)
        if not self._complete and (run.state.terminal or self._clock() - self._looked >= _PERIOD):
            self._looked = self._clock()
            self._complete = run.state.terminal
            for rank, reader in self._readers.items():
                while lines := reader.lines():
                    self._take(rank, lines)
        return tuple(self._found.values())

    def _begin(self, run: Run) -> None:
        self._attempt = run.attempt
        self._sources = Sources.of(run, self._directory)
        files = {rank.rank: self._directory.rank(rank.rank, run.attempt) for rank in run.ranks}
        self._readers = {rank: LineReader(file.training) for rank, file in files.items()}
        self._batches: dict[int, list[_Batch]] = {rank: [] for rank in files}
        self._parameters: dict[tuple[object, ...], dict[int, _Parameters]] = {}
        self._found: dict[str, Both] = {}
        self._looked = -_PERIOD
        self._complete = False

    def _take(self, rank: int, lines: list[bytes]) -> None:
        for note in decoded(lines):
            try:
                if "batch" in note:
                    self._take_batch(rank, note)
                elif "epoch" in note:
                    self._say("same-order", _at(note))
                else:
                    self._take_parameters(rank, note)
            except MALFORMED:
                continue

    def _take_batch(self, rank: int, note: Mapping[str, Any]) -> None:
        batch = _Batch(
            digest=as_int(note["digest"]),
            library=str(note["library"]),
            at=_at(note),
            sampler=str(note["sampler"]),
            share=None if note.get("share") is None else as_int(note["share"]),
        )
        self._batches[rank].append(batch)
        if _are_the_same(list(self._batches.values())):
            code, fix = share_fix(batch.library, batch.sampler)
            sampler = _SHARES[batch.library][0] if code == "same-batches" else batch.sampler
            self._say(code, batch.at, sampler=sampler, fix=fix)

    def _take_parameters(self, rank: int, note: Mapping[str, Any]) -> None:
        step, group = as_int(note["step"]), [as_int(rank) for rank in note["group"]]
        here = _Parameters(sums=tuple(float(total) for total in note["sums"]), within=float(note["within"]))
        # ranks at another step, or with other tensors, cannot be compared
        key = (str(note["model"]), str(note["of"]), step, *group, len(here.sums))
        ranks = self._parameters.setdefault(key, {})
        ranks.setdefault(rank, here)
        if set(ranks) != set(group):
            return
        del self._parameters[key]
        samples = list(ranks.values())
        if not all(isfinite(total) for sample in samples for total in sample.sums):
            return
        if any(sample.differs(samples[0]) for sample in samples):
            words = _WRAPPERS[str(note["library"])] | {"model": str(note["name"])}
            self._say("never-shared", _at(note), step=step, **words)

    def _say(self, why: str, at: tuple[str, int] | None, **fields: object) -> None:
        if why in self._found:
            return
        if at is None:
            place = Both("", "")
        else:
            name = self._sources.name(at[0])
            place = both(f"diagnosis.{'line' if name else 'cell-line'}", file=name, line=at[1])
        self._found[why] = both(f"diagnosis.{why}", place=place, **fields)


def _at(note: Mapping[str, Any]) -> tuple[str, int] | None:
    at = note["place"]
    return None if at is None else (str(at[0]), as_int(at[1]))


def _are_the_same(ranks: Sequence[Sequence[_Batch]]) -> bool:
    """Return whether all ranks' first batches are the same, and differ from each other. Single values, single
    batches, and shares with random samples prove nothing."""
    if len({batch.share for batches in ranks for batch in batches}) > 1:
        return False
    digests = {tuple(batch.digest for batch in batches[:_BATCHES]) for batches in ranks}
    return len(digests) == 1 and len(set(digests.pop())) == _BATCHES
