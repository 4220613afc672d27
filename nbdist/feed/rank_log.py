"""The logs of the ranks as they grow: new lines, their numbers and times, read fairly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

from nbdist.model import Run
from nbdist.store import LogLines, LogStream, LogTimes, RankDirectory, RunDirectory, moves_up

_WIDTH = 16_384
"""Characters of a line, as LogLines cuts them."""


class PlainLines(Sequence[str]):
    """ASCII lines with newlines between them: one at least, and none that moves the cursor."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._count = text.count(b"\n") + 1

    @classmethod
    def of(cls, data: bytes) -> PlainLines | None:
        """The lines of ``data``, whole ones all; None where reading them takes more care."""
        if not data.endswith(b"\n") or not data.isascii() or b"\r" in data or moves_up(data):
            return None
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + _WIDTH + 1)
            if end < 0:
                return None  # a line that is cut into several
            start = end + 1
        return cls(data[:-1])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice) and at.stop is None and at.step is None and (at.start or 0) < 0:
            # the last few, without the others
            return [line.decode() for line in self.text.rsplit(b"\n", -at.start)[at.start :]]
        return self._lines[at]

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.decode().split("\n")


_CHUNK = 1024 * 1024
_BLOCK = 4096
_BULK = 64 * 1024  # from so many bytes on it pays to look whether they need to be taken apart
_ENDS = 6  # lines; one of them has text, as a rule


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDelta:
    """New lines of a rank. ``first`` is the number of the first one, counted from 0 in what was
    followed; ``skipped`` bytes were passed over before it. ``partial`` is the line still growing, or the
    lines of which each may still change.

    ``times`` says how many of the lines were written by when, in seconds since the run was created;
    ``behind`` whether more of the log was waiting than was taken.
    """

    rank: int
    first: int
    lines: Sequence[str]
    partial: str
    skipped: int = 0
    times: tuple[tuple[int, float], ...] = ()
    behind: bool = False


class RankFollower:
    """One rank's log as deltas. ``created`` is the moment of the run's creation in Unix seconds.

    It begins at the byte ``offset``, where the line ``first`` begins. ``index`` may be shared.
    """

    def __init__(
        self,
        rank: int,
        directory: RankDirectory,
        *,
        created: float,
        offset: int = 0,
        first: int = 0,
        index: LogTimes | None = None,
    ) -> None:
        self.rank = rank
        self.last_line = ""
        self._created = created
        self._count = first
        self._time = 0.0
        self._partial = ""
        self._skipped = 0
        self._behind = False
        self._open(directory, index)
        self._stream.offset = offset

    def _open(self, directory: RankDirectory, index: LogTimes | None = None) -> None:
        self._stream = LogStream(directory.log)
        self._index = index or LogTimes(directory.log_times)
        self._lines = LogLines()
        self._at_line = True

    @property
    def offset(self) -> int:
        """Bytes of the log that were read, or passed over."""
        return self._stream.offset

    @property
    def waiting(self) -> int:
        """Bytes of the log that were not read yet."""
        return max(0, self._stream.size - self._stream.offset)

    def renumber(self, by: int) -> None:
        """The next line has a number that is greater by so much."""
        self._count += by

    def skip(self, keep: int) -> None:
        """Go on ``keep`` bytes before the end; the next delta says how much was passed over."""
        if passed := self._stream.skip_to_tail(keep):
            self._skipped += passed
            self._lines = LogLines()
            self._at_line = True

    def go_on(self, directory: RankDirectory, attempt: int, moment: float) -> LogDelta:
        """Take the log of the next attempt from here on; what is left of the last one, and a line
        that parts the two."""
        rest = self.read(_CHUNK, moment, final=True)
        lines, times = (rest.lines, rest.times) if rest else ((), ())
        self._open(directory)
        self._partial = ""
        self._count += 1
        return LogDelta(
            rank=self.rank,
            first=self._count - len(lines) - 1,
            lines=(*lines, f"—— attempt {attempt} ——"),
            partial="",
            skipped=rest.skipped if rest else 0,
            times=(*times, (1, self._later(moment))),
        )

    def read(self, limit: int, moment: float, *, final: bool = False) -> LogDelta | None:
        """What is new, at most ``limit`` bytes of it; None for nothing. ``final`` takes all, also the
        line that no newline ended. ``moment`` is the time of lines of which nothing else is known."""
        lines: Sequence[str]
        lines = read = list[str]()
        times: list[tuple[int, float]] = []
        waiting = self.waiting
        taken = self._stream.offset
        if waiting >= _BULK and not final:
            data = self._read_whole_lines(limit)
            plain = PlainLines.of(data) if self._at_line and not self._lines.moves else None
            if plain is not None:
                lines = plain
                self._time_lines(data, len(plain), moment, times)
            else:
                self._take(data, moment, read, times)
        elif waiting or final:
            self._take(self._stream.read(limit), moment, read, times)
        if final:
            while data := self._stream.read(limit):
                self._take(data, moment, read, times)
            if last := self._lines.close():
                read += last
                _count_in(times, len(last), self._later(self._index.at(self._stream.offset) or moment))
        taken = self._stream.offset - taken
        partial = self._lines.partial
        was_behind, self._behind = self._behind, waiting > taken and not final
        if not lines and partial == self._partial and not self._skipped and self._behind == was_behind:
            return None
        first, self._count, self._partial = self._count, self._count + len(lines), partial
        skipped, self._skipped = self._skipped, 0
        self.last_line = partial[partial.rfind("\n") + 1 :] or next(
            (line for some in (lines[-_ENDS:], lines) for line in reversed(some) if line), self.last_line
        )
        return LogDelta(
            rank=self.rank,
            first=first,
            lines=lines if isinstance(lines, PlainLines) else tuple(lines),
            partial=partial,
            skipped=skipped,
            times=tuple(times),
            behind=self._behind,
        )

    def _read_whole_lines(self, limit: int) -> bytes:
        """The next bytes, to the end of a line where there is one."""
        data = self._stream.read(limit)
        if end := data.rfind(b"\n") + 1:
            self._stream.offset -= len(data) - end
            return data[:end]
        return data

    def _take(self, data: bytes, moment: float, lines: list[str], times: list[tuple[int, float]]) -> None:
        found = self._lines.feed(data)
        self._at_line = data.endswith(b"\n")
        if not found:
            return
        lines += found
        self._time_lines(data, len(found), moment, times)

    def _time_lines(self, data: bytes, left: int, moment: float, times: list[tuple[int, float]]) -> None:
        low = 0
        for high, written in self._stretches(data, moment):
            # a line that is too long is several, of which the last stretch gets the others
            count = left if high == len(data) else min(left, data.count(b"\n", low, high))
            _count_in(times, count, self._later(written))
            left -= count
            low = high

    def _stretches(self, data: bytes, moment: float) -> Iterator[tuple[int, float]]:
        """Where in ``data`` another time begins: ends of stretches, with the Unix time of their lines."""
        edge, last = 0, moment
        for end, written in self._line_times(data, moment):
            if written != last and edge:
                yield edge, last
            edge, last = end, written
        yield len(data), last

    def _line_times(self, data: bytes, moment: float) -> Iterator[tuple[int, float]]:
        """Ends of lines with their Unix time; of those of one time that are side by side, not all.

        The index is asked once a block, and for the lines of a block until one is as late as its end.
        """
        at, start = self._index.at, self._stream.offset - len(data)
        low, end = 0, data.rfind(b"\n") + 1
        while low < end:
            high = data.rfind(b"\n", low, low + _BLOCK) + 1 or data.find(b"\n", low) + 1
            line = data.find(b"\n", low) + 1
            written = at(start + line)
            # of what it does not know it looks for more in its file: once is enough
            last = None if written is None else at(start + high)
            while line < high and written is not None and written != last:
                yield line, written
                line = data.find(b"\n", line) + 1
                written = at(start + line)
            yield high, moment if last is None else last
            if last is None:
                return  # nor is it known of what comes later
            low = high

    def _later(self, written: float) -> float:
        """A Unix time as seconds of the run; clocks may step back, the lines of a rank never do."""
        self._time = max(self._time, round(written - self._created, 3))
        return self._time


def _count_in(times: list[tuple[int, float]], count: int, written: float) -> None:
    if count and times and times[-1][1] == written:
        count += times.pop()[0]
    if count:
        times.append((count, written))


LOOK_BYTES = 4 * 1024 * 1024  # of all ranks, in one look


def level(sizes: Sequence[int], room: int) -> int:
    """How much each may take at most, so that all together take no more than ``room``.

    What small ones leave is for the large ones.
    """
    left = room
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            return share
        left -= size
    return room


class Logs:
    """The logs of all ranks, read fairly and at a pace that a page can keep up with.

    A run that writes faster is skipped ahead once more than ``room`` bytes wait (its logs on disk stay
    whole); None never skips.
    """

    def __init__(self, directory: RunDirectory, room: int | None) -> None:
        self._directory = directory
        self._room = room
        self._attempt = 0
        self._followers: dict[int, RankFollower] = {}
        self.behind = False
        """Whether more is waiting than the last look took."""

    def look(self, run: Run, moment: float, *, last: bool = False, bite: int = LOOK_BYTES) -> list[LogDelta]:
        """What is new in all logs, at most about ``bite`` bytes. ``last`` takes what is left, within what
        is taken in one look."""
        deltas = self._begin_attempt(run, moment) if run.attempt != self._attempt else []
        followers = self._followers.values()
        waiting = {follower.rank: follower.waiting for follower in followers}
        room = LOOK_BYTES if last and self._room is not None else self._room
        if room is not None and sum(waiting.values()) > room:
            # a run that goes on is taken further ahead, or it would have to be so at every look
            keep = level(list(waiting.values()), room if run.state.terminal else room // 2)
            for follower in followers:
                follower.skip(keep)
                waiting[follower.rank] = follower.waiting
        share = level(list(waiting.values()), bite)
        final = run.state.terminal and (last or max(waiting.values(), default=0) <= share)
        self.behind = not final and max(waiting.values(), default=0) > share
        for follower in followers:
            delta = follower.read(max(1, share), moment, final=final)
            if delta is not None:
                deltas.append(delta)
        return deltas

    @property
    def last_lines(self) -> dict[int, str]:
        return {rank: follower.last_line for rank, follower in self._followers.items()}

    def _begin_attempt(self, run: Run, moment: float) -> list[LogDelta]:
        self._attempt = run.attempt
        directories = {rank.rank: self._directory.rank(rank.rank, run.attempt) for rank in run.ranks}
        if not self._followers:
            created = run.spec.created
            self._followers = {
                rank: RankFollower(rank, directory, created=created)
                for rank, directory in directories.items()
            }
            return []
        if self._room is not None:
            keep = level([follower.waiting for follower in self._followers.values()], LOOK_BYTES)
            for follower in self._followers.values():
                follower.skip(keep)
        return [
            follower.go_on(directories[rank], run.attempt, moment)
            for rank, follower in self._followers.items()
        ]
