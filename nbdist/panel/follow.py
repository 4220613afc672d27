"""Follows a run until it ends: reads its directory ten times a second and feeds a surface."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nbdist.errors import UnknownRun
from nbdist.model import Run
from nbdist.panel.usage import RankUsage, UsageWatch
from nbdist.panel.view import RunView, view_of
from nbdist.store import LogLines, LogStream, RunDirectory, RunReader

_PERIOD = 0.1
_USAGE_PERIOD = 2.0
_READ_LIMIT = 256 * 1024
_BACKLOG_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDelta:
    """New lines of a rank. ``first`` is the number of the first one, counted from 0 in what was
    followed; ``skipped`` bytes were passed over before it. ``partial`` is the line still growing."""

    rank: int
    first: int
    lines: tuple[str, ...]
    partial: str
    skipped: int = 0


class Surface(Protocol):
    """Something that shows a run while it goes on."""

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        """Show what is new. ``deltas`` is empty when no rank wrote anything."""


class RankFollower:
    """One rank's log as deltas, bounded: a rank that writes faster than it can be shown is skipped
    ahead (its log on disk stays whole), unless ``whole`` asks for every line."""

    def __init__(self, rank: int, stream: LogStream, *, whole: bool = False) -> None:
        self.rank = rank
        self.last_line = ""
        self._whole = whole
        self._stream = stream
        self._lines = LogLines()
        self._count = 0
        self._partial = ""

    @property
    def behind(self) -> bool:
        """Whether more is waiting than the next look takes."""
        return self._stream.size - self._stream.offset > _READ_LIMIT

    def go_on(self, stream: LogStream, attempt: int) -> LogDelta:
        """Take the log of the next attempt from here on; what is left of the last one, and a line
        that parts the two."""
        rest = self.read(final=True)
        lines = (*(rest.lines if rest else ()), f"—— attempt {attempt} ——")
        first = rest.first if rest else self._count
        self._count = first + len(lines)
        self._stream, self._lines, self._partial = stream, LogLines(), ""
        return LogDelta(rank=self.rank, first=first, lines=lines, partial="")

    def read(self, *, final: bool = False) -> LogDelta | None:
        """What is new, None for nothing. ``final`` also takes the line that no newline ended."""
        skipped = 0
        if not self._whole and self._stream.size - self._stream.offset > _BACKLOG_LIMIT:
            skipped = self._stream.skip_to_tail(_READ_LIMIT)
            self._lines = LogLines()
        lines = self._lines.feed(self._stream.read(_READ_LIMIT))
        if final:
            while data := self._stream.read(_READ_LIMIT):
                lines += self._lines.feed(data)
            lines += self._lines.close()
        partial = self._lines.partial
        if not lines and partial == self._partial and not skipped:
            return None
        first, self._count, self._partial = (
            self._count,
            self._count + len(lines),
            partial,
        )
        self.last_line = partial or next((line for line in reversed(lines) if line), self.last_line)
        return LogDelta(
            rank=self.rank,
            first=first,
            lines=tuple(lines),
            partial=partial,
            skipped=skipped,
        )


def follow(
    directory: RunDirectory,
    surface: Surface,
    *,
    watch: UsageWatch | None = None,
    whole: bool = False,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Run:
    """Show the run on ``surface`` until it has ended; how it ended.

    ``watch`` looks at what the ranks use; ``whole`` shows every line, however long that takes;
    ``wait`` is called with the seconds to wait, when all that was written has been shown. Raises
    UnknownRun when the run's directory disappears.
    """
    watch = watch or UsageWatch()
    reader = RunReader(directory, clock=clock)
    followers: dict[int, RankFollower] = {}
    usage: Mapping[int, RankUsage] = {}
    attempt, looked = 0, 0.0
    while True:
        run = reader.look()
        if run is None:
            raise UnknownRun(f"the directory of run {directory.run_id} was deleted or cannot be read")
        deltas = []
        if run.attempt != attempt:
            attempt = run.attempt
            streams = {rank.rank: LogStream(directory.rank(rank.rank, attempt).log) for rank in run.ranks}
            deltas = [follower.go_on(streams[rank], attempt) for rank, follower in followers.items()]
            followers = followers or {r: RankFollower(r, s, whole=whole) for r, s in streams.items()}
        behind = whole and any(follower.behind for follower in followers.values())
        ended = run.state.terminal and not behind
        deltas += [d for f in followers.values() if (d := f.read(final=ended)) is not None]
        if not ended and clock() - looked >= _USAGE_PERIOD:
            looked, usage = clock(), watch.look(run)
        last_lines = {rank: follower.last_line for rank, follower in followers.items()}
        view = view_of(run, now=clock(), usage=usage, last_lines=last_lines)
        surface.update(view, deltas)
        if ended:
            return run
        if not behind:
            wait(_PERIOD)
