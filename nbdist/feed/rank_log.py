"""The logs of the ranks: new lines with their addresses and times; and older lines.

A line's address is its first byte, counted through the logs of all attempts of its rank, and of a line
between two attempts. It is the same for all readers, and never changes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

from nbdist.model import Run
from nbdist.store import LogLines, LogStream, LogTimes, RankDirectory, RunDirectory, moves_up, moves_within
from nbdist.store.journal import open_plain
from nbdist.store.logs import kept_parts

_WIDTH = 16_384  # characters of a line, as LogLines cuts them
_CHUNK = 1024 * 1024
_PARTING = 2  # addresses between two attempts' logs: a newline that may be missing, and the line between
_BULK = 64 * 1024  # bytes from which it pays to check whether lines can be taken unread
_ROWS = 8  # a program seldom goes up more rows at once


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDelta:
    """New lines of a rank: ``count`` lines in ``text``, UTF-8, with newlines between them. ``first`` is
    the address of the first line, or of the next to come; ``skipped`` bytes were passed over before it.
    ``partial`` still grows, or may change. ``behind``: more of the log waits. ``edges`` are the addresses
    of the lines and the end of the last; empty where each line takes as many bytes as its text and a
    newline. ``times`` counts the lines written by a time, in seconds since the run was created."""

    rank: int
    first: int
    count: int = 0
    text: bytes = b""
    partial: str = ""
    edges: tuple[int, ...] = ()
    skipped: int = 0
    times: tuple[tuple[int, float], ...] = ()
    behind: bool = False

    @classmethod
    def of(cls, rank: int, lines: Sequence[str], *, edges: Sequence[int] = (), **fields: Any) -> LogDelta:
        """Return lines as a delta; ``fields`` are its other fields."""
        text = "\n".join(lines).encode("utf-8", "replace")
        delta = cls(**{"rank": rank, "first": 0} | fields, count=len(lines), text=text)
        return delta if delta.all_edges() == tuple(edges) else replace(delta, edges=tuple(edges))

    @property
    def lines(self) -> list[str]:
        return self.text.decode().split("\n") if self.count else []

    def last(self, count: int) -> list[str]:
        """Return the last lines, and decode no others."""
        return [line.decode() for line in self.text.rsplit(b"\n", count)[-count:]] if self.count else []

    @property
    def end(self) -> int:
        """Return the address behind the last line."""
        if self.edges or not self.count:
            return self.edges[-1] if self.edges else self.first
        return self.first + len(self.text) + 1

    def all_edges(self) -> tuple[int, ...]:
        """Return ``edges``, also of lines that need none."""
        if self.edges or not self.count:
            return self.edges or (self.first,)
        widths = (len(line) + 1 for line in self.text.split(b"\n"))
        return tuple(accumulate(widths, initial=self.first))


class RankFollower:
    """One rank's log as deltas, from the byte ``offset`` of the file, whose first byte has the address
    ``base``. ``created`` is the run's creation in Unix seconds. ``index`` may be shared."""

    def __init__(
        self,
        rank: int,
        directory: RankDirectory,
        *,
        created: float,
        base: int = 0,
        offset: int = 0,
        index: LogTimes | None = None,
    ) -> None:
        self.rank = rank
        self.last_line = ""
        self._created = created
        self._time = 0.0
        self._partial = ""
        self._skipped = base
        self._behind = False
        self._open(directory, base, index)
        self._stream.offset = offset
        self._at = base + offset

    def _open(self, directory: RankDirectory, base: int, index: LogTimes | None = None) -> None:
        self._stream = LogStream(directory.log)
        self._index = index or LogTimes(directory.log_times)
        self._lines = LogLines()
        self._base = base
        self._at = base

    @property
    def waiting(self) -> int:
        """Return the unread bytes of the log."""
        return max(0, self._stream.size - self._stream.offset)

    def skip(self, keep: int) -> None:
        """Go on ``keep`` bytes before the end; the next delta counts the bytes passed over."""
        if self._stream.skip_to_tail(keep):
            at = self._base + self._stream.offset
            self._skipped += at - self._at
            self._at = at
            self._lines = LogLines()

    def go_on(self, directory: RankDirectory, attempt: int, base: int, moment: float) -> list[LogDelta]:
        """Read the log of a later attempt from now on; return the rest of the last one and a line between."""
        rest = self.read(_CHUNK, moment, final=True)
        # skip the logs of attempts in between
        begin = self._at if base - self._at <= _PARTING else base - 1
        line = LogDelta.of(
            self.rank,
            [f"—— attempt {attempt} ——"],
            first=begin,
            edges=(begin, base),
            skipped=begin - self._at + self._skipped,
            times=((1, self._later(moment)),),
        )
        self._open(directory, base)
        self._partial = ""
        self._skipped = 0
        return [line] if rest is None else [rest, line]

    def read(self, limit: int, moment: float, *, final: bool = False) -> LogDelta | None:
        """Return new lines, at most ``limit`` bytes; None for none. ``final`` takes all, also a line
        without a newline. ``moment`` is the time of lines that the index does not know."""
        news = _Read(self._at)
        waiting, begun = self.waiting, self._stream.offset
        if waiting >= _BULK and not final:
            data = self._stream.read(limit)
            if end := data.rfind(b"\n") + 1:
                self._stream.offset -= len(data) - end
                data = data[:end]
            self._take_bulk(data, moment, news)
        elif waiting or final:
            self._take(self._stream.read(limit), moment, news)
        if final:
            while data := self._stream.read(limit):
                self._take(data, moment, news)
            self._close(moment, news)
        was_behind, self._behind = self._behind, waiting > self._stream.offset - begun and not final
        return self._delta(news, changed=self._behind != was_behind)

    def read_to(self, end: int, moment: float) -> LogDelta | None:
        """Return the lines up to the byte ``end`` of the file, even if the last goes on behind it."""
        news = _Read(self._at)
        while data := self._stream.read(max(0, end - self._stream.offset)):
            self._take(data, moment, news)
        self._close(moment, news)
        return self._delta(news, changed=False)

    def _delta(self, news: _Read, *, changed: bool) -> LogDelta | None:
        partial, some = self._lines.partial, bool(news.lines or news.plain)
        if not some and partial == self._partial and not changed:
            return None
        self._partial = partial
        delta = LogDelta.of(
            self.rank,
            news.lines,
            first=news.first if some else self._at,
            edges=(*news.starts, self._at) if news.lines else (),
            partial=partial,
            skipped=self._skipped if some else 0,
            times=tuple(news.times),
            behind=self._behind,
        )
        if news.plain:
            delta = replace(delta, count=news.plain.count(b"\n"), text=news.plain[:-1])
        if some:
            self._skipped = 0
        last = delta.text.rstrip(b"\n").rpartition(b"\n")[2].decode()
        self.last_line = partial.rpartition("\n")[2] or last or self.last_line
        return delta

    def _take_bulk(self, data: bytes, moment: float, news: _Read) -> None:
        begins_line = self._base + self._stream.offset - len(data) == self._at
        if begins_line and not self._lines.moves and _is_plain(data):
            self._time_lines(data, data.count(b"\n"), moment, news.times)
            self._at += len(data)
            news.plain = data
        else:
            self._take(data, moment, news)

    def _take(self, data: bytes, moment: float, news: _Read) -> None:
        start = self._base + self._stream.offset - len(data)
        ends = [newline.end() for newline in re.finditer(b"\n", data)]
        before = len(news.lines)
        if self._lines.moves or moves_up(data) or self._takes_care(data, ends):
            for low, high in _parts(data, ends):
                self._take_part(data[low:high], start + high, news)
        else:
            news.lines += self._lines.feed(data)
            news.starts += [self._at, *(start + end for end in ends)][: len(ends)]
            self._at = start + ends[-1] if ends else self._at
        if count := len(news.lines) - before:
            self._time_lines(data, count, moment, news.times)

    def _take_part(self, data: bytes, end: int, news: _Read) -> None:
        """Take a line, or a part of one, that may be cut into several or change those above it."""
        # redrawn rows are shorter than what the program wrote
        width = 1 if self._lines.moves or moves_up(data) else _WIDTH
        lines = self._lines.feed(data)
        news.lines += lines
        news.starts += [self._at + width * at for at in range(len(lines))]
        self._at = end if data.endswith(b"\n") and not self._lines.moves else self._at + width * len(lines)

    def _takes_care(self, data: bytes, ends: list[int]) -> bool:
        """Return whether a line is too long, or a cursor movement began in the last data."""
        partial = self._lines.partial
        edges = [-len(partial), *ends, len(data)]
        return "\x1b" in partial[-8:] or any(high - low > _WIDTH for low, high in pairwise(edges))

    def _close(self, moment: float, news: _Read) -> None:
        moved = self._lines.moves
        if last := self._lines.close():
            news.lines += last
            news.starts += range(self._at, self._at + len(last))
            written = self._index.at(self._stream.offset) or moment
            _count_in(news.times, len(last), self._later(written))
        end = self._base + self._stream.offset
        self._at = max(end + bool(last), self._at + len(last) * moved)

    def _time_lines(self, data: bytes, left: int, moment: float, times: list[tuple[int, float]]) -> None:
        """Note the times of ``left`` lines that end in ``data``; parts of a cut line get its last time."""
        start, low = self._stream.offset - len(data), 0
        end = data.rfind(b"\n") + 1
        for size, written in self._index.between(start, start + end):
            high = size - start
            count = left if high >= end else min(left, data.count(b"\n", low, high))
            _count_in(times, count, self._later(written))
            left, low = left - count, high
            if not left:
                return
        _count_in(times, left, self._later(moment))

    def _later(self, written: float) -> float:
        """Return a Unix time as seconds of the run; clocks may step back, the lines of a rank never do."""
        self._time = max(self._time, round(written - self._created, 3))
        return self._time


@dataclass(slots=True)
class _Read:
    """Whole lines that are ``plain``, or lines with their addresses; and their times."""

    first: int
    plain: bytes = b""
    lines: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    times: list[tuple[int, float]] = field(default_factory=list)


def _parts(data: bytes, ends: list[int]) -> Iterator[tuple[int, int]]:
    """Yield each line alone, but redrawn rows with those above them."""
    edges, low = ends if data.endswith(b"\n") else [*ends, len(data)], 0
    for at, high in enumerate(edges):
        if not moves_up(data[high : edges[min(at + _ROWS, len(edges) - 1)]]):
            yield low, high
            low = high


def _is_plain(data: bytes) -> bool:
    """Return whether these are whole lines of ASCII that need no cut and move no cursor."""
    if not data.endswith(b"\n") or not data.isascii() or moves_up(data) or moves_within(data.decode()):
        return False
    start = 0
    while (end := data.rfind(b"\n", start, start + _WIDTH + 1) + 1) > 0:
        start = end
    return start == len(data)


def _count_in(times: list[tuple[int, float]], count: int, written: float) -> None:
    if count and times and times[-1][1] == written:
        count += times.pop()[0]
    if count:
        times.append((count, written))


LOOK_BYTES = 4 * 1024 * 1024  # of all ranks, in one look


def level(sizes: Sequence[int], room: int) -> int:
    """Return the most that each may take, so that all take no more than ``room``."""
    left = room
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            return share
        left -= size
    return room


class Logs:
    """The logs of all ranks, read fairly and at a pace that a page can keep up with. With more than
    ``room`` bytes waiting, reading skips ahead (the logs on disk stay whole); None never skips."""

    def __init__(self, directory: RunDirectory, room: int | None) -> None:
        self._directory = directory
        self._room = room
        self._attempt = 0
        self._followers: dict[int, RankFollower] = {}
        self._times: dict[tuple[int, int], LogTimes] = {}
        self.behind = False
        """Whether more waits than the last look took."""

    def look(
        self, run: Run, moment: float, *, last: bool = False, budget: int = LOOK_BYTES
    ) -> list[LogDelta]:
        """Return new lines of all logs, about ``budget`` bytes; with ``last`` the rest, within LOOK_BYTES."""
        deltas = self._begin_attempt(run, moment) if run.attempt != self._attempt else []
        followers = self._followers.values()
        waiting = {follower.rank: follower.waiting for follower in followers}
        room = LOOK_BYTES if last and self._room is not None else self._room
        if room is not None and sum(waiting.values()) > room:
            # a live run skips further, or it would skip at every look
            keep = level(list(waiting.values()), room if run.state.terminal else room // 2)
            for follower in followers:
                follower.skip(keep)
                waiting[follower.rank] = follower.waiting
        share = level(list(waiting.values()), budget)
        final = run.state.terminal and (last or max(waiting.values(), default=0) <= share)
        self.behind = not final and max(waiting.values(), default=0) > share
        for follower in followers:
            delta = follower.read(max(1, share), moment, final=final)
            if delta is not None:
                deltas.append(delta)
        return deltas

    def before(
        self, run: Run, rank: int, after: int, before: int, limit: int, moment: float
    ) -> list[LogDelta]:
        """Return the last lines between two addresses, about ``limit`` bytes; ``moment`` of unknown times."""
        bases = [log_base(self._directory, rank, attempt) for attempt in range(1, run.attempt + 2)]
        attempt = bisect_left(bases, before)
        if not 0 < attempt <= run.attempt:
            return []
        files, base = self._directory.rank(rank, attempt), bases[attempt - 1]
        low, high = max(0, after - base), min(before, bases[attempt] - _PARTING) - base
        begin, end = _kept_before(files.log, high)
        follower = RankFollower(
            rank,
            files,
            created=run.spec.created,
            base=base,
            offset=_begin_of_line(LogStream(files.log), max(low, begin), min(high, end), limit),
            index=self._index(rank, attempt),
        )
        delta = follower.read_to(min(high, end), moment)
        if delta is not None and end < high:
            # a page must not request the part that the file lacks
            delta = replace(delta, edges=(*delta.all_edges()[:-1], base + high))
        deltas = [] if delta is None else [delta]
        if before == bases[attempt] and attempt < run.attempt:
            begun = self._index(rank, attempt + 1).at(1) or run.spec.created
            deltas.append(
                follower.go_on(self._directory.rank(rank, attempt + 1), attempt + 1, before, begun)[-1]
            )
        return deltas

    def _index(self, rank: int, attempt: int) -> LogTimes:
        key = (rank, attempt)
        if key not in self._times:
            self._times[key] = LogTimes(self._directory.rank(rank, attempt).log_times)
        return self._times[key]

    @property
    def last_lines(self) -> dict[int, str]:
        return {rank: follower.last_line for rank, follower in self._followers.items()}

    def _begin_attempt(self, run: Run, moment: float) -> list[LogDelta]:
        self._attempt = attempt = run.attempt
        files = {rank.rank: self._directory.rank(rank.rank, attempt) for rank in run.ranks}
        bases = {rank: log_base(self._directory, rank, attempt) for rank in files}
        followers, created = self._followers, run.spec.created
        if not followers:
            for rank in files:
                followers[rank] = RankFollower(rank, files[rank], created=created, base=bases[rank])
            return []
        if self._room is not None:
            keep = level([follower.waiting for follower in followers.values()], LOOK_BYTES)
            for follower in followers.values():
                follower.skip(keep)
        begun = (followers[rank].go_on(files[rank], attempt, bases[rank], moment) for rank in followers)
        return list(chain.from_iterable(begun))


def log_base(directory: RunDirectory, rank: int, attempt: int) -> int:
    """Return the address of the first byte of an attempt's log."""
    logs = (directory.rank(rank, before).log for before in range(1, attempt))
    return sum(LogStream(log).size + _PARTING for log in logs)


def _kept_before(log: Path, offset: int) -> tuple[int, int]:
    try:
        with open_plain(log) as file:
            parts = kept_parts(file.fileno())
    except OSError:
        parts = []
    return next((part for part in reversed(parts) if part[0] < offset), (0, 0))


def _begin_of_line(stream: LogStream, low: int, high: int, limit: int) -> int:
    """Return the begin of a line about ``limit`` bytes before ``high``, but not before ``low``."""
    end = high
    while (start := max(low, end - limit)) > low:
        stream.offset = start - 1
        data = stream.read(end - start)
        if begin := data.find(b"\n") + 1:
            return stream.offset - len(data) + begin
        end = start
    return low
