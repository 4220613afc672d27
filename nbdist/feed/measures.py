"""A run's metrics, use of the machine and first failure; for late readers, from the ends of its files."""

from __future__ import annotations

import itertools
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from nbdist.diagnosis import Failure, diagnose, failure_headline
from nbdist.diagnosis.report import error_text
from nbdist.diagnosis.stragglers import Paces
from nbdist.diagnosis.training import Training
from nbdist.feed.ansi import strip_ansi
from nbdist.feed.charts import Charts
from nbdist.feed.progress import LINES, Progress, RankProgress, furthest_behind
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.stalling import SlowView, slow_view
from nbdist.feed.training_view import read_training
from nbdist.feed.view import CallView, FailureView, NoteView
from nbdist.model import RankState, Run
from nbdist.programs.sources import Sources
from nbdist.store import (
    ErrorFrame,
    LogStream,
    LogTimes,
    MetricPoint,
    MetricsReader,
    RankDirectory,
    RunDirectory,
)
from nbdist.store.logs import last_lines
from nbdist.store.metrics import last_points
from nbdist.store.scraped.log import ScrapedMetrics, merge_points

_PERIOD = 1.0
_LOOK_BYTES = 1024 * 1024  # of all ranks, in one look
_LEAST_BYTES = 16 * 1024
_BACKLOG = 2_000  # points in one look; after more, the next look reads on
_WEIGHT = 0.2  # of a new sample of a rank's wait: it sees some 16 moments, so it varies by chance
_MESSAGE = 500
_NOTES = 6  # lines shown beside a failure's cause
_CALLS = 4  # lines shown on the way to it
_AROUND = 2

_PRINTED_BYTES = 16 * 1024  # of a log, in one go
_PRINTED_MOST = 512 * 1024  # of a log without numbers, in one go
_PRINTED_ROOM = 16 * 1024 * 1024  # at the ends of all logs
_PRINTED_TURN = 0.01  # seconds of a core in one look; the other ranks wait for the next
_PRINTED_SHARE = 0.05  # of a core, at most
_PRINTED_LIMIT = 3.0  # seconds, for a run that has ended


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
        self.training: Training | None = None
        """The training that the ranks record."""

        self.behind = False
        """Whether points of a run that has ended still wait to be read."""

    def look(self, run: Run, deltas: Iterable[LogDelta], now: float) -> None:
        """Take new points; in a backlog and at the end at every look."""
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
            # a process that was left behind may go on writing for ever
            self._looks_left -= 1
            self.training = read_training(run, self._directory)
            self.behind = self._read() > 0 and self._looks_left > 0
            self.behind |= self._take_printed(self._prints.rest())
            return
        due = not 0 <= now - self._looked < _PERIOD
        if due:
            self.training = read_training(run, self._directory)
        if due and self._read() < _BACKLOG:
            self._looked = now
        if due or self._prints.begun:
            self._take_printed(self._prints.next(now))

    def finish(self, run: Run) -> None:
        """Take the rest of a run that has ended."""
        while self.behind:
            self.look(run, (), run.ended or run.spec.created)

    def needs(self, run: Run) -> bool:
        """Return whether the supervisor has not measured what the ranks use, or their GPUs' memory."""
        return not self.system or any(rank.spec.device.kind == "gpu" for rank in run.ranks)

    def progress(self, now: float) -> Progress | None:
        """Return the progress of the slowest rank."""
        return furthest_behind(rank.progress(now) for rank in self._progress.values())

    def rates(self, now: float) -> dict[int, float | None]:
        """Return each rank's recent steps a second, or the mean once the run has ended."""
        ended = self._looks_left is not None
        rates = {
            rank: progress.mean_rate if ended else progress.rate(now)
            for rank, progress in self._progress.items()
        }
        # those that the ranks record are exact
        return {**rates, **(self.training.rates_at(now) if self.training is not None else {})}

    @property
    def system(self) -> dict[int, MetricPoint]:
        """Return the supervisor's last measurement of each rank; after the end, most memory and means."""
        ended = self._looks_left is not None
        return {rank: used.whole if ended else used.last for rank, used in self._used.items()}

    def slow(self, run: Run, now: float) -> SlowView | None:
        return slow_view(self._paces, run, self.rates(now), now, self.training)

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
        self.training = None

    @property
    def _limit(self) -> int:
        return max(_LEAST_BYTES, _LOOK_BYTES // max(1, len(self._files)))

    def _read(self) -> int:
        """Take new points, some ``_limit`` bytes a file; return their number."""
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

    def _take_printed(self, printed: Iterable[tuple[int, list[MetricPoint]]]) -> bool:
        """Chart what ranks print and do not record; return whether there was any."""
        some = False
        for rank, points in printed:
            some = True
            if self._charts is not None:
                self._charts.take(rank, points)
        return some


class _Used:
    """The supervisor's measurements of one rank."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, float]] = {}  # count, sum, greatest
        self._smooth: dict[str, float] = {}  # the wait

    def take(self, points: Sequence[MetricPoint]) -> None:
        for point in points:
            if (wait := point.values.get("wait")) is not None:
                before = self._smooth.get("wait", wait)
                self._smooth["wait"] = before + _WEIGHT * (wait - before)
            for tag, value in point.values.items():
                if math.isfinite(value):
                    count, total, most = self._seen.get(tag, (0, 0.0, value))
                    self._seen[tag] = (count + 1, total + value, max(most, value))
        self.last = replace(points[-1], values={**points[-1].values, **self._smooth})

    @property
    def whole(self) -> MetricPoint:
        values = {
            tag: most if "memory" in tag else total / count
            for tag, (count, total, most) in self._seen.items()
        }
        return replace(self.last, values=values)


class Prints:
    """The numbers that ranks only print, read with a small part of a core. ``clock``: CPU seconds used."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._logs: dict[int, ScrapedMetrics] = {}
        self._recorded: dict[int, set[str]] = {}
        self._due: list[int] = []  # ranks left in this round
        self._spent = 0.0
        self._free = 0.0  # when the next round may begin
        self._left = _PRINTED_LIMIT

    def begin(self, files: Mapping[int, RankDirectory]) -> None:
        """Read the logs of another attempt from now on."""
        self._logs = {rank: ScrapedMetrics(f.log, LogTimes(f.log_times)) for rank, f in files.items()}
        for log in self._logs.values():
            log.skip_to_tail(_PRINTED_ROOM // len(files))
        self._recorded = {rank: set() for rank in files}
        self._due = []

    def recorded(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """Note the tags that a rank records, and does not only print."""
        if rank in self._recorded:
            self._recorded[rank].update(tag for point in points for tag in point.values)

    @property
    def begun(self) -> bool:
        """Return whether ``next`` has to read on in a round."""
        return bool(self._due)

    def next(self, now: float) -> Iterator[tuple[int, list[MetricPoint]]]:
        """Yield new points rank by rank until a turn's time is up; nothing while the share is used up.
        Lines on their way to a screen wait meanwhile, so a round may take several looks."""
        if now < self._free:
            return
        started = self._clock()
        spent = 0.0
        self._due = self._due or list(self._logs)
        while self._due and spent < _PRINTED_TURN:
            rank = self._due.pop(0)
            if points := self._read(rank):
                yield rank, points
            elif self._logs[rank].waiting:
                self._due.append(rank)
            spent = self._clock() - started
        self._spent += spent
        if not self._due:
            self._free = now + self._spent / _PRINTED_SHARE
            self._spent = 0.0

    def rest(self) -> Iterator[tuple[int, list[MetricPoint]]]:
        """Yield a part of the rest of each rank of a run that has ended, until that has taken too long."""
        if self._left > 0:
            started = self._clock()
            for rank, log in self._logs.items():
                if (points := self._read(rank)) or log.waiting:
                    yield rank, points
            self._left -= self._clock() - started

    def _read(self, rank: int) -> list[MetricPoint]:
        points = self._logs[rank].read(_PRINTED_BYTES, most=_PRINTED_MOST)
        return merge_points([], points, tags=self._recorded[rank])


class FailureWatch:
    """The first failure of a run, diagnosed again only when another rank has failed."""

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
    """Return a failure as screens show it."""
    message = error_text(failure) or next((line for line in reversed(failure.tail) if line.strip()), "")
    view = FailureView(
        rank=failure.rank,
        headline=failure_headline(failure),
        headline_zh=failure_headline(failure, "zh"),
        message=message[:_MESSAGE],
        line=failure.line,
        notes=tuple(NoteView(text=note.en, text_zh=note.zh) for note in failure.notes[:_NOTES]),
        calls=tuple(_calls(failure)),
    )
    if (hint := failure.hint) is not None:
        cause, fix = hint.cause, hint.fix
        view = replace(view, cause=cause.en, cause_zh=cause.zh, fix=fix.en, fix_zh=fix.zh)
    at = failure.place
    if at is None or failure.sources.is_program(at.file):
        return view
    return replace(view, file=failure.sources.name(at.file), file_line=at.line, source=at.source[:_MESSAGE])


def _calls(failure: Failure) -> Iterator[CallView]:
    """Yield the outermost call of the user's and the innermost ones, each once in a row of equals."""
    frames = [frame for frame, _ in itertools.groupby(failure.own_frames)]
    for frame in frames if len(frames) <= _CALLS else (frames[0], *frames[1 - _CALLS :]):
        first, lines = lines_around(frame, failure.sources)
        in_cell = failure.sources.is_program(frame.file) and not failure.sources.script
        yield CallView(
            file=failure.sources.name(frame.file),
            path="" if in_cell else os.path.abspath(frame.file),
            line=frame.line,
            first=first,
            source="\n".join(line[:_MESSAGE] for line in lines),
        )


def lines_around(frame: ErrorFrame, sources: Sources) -> tuple[int, Sequence[str]]:
    """Return the lines around that of a frame, after the number of the first; of a file changed since, that
    line alone."""
    at, source = frame.line, frame.source
    lines = sources.lines(frame.file)
    if not 1 <= at <= len(lines) or (source and lines[at - 1].strip() != source.strip()):
        return at, [source] if source else []
    begin, end = max(1, at - _AROUND), min(len(lines), at + _AROUND)
    while end > at and not lines[end - 1].strip():
        end -= 1
    while begin < at and not lines[begin - 1].strip():
        begin += 1
    return begin, lines[begin - 1 : end]


_END_ROOM = 4096  # bytes at the end of a file
_POINTS_ROOM = 256 * 1024  # the same, of the metrics of all ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """The ends of the ranks' files: last line with text, last measurement, steps and samples a second; and
    progress."""

    last_lines: Mapping[int, str]
    system: Mapping[int, MetricPoint]
    rates: Mapping[int, float | None]
    progress: Progress | None
    slow: SlowView | None = None
    samples: Mapping[int, float] = field(default_factory=dict)
    training: Training | None = None


def glance(run: Run, directory: RunDirectory, now: float) -> Glance:
    """Look at the run at ``now`` (Unix seconds)."""
    shown, system, rates, progresses, paces, samples = {}, {}, {}, [], Paces(), {}
    training = read_training(run, directory)
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        lines = last_lines(files.log, _END_ROOM)
        texts = (text for line in reversed(lines) if (text := strip_ansi(line)).strip())
        shown[rank.rank] = next(texts, "")
        progress = RankProgress()
        points = last_points(files.metrics, max(_END_ROOM, _POINTS_ROOM // len(run.ranks)))
        progress.logged(points)
        if lines:
            with suppress(OSError):
                progress.printed(lines[:-1], lines[-1], os.stat(files.log).st_mtime)
        progresses.append(progress.progress(now))
        if not rank.state.terminal:
            rates[rank.rank] = progress.rate(now)
            if (speed := samples_rate(points, lines)) is not None:
                samples[rank.rank] = speed
            if measured := last_points(files.system, _END_ROOM):
                system[rank.rank] = measured[-1]
                paces.take(rank.rank, measured)
    if training is not None:
        current = {rank: rate for rank, rate in training.rates_at(now).items() if rank in rates}
        rates |= current
        samples |= {rank: rate for rank, rate in training.facts.samples_rates.items() if rank in current}
    return Glance(
        last_lines=shown,
        system=system,
        rates=rates,
        progress=furthest_behind(progresses),
        slow=slow_view(paces, run, rates, now, training),
        samples=samples,
        training=training,
    )


_SAMPLES = r"(?:samples?|images?|imgs?|examples?)(?:/s(?:ec(?:ond)?)?\b|_per_s(?:ec(?:ond)?)?$)"
_LOGGED_SAMPLES = re.compile(rf"{_SAMPLES}|(?:^|[/._])ips$", re.IGNORECASE)
_PRINTED_SAMPLES = re.compile(rf"(\d+(?:\.\d+)?) ?{_SAMPLES}", re.IGNORECASE)


def samples_rate(points: Sequence[MetricPoint], lines: Sequence[str]) -> float | None:
    """Return the samples a second that a rank logged last, else printed last; None for none."""
    for point in reversed(points):
        for tag, value in point.values.items():
            if _LOGGED_SAMPLES.search(tag) and math.isfinite(value):
                return value
    matches = (_PRINTED_SAMPLES.findall(line) for line in reversed(lines))
    return next((float(match[-1]) for match in matches if match), None)
