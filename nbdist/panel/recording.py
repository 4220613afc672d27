"""A run as a report keeps it, masked: as messages for the panel, and as HTML for a page without scripts."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nbdist.feed.charts import Charts
from nbdist.feed.following import RunFeed
from nbdist.feed.protocol import Media, Update, encode, for_the_strip, frame
from nbdist.feed.rank_log import LogDelta, RankFollower, level
from nbdist.feed.send_queue import split
from nbdist.feed.summary import Facts, facts_of, remarks
from nbdist.feed.view import RunView
from nbdist.model import Run
from nbdist.panel.gallery import Gallery, Room, read_galleries
from nbdist.panel.outputs import Bundle, Clean, output_bundles, read_clean
from nbdist.privacy import Privacy
from nbdist.store import LogStream, MetricsReader, RunDirectory
from nbdist.store.metrics import read_hparams
from nbdist.store.results import named_in
from nbdist.store.scraped.log import merge_points, printed_points
from nbdist.text import Both, both, say

LOG_ROOM = 32 << 20
"""Bytes of the logs of one run; compressed they take about a tenth."""
MOST_TAGS = 200
"""Charts in a page; each takes some 10 kB."""

_PRINTED_ROOM = 64 << 20  # bytes at the ends of all logs that are scanned for numbers
_PROGRAM_ROOM = 1 << 20
_CHUNK = 1 << 20  # bytes of a log per read
_MESSAGE = 512 << 10  # bytes of lines per message: a page reads it without a pause
_NAMES = 5
_RANKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run. ``messages`` are gzipped frames in base64; ``program`` is the cell or script, empty where it
    is gone or too large; ``outputs`` show where the panel is not drawn; ``left_out`` has a sentence for each
    kind of omission. The writer masks ``facts``, ``notes``, ``hparams`` and ``galleries``."""

    facts: Facts
    notes: Sequence[str]
    messages: tuple[str, ...]
    program: str
    outputs: Sequence[Bundle]
    hparams: dict[str, str]
    galleries: Sequence[Gallery]
    left_out: tuple[Both, ...]

    @property
    def run(self) -> Run:
        return self.facts.run


def record(
    run: Run,
    directory: RunDirectory,
    privacy: Privacy,
    language: str,
    *,
    media: Room,
    now: float,
    room: int = LOG_ROOM,
    tags: int = MOST_TAGS,
) -> Recording:
    """Read the last attempt of the run as it stands ``now``, with up to ``room`` bytes of logs and ``tags``
    charts."""
    notes = [] if run.state.terminal else [say("report.going-on", language)]
    if run.attempt > 1:
        notes.append(say("report.attempts", language, count=run.attempt))
    run = run if run.state.terminal else replace(run, ended=now)
    facts, clean = facts_of(run, directory), privacy.clean
    charts = _read_charts(run, directory, tags)
    program, too_large = _program(run, directory, clean)
    # short logs leave their share to the long ones
    limit = level(_log_sizes(run, directory), room)
    logs = [recorded_log(run, directory, rank.rank, limit, clean, language) for rank in run.ranks]
    shown, unshown = _shown(run, directory, logs, clean, media)
    galleries, unread = read_galleries(run, directory)
    view = replace(_view(run, directory), notes=tuple(remarks(facts, language, notes)))
    dropped = len(charts.dropped)
    updates = [
        Update(view=view, charts=charts.all(), left_out=dropped, cell=program, complete_until=0.0),
        *(Update(media=[file], complete_until=0.0) for file in shown),
        *(Update(chunks=[part], complete_until=0.0) for log in logs for part in _parts(log.chunk)),
    ]
    # the last message completes the lines: then the page sorts those of all ranks
    updates[-1] = replace(updates[-1], complete_until=None)
    left_out = _left_out(run, directory, charts, logs, unshown=unshown, too_large=too_large, unread=unread)
    return Recording(
        facts=facts,
        notes=notes,
        messages=tuple(_packed(update, clean) for update in updates),
        program=program,
        outputs=output_bundles(run, directory, language, partial(clean_again, privacy)),
        hparams={name: str(value) for name, value in read_hparams(run, directory).items()},
        galleries=galleries,
        left_out=tuple(left_out),
    )


def clean_again(privacy: Privacy, text: str) -> str:
    """Return a masked text, without counting its secrets again."""
    masked = privacy.masked
    text = privacy.clean(text)
    privacy.masked = masked
    return text


def _view(run: Run, directory: RunDirectory) -> RunView:
    feed = RunFeed(directory, room=0)
    now = run.ended or run.spec.created
    feed.read(run, now, last=True)
    feed.measures.finish(run)
    return replace(for_the_strip(feed.view(run, now)), live=False)


def _packed(update: Update, clean: Clean) -> str:
    content, buffers = encode(update)
    # without a time, the same run gives the same bytes
    return base64.b64encode(gzip.compress(frame(_cleaned(content, clean), buffers), 6, mtime=0)).decode()


def _cleaned(value: Any, clean: Clean) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {name: _cleaned(each, clean) for name, each in value.items()}
        case list() | tuple():
            return [_cleaned(each, clean) for each in value]
    return value


def _read_charts(run: Run, directory: RunDirectory, most: int) -> Charts:
    """Read the numbers that the ranks logged and printed, and their use of the machine."""
    charts = Charts(most=most, created=run.spec.created, ranks=[rank.rank for rank in run.spec.ranks])
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        logged: set[str] = set()
        recorded = MetricsReader(files.metrics)
        while points := recorded.read():
            logged.update(tag for point in points for tag in point.values)
            charts.take(rank.rank, points)
        if run.spec.scrape:
            printed = printed_points(files, _PRINTED_ROOM // len(run.ranks))
            charts.take(rank.rank, merge_points([], printed, tags=logged))
        used = MetricsReader(files.system)
        while points := used.read():
            charts.take_system(rank.rank, points)
    return charts


def _program(run: Run, directory: RunDirectory, clean: Clean) -> tuple[str, bool]:
    """Return the program, and whether it is too large."""
    path = directory.program(run.spec.program)
    try:
        if path.stat().st_size > _PROGRAM_ROOM:
            return "", True
        return clean(path.read_text(encoding="utf-8", errors="replace")), False
    except OSError:
        return "", False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLog:
    """The log of one rank without ``cut`` bytes. Its addresses are its own."""

    chunk: LogDelta
    cut: int


def _log_sizes(run: Run, directory: RunDirectory) -> list[int]:
    return [LogStream(directory.rank(rank.rank, run.attempt).log).size for rank in run.ranks]


def recorded_log(
    run: Run, directory: RunDirectory, rank: int, limit: int, clean: Clean, language: str
) -> RecordedLog:
    """Read a rank's log in about ``limit`` bytes: of a longer one the begin, a line that names the command
    for the rest, and the end."""
    follower = RankFollower(rank, directory.rank(rank, run.attempt), created=run.spec.created)
    moment, cut = run.ended or run.spec.created, 0
    lines: list[str] = []
    times: list[tuple[int, float]] = []

    def take(most: int, *, final: bool = False) -> None:
        if (delta := follower.read(most, moment, final=final)) is not None:
            lines.extend(delta.lines)
            times.extend(delta.times)

    if (size := follower.waiting) > limit:
        while (read := size - follower.waiting) < limit // 4:
            take(min(_CHUNK, limit // 4 - read))
        before = follower.waiting
        follower.skip(limit - limit // 4)
        cut = before - follower.waiting
        facts = {"size": f"{cut / 1e6:,.1f}", "label": run.label, "rank": rank}
        lines += ["", say("report.cut", language, **facts), ""]
        times.append((3, times[-1][1] if times else 0.0))
    take(_CHUNK, final=True)
    text = clean("\n".join(lines)).encode("utf-8", "replace")
    return RecordedLog(
        chunk=LogDelta(rank=rank, first=0, count=len(lines), text=text, times=tuple(times)), cut=cut
    )


def _shown(
    run: Run, directory: RunDirectory, logs: Sequence[RecordedLog], clean: Clean, room: Room
) -> tuple[list[Media], int]:
    """Return the files that the logs name, each rank's latest first, and the number without room, for which
    the page has texts."""
    named = {name: log.chunk.rank for log in logs for name in reversed(named_in(log.chunk.text))}
    shown, unshown = [], 0
    for name, rank in named.items():
        data = read_clean(run, directory, rank, name, clean)
        if data and room.take(len(data)):
            shown.append(Media(name=name, data=data))
        else:
            unshown += bool(data)
    return shown, unshown


def _parts(chunk: LogDelta) -> Iterator[LogDelta]:
    rest: LogDelta | None = chunk if chunk.count else None
    while rest is not None:
        part, rest = split(rest, _MESSAGE)
        yield part


def _left_out(
    run: Run,
    directory: RunDirectory,
    charts: Charts,
    logs: Sequence[RecordedLog],
    *,
    unshown: int,
    too_large: bool,
    unread: int,
) -> Iterator[Both]:
    label = run.label
    if dropped := list(charts.dropped):
        count = sum(key.group == "metric" for key in charts.marks) + len(dropped)
        names = _listed(dropped, _NAMES)
        yield both("report.tags-out", label=label, count=len(dropped), all=count, names=names)
    if cut := [log for log in logs if log.cut]:
        ranks = [log.chunk.rank for log in cut]
        size = f"{sum(log.cut for log in cut) / 1e6:,.1f}"
        yield both("report.logs-out", label=label, size=size, ranks=_listed(ranks, _RANKS), rank=ranks[0])
    if unshown:
        yield both("report.outputs-out", label=label, count=unshown)
    share = _PRINTED_ROOM // len(run.ranks)
    unprinted = sum(max(0, size - share) for size in _log_sizes(run, directory)) if run.spec.scrape else 0
    if unprinted:
        yield both("report.prints-out", label=label, size=f"{unprinted / 1e6:,.1f}")
    if too_large:
        yield both("report.program-out", label=label)
    if unread:
        yield both("report.records-out", label=label, count=unread)


def _listed(values: Sequence[object], most: int) -> str:
    return ", ".join(map(str, values[:most])) + (", …" if len(values) > most else "")
