"""The frames for pages that watch a run, from one reader for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from nbdist.errors import UnknownRun
from nbdist.feed.charts import Charts
from nbdist.feed.following import RunFeed
from nbdist.feed.measures import Measures
from nbdist.feed.protocol import Update, encode, frame
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.send_queue import ChartQueue, ViewQueue, end_of, joined, since
from nbdist.feed.view import RunView
from nbdist.model import Run
from nbdist.server.run_list import InThread, Page, RunList
from nbdist.store import RunDirectory
from nbdist.store.run_store import read_spec

Gap = tuple[int, int, int]
"""A rank, and the addresses between which a page lacks lines."""

# bytes of the logs of all ranks
_LOOK_BYTES = 512 * 1024  # more that waits is passed over, and can be pulled
_KEPT = 1024 * 1024
_LEAST_SENT = 16 * 1024


class RecentLines:
    """The last lines of a rank, without a gap: lines behind a gap replace those before it."""

    def __init__(self, rank: int, room: int) -> None:
        self.rank = rank
        self._room = room
        self._chunks: deque[LogDelta] = deque()
        self._size = 0
        self.next = 0  # the address behind the last line
        self.partial = ""
        self.behind = False  # whether the last look left some of the log unread

    @property
    def first(self) -> int:
        """Return the address of the first line."""
        return self._chunks[0].first if self._chunks else self.next

    def add(self, chunk: LogDelta) -> None:
        self.partial, self.behind = chunk.partial, chunk.behind
        if chunk.first != self.next:
            self._chunks.clear()
            self._size = 0
        self.next = chunk.end
        if not chunk.count:
            return
        self._chunks.append(replace(chunk, partial="", skipped=0))
        self._size += len(chunk.text)
        while self._size - len(self._chunks[0].text) >= self._room:
            self._size -= len(self._chunks.popleft().text)

    def since(self, address: int) -> LogDelta:
        """Return the lines from an address on, and the unfinished line."""
        parts: list[LogDelta] = []
        for chunk in reversed(self._chunks):
            if chunk.end <= address:
                break
            if (part := since(chunk, address)) is not None:
                parts.insert(0, part)
        nothing = LogDelta(rank=self.rank, first=self.next)
        return replace(joined(parts)[0] if parts else nothing, partial=self.partial)

    def start_of_end(self, lines: int, room: int) -> int:
        """Return the address before the last ``lines`` at most, of about ``room`` bytes."""
        address = self.next
        for chunk in reversed(self._chunks):
            part = end_of(chunk, lines, room)
            if not part.count:
                break
            address = part.first
            lines -= part.count
            room -= len(part.text)
            if part.count < chunk.count:
                break
        return address


class RunTail:
    """The changing parts of a run, read by threads; hold ``lock`` to read ``ranks`` or ``charts``."""

    def __init__(self, directory: RunDirectory, *, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.run: Run | None = None
        self.view: RunView | None = None
        self.charts: Charts | None = None
        self.ranks: dict[int, RecentLines] = {}
        self.done = False  # once the run has ended and all of it was read
        self._clock = clock
        self._unmeasured: list[LogDelta] = []
        self._feed = RunFeed(directory, room=_LOOK_BYTES, clock=clock)

    def see(self) -> Run | None:
        """Return the run, its logs and points unread since they may be long; None when it cannot be read."""
        with self.lock:
            run = self._look_at_run()
            if run is not None:
                self.view = self._feed.view(run, self._clock())
            return run

    def look(self, *, points: bool = True) -> bool:
        """Read on, without ``points`` lines alone; return False when the run cannot be read any more."""
        with self.lock:
            run = self._look_at_run()
            if run is None:
                return False
            feed, now = self._feed, self._clock()
            room = max(_LEAST_SENT, _KEPT // max(1, len(run.ranks)))
            if not self.ranks:
                self.ranks = {rank.rank: RecentLines(rank.rank, room) for rank in run.ranks}
            deltas = feed.lines(run, now, budget=_LOOK_BYTES)
            for delta in deltas:
                self.ranks[delta.rank].add(delta)
            self._unmeasured += deltas
            if points:
                feed.measures.look(run, self._unmeasured, now)
                self._unmeasured = []
                self.done = run.state.terminal and not feed.logs.behind and not feed.measures.behind
            self.view = feed.view(run, now)
            return True

    def within(self, gaps: Iterable[Gap], limit: int) -> list[LogDelta]:
        """Return the last lines on disk of each gap, about ``limit`` bytes; for no such rank none."""
        with self.lock:
            run, logs, now = self.run, self._feed.logs, self._clock()
            return [
                replace(delta, partial="", skipped=0)
                for rank, after, before in gaps
                if run is not None and rank in self.ranks
                for delta in logs.before(run, rank, after, before, limit, now)
            ]

    def _look_at_run(self) -> Run | None:
        run = self.run = self._feed.run()
        if run is not None and self.charts is None:
            self.charts = Charts(created=run.spec.created, ranks=[rank.rank for rank in run.ranks])
            self._feed.measures = Measures(self.directory, self.charts)
        return run


UNDER_WAY = 2  # updates that a page may have without having acknowledged them
_END_LINES = 400
_END_BYTES = 256 * 1024
_FAR = 512 * 1024  # a page that lacks more bytes of a rank gets the end first
_LEAST = 4 * 1024


class ClientCursor:
    """The place of a page in a run. ``have`` has, for some ranks, the address of the first line that the page
    lacks; ``complete_until`` is the last update's."""

    def __init__(self, tail: RunTail, have: Mapping[int, int] | None = None, *, cell: str = "") -> None:
        self.tail = tail
        self.under_way = 0
        self.complete_until: float | None = None
        self._cell: str | None = cell
        self._next = dict(have or {})
        self._partials: dict[int, str] = {}
        self._times: dict[int, float] = {}
        self._views = ViewQueue()
        self._charts: ChartQueue | None = None

    def update(self, now: float) -> Update | None:
        """Return the part that the page lacks; None for none. ``now`` is monotonic."""
        tail = self.tail
        with tail.lock:
            if tail.view is None or tail.charts is None:
                return None
            first = self._charts is None
            if self._charts is None:
                self._charts = ChartQueue(tail.charts)
            view = self._views.take(tail.view, now, again=False)
            charts = self._charts.take(now, again=first)
            chunks, left_out = self._chunks(), self._charts.left_out
        if view is None and not charts and not chunks:
            return None
        cell, self._cell = self._cell, None
        return Update(
            view=view,
            chunks=chunks,
            complete_until=self.complete_until,
            charts=charts,
            left_out=left_out,
            cell=cell,
        )

    def _chunks(self) -> list[LogDelta]:
        recents = list(self.tail.ranks.values())
        chunks = [chunk for recent in recents for chunk in self._of_rank(recent, len(recents))]
        unsent = [self._times.get(recent.rank, 0.0) for recent in recents if recent.behind]
        self.complete_until = min(unsent, default=None)
        return chunks

    def _of_rank(self, recent: RecentLines, ranks: int) -> list[LogDelta]:
        at = self._next.get(recent.rank)
        if at is None or at > recent.next or recent.next - at > _FAR:
            at = recent.start_of_end(_END_LINES, max(_LEAST, _END_BYTES // ranks))
        chunk = recent.since(at)
        self._next[recent.rank] = recent.next
        if not chunk.count and chunk.partial == self._partials.get(recent.rank, ""):
            return []
        self._partials[recent.rank] = chunk.partial
        if chunk.times:
            self._times[recent.rank] = chunk.times[-1][1]
        return [chunk]


_PERIOD = 0.1
_TURN = 2.1  # seconds in which charts and views of many ranks, sent seldom, have their turn
_LAST_TURNS = 5
_REST = 3.0  # times the length of a look: so reading takes a quarter of a core at most
_IDLE = 8  # unwatched runs whose lines stay in memory, for a page that comes back
_PULL_BYTES = 256 * 1024
_LEAST_PULLED = 4 * 1024
_CELL_LIMIT = 65_536

log = logging.getLogger("nbdist.server")


@dataclass(eq=False)
class Watcher:
    """A page that watches one run."""

    page: Page
    run_id: str
    cursor: ClientCursor
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


@dataclass(eq=False)
class _Followed:
    """A run that is read while an unpaused page watches it."""

    tail: RunTail
    watchers: set[Watcher] = field(default_factory=set)
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def look_who_is_awake(self) -> None:
        if all(watcher.page.paused for watcher in self.watchers):
            self.awake.clear()
        else:
            self.awake.set()

    def wake(self) -> None:
        for watcher in self.watchers:
            watcher.news.set()


class Streams:
    """A sender of runs to pages. Its methods are for the server's loop; ``run`` works in a thread."""

    def __init__(self, runs: RunList, run: InThread) -> None:
        self._runs = runs
        self._run = run
        # one thread reads the logs of all runs
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="nbdist-tail")
        # one more makes frames: the loop waits for the interpreter behind few threads
        self._builder = ThreadPoolExecutor(1, thread_name_prefix="nbdist-frames")
        self._followed: dict[str, _Followed] = {}
        self._idle: OrderedDict[str, RunTail] = OrderedDict()
        self._farewells: set[asyncio.Task[None]] = set()

    @property
    def followed(self) -> dict[str, int]:
        """Return the number of pages of each run that is read."""
        return {run_id: len(followed.watchers) for run_id, followed in self._followed.items()}

    async def watch(self, page: Page, run_id: str, have: Mapping[int, int]) -> Watcher | None:
        """Send the run to the page from now on; return None without such a run."""
        directory = await self._run(self._runs.directory, run_id)
        if directory is None:
            return None
        cell = await self._run(program_of, directory)
        followed = self._followed.get(run_id)
        if followed is None:
            tail = self._idle.pop(run_id, None) or RunTail(directory)
            followed = self._followed[run_id] = _Followed(tail)
            followed.task = asyncio.create_task(self._follow(run_id, followed))
        watcher = Watcher(page, run_id, ClientCursor(followed.tail, have, cell=cell))
        followed.watchers.add(watcher)
        followed.look_who_is_awake()
        watcher.task = asyncio.create_task(self._serve(watcher))
        watcher.news.set()
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        if watcher.task is not None:
            watcher.task.cancel()
        followed = self._followed.get(watcher.run_id)
        if followed is None or watcher not in followed.watchers:
            return
        followed.watchers.discard(watcher)
        followed.look_who_is_awake()
        if not followed.watchers:
            self._end(watcher.run_id)
            self._idle[watcher.run_id] = followed.tail
            while len(self._idle) > _IDLE:
                self._idle.popitem(last=False)

    def paused(self, watchers: Iterable[Watcher]) -> None:
        """Note that the page of these watchers was paused, or goes on."""
        for watcher in watchers:
            if (followed := self._followed.get(watcher.run_id)) is not None:
                followed.look_who_is_awake()
            watcher.news.set()

    async def pull(self, watcher: Watcher, gaps: Sequence[Gap]) -> bytes:
        """Return the last lines in each of these gaps, as a frame."""
        tail, limit = watcher.cursor.tail, max(_LEAST_PULLED, _PULL_BYTES // max(1, len(gaps)))
        chunks: list[LogDelta] = await self._run(tail.within, gaps, limit)
        update = Update(chunks=chunks, complete_until=watcher.cursor.complete_until)
        return update_frame(watcher.run_id, update, pulled=True)

    def forget(self, run_id: str) -> None:
        """Send the run's pages the news that it was removed."""
        self._idle.pop(run_id, None)
        if (followed := self._end(run_id)) is not None:
            for watcher in followed.watchers:
                farewell = asyncio.create_task(self._say_gone(watcher))
                self._farewells.add(farewell)
                farewell.add_done_callback(self._farewells.discard)

    async def close(self) -> None:
        tasks = [followed.task for followed in self._followed.values()]
        tasks += [watcher.task for followed in self._followed.values() for watcher in followed.watchers]
        running = [task for task in (*tasks, *self._farewells) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._followed.clear()
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._builder.shutdown(wait=False, cancel_futures=True)

    def _end(self, run_id: str) -> _Followed | None:
        """Stop reading a run; return it, None when it was not read."""
        followed = self._followed.pop(run_id, None)
        if followed is not None and followed.task is not None:
            followed.task.cancel()
        return followed

    async def _follow(self, run_id: str, followed: _Followed) -> None:
        """Read the run while a page watches it."""
        tail, loop = followed.tail, asyncio.get_running_loop()
        try:
            # of many ranks the logs take a moment, the points another: what is known is sent before them
            readable = await self._run(tail.see) is not None
            await self._show(followed)
            readable = readable and await self._run(partial(tail.look, points=False))
            await self._show(followed)
            while readable and not tail.done:
                await followed.awake.wait()
                readable, spent = await loop.run_in_executor(self._reader, _timed_look, tail)
                # the reader itself rests, so this holds for all runs together
                loop.run_in_executor(self._reader, time.sleep, _REST * spent)
                followed.wake()
                await asyncio.sleep(_PERIOD)
            for _ in range(_LAST_TURNS if readable else 0):
                await asyncio.sleep(_TURN)
                followed.wake()
        except Exception:
            log.exception("run %s cannot be followed", run_id)
            readable = False
        if not readable:
            self.forget(run_id)

    async def _show(self, followed: _Followed) -> None:
        """Make the frames of all pages that have room, before the run is read on."""
        followed.wake()
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(self._builder, _nothing)

    async def _serve(self, watcher: Watcher) -> None:
        """Send the page the part that it lacks, whenever it has room."""
        cursor, page, loop = watcher.cursor, watcher.page, asyncio.get_running_loop()
        try:
            while True:
                await watcher.news.wait()
                watcher.news.clear()
                if cursor.under_way < UNDER_WAY and not page.paused:
                    data = await loop.run_in_executor(self._builder, _next_frame, watcher)
                    if data is not None:
                        cursor.under_way += 1
                        await page.send(data)
        except ConnectionError:
            return
        except Exception:
            log.exception("run %s cannot be shown", watcher.run_id)

    async def _say_gone(self, watcher: Watcher) -> None:
        if watcher.task is not None:
            watcher.task.cancel()
        with contextlib.suppress(ConnectionError):
            await watcher.page.send(gone_frame(watcher.run_id))


def update_frame(run_id: str, update: Update, *, pulled: bool = False) -> bytes:
    content, buffers = encode(update)
    return frame({**content, "run_id": run_id, "pulled": pulled}, buffers)


def gone_frame(run_id: str) -> bytes:
    problem = "there is no such run, or it cannot be read"
    return frame({"kind": "gone", "run_id": run_id, "problem": problem})


def program_of(directory: RunDirectory) -> str:
    """Return the run's program, as much as a page shows; empty when it cannot be read."""
    try:
        with open(directory.program(read_spec(directory).program), "rb") as file:
            return file.read(_CELL_LIMIT).decode("utf-8", "replace")
    except (OSError, UnknownRun):
        return ""


def _timed_look(tail: RunTail) -> tuple[bool, float]:
    """Look at the run; return the result and the CPU seconds that it took."""
    begun = time.thread_time()
    return tail.look(), time.thread_time() - begun


def _nothing() -> None:
    """Stand behind the frames that are being made."""


def _next_frame(watcher: Watcher) -> bytes | None:
    update = watcher.cursor.update(time.monotonic())
    return None if update is None else update_frame(watcher.run_id, update)
