"""What is read of a run besides its logs: what its ranks log and use, and which has failed first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbdist.diagnosis import Failure, failure_headline, first_failure
from nbdist.model import RankState, Run
from nbdist.panel.charts import Charts
from nbdist.panel.progress import Progress, RankProgress, slowest
from nbdist.panel.view import FailureView
from nbdist.store import (
    LogStream,
    LogTimes,
    MetricPoint,
    MetricsReader,
    RankDirectory,
    RunDirectory,
)
from nbdist.store.scraped import ScrapedMetrics, merge_points

if TYPE_CHECKING:
    from nbdist.panel.following import LogDelta

_PERIOD = 1.0
_LOOK_BYTES = 1024 * 1024  # of all ranks, in one look
_LEAST_BYTES = 16 * 1024
_BACKLOG = 2_000  # points in one look, after which the next one looks again
_MESSAGE = 500


class Measures:
    """The points of a run's ranks, read once a second into ``charts``; progress and rates from them."""

    def __init__(self, directory: RunDirectory, charts: Charts | None = None) -> None:
        self._directory = directory
        self._charts = charts
        self._attempt = 0
        self._looked = 0.0
        self._files: dict[int, RankDirectory] = {}
        self._points: dict[int, MetricsReader] = {}
        self._printed: dict[int, ScrapedMetrics] = {}
        self._recorded: dict[int, set[str]] = {}  # the tags that a rank does not only print
        self._uses: dict[int, MetricsReader] = {}
        self._progress: dict[int, RankProgress] = {}
        self.system: dict[int, MetricPoint] = {}
        """The last that the supervisor measured of each rank."""
        self._looks_left: int | None = None
        self.behind = False
        """Whether the run has ended and more of its points are to be read."""

    def look(self, run: Run, deltas: Iterable[LogDelta], now: float) -> None:
        """Take what is new. Where there is much, and once the run has ended, every look reads on."""
        if run.attempt != self._attempt:
            self._begin_attempt(run)
        for delta in deltas:
            at = run.spec.created + delta.times[-1][1] if delta.times else now
            self._progress[delta.rank].printed(delta.lines, delta.partial, at)
        if run.state.terminal:
            if self._looks_left is None:
                self._looks_left = self._largest() // self._limit + 1
            # what a process that was left behind goes on to write is not waited for
            self._looks_left -= 1
            self.behind = self._read() > 0 and self._looks_left > 0
        elif not 0 <= now - self._looked < _PERIOD and self._read() < _BACKLOG:
            self._looked = now

    def needs(self, run: Run) -> bool:
        """Whether nobody else has measured what the ranks use, or what their GPUs hold."""
        return not self.system or any(rank.spec.device.kind == "gpu" for rank in run.ranks)

    def progress(self, now: float) -> Progress | None:
        """How far the run is: as far as its slowest rank."""
        return slowest(rank.progress(now) for rank in self._progress.values())

    def rates(self, now: float) -> dict[int, float | None]:
        """Steps a second of each rank."""
        return {rank: progress.rate(now) for rank, progress in self._progress.items()}

    def _begin_attempt(self, run: Run) -> None:
        if self._charts is not None and self._attempt:
            self._charts.clear()
        self._attempt = run.attempt
        self._files = {rank.rank: self._directory.rank(rank.rank, run.attempt) for rank in run.ranks}
        self._points = {rank: MetricsReader(files.metrics) for rank, files in self._files.items()}
        self._recorded = {rank: set() for rank in self._files}
        self._printed = {
            rank: ScrapedMetrics(files.log, LogTimes(files.log_times))
            for rank, files in self._files.items()
            if run.spec.scrape and self._charts is not None
        }
        self._uses = {rank: MetricsReader(files.system) for rank, files in self._files.items()}
        self._progress = {rank: RankProgress() for rank in self._files}
        self.system = {}

    @property
    def _limit(self) -> int:
        return max(_LEAST_BYTES, _LOOK_BYTES // max(1, len(self._files)))

    def _largest(self) -> int:
        files = (file for files in self._files.values() for file in (files.metrics, files.system))
        return max((LogStream(file).size for file in files), default=0)

    def _read(self) -> int:
        """Take the points that are new, at most about ``limit`` bytes a file; how many there were."""
        count = 0
        for rank, reader in self._points.items():
            points = reader.read(self._limit)
            count += len(points)
            self._progress[rank].logged(points)
            if self._charts is not None and (points := self._with_printed(rank, points)):
                self._charts.take(rank, points)
        for rank, reader in self._uses.items():
            if points := reader.read(self._limit):
                count += len(points)
                self.system[rank] = points[-1]
                if self._charts is not None:
                    self._charts.take_system(rank, points)
        return count

    def _with_printed(self, rank: int, points: list[MetricPoint]) -> list[MetricPoint]:
        """What a rank recorded, and what it only printed."""
        recorded = self._recorded[rank]
        recorded.update(tag for point in points for tag in point.values)
        scraped = self._printed.get(rank)
        printed = scraped.read(self._limit) if scraped is not None else []
        return merge_points(points, printed, tags=recorded) if printed else points


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
            failure = first_failure(run, self._directory) if failed else None
            self._failure = None if failure is None else _failure_view(failure)
        return self._failure


def _failure_view(failure: Failure) -> FailureView:
    if failure.report is not None:
        said = failure.report.message
    else:
        said = next((line for line in reversed(failure.tail) if line.strip()), "")
    return FailureView(
        rank=failure.rank, headline=failure_headline(failure), message=said[:_MESSAGE], line=failure.line
    )
