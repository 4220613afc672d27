"""What goes into the next message to a page: lines of the logs, the view, the charts. Pure.

A page that is sent a backlog faster than it reads sees the newest line last. So there is a limit to what
a message holds, and where more waits the newest lines go ahead, again and again, and the others follow in
their order: the page knows by their addresses what is still to come.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from nbdist.feed.charts import Chart, ChartKey, Charts
from nbdist.feed.protocol import Media, for_the_strip
from nbdist.feed.rank_log import LogDelta, level
from nbdist.feed.view import RunView
from nbdist.store.results import named_in

_WHOLE = 4_096  # bytes; smaller chunks are joined with what comes next


class Tail:
    """All of a rank's lines that were not sent yet, and of those that were the last ``room`` bytes
    (at times half as much again)."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: list[LogDelta] = []
        self._news: deque[LogDelta] = deque()
        self._ahead = 0  # the address until which the newest lines have gone ahead
        self._behind = False
        self.last_time = 0.0
        """When the last line that was sent (in order) was written, in seconds since the run was created."""

    def take(self, delta: LogDelta) -> None:
        self._news.append(delta)
        self._behind = delta.behind

    @property
    def incomplete(self) -> bool:
        """Whether more lines are there than have been sent."""
        return self._behind or any(chunk.count for chunk in self._news)

    @property
    def size(self) -> int:
        """Bytes that were not sent yet."""
        return _size(self._news)

    def newest(self, lines: int, room: int, *, again: bool = False) -> list[LogDelta]:
        """The last of what was not sent, at most ``lines`` and ``room`` bytes: to be shown before what
        comes before it, with which it is sent once more. Nothing when it has been shown already, but
        for ``again``."""
        ahead, self._ahead = self._ahead, self._news[-1].end
        ends = _ends(self._news, lines, room)
        if not again:
            ends = [part for chunk in ends if (part := since(chunk, ahead)) is not None]
        return [chunk for chunk in ends if chunk.count or chunk.partial]

    def part(self, room: int = sys.maxsize) -> list[LogDelta]:
        """The oldest of what was not sent, about ``room`` bytes of it and at least a line: one chunk, more
        where something was passed over between them. It counts as sent."""
        taken = _taken(self._news, room)
        for chunk in taken:
            if chunk.times:
                self.last_time = chunk.times[-1][1]
            small = bool(self._kept) and len(self._kept[-1].text) < _WHOLE
            self._kept += joined([self._kept.pop(), chunk] if small else [chunk])
        if _size(self._kept) > self._room * 3 // 2:
            self._kept = self.kept(self._room)
        return joined(taken)

    def kept(self, room: int, lines: int = sys.maxsize) -> list[LogDelta]:
        """The last ``room`` bytes of the lines already sent, at most so many ``lines``."""
        return _ends(self._kept, lines, room)

    def end(self, room: int, lines: int = sys.maxsize) -> list[LogDelta]:
        """All unsent lines, which count as sent, preceded by sent ones up to ``lines`` in all, of those at
        most ``room`` bytes."""
        before = self.kept(room, lines - sum(chunk.count for chunk in self._news))
        return joined((*before, *self.part()))


def _size(chunks: Iterable[LogDelta]) -> int:
    return sum(len(chunk.text) for chunk in chunks)


def _taken(chunks: deque[LogDelta], room: int) -> list[LogDelta]:
    """Take the first ``room`` bytes of the chunks, one line at least."""
    taken: list[LogDelta] = []
    while chunks and room > 0:
        head, rest = split(chunks.popleft(), room)
        room -= len(head.text) + 1
        taken.append(head)
        if rest is not None:
            chunks.appendleft(rest)
    return taken


def _ends(chunks: Sequence[LogDelta], lines: int, room: int) -> list[LogDelta]:
    """The last ``lines`` of the chunks, in at most ``room`` bytes."""
    ends: list[LogDelta] = []
    for chunk in reversed(chunks):
        part = end_of(chunk, lines, room)
        ends.append(part)
        if part.count < chunk.count:
            break
        lines -= part.count
        room -= len(part.text)
    return ends[::-1]


def split(chunk: LogDelta, room: int) -> tuple[LogDelta, LogDelta | None]:
    """As many of the chunk's first lines as make ``room`` bytes, one at least; and the others."""
    text = chunk.text
    if len(text) <= room:
        return chunk, None
    cut = text.rfind(b"\n", 0, room + 1)
    cut = cut if cut >= 0 else text.find(b"\n")
    if cut < 0:
        return chunk, None
    count = text.count(b"\n", 0, cut) + 1
    times = _without(chunk.times, count)
    head = replace(
        chunk,
        count=count,
        text=text[:cut],
        edges=chunk.edges[: count + 1],
        times=_without(chunk.times[::-1], chunk.count - count)[::-1],
        partial="",
    )
    rest = replace(
        chunk,
        first=head.end,
        count=chunk.count - count,
        text=text[cut + 1 :],
        edges=chunk.edges[count:],
        times=times,
        skipped=0,
    )
    return head, rest


def end_of(chunk: LogDelta, lines: int, room: int) -> LogDelta:
    """The last ``lines`` of the chunk, in at most ``room`` bytes."""
    text, count = chunk.text, chunk.count
    start = 0
    if len(text) > room:
        # the newline before what fits may itself lie outside of it
        start = text.find(b"\n", len(text) - room - 1) + 1 if room > 0 else 0
        count = text.count(b"\n", start) + 1 if start else 0
    if count > lines:
        count, end = max(0, lines), len(text)
        for _ in range(count):
            end = text.rfind(b"\n", start, end)
        start = end + 1
    if count == chunk.count:
        return chunk
    dropped = chunk.count - count
    first = chunk.edges[dropped] if chunk.edges else chunk.first + start if count else chunk.end
    return replace(
        chunk,
        first=first,
        edges=chunk.edges[dropped:] if count else (),
        count=count,
        text=text[start:] if count else b"",
        times=_without(chunk.times, dropped),
        skipped=0,
    )


def since(chunk: LogDelta, address: int) -> LogDelta | None:
    """The lines from an address on; None where there are none, and none grows behind them."""
    if address <= chunk.first:
        return chunk
    lines = bisect_left(chunk.all_edges(), address)
    return end_of(chunk, chunk.count - lines, sys.maxsize) if lines <= chunk.count else None


def _without(times: tuple[tuple[int, float], ...], dropped: int) -> tuple[tuple[int, float], ...]:
    for at, (count, time) in enumerate(times):
        if dropped < count:
            return ((count - dropped, time), *times[at + 1 :])
        dropped -= count
    return ()


def joined(chunks: Iterable[LogDelta]) -> list[LogDelta]:
    """The chunks as few: one for lines that follow each other."""
    groups: list[list[LogDelta]] = []
    for chunk in chunks:
        if groups and not chunk.skipped:
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return [group[0] if len(group) == 1 else _one(group) for group in groups]


def _one(group: list[LogDelta]) -> LogDelta:
    with_lines = [chunk for chunk in group if chunk.count]
    times: list[tuple[int, float]] = []
    edges: list[int] = []
    for chunk in with_lines:
        times += chunk.times
    if any(chunk.edges for chunk in with_lines):
        edges = [at for chunk in with_lines for at in chunk.all_edges()[:-1]]
        edges.append(with_lines[-1].end)
    return replace(
        group[0],
        edges=tuple(edges),
        count=sum(chunk.count for chunk in with_lines),
        text=b"\n".join([chunk.text for chunk in with_lines]),
        times=tuple(times),
        partial=group[-1].partial,
    )


# Bytes of all ranks, in one message: what is sent while the page may still be loading has to be sent again,
# and what is sent while more is being written is in the way of what is newer.
_PACES = ((1.0, 128 * 1024), (2.0, 256 * 1024))
_BUSY_PACE = 256 * 1024
_PACE = 512 * 1024
_QUIET = 0.5  # seconds without news
_MUCH = 48 * 1024 * 1024  # more than this does not wait for quiet
_EARLY_BYTES = 4_000_000
_KEYFRAME_LINES = 400
_KEYFRAME_BYTES = 200_000
# of each rank that is behind, and of all of them
_NEWEST_LINES = 100
_NEWEST_BYTES = 128 * 1024
_WAITING = 64 * 1024 * 1024
_LEAST_BUDGET = 64 * 1024


class LogQueue:
    """The lines that were not sent yet, and the ends of those that were; of ``ranks`` ranks."""

    def __init__(self, ranks: int) -> None:
        self._ranks = max(1, ranks)
        self._tails: dict[int, Tail] = {}
        self._has_news = False
        self._news_at = 0.0
        self._repeats: deque[LogDelta] = deque()

    def take(self, deltas: Iterable[LogDelta]) -> None:
        for delta in deltas:
            if delta.rank not in self._tails:
                self._tails[delta.rank] = Tail(_EARLY_BYTES // self._ranks)
            self._tails[delta.rank].take(delta)
            self._has_news |= bool(delta.lines)

    @property
    def waiting(self) -> int:
        """Bytes that were not sent yet."""
        return sum(tail.size for tail in self._tails.values())

    @property
    def repeating(self) -> bool:
        """Whether some of what was sent is on its way again."""
        return bool(self._repeats)

    @property
    def budget(self) -> int:
        """How many bytes more there is room for now."""
        return max(_LEAST_BUDGET, _WAITING - self.waiting)

    @property
    def complete_until(self) -> float | None:
        """The time until which all lines have been sent; None when there are no others."""
        return min((tail.last_time for tail in self._tails.values() if tail.incomplete), default=None)

    def next(self, age: float) -> list[LogDelta]:
        """What is new, for a page that was opened ``age`` seconds ago."""
        return self._message(age)

    def again(self, age: float, *, whole: bool) -> list[LogDelta]:
        """As ``next``, for a page that may have missed what was sent: with the ends of the logs. Or
        ``whole``: with the begin of all that came so far, of which each message from now on has a part."""
        if not whole:
            return self._message(age, again=True, room=_KEYFRAME_BYTES)
        room = _EARLY_BYTES // self._ranks
        self._repeats = deque(chunk for tail in self._tails.values() for chunk in joined(tail.kept(room)))
        return self._message(age, again=True)

    def _message(self, age: float, *, again: bool = False, room: int = 0) -> list[LogDelta]:
        """What is new, preceded by so much of what was sent that it is ``room`` bytes; of a backlog the
        newest lines that have not gone ahead, or all of them ``again``. Beside it there is room for what is
        sent again: a page reads nothing of a chunk that it has."""
        share, tails = self._share(age), self._tails.values()
        before = max(0, room - sum(min(share, tail.size) for tail in tails)) // self._ranks
        newest, chunks = [], []
        for tail in tails:
            if tail.size > share:
                newest += tail.newest(_NEWEST_LINES, _NEWEST_BYTES // self._ranks, again=again)
                chunks += tail.part(share)
            else:
                chunks += tail.end(before, _KEYFRAME_LINES) if room else tail.part()
        return [*newest, *_taken(self._repeats, self._pace(age) // 2), *chunks]

    def _share(self, age: float) -> int:
        """How much a rank may send now, so that a message holds no more than it should."""
        if self._has_news:
            self._has_news, self._news_at = False, age
        room = self._pace(age)
        sizes = [tail.size for tail in self._tails.values()]
        return level(sizes, room) if sum(sizes) > room else sys.maxsize

    def _pace(self, age: float) -> int:
        for until, room in _PACES:
            if age < until:
                return room
        busy = age - self._news_at < _QUIET and self.waiting < _MUCH
        return _BUSY_PACE if busy else _PACE


_MEDIA_BYTES = 256 * 1024  # in one message, or one file
_MOST_MEDIA = 200


class MediaQueue:
    """The files of outputs whose lines are sent, of the newest where there are many: a page asks for the
    others when it draws them. ``read`` finds the file of a rank by its name, empty for none."""

    def __init__(self, read: Callable[[int, str], bytes]) -> None:
        self._read = read
        self._waiting: deque[tuple[int, str]] = deque(maxlen=_MOST_MEDIA)
        self._sent: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, chunks: Iterable[LogDelta], *, again: bool) -> list[Media]:
        """What goes with these lines, and what waits. ``again``: the page may have missed what was sent."""
        for chunk in chunks:
            for name in named_in(chunk.text):
                if again or name not in self._sent:
                    self._sent.add(name)
                    self._waiting.append((chunk.rank, name))
        taken: list[Media] = []
        room = _MEDIA_BYTES
        while self._waiting and room > 0:
            rank, name = self._waiting.popleft()
            if data := self._read(rank, name):
                taken.append(Media(name=name, data=data))
                room -= len(data)
        return taken


_CHARTS_PERIOD = 2.0
_CHARTS_BYTES = 200_000
_MANY_RANKS = 16  # above, a view is so large that it is sent once a second
_VIEW_PERIOD = 1.0


class ViewQueue:
    """When a view is sent: when it says something new, and where ranks are many not at every look."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._sent: RunView | None = None

    def take(self, view: RunView, now: float, *, again: bool) -> RunView | None:
        """The view as it is to be sent now; None for not now."""
        last = self._sent
        if not again and last is not None and len(view.ranks) > _MANY_RANKS:
            urgent = (view.state, view.failure, view.stall) != (last.state, last.failure, last.stall)
            if not urgent and now - self._sent_at < _VIEW_PERIOD:
                return None
        shown = for_the_strip(view)
        # the page has a clock of its own
        still = replace(shown, elapsed=0.0, ranks=tuple(replace(rank, elapsed=0.0) for rank in shown.ranks))
        if not again and still == last:
            return None
        self._sent_at, self._sent = now, still
        return shown


class ChartQueue:
    """When a chart is sent: when it has changed, but no oftener than it pays to look at it.

    There may be more than one message should hold; those that were not sent for longest come first.
    """

    def __init__(self, charts: Charts) -> None:
        self._charts = charts
        self._looked = -_CHARTS_PERIOD
        self._sent: dict[ChartKey, tuple[int, int]] = {}
        self._count = 0

    @property
    def left_out(self) -> int:
        """How many metrics have no chart."""
        return len(self._charts.dropped)

    def take(self, now: float, *, again: bool, at_once: bool = False) -> Sequence[Chart]:
        """The charts that are to be sent now; ``again`` takes in those that did not change. ``at_once`` does
        not wait until the last look was long enough ago."""
        if not (again or at_once) and now - self._looked < _CHARTS_PERIOD:
            return ()
        self._looked = now
        marks = self._charts.marks
        due = [key for key, mark in marks.items() if again or self._sent.get(key, (0, -1))[1] != mark]
        due.sort(key=lambda key: self._sent.get(key, (0, -1))[0])
        taken: list[Chart] = []
        room = _CHARTS_BYTES
        for key in due:
            if room <= 0:
                break
            chart = self._charts.chart(key)
            room -= 4 * chart.rows * len(chart.columns)
            self._count += 1
            self._sent[key] = (self._count, marks[key])
            taken.append(chart)
        return taken
