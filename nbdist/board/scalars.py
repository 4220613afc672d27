"""The metrics of ranks turned into the records that VisualDL reads, and the mean over the ranks.

A rank appends lines to ``ranks/<rank>/metrics.jsonl`` and its supervisor to ``system.jsonl`` beside it. They
become scalars in ``board/rank<rank>/``, those of the supervisor under ``system/``; so do numbers that a rank
only prints, unless the run is told not to look for them. Mean, lowest and highest over the ranks go to
``board/mean/``, ``min/`` and ``max/``. A later attempt has directories of its own (``rank0.attempt-2/``): its
steps begin again, and two rows of steps in one curve would be a zigzag.

A feed remembers nothing across processes: the first time it meets a run it writes the record files anew, and
the same lines give the same points, so no point is ever there twice, whatever ended the feed before. One feed
at a time may work on a home; the board server's lock sees to that.
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
from nbdist.board.records import CurveFile
from nbdist.store import RunDirectory, RunReader
from nbdist.store.scraped.names import tag_of

WINDOW = 30.0
MOST_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class AggregatePoint:
    """Mean, lowest and highest over the ranks at one step of a tag, at the time of the last of them."""

    tag: str
    step: int
    milliseconds: int
    mean: float
    lowest: float
    highest: float


class RankAggregate:
    """The mean, lowest and highest over the ranks of one attempt: for each tag and step one point of each.

    A step is settled, for good, once every rank that logs the tag has passed it or the run has ended. The
    ranks are those that begin within WINDOW seconds (of the points' own times) of the first. So the result
    depends on the points alone and not on when they were read, unless a rank falls MOST_ROWS steps behind.
    """

    def __init__(self) -> None:
        self._curves: dict[str, _Curve] = {}

    def add(self, rank: int, milliseconds: int, tag: str, step: int, value: float) -> None:
        """Add a point. A rank's points of a tag count whose step is beyond all before."""
        curve = self._curves.setdefault(tag, _Curve())
        last = curve.last.get(rank)
        if curve.over or (last is not None and step <= last):
            return
        if last is None:
            curve.begun[rank] = milliseconds
        curve.last[rank] = step
        curve.rows.setdefault(step, {})[rank] = (value, milliseconds)

    def settle(self, *, ranks: int | None, horizon: float, ended: bool) -> Iterator[AggregatePoint]:
        """Yield the points that are settled now, each once, the steps of a tag in their order.

        ``ranks`` is their number, if known; every point up to ``horizon`` (Unix seconds) has been added;
        after ``ended`` no more come.
        """
        for tag, curve in self._curves.items():
            if not curve.over:
                yield from curve.settled(tag, ranks, horizon * 1000, ended)


@dataclass(slots=True)
class _Curve:
    """One tag. ``members`` are the ranks that count, None until they are settled."""

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
            # for a rank that logs this tag no more, all rows would be kept for ever
            self.members.discard(min(self.members, key=lambda rank: (self.last[rank], rank)))
            yield from self._passed(tag, self._frontier())
        if len(self.members) < 2:
            self.over = True
            self.rows.clear()
            return
        yield from self._passed(tag, math.inf if ended else self._frontier())

    def _frontier(self) -> float:
        assert self.members is not None
        return min(self.last[rank] for rank in self.members)

    def _passed(self, tag: str, frontier: float) -> Iterator[AggregatePoint]:
        assert self.members is not None
        for step in sorted(step for step in self.rows if step <= frontier):
            row = self.rows.pop(step)
            points = [row[rank] for rank in sorted(self.members & row.keys())]
            if len(points) > 1:
                values = [value for value, _ in points]
                numbers = [value for value in values if value == value]  # neither is NaN the lowest
                yield AggregatePoint(
                    tag=tag,
                    step=step,
                    milliseconds=max(milliseconds for _, milliseconds in points),
                    mean=sum(values) / len(values),
                    lowest=min(numbers, default=math.nan),
                    highest=max(numbers, default=math.nan),
                )


_LATE = 2.0  # seconds after which an event is surely in its file
_MOST_UNSETTLED = 20_000  # points that are held before they are written, and aggregated over the ranks
log = logging.getLogger("nbdist.board")


class Feed:
    """Brings the records of runs up to date on request. Threads may share it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._runs: dict[Path, _RunFeed] = {}
        self._lock = threading.Lock()

    def advance(self, run: RunDirectory, seconds: float = math.inf) -> bool:
        """Append the points that the ranks of ``run`` logged since the last call, for about ``seconds``;
        return whether they were all.

        A file that cannot be read or written now (a full disk) is left for the next call.
        """
        with self._lock:
            if run.path not in self._runs:
                self._runs[run.path] = _RunFeed(run, self._clock)
            try:
                return self._runs[run.path].advance(time.monotonic() + seconds)
            except FileNotFoundError:
                # deleted: the whole run, which stays so, or its records, which are made anew
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
        self._stuck: set[Path] = set()  # those that the log has named

    def advance(self, end: float) -> bool:
        """Read until ``end`` (of the monotonic clock), at least a piece; return whether that was all."""
        # read the state first: then all points of the run are read before it counts as over
        state = self._reader.look() if self._run.path.is_dir() else None
        ranks = None if state is None else len(state.ranks)
        files = list(sources(self._run, printed=state is not None and state.spec.scrape))
        followers = [follower for source in files if (follower := self._follower(source)) is not None]
        reading = [(follower.seconds, place, follower) for place, follower in enumerate(followers)]
        heapq.heapify(reading)
        unsettled, begun = 0, False
        while reading and not (begun and time.monotonic() >= end):
            # the one that is behind in time: then a step of all ranks is soon complete
            _, place, follower = reading[0]
            if read := self._read(follower):
                heapq.heapreplace(reading, (follower.seconds, place, follower))
            else:
                heapq.heappop(reading)
            begun = begun or read > 0
            unsettled += read
            if unsettled > _MOST_UNSETTLED:
                # this goes through all curves: not after every chunk of every rank
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
        """Return the tags recorded there so far, under their names in prints."""
        follower = self._followers.get(metrics)
        return {tag_of(tag) for tag in follower.tags} if follower is not None else set()

    def _curves_of(self, name: str) -> CurveFile:
        if name not in self._curves:
            self._curves[name] = CurveFile(self._run.board / name, f"{self._run.run_id}/{name}")
        return self._curves[name]

    def _read(self, follower: Follower) -> int:
        """Read a chunk; return the number of its points plus one, 0 at the end or where reading fails."""
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
        """Add the points over all ranks that are settled, and write what can be written; the rest waits.

        All is read up to the time ``behind``. Raises FileNotFoundError when a directory has gone.
        """
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
