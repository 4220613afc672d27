"""Runs that a view lists, and does not read before somebody wants to see them.

VisualDL knows of a curve what it has read of it, so a view of a hundred runs would take minutes to come up
while each of their points becomes a record. Beyond a few, runs sleep: the page's list of curves has them,
with the tags that stand at either end of rank 0's files, and the first request for one of their curves
wakes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nbdist.board.followers import STEP_TIME, SYSTEM
from nbdist.store import LogStream, MetricPoint, RunDirectory, snapshot
from nbdist.store.metrics import points_of
from nbdist.store.scraped import printed_points

_LOOK = 16_384  # bytes at either end of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleeping:
    """What the list says of a run: its curves and their tags."""

    curves: tuple[str, ...]
    tags: tuple[str, ...]


class Asleep:
    """The runs that sleep. ``name_of`` says how the page calls a run."""

    def __init__(self, runs: Iterable[RunDirectory], name_of: Callable[[RunDirectory], str]) -> None:
        self._all = {name_of(run): run for run in runs}
        self._runs = dict(self._all)
        self._seen: dict[str, Sleeping] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def wake(self, curve: str) -> RunDirectory | None:
        """The run that a curve (``lenet-k3f9/mean``) is of, where it sleeps; it does no longer."""
        return self._runs.pop(curve.rpartition("/")[0], None)

    def wake_one(self) -> RunDirectory | None:
        """Any run that sleeps."""
        return self._runs.pop(next(iter(self._runs))) if self._runs else None

    def listed(self) -> list[tuple[str, list[str]]]:
        """Every curve with its tags, as VisualDL lists them when it has read them; also of those runs that
        sleep no longer, since its own list may be a moment old."""
        found = []
        for name, run in self._all.items():
            if name not in self._seen:
                self._seen[name] = _look(run)
            seen = self._seen[name]
            found += [(f"{name}/{curve}", list(seen.tags)) for curve in seen.curves]
        return found


def curve_of(run: RunDirectory) -> str:
    """The one curve that stands for a run among many: the mean over its ranks, where there are several."""
    now = snapshot(run)
    if now is None:
        return "rank0"
    suffix = f".attempt-{now.attempt}" if now.attempt > 1 else ""
    return f"{'mean' if len(now.ranks) > 1 else 'rank0'}{suffix}"


def _ends(stream: LogStream) -> list[MetricPoint]:
    """The points at either end of a file."""
    begin = stream.read(_LOOK)
    stream.skip_to_tail(_LOOK)
    return points_of((begin + b"\n" + stream.read(_LOOK)).splitlines())


def _look(run: RunDirectory) -> Sleeping:
    now = snapshot(run)
    files = run.rank(0, now.attempt if now is not None else 1)
    tags = dict.fromkeys(tag for point in _ends(LogStream(files.metrics)) for tag in point.values)
    if now is not None and now.spec.scrape:
        printed = printed_points(files, 2 * _LOOK)
        tags |= dict.fromkeys(tag for point in printed for tag in point.values)
    used = dict.fromkeys(tag for point in _ends(LogStream(files.system)) for tag in point.values)
    system = [SYSTEM + tag for tag in used if not tag.endswith("_total")]
    return Sleeping(curves=tuple(dict.fromkeys((curve_of(run), "rank0"))), tags=(*tags, STEP_TIME, *system))
