"""What is read of a run besides its logs: what its ranks log and use, and which has failed first. For readers
that do not follow a run from its start, all of that from the ends of its files."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nbdist.diagnosis import Failure, diagnose, failure_headline
from nbdist.diagnosis.report import error_text
from nbdist.diagnosis.stragglers import Paces
from nbdist.feed.ansi import strip_ansi
from nbdist.feed.charts import Charts
from nbdist.feed.progress import LINES, Progress, RankProgress, furthest_behind
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.stalling import SlowView, slow_view
from nbdist.feed.view import FailureView, NoteView
from nbdist.model import RankState, Run
from nbdist.store import LogStream, LogTimes, MetricPoint, MetricsReader, RankDirectory, RunDirectory
from nbdist.store.logs import last_lines
from nbdist.store.metrics import last_points
from nbdist.store.scraped.log import ScrapedMetrics, merge_points

_PERIOD = 1.0
_LOOK_BYTES = 1024 * 1024  # of all ranks, in one look
_LEAST_BYTES = 16 * 1024
_BACKLOG = 2_000  # points in one look, after which the next one looks again
_MESSAGE = 500
_NOTES = 6
"""Lines beside a failure's cause, so many are shown."""


_PRINTED_BYTES = 16 * 1024  # of a log, in one go
_PRINTED_MOST = 512 * 1024  # of a log without numbers, in one go
_PRINTED_ROOM = 16 * 1024 * 1024  # at the ends of all logs: what stands before is not looked through
_PRINTED_TURN = 0.01  # seconds of a core at a look, after which the other ranks wait for the next one
_PRINTED_SHARE = 0.05  # of a core, at most, for numbers that are only printed: a log may hold nothing else
_PRINTED_LIMIT = 3.0  # seconds for those of a run that has ended


class Measures:
    """The points of a run's ranks, read once a second into ``charts``; progress and rates from them."""

    def __init__(
        self,
        directory: RunDirectory,
        charts: Charts | None = None,
        *,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._directory = directory
        self._charts = charts
        self._attempt = 0
        self._looked = 0.0
        self._files: dict[int, RankDirectory] = {}
        self._points: dict[int, MetricsReader] = {}
        self._prints = Prints(clock)
        self._uses: dict[int, MetricsReader] = {}
        self._progress: dict[int, RankProgress] = {}
        self._paces = Paces()
        self._used: dict[int, _Used] = {}
        self._looks_left: int | None = None
        self.behind = False
        """Whether the run has ended and more of its points are to be read."""

    def look(self, run: Run, deltas: Iterable[LogDelta], now: float, *, prints: bool = True) -> None:
        """Take what is new. Where there is much, and once the run has ended, every look reads on. Without
        ``prints`` logs are not looked through for numbers: the next look does it."""
        if run.attempt != self._attempt:
            self._begin_attempt(run)
        for delta in deltas:
            at = run.spec.created + delta.times[-1][1] if delta.times else now
            self._progress[delta.rank].printed(delta.last(LINES), delta.partial, at)
        if run.state.terminal:
            if self._looks_left is None:
                files = (file for files in self._files.values() for file in (files.metrics, files.system))
                largest = max((LogStream(file).size for file in files), default=0)
                self._looks_left = largest // self._limit + 1
            # what a process that was left behind goes on to write is not waited for
            self._looks_left -= 1
            self.behind = self._read() > 0 and self._looks_left > 0
            self.behind |= not prints or self._take_printed(self._prints.rest())
            return
        due = not 0 <= now - self._looked < _PERIOD
        if due and self._read() < _BACKLOG and prints:
            self._looked = now
        if prints and (due or self._prints.begun):
            self._take_printed(self._prints.next(now))

    def finish(self, run: Run) -> None:
        """Take all that is left of a run that has ended."""
        while self.behind:
            self.look(run, (), run.ended or run.spec.created)

    def needs(self, run: Run) -> bool:
        """Whether the supervisor has not measured what the ranks use, or what their GPUs hold."""
        return not self.system or any(rank.spec.device.kind == "gpu" for rank in run.ranks)

    def progress(self, now: float) -> Progress | None:
        """How far the run is: as far as its slowest rank."""
        return furthest_behind(rank.progress(now) for rank in self._progress.values())

    def rates(self, now: float) -> dict[int, float | None]:
        """Steps a second of each rank: lately, or in the mean over a run that has ended."""
        ended = self._looks_left is not None
        return {
            rank: progress.mean_rate if ended else progress.rate(now)
            for rank, progress in self._progress.items()
        }

    @property
    def system(self) -> dict[int, MetricPoint]:
        """The last that the supervisor measured of each rank. Of a run that has ended, all of it in one: the
        most memory, the mean of the rest."""
        ended = self._looks_left is not None
        return {rank: used.whole if ended else used.last for rank, used in self._used.items()}

    def slow(self, run: Run, now: float) -> SlowView | None:
        """The rank that holds the others up."""
        return slow_view(self._paces, run, self.rates(now), now)

    def _begin_attempt(self, run: Run) -> None:
        if self._charts is not None and self._attempt:
            self._charts.clear()
        self._attempt = run.attempt
        self._files = {rank.rank: self._directory.rank(rank.rank, run.attempt) for rank in run.ranks}
        self._points = {rank: MetricsReader(files.metrics) for rank, files in self._files.items()}
        self._prints.begin(self._files if run.spec.scrape and self._charts is not None else {})
        self._uses = {rank: MetricsReader(files.system) for rank, files in self._files.items()}
        self._progress = {rank: RankProgress() for rank in self._files}
        self._used = {}
        self._paces = Paces()

    @property
    def _limit(self) -> int:
        return max(_LEAST_BYTES, _LOOK_BYTES // max(1, len(self._files)))

    def _read(self) -> int:
        """Take the points that are new, at most about ``limit`` bytes a file; how many there were."""
        count = 0
        for rank, reader in self._points.items():
            points = reader.read(self._limit)
            count += len(points)
            self._progress[rank].logged(points)
            self._prints.recorded(rank, points)
            if self._charts is not None:
                self._charts.take(rank, points)
        for rank, reader in self._uses.items():
            if points := reader.read(self._limit):
                count += len(points)
                self._used.setdefault(rank, _Used()).take(points)
                self._paces.take(rank, points)
                if self._charts is not None:
                    self._charts.take_system(rank, points)
        return count

    def _take_printed(self, found: Iterable[tuple[int, list[MetricPoint]]]) -> bool:
        """Chart what ranks print and do not record; whether there was any."""
        some = False
        for rank, points in found:
            some = True
            if self._charts is not None:
                self._charts.take(rank, points)
        return some


class _Used:
    """What the supervisor measured of one rank."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, float]] = {}  # how often, the sum, the most

    def take(self, points: Sequence[MetricPoint]) -> None:
        self.last = points[-1]
        for point in points:
            for tag, value in point.values.items():
                if math.isfinite(value):
                    count, total, most = self._seen.get(tag, (0, 0.0, value))
                    self._seen[tag] = (count + 1, total + value, max(most, value))

    @property
    def whole(self) -> MetricPoint:
        values = {
            tag: most if "memory" in tag else total / count
            for tag, (count, total, most) in self._seen.items()
        }
        return replace(self.last, values=values)


class Prints:
    """The numbers that ranks only print, read rank by rank with a small part of a core.

    ``clock`` tells the CPU seconds of this thread.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._logs: dict[int, ScrapedMetrics] = {}
        self._recorded: dict[int, set[str]] = {}
        self._due: list[int] = []  # ranks that are still to be read in this round
        self._spent = 0.0
        self._free = 0.0  # the moment from which on more may be read
        self._left = _PRINTED_LIMIT

    def begin(self, files: Mapping[int, RankDirectory]) -> None:
        """Read the logs of another attempt."""
        self._logs = {rank: ScrapedMetrics(f.log, LogTimes(f.log_times)) for rank, f in files.items()}
        for log in self._logs.values():
            log.skip_to_tail(_PRINTED_ROOM // len(files))
        self._recorded = {rank: set() for rank in files}
        self._due = []

    def recorded(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """These a rank does not only print."""
        if rank in self._recorded:
            self._recorded[rank].update(tag for point in points for tag in point.values)

    @property
    def begun(self) -> bool:
        """Whether a round has begun, of which ``next`` reads on."""
        return bool(self._due)

    def next(self, now: float) -> Iterator[tuple[int, list[MetricPoint]]]:
        """What is new, rank by rank until a turn's time is up; nothing while the share is used up.

        Lines that are to be shown wait while this reads: a round of all ranks may take several looks.
        """
        if now < self._free:
            return
        started = self._clock()
        spent = 0.0
        self._due = self._due or list(self._logs)
        while self._due and spent < _PRINTED_TURN:
            rank = self._due.pop(0)
            if found := self._read(rank):
                yield rank, found
            elif self._logs[rank].waiting:
                self._due.append(rank)
            spent = self._clock() - started
        self._spent += spent
        if not self._due:
            self._free = now + self._spent / _PRINTED_SHARE
            self._spent = 0.0

    def rest(self) -> Iterator[tuple[int, list[MetricPoint]]]:
        """What a run that has ended still has to say, of each rank a part; nothing when it took too long."""
        if self._left > 0:
            started = self._clock()
            for rank, log in self._logs.items():
                if (found := self._read(rank)) or log.waiting:
                    yield rank, found
            self._left -= self._clock() - started

    def _read(self, rank: int) -> list[MetricPoint]:
        found = self._logs[rank].read(_PRINTED_BYTES, most=_PRINTED_MOST)
        return merge_points([], found, tags=self._recorded[rank])


class FailureWatch:
    """The first failure of a run, looked for when a rank has failed, and not again before another has."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._failed: tuple[object, ...] = ()
        self._failure: FailureView | None = None

    def look(self, run: Run) -> FailureView | None:
        failed = tuple(
            (run.attempt, rank.rank, rank.state, rank.code)
            for rank in run.ranks
            if rank.state is RankState.FAILED or rank.errored is not None
        )
        if failed != self._failed:
            self._failed = failed
            failure = diagnose(run, self._directory) if failed else None
            self._failure = None if failure is None else failure_view(failure)
        return self._failure


def failure_view(failure: Failure) -> FailureView:
    """A failure as screens show it."""
    said = error_text(failure) or next((line for line in reversed(failure.tail) if line.strip()), "")
    view = FailureView(
        rank=failure.rank,
        headline=failure_headline(failure),
        headline_zh=failure_headline(failure, "zh"),
        message=said[:_MESSAGE],
        line=failure.line,
        notes=tuple(NoteView(text=one.en, text_zh=one.zh) for one in failure.notes[:_NOTES]),
    )
    if (hint := failure.hint) is not None:
        cause, fix = hint.cause, hint.fix
        view = replace(view, cause=cause.en, cause_zh=cause.zh, fix=fix.en, fix_zh=fix.zh)
    at = failure.place
    if at is None or failure.sources.is_program(at.file):
        return view
    return replace(view, file=failure.sources.name(at.file), file_line=at.line, source=at.source[:_MESSAGE])


# bytes at the end of a file, and of the metrics of all ranks
_END_ROOM = 4096
_POINTS_ROOM = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What the files of the ranks say: the last line that has text, the last that was measured, steps a
    second; and how far the run is."""

    last_lines: Mapping[int, str]
    system: Mapping[int, MetricPoint]
    rates: Mapping[int, float | None]
    progress: Progress | None
    slow: SlowView | None = None


def glance(run: Run, directory: RunDirectory, now: float) -> Glance:
    """Look at the run at the moment ``now`` (Unix seconds)."""
    said, system, rates, progresses, paces = {}, {}, {}, [], Paces()
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        lines = last_lines(files.log, _END_ROOM)
        texts = (text for line in reversed(lines) if (text := strip_ansi(line)).strip())
        said[rank.rank] = next(texts, "")
        progress = _progress(files, lines, len(run.ranks))
        progresses.append(progress.progress(now))
        if not rank.state.terminal:
            rates[rank.rank] = progress.rate(now)
            if measured := last_points(files.system, _END_ROOM):
                system[rank.rank] = measured[-1]
                paces.take(rank.rank, measured)
    return Glance(
        last_lines=said,
        system=system,
        rates=rates,
        progress=furthest_behind(progresses),
        slow=slow_view(paces, run, rates, now),
    )


def _progress(files: RankDirectory, lines: list[str], ranks: int) -> RankProgress:
    progress = RankProgress()
    progress.logged(last_points(files.metrics, max(_END_ROOM, _POINTS_ROOM // ranks)))
    if lines:
        with suppress(OSError):
            progress.printed(lines[:-1], lines[-1], os.stat(files.log).st_mtime)
    return progress
