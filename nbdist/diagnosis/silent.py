"""Training mistakes that raise nothing, from the ranks' notes (``worker.training_probe``): every rank reads
the same batches, every epoch has the same order, a wrapper that averages gradients is never called.

nbdist reports none where a correct program might look the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_int
from nbdist.programs.sources import Sources
from nbdist.store import RunDirectory
from nbdist.store.step_records import StepRecord, read_records
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
            self._attempt, self._complete, self._looked = run.attempt, False, -_PERIOD
            self._sources = Sources.of(run, self._directory)
            self._found: dict[str, Both] = {}
        if not self._complete and (run.state.terminal or self._clock() - self._looked >= _PERIOD):
            self._looked = self._clock()
            self._complete = run.state.terminal
            records = read_records(run, self._directory)
            for record in records.values():
                with suppress(*MALFORMED):  # a program may have written it
                    self._take(record)
            with suppress(*MALFORMED):
                if len(records) == len(run.ranks) and _are_the_same(
                    [each.notes for each in records.values()]
                ):
                    self._take_batches(records[min(records)])
        return tuple(self._found.values())

    def _take(self, record: StepRecord) -> None:
        notes = record.notes
        if "same_order" in notes:
            self._say("same-order", notes["same_order"])
        if "uncalled" in notes:
            self._say("never-shared", notes["uncalled"], **_WRAPPERS[record.facts["framework"]])

    def _take_batches(self, record: StepRecord) -> None:
        library, sampler = record.facts["framework"], str(record.notes["sampler"])
        code, fix = share_fix(library, sampler)
        missing = _SHARES[library][0] if code == "same-batches" else sampler
        self._say(code, record.notes["place"], sampler=missing, fix=fix)

    def _say(self, why: str, at: Sequence[Any] | None, **fields: object) -> None:
        if why in self._found:
            return
        place = Both("", "")
        if at is not None:
            file, line = at
            name = self._sources.name(str(file))
            place = both(f"diagnosis.{'line' if name else 'cell-line'}", file=name, line=as_int(line))
        self._found[why] = both(f"diagnosis.{why}", place=place, **fields)


def _are_the_same(ranks: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all ranks' first batches are the same, and differ from each other. Single values, single
    batches, and shares with random samples prove nothing."""
    digests = {tuple(map(as_int, notes.get("batches", ()))) for notes in ranks}
    one_share = len({notes.get("share") for notes in ranks}) == 1
    return one_share and len(digests) == 1 and len(set(digests.pop())) == _BATCHES
