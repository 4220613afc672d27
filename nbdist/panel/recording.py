"""A run as messages for a page without kernel and server: its view, charts, program and logs, without what is
private. It names what there is no room for."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbdist.feed.charts import Charts
from nbdist.feed.following import RunFeed
from nbdist.feed.protocol import Media, Update, encode, for_the_strip, frame
from nbdist.feed.rank_log import LogDelta, RankFollower, level
from nbdist.feed.send_queue import split
from nbdist.feed.view import RunView
from nbdist.model import Run
from nbdist.panel.gallery import Room
from nbdist.panel.outputs import Clean, read_clean
from nbdist.store import LogStream, MetricsReader, RunDirectory
from nbdist.store.results import named_in
from nbdist.store.scraped.log import merge_points, printed_points
from nbdist.text import Both, both, say

LOG_ROOM = 32 << 20
"""Bytes of the logs of one run; some tenth of that is what they take in the page."""
MOST_TAGS = 200
"""What a page of charts may hold; each takes some 10 kB."""

_PRINTED_ROOM = 64 << 20  # bytes at the ends of all logs that are looked through for numbers
_PROGRAM_ROOM = 1 << 20
_CHUNK = 1 << 20  # bytes of a log that are read at once
_MESSAGE = 512 << 10  # bytes of lines in one message: a page reads it without a pause
_NAMES = 5
_RANKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run. ``messages`` are gzipped frames in base64, in their order; ``program`` is the text of its cell
    or script, empty where it is gone or too large; ``left_out`` has a sentence for each kind of thing that is
    not in it."""

    messages: tuple[str, ...]
    program: str
    left_out: tuple[Both, ...]


def record(
    run: Run,
    directory: RunDirectory,
    clean: Clean,
    language: str,
    *,
    media: Room,
    notes: Sequence[str] = (),
    room: int = LOG_ROOM,
    tags: int = MOST_TAGS,
) -> Recording:
    """What there is of the last attempt of the run. ``clean`` takes what is private out of a text; the panel
    shows ``notes``. ``room``: bytes of logs, ``tags``: how many have a chart; ``media`` has room for what the
    ranks showed."""
    charts = _read_charts(run, directory, tags)
    program, too_large = _program(run, directory, clean)
    logs = _logs(run, directory, clean, language, room)
    shown, unshown = _shown(run, directory, logs, clean, media)
    first = Update(
        view=replace(_view(run, directory), notes=tuple(notes)),
        charts=charts.all(),
        left_out=len(charts.dropped),
        cell=program,
        complete_until=0.0,
    )
    parts = (Update(chunks=[part], complete_until=0.0) for log in logs for part in _parts(log.chunk))
    files = (Update(media=[one], complete_until=0.0) for one in shown)
    updates = [first, *files, *parts]
    # all lines are there with the last message: then the page puts those of all ranks into their order
    updates[-1] = replace(updates[-1], complete_until=None)
    return Recording(
        messages=tuple(_packed(update, clean) for update in updates),
        program=program,
        left_out=tuple(_left_out(run, directory, charts, logs, unshown, too_large=too_large)),
    )


def _view(run: Run, directory: RunDirectory) -> RunView:
    """How the run stands at the end of ``run``: of one that goes on, as it stood then."""
    feed = RunFeed(directory, room=0)
    now = run.ended or run.spec.created
    feed.read(run, now, last=True)
    feed.measures.finish(run)
    return replace(for_the_strip(feed.view(run, now)), live=False)


def _packed(update: Update, clean: Clean) -> str:
    content, buffers = encode(update)
    # without a time in it, the same run gives the same bytes
    return base64.b64encode(gzip.compress(frame(_cleaned(content, clean), buffers), 6, mtime=0)).decode()


def _cleaned(value: Any, clean: Clean) -> Any:
    """A part of a message with every text in it cleaned."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {name: _cleaned(each, clean) for name, each in value.items()}
        case list() | tuple():
            return [_cleaned(each, clean) for each in value]
    return value


def _read_charts(run: Run, directory: RunDirectory, most: int) -> Charts:
    """What the ranks logged, printed and used."""
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
    """The program, and whether it is too large."""
    path = directory.program(run.spec.program)
    try:
        if path.stat().st_size > _PROGRAM_ROOM:
            return "", True
        return clean(path.read_text(encoding="utf-8", errors="replace")), False
    except OSError:
        return "", False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLog:
    """The log of one rank, of which ``cut`` bytes are left out. Its addresses are its own."""

    chunk: LogDelta
    cut: int


def _logs(run: Run, directory: RunDirectory, clean: Clean, language: str, room: int) -> list[RecordedLog]:
    sizes = [LogStream(directory.rank(rank.rank, run.attempt).log).size for rank in run.ranks]
    # what short logs leave is for the long ones
    limit = level(sizes, room)
    return [recorded_log(run, directory, rank.rank, limit, clean, language) for rank in run.ranks]


def recorded_log(
    run: Run, directory: RunDirectory, rank: int, limit: int, clean: Clean, language: str
) -> RecordedLog:
    """The log of a rank in about ``limit`` bytes: of a longer one the begin and the end, and between them a
    line that tells how to get at the rest."""
    follower = RankFollower(rank, directory.rank(rank, run.attempt), created=run.spec.created)
    moment, cut = run.ended or run.spec.created, 0
    lines: list[str] = []
    times: list[tuple[int, float]] = []
    if (size := follower.waiting) > limit:
        while (read := size - follower.waiting) < limit // 4:
            if (delta := follower.read(min(_CHUNK, limit // 4 - read), moment)) is not None:
                lines += delta.lines
                times += delta.times
        before = follower.waiting
        follower.skip(limit - limit // 4)
        cut = before - follower.waiting
        told = {"size": f"{cut / 1e6:,.1f}", "label": run.label, "rank": rank}
        lines += ["", say("report.cut", language, **told), ""]
        times.append((3, times[-1][1] if times else 0.0))
    if (delta := follower.read(_CHUNK, moment, final=True)) is not None:
        lines += delta.lines
        times += delta.times
    text = clean("\n".join(lines)).encode("utf-8", "replace")
    return RecordedLog(
        chunk=LogDelta(rank=rank, first=0, count=len(lines), text=text, times=tuple(times)), cut=cut
    )


def _shown(
    run: Run, directory: RunDirectory, logs: Sequence[RecordedLog], clean: Clean, room: Room
) -> tuple[list[Media], int]:
    """The files that lines of the logs name, of each rank the latest first, and for how many there is no
    room: in their places the page has their texts."""
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
    unshown: int,
    *,
    too_large: bool,
) -> Iterator[Both]:
    label = run.label
    if dropped := list(charts.dropped):
        names = ", ".join(dropped[:_NAMES]) + (", …" if len(dropped) > _NAMES else "")
        count = sum(key.group == "metric" for key in charts.marks) + len(dropped)
        yield both("report.tags-out", label=label, count=len(dropped), all=count, names=names)
    if cut := [log for log in logs if log.cut]:
        ranks = [log.chunk.rank for log in cut]
        shown = ", ".join(map(str, ranks[:_RANKS])) + (", …" if len(ranks) > _RANKS else "")
        size = f"{sum(log.cut for log in cut) / 1e6:,.1f}"
        yield both("report.logs-out", label=label, size=size, ranks=shown, rank=ranks[0])
    if unshown:
        yield both("report.outputs-out", label=label, count=unshown)
    if unread := _unread_prints(run, directory):
        yield both("report.prints-out", label=label, size=f"{unread / 1e6:,.1f}")
    if too_large:
        yield both("report.program-out", label=label)


def _unread_prints(run: Run, directory: RunDirectory) -> int:
    """Bytes at the begin of the logs that are not looked through for numbers."""
    share = _PRINTED_ROOM // len(run.ranks)
    sizes = (LogStream(directory.rank(rank.rank, run.attempt).log).size for rank in run.ranks)
    return sum(max(0, size - share) for size in sizes) if run.spec.scrape else 0
