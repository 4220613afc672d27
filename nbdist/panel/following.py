"""Follows a run until it ends: reads its directory ten times a second and feeds a surface."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nbdist.errors import UnknownRun
from nbdist.model import Run
from nbdist.panel.charts import Charts
from nbdist.panel.measures import FailureWatch, Measures
from nbdist.panel.plain_lines import PlainLines
from nbdist.panel.stalling import StallReader
from nbdist.panel.usage import RankUsage, UsageWatch
from nbdist.panel.view import RunView, view_of
from nbdist.store import LogLines, LogStream, LogTimes, RankDirectory, RunDirectory, RunReader

_PERIOD = 0.1
_LEAST_WAIT = 0.02
_ENDS = 6  # lines; one of them has text, as a rule
_USAGE_PERIOD = 2.0
_MANY_RANKS = 16  # above, a view is made once a second
_VIEW_PERIOD = 1.0
_LOOK_BYTES = 4 * 1024 * 1024  # of all ranks, in one look
_ROOM = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
_BLOCK = 4096
_BULK = 64 * 1024  # from so many bytes on it pays to look whether they need to be taken apart


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDelta:
    """New lines of a rank. ``first`` is the number of the first one, counted from 0 in what was
    followed; ``skipped`` bytes were passed over before it. ``partial`` is the line still growing.

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


class Surface(Protocol):
    """Something that shows a run while it goes on."""

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        """Show what is new. ``deltas`` is empty when no rank wrote anything."""


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
            plain = PlainLines.of(data) if self._at_line else None
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
        self.last_line = partial or next(
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


class _Logs:
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

    def look(self, run: Run, moment: float, *, last: bool = False, bite: int = _LOOK_BYTES) -> list[LogDelta]:
        """What is new in all logs, at most about ``bite`` bytes. ``last`` takes what is left, within what
        is taken in one look."""
        deltas = self._begin_attempt(run, moment) if run.attempt != self._attempt else []
        followers = self._followers.values()
        waiting = {follower.rank: follower.waiting for follower in followers}
        room = _LOOK_BYTES if last and self._room is not None else self._room
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
            keep = level([follower.waiting for follower in self._followers.values()], _LOOK_BYTES)
            for follower in self._followers.values():
                follower.skip(keep)
        return [
            follower.go_on(directories[rank], run.attempt, moment)
            for rank, follower in self._followers.items()
        ]


def follow(
    directory: RunDirectory,
    surface: Surface,
    *,
    watch: UsageWatch | None = None,
    charts: Charts | None = None,
    whole: bool = False,
    room: int = _ROOM,
    finish: bool = True,
    bite: Callable[[], int | None] = lambda: None,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Run:
    """Show the run on ``surface`` until it has ended; how it ended.

    ``watch`` looks at what the ranks use, ``charts`` gets what they log. ``whole`` shows every line, as
    fast as that goes; otherwise a few megabytes a look, and a run that is more than ``room`` bytes ahead
    of what was shown is skipped ahead. Without ``finish`` what is still waiting when the run ends is not
    shown, but for its end. ``bite`` tells how many bytes the surface has room for now, None for the usual.
    ``wait`` is called with the seconds to wait between two looks (with ``whole``,
    only when all that was written has been shown). Raises UnknownRun when the run's directory disappears.
    """
    watch = watch or UsageWatch()
    reader = RunReader(directory, clock=clock)
    logs = _Logs(directory, None if whole else room)
    measures = Measures(directory, charts)
    failures = FailureWatch(directory)
    stalls = StallReader(directory)
    views = _Views()
    usage: Mapping[int, RankUsage] = {}
    looked = 0.0
    while True:
        run, now = reader.look(), clock()
        if run is None:
            raise UnknownRun(f"the directory of run {directory.run_id} was deleted or cannot be read")
        ended = run.state.terminal
        moment = now if run.ended is None else min(now, run.ended)
        last = ended and not finish
        room_now = bite()
        most = _LOOK_BYTES if last or room_now is None else min(_LOOK_BYTES, room_now)
        deltas = logs.look(run, moment, last=last, bite=most)
        measures.look(run, deltas, now)
        if not ended and now - looked >= _USAGE_PERIOD and measures.needs(run):
            looked, usage = now, watch.look(run)
        view = views.of(run, now, usage=usage, logs=logs, measures=measures, failures=failures, stalls=stalls)
        surface.update(view, deltas)
        behind = logs.behind or (finish and measures.behind)
        if ended and not behind:
            return run
        if not (whole and behind):
            # what takes long to read is not to be waited for besides
            spent = max(0.0, clock() - now) if behind else 0.0
            wait(max(_LEAST_WAIT, _PERIOD - spent))


class _Views:
    """The view of a run at each look; where the ranks are many, the same one for a while."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._made = 0.0
        self._view: RunView | None = None

    def of(
        self,
        run: Run,
        now: float,
        *,
        usage: Mapping[int, RankUsage],
        logs: _Logs,
        measures: Measures,
        failures: FailureWatch,
        stalls: StallReader,
    ) -> RunView:
        unchanged = run is self._run and 0 <= now - self._made < _VIEW_PERIOD
        if self._view is not None and unchanged and len(run.ranks) > _MANY_RANKS:
            return self._view
        self._run, self._made = run, now
        self._view = view_of(
            run,
            now=now,
            usage=usage,
            last_lines=logs.last_lines,
            system=measures.system,
            rates=measures.rates(now),
            progress=measures.progress(now),
            failure=failures.look(run),
            stall=stalls.look(run),
            slow=measures.slow(run, now),
        )
        return self._view
