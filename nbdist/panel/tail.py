"""The end of one rank's log in memory: to be sent once, and again to a page that came late. Pure."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nbdist.panel.protocol import LogChunk
from nbdist.panel.rank_log import LogDelta

_WHOLE = 4_096  # bytes; smaller chunks are joined with what comes next


class Tail:
    """All of a rank's lines that were not sent yet, and of those that were the last ``room`` bytes
    (at times half as much again)."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: deque[LogChunk] = deque()
        self._size = 0
        self._news: list[LogChunk] = []
        self._size_of_news = 0
        self._ahead = 0  # the line until which the newest have gone ahead
        self._behind = False
        self.last_time = 0.0
        """When the last line that was sent (in order) was written, in seconds since the run was created."""

    def take(self, delta: LogDelta) -> None:
        chunk = LogChunk.of(delta)
        self._news.append(chunk)
        self._size_of_news += len(chunk.text)
        self._behind = delta.behind

    @property
    def incomplete(self) -> bool:
        """Whether more lines are there than have been sent."""
        return self._behind or any(chunk.count for chunk in self._news)

    def news(self) -> list[LogChunk]:
        """What was not sent yet: one chunk, more where something was passed over between them."""
        return _joined(self._news)

    @property
    def size(self) -> int:
        """Bytes that were not sent yet."""
        return self._size_of_news

    def newest(self, lines: int, room: int, *, again: bool = False) -> list[LogChunk]:
        """The last of what was not sent, at most ``lines`` and ``room`` bytes: to be shown before what
        comes before it, with which it is sent once more. Nothing when it has been shown already, but
        for ``again``."""
        last = self._news[-1]
        end = last.first + last.count
        if not again:
            lines = min(lines, end - self._ahead)
        self._ahead = end
        return [chunk for chunk in _ends(self._news, lines, room) if chunk.count or chunk.partial]

    def part(self, room: int) -> list[LogChunk]:
        """The oldest of what was not sent, about ``room`` bytes of it and at least a line. It counts as
        sent."""
        taken: list[LogChunk] = []
        rest = self._news
        self._news = []
        while rest and room > 0:
            head, left = split(rest.pop(0), room)
            room -= len(head.text) + 1
            taken.append(head)
            if left is not None:
                rest.insert(0, left)
        self._news = taken
        chunks = self.news()
        self.sent()
        self._news = rest
        self._size_of_news = sum(len(chunk.text) for chunk in rest)
        return chunks

    def kept(self, room: int) -> list[LogChunk]:
        """Of what was sent the last ``room`` bytes."""
        return _joined(_ends(self._kept, sys.maxsize, room))

    def end(self, room: int, lines: int = sys.maxsize) -> list[LogChunk]:
        """What was not sent yet, and before it of what was as much as makes ``lines`` in all, at most
        ``room`` bytes of it."""
        lines -= sum(chunk.count for chunk in self._news)
        return _joined((*_ends(self._kept, lines, room), *self._news))

    def sent(self) -> None:
        """All that was new has been sent."""
        for chunk in self._news:
            if chunk.times:
                self.last_time = chunk.times[-1][1]
            group = [chunk]
            if self._kept and len(self._kept[-1].text) < _WHOLE:
                group.insert(0, self._kept.pop())
                self._size -= len(group[0].text)
            joined = _joined(group)
            self._kept.extend(joined)
            self._size += sum(len(part.text) for part in joined)
        self._news.clear()
        self._size_of_news = 0
        if self._size <= self._room * 3 // 2:
            return
        while self._size - len(self._kept[0].text) >= self._room:
            self._size -= len(self._kept.popleft().text)
        oldest = self._kept[0]
        rest = self._size - len(oldest.text)
        self._kept[0] = end_of(oldest, oldest.count, self._room - rest)
        self._size = rest + len(self._kept[0].text)


def _ends(chunks: Sequence[LogChunk], lines: int, room: int) -> list[LogChunk]:
    """The last ``lines`` of the chunks, in at most ``room`` bytes."""
    ends: list[LogChunk] = []
    for chunk in reversed(chunks):
        part = end_of(chunk, lines, room)
        ends.insert(0, part)
        if part.count < chunk.count:
            break
        lines -= part.count
        room -= len(part.text)
    return ends


def split(chunk: LogChunk, room: int) -> tuple[LogChunk, LogChunk | None]:
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
        times=_without(chunk.times[::-1], chunk.count - count)[::-1],
        partial="",
    )
    rest = replace(
        chunk,
        first=chunk.first + count,
        count=chunk.count - count,
        text=text[cut + 1 :],
        times=times,
        skipped=0,
    )
    return head, rest


def end_of(chunk: LogChunk, lines: int, room: int) -> LogChunk:
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
    return replace(
        chunk,
        first=chunk.first + dropped,
        count=count,
        text=text[start:] if count else b"",
        times=_without(chunk.times, dropped),
        skipped=0,
    )


def _without(times: tuple[tuple[int, float], ...], dropped: int) -> tuple[tuple[int, float], ...]:
    for at, (count, time) in enumerate(times):
        if dropped < count:
            return ((count - dropped, time), *times[at + 1 :])
        dropped -= count
    return ()


def _joined(chunks: Iterable[LogChunk]) -> list[LogChunk]:
    """The chunks as few: one for lines that follow each other."""
    groups: list[list[LogChunk]] = []
    for chunk in chunks:
        if groups and not chunk.skipped:
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return [group[0] if len(group) == 1 else _one(group) for group in groups]


def _one(group: list[LogChunk]) -> LogChunk:
    with_lines = [chunk for chunk in group if chunk.count]
    times: list[tuple[int, float]] = []
    for chunk in with_lines:
        times += chunk.times
    return replace(
        group[0],
        count=sum(chunk.count for chunk in with_lines),
        text=b"\n".join([chunk.text for chunk in with_lines]),
        times=tuple(times),
        partial=group[-1].partial,
    )
