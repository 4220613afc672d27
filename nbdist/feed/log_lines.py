"""The lines of a rank's log from a place on, each once, for programs that read on where they stopped.

A line that may still grow, or be redrawn, waits until it cannot."""

from __future__ import annotations

import heapq
import itertools
import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.feed.ansi import printable
from nbdist.feed.rank_log import LogDelta, RankFollower, log_base
from nbdist.model import Run
from nbdist.privacy import Privacy
from nbdist.store import RunDirectory

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line, without colours and secrets. ``offset`` is its address, ``time`` in Unix seconds."""

    rank: int
    attempt: int
    time: float
    offset: int
    text: str


_TRACEBACK = re.compile(
    r"(?:\[rank\d+\]:\s?)?(?:Exception in thread .+:|Traceback \(most recent call last\):)$"
)
_WITHIN = re.compile(r"(?:\[rank\d+\]:\s?)?(?:\s.*|$)")
_BETWEEN = re.compile(r"\s*$|(?:During handling of|The above exception was) .+:$")


class Tracebacks:
    """The lines of a rank without tracebacks, which those of a stop are of no use to read."""

    def __init__(self) -> None:
        self.left_out = 0
        self._within = self._behind = False

    def without(self, lines: Iterable[str]) -> list[str]:
        """Return the lines that are in none; it may go on in the lines of the next call."""
        return [line for line in lines if not self._takes(printable(line))]

    def _takes(self, line: str) -> bool:
        if _TRACEBACK.match(line):
            self._within, self._behind = True, False
        elif self._within:
            # the exception itself is its first line without an indent
            self._within = _WITHIN.match(line) is not None
            self._behind = not self._within
        else:
            self._behind = self._behind and _BETWEEN.match(line) is not None
        taken = self._within or self._behind
        self.left_out += taken
        return taken


@dataclass(frozen=True, slots=True)
class Place:
    """A place ``lines`` lines behind an address: lines of a moving cursor have no bytes of their own."""

    address: int
    lines: int = 0

    def __str__(self) -> str:
        return f"{self.address}+{self.lines}" if self.lines else str(self.address)


def places_text(places: Mapping[int, Place]) -> str:
    """Return places by rank, as programs give them back: ``0:4096,1:80+2``."""
    return ",".join(f"{rank}:{place}" for rank, place in places.items())


class LineReader:
    """One rank's log, read on through all attempts of a run."""

    def __init__(self, directory: RunDirectory, run: Run, rank: int, since: Place | None = None) -> None:
        """Begin at ``since``, or else with the last attempt."""
        bases = [log_base(directory, rank, attempt) for attempt in range(1, run.attempt + 1)]
        self.rank = rank
        self._directory = directory
        self._clean = Privacy(run.spec).clean
        self._skip = since.lines if since is not None else 0
        self._address = since.address if since is not None else bases[-1]
        self._attempt = max(1, bisect_right(bases, self._address))
        self._read = 0  # lines from the address on
        self._open(run)

    @property
    def next(self) -> Place:
        """Return the place to read on from."""
        return Place(self._address, max(self._read, self._skip))

    def skip(self, keep: int) -> None:
        """Go on at the start of a line, ``keep`` bytes before the end of the attempt's log."""
        self._follower.skip(keep)
        self._address = self._follower.address

    def read(self, run: Run) -> Iterator[LogLine]:
        """Yield new lines; of an attempt that is over also the one that no newline ended."""
        while True:
            over = run.state.terminal or self._attempt < run.attempt
            moment = run.ended or time.time()
            while self._follower.waiting and (delta := self._follower.read(_CHUNK, moment)) is not None:
                yield from self._lines(delta, run)
            if not over:
                return
            if (delta := self._follower.read(_CHUNK, moment, final=True)) is not None:
                yield from self._lines(delta, run)
            if self._attempt == run.attempt:
                return
            self._attempt += 1
            self._address, self._read, self._skip = self._base, 0, 0
            self._open(run)

    @property
    def _base(self) -> int:
        return log_base(self._directory, self.rank, self._attempt)

    def _open(self, run: Run) -> None:
        self._follower = _Follower(
            self.rank,
            self._directory.rank(self.rank, self._attempt),
            created=run.spec.created,
            base=self._base,
            offset=max(0, self._address - self._base),
        )

    def _lines(self, delta: LogDelta, run: Run) -> Iterator[LogLine]:
        times = itertools.chain.from_iterable(itertools.repeat(at, count) for count, at in delta.times)
        # at once: a secret may span several lines, and each line keeps its place
        texts = self._clean(delta.text.decode()).split("\n") if delta.count else []
        # one edge more than lines
        for text, begin, at in zip(texts, delta.all_edges(), times, strict=False):
            self._read += 1
            if self._read > self._skip:
                yield LogLine(
                    rank=self.rank,
                    attempt=self._attempt,
                    time=round(run.spec.created + at, 3),
                    offset=begin,
                    text=printable(text),
                )
        if self._follower.settled is not None:
            self._address, self._read, self._skip = self._follower.settled, 0, 0


class MergedLines:
    """The lines of several ranks, the oldest first. A line counts as read when the next one is requested."""

    def __init__(self, readers: Sequence[LineReader], run: Run) -> None:
        self._readers = {reader.rank: reader for reader in readers}
        self._run = run
        self._places = {reader.rank: reader.next for reader in readers}

    def __iter__(self) -> Iterator[LogLine]:
        for line in heapq.merge(*map(self._read, self._readers), key=lambda line: line.time):
            yield line
            # its reader goes on when the caller asks for the next line
            self._places[line.rank] = self._readers[line.rank].next

    @property
    def next(self) -> str:
        """Return the places to read on from: behind the lines that were read."""
        return places_text(self._places)

    def _read(self, rank: int) -> Iterator[LogLine]:
        yield from self._readers[rank].read(self._run)
        self._places[rank] = self._readers[rank].next


class _Follower(RankFollower):
    """A follower that knows whether its address is a byte's: in redrawn rows and long lines it is not."""

    _exact = True

    @property
    def address(self) -> int:
        """Return the byte at which the next line begins."""
        return self._at

    @property
    def settled(self) -> int | None:
        """Return the address from which the rest can be read without what was before; None for none yet."""
        exact = self._exact or self._at == self._base + self._stream.offset
        return self._at if exact and not self._lines.moves else None

    def _take(self, data: bytes, moment: float, news: Any) -> None:
        before = self._at
        super()._take(data, moment, news)
        line = self._base + self._stream.offset - len(data) + data.rfind(b"\n") + 1
        self._exact = self._at == line or (self._exact and self._at == before)
