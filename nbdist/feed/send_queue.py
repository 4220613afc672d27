"""The contents of the next message to a page: lines of the logs, the view, the charts. Pure.

A page that gets a backlog faster than it reads shows the newest line last. So a message has a limit, and
where more waits the newest lines go ahead, and the others follow in their order: by their addresses the page
knows what is still to come."""

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
    """A rank's unsent lines, and the last ``room`` bytes (at times half as much again) of the sent ones."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: list[LogDelta] = []
        self._news: deque[LogDelta] = deque()
        self._ahead = 0  # the newest lines up to this address have gone ahead
        self._behind = False
        self.last_time = 0.0
        """The time of the last line sent in order, in seconds since the run was created."""

    def take(self, delta: LogDelta) -> None:
        self._news.append(delta)
        self._behind = delta.behind

    @property
    def incomplete(self) -> bool:
        """Return whether there are unsent lines."""
        return self._behind or any(chunk.count for chunk in self._news)

    @property
    def size(self) -> int:
        """Return the unsent bytes."""
        return _size(self._news)

    def newest(self, lines: int, room: int, *, again: bool = False) -> list[LogDelta]:
        """Return the last unsent lines, at most ``lines`` and ``room`` bytes, to go ahead; they are sent
        once more in order. Nothing when they went ahead already, unless ``again``."""
        ahead, self._ahead = self._ahead, self._news[-1].end
        ends = _ends(self._news, lines, room)
        if not again:
            ends = [part for chunk in ends if (part := since(chunk, ahead)) is not None]
        return [chunk for chunk in ends if chunk.count or chunk.partial]

    def part(self, room: int = sys.maxsize) -> list[LogDelta]:
        """Return the oldest unsent lines, about ``room`` bytes and at least one; mark them as sent."""
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
        """Return the last ``room`` bytes of the sent lines, at most ``lines`` of them."""
        return _ends(self._kept, lines, room)

    def end(self, room: int, lines: int = sys.maxsize) -> list[LogDelta]:
        """Return all unsent lines, behind sent ones up to ``lines`` in all and ``room`` bytes."""
        before = self.kept(room, lines - sum(chunk.count for chunk in self._news))
        return joined((*before, *self.part()))


def _size(chunks: Iterable[LogDelta]) -> int:
    return sum(len(chunk.text) for chunk in chunks)


def _taken(chunks: deque[LogDelta], room: int) -> list[LogDelta]:
    taken: list[LogDelta] = []
    while chunks and room > 0:
        head, rest = split(chunks.popleft(), room)
        room -= len(head.text) + 1
        taken.append(head)
        if rest is not None:
            chunks.appendleft(rest)
    return taken


def _ends(chunks: Sequence[LogDelta], lines: int, room: int) -> list[LogDelta]:
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
    """Return the chunk's first lines that make ``room`` bytes, one at least; and the others."""
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
    """Return the last ``lines`` of the chunk, in at most ``room`` bytes."""
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
    """Return the lines from an address on; None where there are none, and none grows behind them."""
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
    """Return the chunks as few: one for lines that follow each other."""
    groups: list[list[LogDelta]] = []
    for chunk in chunks:
        if groups and not chunk.skipped:
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return [group[0] if len(group) == 1 else _merged(group) for group in groups]


def _merged(group: list[LogDelta]) -> LogDelta:
    with_lines = [chunk for chunk in group if chunk.count]
    edges: list[int] = []
    if any(chunk.edges for chunk in with_lines):
        edges = [at for chunk in with_lines for at in chunk.all_edges()[:-1]]
        edges.append(with_lines[-1].end)
    return replace(
        group[0],
        edges=tuple(edges),
        count=sum(chunk.count for chunk in with_lines),
        text=b"\n".join([chunk.text for chunk in with_lines]),
        times=tuple(time for chunk in with_lines for time in chunk.times),
        partial=group[-1].partial,
    )


# bytes of all ranks in one message: a page that still loads gets them again, and while ranks write, old lines
# are in the way of newer ones
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
    """The unsent lines of ``ranks`` ranks, and the ends of the sent ones."""

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
        """Return the unsent bytes."""
        return sum(tail.size for tail in self._tails.values())

    @property
    def repeating(self) -> bool:
        """Return whether sent lines are on their way again."""
        return bool(self._repeats)

    @property
    def budget(self) -> int:
        """Return the bytes that there is room for."""
        return max(_LEAST_BUDGET, _WAITING - self.waiting)

    @property
    def complete_until(self) -> float | None:
        """Return the time until which all lines were sent; None when all were."""
        return min((tail.last_time for tail in self._tails.values() if tail.incomplete), default=None)

    def next(self, age: float, *, again: bool = False, room: int = 0) -> list[LogDelta]:
        """Return what is new, behind sent lines up to ``room`` bytes, ``age`` seconds after a page was
        opened. Of a backlog the newest lines go ahead once, or all ``again``; repeats have room of their
        own."""
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

    def again(self, age: float, *, whole: bool) -> list[LogDelta]:
        """Do as ``next``, for a page that may have missed lines: with the ends of the logs; or ``whole``,
        with the begin of all that came so far, whose rest the next messages have."""
        if not whole:
            return self.next(age, again=True, room=_KEYFRAME_BYTES)
        room = _EARLY_BYTES // self._ranks
        self._repeats = deque(chunk for tail in self._tails.values() for chunk in joined(tail.kept(room)))
        return self.next(age, again=True)

    def _share(self, age: float) -> int:
        """Return the bytes that a rank may send, so that a message keeps to its limit."""
        if self._has_news:
            self._has_news, self._news_at = False, age
        room = self._pace(age)
        sizes = [tail.size for tail in self._tails.values()]
        return level(sizes, room) if sum(sizes) > room else sys.maxsize

    def _pace(self, age: float) -> int:
        busy = age - self._news_at < _QUIET and self.waiting < _MUCH
        usual = _BUSY_PACE if busy else _PACE
        return next((room for until, room in _PACES if age < until), usual)


_MEDIA_BYTES = 256 * 1024  # in one message, or one file
_MOST_MEDIA = 200


class MediaQueue:
    """The files of outputs whose lines are sent, the newest where there are many: a page requests the
    others when it draws them. ``read`` returns a rank's file by name, empty for none."""

    def __init__(self, read: Callable[[int, str], bytes]) -> None:
        self._read = read
        self._waiting: deque[tuple[int, str]] = deque(maxlen=_MOST_MEDIA)
        self._sent: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, chunks: Iterable[LogDelta], *, again: bool) -> list[Media]:
        """Return the files for these lines, and waiting ones; ``again`` includes files that were sent."""
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
_MANY_RANKS = 16  # with more, a view is so large that it is sent once a second
_VIEW_PERIOD = 1.0


class ViewQueue:
    """The views to send: each that differs, and where ranks are many not at every look."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._sent: RunView | None = None

    def take(self, view: RunView, now: float, *, again: bool) -> RunView | None:
        """Return the view to send now; None for not now."""
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
    """The charts to send: each that has changed, at a readable pace, the longest unsent first."""

    def __init__(self, charts: Charts) -> None:
        self._charts = charts
        self._looked = -_CHARTS_PERIOD
        self._sent: dict[ChartKey, tuple[int, int]] = {}
        self._count = 0

    @property
    def left_out(self) -> int:
        """Return the number of metrics without a chart."""
        return len(self._charts.dropped)

    def take(self, now: float, *, again: bool, at_once: bool = False) -> Sequence[Chart]:
        """Return the charts to send now; ``again`` includes unchanged ones, ``at_once`` ignores the pace."""
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
