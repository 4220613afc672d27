"""The time of a rank's training steps, divided into parts, with facts of the training. Reads no framework.

A step ends when an optimizer has stepped; where a program has several, the first one counts. Its parts are
data (batches of a DataLoader that a backward pass follows), forward (from the batch, or the call of a wrapped
model, to backward), backward, wait (for other ranks), optimizer, and other: evaluation, logging, checkpoints.

DDP exchanges gradients inside backward: the wait for it lasts from when the pass has computed them.
"""

from __future__ import annotations

import json
import time
from collections import deque

from nbdist.worker.files import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAME = "steps.json"
"""The file in the rank's directory."""

_WARM = 2  # first steps that do not count: imports, workers, compilation
_RECENT = 10.0  # seconds that ``recent`` covers at least
_LONG = 10_000_000  # ns of a step
_MULTIPLIER, _MASK, _HALF = 69_069, 0xFFFF_FFFF, 0x8000_0000
_OTHERS = 16  # steps of other optimizers after which the program has gone on to another training


_SUMS = (
    *("steps", "wall", "data", "forward", "backward", "wait", "optimizer"),
    *("measured", "exchanged", "samples", "fetches", "backwards"),
)
"""Sums over steps, in nanoseconds but for the counts. ``exchanged`` is the wait for the exchange of gradients
within the backward passes that took ``measured``. ``fetches`` are batches, ``backwards`` passes."""


def _record(now: dict[str, int], before: dict[str, int]) -> dict[str, Any]:
    """Return the parts in seconds, and the counts, between two moments."""
    sums = {name: now[name] - before[name] for name in _SUMS}
    parts: dict[str, float] = {
        name: sums[name] for name in ("data", "forward", "backward", "wait", "optimizer")
    }
    hidden = parts["backward"] * sums["exchanged"] / max(1, sums["measured"])
    parts["backward"] -= hidden
    parts["wait"] += hidden
    parts["other"] = max(0.0, sums["wall"] - sum(parts.values()))
    counts = {name: sums[name] for name in ("steps", "samples", "fetches", "backwards")}
    seconds = {name: round(value / 1e9, 6) for name, value in parts.items()}
    return counts | {"seconds": round(sums["wall"] / 1e9, 6), "parts": seconds}


class StepTimer:
    """The timer of one process. Its events come from the main thread, with monotonic times in ns. ``busy``: a
    call but backward is going on, and those within it do not count. ``sleeps``: a backward pass may wait for
    other ranks; not with a GPU, for which the main thread waits too."""

    def __init__(self, now: int) -> None:
        self.sleeps = False
        self.computed = 0  # when a backward pass had the gradients
        self.base = self.totals = dict.fromkeys(_SUMS, 0)
        self._sums = dict(self.totals)
        self._steps = self._others = self._owner = 0
        self._pending: dict[int, tuple[int, int]] = {}  # by iterator: time, samples
        self._opening: dict[int, int] = {}
        self.trained = 0
        self._waited_back, self._dice = 0, 1
        self._measured, self._long = False, True
        self._nested = 0  # time of other parts inside the optimizer
        self.pause(now)

    @property
    def counts(self) -> bool:
        """Return whether there are steps to record."""
        return self.totals is not self.base

    def pause(self, now: int) -> None:
        """Begin a step: the time before is no part of it, and no call goes on."""
        self.busy, self.back, self.stepping, self._entered = False, 0, 0, 0
        self._began = now
        self._set_mark(now)

    def _set_mark(self, now: int) -> None:
        # a forward begins here, unless another mark follows
        self._mark, self._called = now, False
        self._waited = self._waited_inside = 0  # since the mark; of that inside the optimizer

    def opened(self, iterator: object, begun: int, now: int) -> None:
        """Take a DataLoader's start, which counts with its first batch."""
        self._opening = {id(iterator): now - begun}

    def fetched(self, iterator: object, begun: int, now: int, samples: int | None) -> None:
        """Take a batch, or the end of the data (``samples`` is None)."""
        key, spent = id(iterator), now - begun
        if self._opening:
            spent += self._opening.pop(key, 0)
        if samples is not None:
            # one that is there already had no backward pass: an evaluation's
            self._pending[key] = spent, samples
        else:
            self._pending.pop(key, None)
            if key == self.trained:
                self._sums["data"] += spent
        self._set_mark(now)

    def called(self, now: int, samples: int) -> None:
        """Take the beginning of a wrapped model's forward; ``samples`` count without a DataLoader."""
        if not self._called:
            self._set_mark(now)
            self._called = True
        if not any(self._pending):
            self._pending[0] = 0, samples

    def waited(self, begun: int, now: int) -> None:
        """Take a call that has waited for other ranks."""
        spent = now - begun
        self._sums["wait"] += spent
        if self.back:
            self._waited_back += spent
            if self.computed:
                self.computed += spent
            return
        self._waited += spent
        if self._entered:
            self._nested += spent
            self._waited_inside += spent

    def measures(self) -> bool:
        """Return whether to measure the next pass' exchange: in short steps one in two, by chance."""
        self._dice = (self._dice * _MULTIPLIER + 1) & _MASK
        return self.sleeps and (self._long or self._dice < _HALF)

    def begins_back(self, now: int, *, measured: bool) -> None:
        """Take the beginning of a backward pass."""
        self.back, self.computed, self._waited_back, self._measured = now, 0, 0, measured

    def went_back(self, now: int) -> None:
        """Take the end of the pass. It has waited since ``computed``."""
        begun, self.back = self.back, 0
        exchanged = now - self.computed if self.computed else 0
        self._sums["forward"] += max(0, begun - self._mark - self._waited)
        spent = now - begun - self._waited_back
        self._sums["backward"] += spent
        if self._measured:
            self._sums["measured"] += spent
            self._sums["exchanged"] += exchanged
        self._sums["backwards"] += 1
        if self._entered:
            # within a closure
            self._nested += now - max(self._mark, self._entered) - self._waited_inside
        for key, (seconds, samples) in self._pending.items():
            self._sums["data"] += seconds
            self._sums["samples"] += samples
            self._sums["fetches"] += 1
            self.trained = key
        self._pending.clear()
        self._set_mark(now)

    def enters(self, optimizer: object, now: int) -> None:
        """Take the beginning of an optimizer's step; those within another's do not count."""
        if self.stepping in (0, id(optimizer)):
            self.stepping, self._entered, self._nested = id(optimizer), now, 0
            self._waited_inside = 0

    def leaves(self, optimizer: object, now: int) -> bool:
        """Take its end; return whether a training has begun with it."""
        key = id(optimizer)
        if self.stepping != key:
            return False
        self._sums["optimizer"] += max(0, now - self._entered - self._nested)
        self.stepping = self._entered = 0
        self._set_mark(now)
        if key != self._owner:
            self._others += 1
            if self._owner and self._others < _OTHERS:
                return False
            self._owner, self._steps = key, 0
        self._others = 0
        self._steps += 1
        self._sums["steps"] += 1
        self._sums["wall"] += now - self._began
        self._long = now - self._began >= _LONG
        self._began = now
        totals = dict(self._sums)
        if self._steps <= _WARM:
            self.base = totals
        self.totals = totals
        return self._steps == 1


class StepRecord:
    """The file of a rank's steps. ``facts`` returns those of its training."""

    def __init__(self, path: str, timer: StepTimer, facts: Callable[[], dict[str, Any]]) -> None:
        self._path, self._timer, self._facts = path, timer, facts
        self._seen: deque[tuple[float, dict[str, int]]] = deque()
        self._base = timer.base

    def write(self, now: float) -> None:
        """Write what is new. Raises OSError, and as ``facts``."""
        base, totals = self._timer.base, self._timer.totals
        if base is not self._base:
            self._base = base
            self._seen.clear()
        if totals["steps"] <= base["steps"] or (self._seen and self._seen[-1][1] is totals):
            return
        self._seen.append((now, totals))
        while len(self._seen) > 1 and now - self._seen[1][0] >= _RECENT:
            self._seen.popleft()
        before = self._seen[0][1] if len(self._seen) > 1 else base
        record = {
            "time": round(time.time(), 3),
            "total": _record(totals, base),
            "recent": _record(totals, before),
            "facts": self._facts(),
        }
        put(self._path, json.dumps(record).encode())
