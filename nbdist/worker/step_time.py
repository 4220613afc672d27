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
_EVENTS = 1 << 17  # at most, of some seconds
_OTHERS = 16  # steps of other optimizers after which the program has gone on to another training

_PARTS = ("data", "forward", "backward", "wait", "optimizer")
_COUNTS = ("steps", "samples", "fetches", "backwards")  # ``fetches`` are batches, ``backwards`` passes


def _record(now: dict[str, int], before: dict[str, int]) -> dict[str, Any]:
    """Return the parts in seconds, and the counts, between two moments."""
    seconds = {name: (now[name] - before[name]) / 1e9 for name in ("wall", *_PARTS)}
    wall = seconds.pop("wall")
    seconds["other"] = max(0.0, wall - sum(seconds.values()))
    counts = {name: now[name] - before[name] for name in _COUNTS}
    parts = {name: round(value, 6) for name, value in seconds.items()}
    return counts | {"seconds": round(wall, 6), "parts": parts}


class StepTimer:
    """The timer of one process. Its calls have monotonic times in ns; ``events`` are calls to come, of this
    and of others, which the main thread has noted. ``pending``: by iterator, time and samples (None: just
    opened) of batches before their backward pass. Iterators and optimizers are given as any key."""

    def __init__(self, now: int) -> None:
        self.events: deque[tuple[Any, ...]] = deque(maxlen=_EVENTS)
        self.computed = 0  # when a backward pass had the gradients
        self.sums = dict.fromkeys(("wall", *_PARTS, *_COUNTS), 0)
        self.base = self.totals = dict(self.sums)
        self._steps = self._others = 0
        self._owner: object = 0
        self.pending: dict[object, tuple[int, int | None]] = {}
        self.trained: object = 0  # the iterator whose batch was trained last
        self.pause(now)

    def pause(self, now: int) -> None:
        """Begin a step: the time before is no part of it, and no call goes on."""
        self._stepping: object = 0
        self._entered = self._within = 0
        self._began = now
        self._set_mark(now)

    def _set_mark(self, now: int) -> None:
        # a forward begins here, unless another mark follows, or a backward
        self._mark, self._waited, self._called = now, self.sums["wait"], False

    def opened(self, iterator: object, begun: int, now: int) -> None:
        """Take a DataLoader's start, which counts with its first batch."""
        self.pending[iterator] = now - begun, None
        if iterator == self.trained:
            self.trained = 0  # that one may have gone

    def fetched(self, iterator: object, begun: int, now: int, samples: int | None) -> None:
        """Take a batch, or the end of the data (``samples`` is None)."""
        spent = now - begun
        before, seen = self.pending.pop(iterator, (0, 0))
        if samples is not None:
            # a batch that is there already had no backward pass: an evaluation's
            self.pending[iterator] = spent + before if seen is None else spent, samples
        elif iterator == self.trained:
            self.sums["data"] += spent
        self._set_mark(now)

    def called(self, now: int) -> None:
        """Take the beginning of a wrapped model's forward."""
        if not self._called:
            self._set_mark(now)
            self._called = True

    def waited(self, begun: int, now: int) -> None:
        """Take a call that has waited for other ranks."""
        self.sums["wait"] += now - begun
        if self.computed:
            self.computed += now - begun

    def begins_back(self, now: int) -> None:
        """Take the beginning of a backward pass."""
        sums = self.sums
        sums["forward"] += now - self._mark - sums["wait"] + self._waited
        self.computed = 0
        self._set_mark(now)

    def computes(self, now: int) -> None:
        """Take the moment at which a pass has the gradients."""
        self.computed = now

    def went_back(self, now: int) -> None:
        """Take the end of the pass. It has waited since ``computed``."""
        sums = self.sums
        exchanged = now - self.computed if self.computed else 0
        sums["backward"] += now - self._mark - sums["wait"] + self._waited - exchanged
        sums["wait"] += exchanged
        sums["backwards"] += 1
        for key, (spent, samples) in self.pending.items():
            sums["data"] += spent
            sums["samples"] += samples or 0
            sums["fetches"] += 1
            self.trained = key
        self.pending.clear()
        self.computed = 0
        self._set_mark(now)

    def enters(self, optimizer: object, now: int) -> None:
        """Take the beginning of an optimizer's step."""
        sums, self._stepping, self._entered = self.sums, optimizer, now
        self._within = sums["forward"] + sums["backward"] + sums["wait"]
        if self.pending:  # a closure is to use it
            self._set_mark(now)

    def leaves(self, now: int) -> int:
        """Take its end; return the number of the training's step, 0 for a step of another optimizer."""
        sums, key = self.sums, self._stepping
        within = sums["forward"] + sums["backward"] + sums["wait"] - self._within
        sums["optimizer"] += now - self._entered - within
        self._stepping = 0
        self._set_mark(now)
        if key != self._owner:
            self._others += 1
            if self._owner and self._others < _OTHERS:
                return 0
            self._owner, self._steps = key, 0
        self._others = 0
        self._steps += 1
        sums["steps"] += 1
        sums["wall"] += now - self._began
        self._began = now
        totals = dict(sums)
        if self._steps <= _WARM:
            self.base = totals
        self.totals = totals
        return self._steps


class StepRecord:
    """The file of a rank's steps. ``describe`` returns its other entries."""

    def __init__(self, path: str, timer: StepTimer, describe: Callable[[], dict[str, Any]]) -> None:
        self._path, self._timer, self._describe = path, timer, describe
        self._seen: deque[tuple[float, dict[str, int]]] = deque()
        self._base: dict[str, int] | None = None
        self._record: dict[str, Any] = {}

    def write(self, now: float) -> None:
        """Write what is new. Raises OSError, and as ``describe``."""
        base, totals, seen = self._timer.base, self._timer.totals, self._seen
        if totals["steps"] <= base["steps"]:
            return
        if base is not self._base:
            self._base = base
            seen.clear()
            seen.append((now, base))
        record = self._record | self._describe()
        if totals is not seen[-1][1]:
            seen.append((now, totals))
            while now - seen[1][0] >= _RECENT:
                seen.popleft()
            record["time"] = round(time.time(), 3)
            record |= {"total": _record(totals, base), "recent": _record(totals, seen[0][1])}
        if record != self._record:
            self._record = record
            put(self._path, json.dumps(record).encode())
