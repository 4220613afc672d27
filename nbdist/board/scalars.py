"""Metrics of ranks turned into records for VisualDL, and the mean over the ranks.

The lines of ``ranks/<rank>/metrics.jsonl``, the supervisor's ``system.jsonl`` beside it, and numbers that a
rank only prints become scalars in ``board/rank<rank>/``; mean, lowest and highest over the ranks go to
``board/mean/``, ``min/``, ``max/``. A later attempt, in ``rank0.attempt-2/``, begins anew.

A feed's first look at a run writes its record files anew, so that no point is there twice, whatever ended the
feed before. The board server's lock keeps a home to one feed.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbdist.board.readers import AGGREGATES, Follower, PrintedFollower, RecordedFollower, Source, sources
from nbdist.board.record_files import CurveFile
from nbdist.store import RunDirectory, RunReader
from nbdist.store.scraped.names import tag_of

WINDOW = 30.0
MOST_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class AggregatePoint:
    """Mean, lowest and highest over the ranks at one step of a tag, with the time of the last rank."""

    tag: str
    step: int
    milliseconds: int
    mean: float
    lowest: float
    highest: float


class RankAggregate:
    """The mean, lowest and highest over the ranks of one attempt, for each tag and step.

    A step is settled, for good, once every rank that logs the tag has passed it or the run has ended; the
    ranks are those that begin within WINDOW seconds (of the points' times) of the first. So the result
    depends on the points and not on the time of reading, unless a rank falls MOST_ROWS steps behind.
    """

    def __init__(self) -> None:
        self._curves: dict[str, _Curve] = {}

    def add(self, rank: int, milliseconds: int, tag: str, step: int, value: float) -> None:
        """Add a point; drop it unless its step is beyond the rank's earlier ones of this tag."""
        curve = self._curves.setdefault(tag, _Curve())
        last = curve.last.get(rank)
        if curve.over or (last is not None and step <= last):
            return
        if last is None:
            curve.begun[rank] = milliseconds
        curve.last[rank] = step
        curve.rows.setdefault(step, {})[rank] = (value, milliseconds)

    def settle(self, *, ranks: int | None, horizon: float, ended: bool) -> Iterator[AggregatePoint]:
        """Yield the points that are settled now, each once, the steps of a tag in order. ``ranks`` is their
        number, if known; all points up to ``horizon`` (Unix seconds) were added, all of them if ``ended``."""
        for tag, curve in self._curves.items():
            if not curve.over:
                yield from curve.settled(tag, ranks, horizon * 1000, ended)


@dataclass(slots=True)
class _Curve:
    """The points of one tag. ``members`` are the ranks that count; None until that is settled."""

    begun: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    rows: dict[int, dict[int, tuple[float, int]]] = field(default_factory=dict)
    members: set[int] | None = None
    over: bool = False

    def settled(self, tag: str, ranks: int | None, horizon: float, ended: bool) -> Iterator[AggregatePoint]:
        if self.members is None:
            close = min(self.begun.values()) + WINDOW * 1000
            if not (ended or len(self.begun) == ranks or horizon > close):
                return
            self.members = {rank for rank, began in self.begun.items() if began <= close}
        while len(self.rows) > MOST_ROWS and len(self.members) > 1:
            # a rank that stopped logging this tag would keep all rows for ever
            self.members.discard(min(self.members, key=lambda rank: (self.last[rank], rank)))
            yield from self._passed(tag, self.members, ended=False)
        if len(self.members) < 2:
            self.over = True
            self.rows.clear()
            return
        yield from self._passed(tag, self.members, ended=ended)

    def _passed(self, tag: str, members: set[int], *, ended: bool) -> Iterator[AggregatePoint]:
        frontier = math.inf if ended else min(self.last[rank] for rank in members)
        for step in sorted(step for step in self.rows if step <= frontier):
            row = self.rows.pop(step)
            points = [row[rank] for rank in sorted(members & row.keys())]
            if len(points) > 1:
                values = [value for value, _ in points]
                numbers = [value for value in values if value == value]  # without NaN
                yield AggregatePoint(
                    tag=tag,
                    step=step,
                    milliseconds=max(milliseconds for _, milliseconds in points),
                    mean=sum(values) / len(values),
                    lowest=min(numbers, default=math.nan),
                    highest=max(numbers, default=math.nan),
                )


_LATE = 2.0  # seconds after which an event is surely in its file
_MOST_UNSETTLED = 20_000  # points held before they are aggregated and written
log = logging.getLogger("nbdist.board")


class Feed:
    """The records of all runs, brought up to date on request. Threads may share it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._runs: dict[Path, _RunFeed] = {}
        self._lock = threading.Lock()

    def advance(self, run: RunDirectory, seconds: float = math.inf) -> bool:
        """Append the points of ``run`` since the last call, for about ``seconds``; return whether that was
        all. A file that cannot be read or written now (a full disk) waits for the next call."""
        with self._lock:
            if run.path not in self._runs:
                self._runs[run.path] = _RunFeed(run, self._clock)
            try:
                return self._runs[run.path].advance(time.monotonic() + seconds)
            except FileNotFoundError:
                # the whole run is deleted, or its records, which are made anew
                del self._runs[run.path]
                return True


class _RunFeed:
    """The files of one run and their record files. Raises FileNotFoundError when one was deleted."""

    def __init__(self, run: RunDirectory, clock: Callable[[], float]) -> None:
        self._run = run
        self._clock = clock
        self._reader = RunReader(run)
        self._followers: dict[Path, Follower] = {}
        self._curves: dict[str, CurveFile] = {}
        self._aggregates: dict[int, RankAggregate] = {}
        self._stuck: set[Path] = set()  # files that the log has named

    def advance(self, end: float) -> bool:
        """Read until ``end`` (of the monotonic clock), at least a piece; return whether that was all."""
        # the state comes first: then all points of the run are read before it counts as over
        state = self._reader.look() if self._run.path.is_dir() else None
        ranks = None if state is None else len(state.ranks)
        files = sources(self._run, printed=state is not None and state.spec.scrape)
        followers = [follower for source in files if (follower := self._follower(source)) is not None]
        reading = [(follower.seconds, place, follower) for place, follower in enumerate(followers)]
        heapq.heapify(reading)
        unsettled, begun = 0, False
        while reading and not (begun and time.monotonic() >= end):
            # the one furthest behind in time: so a step of all ranks is soon complete
            _, place, follower = reading[0]
            if read := self._read(follower):
                heapq.heapreplace(reading, (follower.seconds, place, follower))
            else:
                heapq.heappop(reading)
            begun = begun or read > 0
            unsettled += read
            if unsettled > _MOST_UNSETTLED:
                # not after every chunk: it goes through all curves
                unsettled = 0
                self._settle(ranks, reading[0][0] if reading else math.inf)
        latest = max((source.attempt for source in files), default=1)
        over = state is not None and state.state.terminal
        ended = [attempt for attempt in self._aggregates if (over or attempt < latest) and not reading]
        self._settle(ranks, reading[0][0] if reading else math.inf, ended)
        return not reading

    def _follower(self, source: Source) -> Follower | None:
        if source.path not in self._followers:
            try:
                if not source.path.stat().st_size:
                    return None
            except OSError:
                return None
            if source.printed:
                files = self._run.rank(source.rank, source.attempt)
                new: Follower = PrintedFollower(
                    source, self._curves_of, files.log_times, lambda: self._tags_of(files.metrics)
                )
            else:
                new = RecordedFollower(source, self._curves_of)
            self._followers[source.path] = new
        return self._followers[source.path]

    def _tags_of(self, metrics: Path) -> set[str]:
        """Return the tags in that file so far, under their names in prints."""
        follower = self._followers.get(metrics)
        return {tag_of(tag) for tag in follower.tags} if follower is not None else set()

    def _curves_of(self, name: str) -> CurveFile:
        if name not in self._curves:
            self._curves[name] = CurveFile(self._run.board / name, f"{self._run.run_id}/{name}")
        return self._curves[name]

    def _read(self, follower: Follower) -> int:
        """Read a chunk; return the number of its points plus one, 0 at the end or on an error."""
        source = follower.source
        try:
            points = follower.advance()
        except FileNotFoundError:
            raise
        except OSError as error:
            if source.path not in self._stuck:
                log.warning("%s does not reach VisualDL: %s", source.path, error)
            self._stuck.add(source.path)
            return 0
        self._stuck.discard(source.path)
        aggregate = self._aggregates.setdefault(source.attempt, RankAggregate())
        for milliseconds, tag, step, value in points or ():
            aggregate.add(source.rank, milliseconds, tag, step, value)
        return 0 if points is None else len(points) + 1

    def _settle(self, ranks: int | None, behind: float, ended: Sequence[int] = ()) -> None:
        """Add the settled points over all ranks, read up to the time ``behind``, and write what can be
        written. Raises FileNotFoundError when a directory has gone."""
        horizon = min(self._clock() - _LATE, behind)
        for attempt, aggregate in self._aggregates.items():
            suffix = "" if attempt == 1 else f".attempt-{attempt}"
            for point in aggregate.settle(ranks=ranks, horizon=horizon, ended=attempt in ended):
                for name, value in zip(AGGREGATES, (point.mean, point.lowest, point.highest), strict=True):
                    self._curves_of(name + suffix).add(point.milliseconds, point.tag, point.step, value)
        for curves in self._curves.values():
            try:
                curves.write()
            except FileNotFoundError:
                raise
            except OSError as error:
                log.debug("records wait: %s", error)
