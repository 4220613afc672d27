"""The list of this user's runs, read anew only where it has changed, and its news for pages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tornado import web

from nbdist.errors import UnknownRun
from nbdist.feed.comparison import best_of
from nbdist.feed.curves import Spark, spark_of
from nbdist.feed.measures import FailureWatch, glance
from nbdist.feed.progress import Progress
from nbdist.feed.protocol import frame
from nbdist.feed.view import cell_reason, number_text
from nbdist.model import Run, RunEnded, RunLost, RunState, decode_event
from nbdist.store import RunDirectory, RunReader, RunStore
from nbdist.store.journal import open_plain
from nbdist.store.marks import read_marks
from nbdist.store.run_store import read_spec, unreadable
from nbdist.text import reason_text

_END = 4096  # bytes at the end of a journal, with its last event
_ROWS = 1000
_SETTLED = 3.0  # seconds after which another change of the directory of runs changes its time
_FRESH = 2.0  # seconds for which the row of a live run is kept,
_REST = 10.0  # or so many times the processor seconds that it took: of 1,024 ranks half a second
_HEADLINE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepShown:
    """``SweepPoint`` in openapi.yaml."""

    sweep_id: str
    label: str
    number: int
    points: int
    values: str
    higher: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """``RunRow`` in openapi.yaml."""

    run_id: str
    name: str
    label: str
    state: str
    live: bool
    stalled: bool
    idle: bool
    reason: str
    reason_zh: str
    stopped_as_asked: bool
    created: float
    started: float | None
    ended: float | None
    world_size: int
    devices: tuple[str, ...]
    framework: str
    notebook: str
    cell_id: str
    progress: Progress | None
    headline: str
    headline_zh: str
    spark: Spark | None
    detached: bool
    sweep: SweepShown | None
    pinned: bool
    tags: tuple[str, ...]
    note: str

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def row_of(run: Run, directory: RunDirectory, now: float) -> RunRow:
    """Return the row at ``now`` (Unix seconds); read a little of the run's files."""
    spec, live = run.spec, not run.state.terminal
    (spark, stands), reason = spark_of(run, directory), run.reason or run.stop_reason
    headline, headline_zh = _headline(run, directory, spark, stands)
    marks = read_marks(directory)
    return RunRow(
        run_id=run.run_id,
        name=spec.name,
        label=run.label,
        state=run.state.value,
        live=live,
        stalled=live and run.stalled is not None,
        idle=run.idle,
        reason=reason_text(reason),
        reason_zh=reason_text(reason, "zh"),
        stopped_as_asked=run.stopped_as_asked,
        created=spec.created,
        started=run.started,
        ended=run.ended,
        world_size=spec.world_size,
        devices=tuple(dict.fromkeys(str(rank.device) for rank in spec.ranks)),
        framework=spec.framework,
        notebook=spec.notebook,
        cell_id=spec.cell_id,
        progress=glance(run, directory, now).progress if live else None,
        headline=headline[:_HEADLINE],
        headline_zh=headline_zh[:_HEADLINE],
        spark=spark,
        detached=spec.detached,
        sweep=_sweep_of(run, spark),
        pinned=marks.pinned,
        tags=marks.tags,
        note=marks.note,
    )


def _sweep_of(run: Run, spark: Spark | None) -> SweepShown | None:
    point = run.spec.sweep
    if point is None:
        return None
    # the runs of a scale are alike, and none of them is the best one
    best = best_of(spark.tag) if spark is not None and not point.of_scale else None
    return SweepShown(
        sweep_id=point.sweep,
        label=point.sweep.split("-", 2)[-1],
        number=point.number,
        points=point.points,
        values=point.text,
        higher=None if best is None else best is max,
    )


def _headline(run: Run, directory: RunDirectory, spark: Spark | None, stands: float) -> tuple[str, str]:
    """Return the headline in English and Chinese."""
    if run.state in (RunState.FAILED, RunState.LOST):
        failure = FailureWatch(directory).look(run)
        if failure is None:
            return reason_text(run.reason), reason_text(run.reason, "zh")
        return failure.headline, failure.headline_zh
    if cell := cell_reason(run):
        return reason_text(cell), reason_text(cell, "zh")
    if spark is None:
        return "", ""
    return (f"{spark.tag} {number_text(stands)}",) * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of the list. ``next`` begins the next page; ``live`` counts; ``run_ids`` has all runs."""

    rows: tuple[RunRow, ...]
    next: str | None
    live: int
    run_ids: frozenset[str]


@dataclass(slots=True)
class _Known:
    """A run that was read. Its ``row``, made at ``made``, holds for ``fresh`` seconds, and for good once it
    has ended."""

    reader: RunReader
    ended: bool
    pinned: bool
    run: Run | None = None
    words: str | None = None
    row: RunRow | None = None
    made: float = 0.0
    fresh: float = _FRESH


class RunList:
    """The runs of a store. Its methods block, and are for threads; any number may call at once."""

    def __init__(self, store: RunStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._all: list[RunDirectory] = []
        self._refused: frozenset[str] = frozenset()
        self._changed: float | None = None
        self.directory = store.directory

    def page(self, *, limit: int, before: str | None = None, search: str = "") -> RunPage:
        """Return the first ended runs, older than ``before``; without it, all live and pinned ones first.
        Raises NotPrivate."""
        words = search.lower().split()
        with self._lock:
            directories = self._directories()
            run_ids = frozenset(directory.run_id for directory in directories)
            for run_id in self._known.keys() - run_ids:
                del self._known[run_id]
            # a run that cannot be read has not ended, and has no state
            live = [
                run for run in directories if not (known := self._read(run)).ended and known.run is not None
            ]
            live_ids = {directory.run_id for directory in live}
            ended = [directory for directory in directories if directory.run_id not in live_ids]
            if before is not None:
                ended = _after(ended, before)
            if words:
                ended = [directory for directory in ended if self._matches(directory, words)]
            page, rest = ended[:limit], ended[limit:]
            first = []
            if before is None:
                first = [run for run in live if self._matches(run, words)]
                first += [run for run in rest if self._read(run).pinned]
            rows = tuple(row for run in (*first, *page) if (row := self._row(run)) is not None)
            self._shed()
            following = page[-1].run_id if page and rest else None
            return RunPage(rows=rows, next=following, live=len(live), run_ids=run_ids)

    def read_again(self, run_id: str) -> None:
        """Forget what is known of a run: its marks have changed."""
        with self._lock:
            self._known.pop(run_id, None)

    def _directories(self) -> list[RunDirectory]:
        """Return the directories of all runs, the newest first; list them anew after a change."""
        self._store.check()
        try:
            changed = os.stat(self._store.runs).st_mtime
        except OSError:
            return []
        if changed != self._changed:
            refused = self._store.refused()
            self._refused = frozenset(directory.run_id for directory in refused)
            self._all = self._store.directories()
            if refused:
                self._all = sorted((*self._all, *refused), key=lambda run: run.run_id[:15], reverse=True)
            # a run that came just now may be half written, and another may come in the same moment
            settled = self._clock() - changed > _SETTLED
            self._changed = changed if settled else None
        return self._all

    def _read(self, directory: RunDirectory) -> _Known:
        known = self._known.get(directory.run_id)
        if known is None:
            refused = directory.run_id in self._refused
            ended = refused or isinstance(_last_event(directory), (RunEnded, RunLost))
            pinned, words = read_marks(directory).pinned, directory.run_id if refused else None
            known = _Known(RunReader(directory), ended, pinned, words=words)
            self._known[directory.run_id] = known
        if not known.ended:
            known.run = known.reader.look()
            # the look has written down that a run is LOST, unless its journal names no supervisor
            known.ended = known.run is not None and known.run.state.terminal
        return known

    def _row(self, directory: RunDirectory) -> RunRow | None:
        known, now = self._read(directory), self._clock()
        self._known.move_to_end(directory.run_id)
        row = known.row
        if row is not None and (not row.live or (0 <= now - known.made < known.fresh and not known.ended)):
            return row
        if (run := known.reader.look()) is None:
            lost = unreadable(directory)
            return None if lost is None else row_of(lost, directory, now)
        begun = time.thread_time()
        known.row, known.made = row_of(run, directory, now), now
        known.fresh = max(_FRESH, _REST * (time.thread_time() - begun))
        return known.row

    def _shed(self) -> None:
        """Drop all rows but those requested last."""
        kept = [known for known in self._known.values() if known.row is not None]
        for known in kept[: max(0, len(kept) - _ROWS)]:
            known.row = None

    def _matches(self, directory: RunDirectory, words: list[str]) -> bool:
        if not words:
            return True
        known = self._read(directory)
        if known.words is None or not known.ended:
            known.words = _words(directory)
        return all(word in known.words for word in words)


def _after(directories: list[RunDirectory], before: str) -> list[RunDirectory]:
    """Return the runs behind ``before``; if that was deleted, the older ones by their ids."""
    ids = [directory.run_id for directory in directories]
    if before in ids:
        return directories[ids.index(before) + 1 :]
    return [directory for directory in directories if directory.run_id < before]


def _last_event(directory: RunDirectory) -> Any:
    try:
        with open_plain(directory.journal) as journal:
            journal.seek(max(0, os.fstat(journal.fileno()).st_size - _END))
            lines = journal.read(_END).splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            if (event := decode_event(line.decode("utf-8", "replace"))) is not None:
                return event
    return None


def _words(directory: RunDirectory) -> str:
    """Return the text that a search looks in."""
    parts = [directory.run_id]
    with contextlib.suppress(UnknownRun):
        spec = read_spec(directory)
        marks = read_marks(directory)
        parts += [spec.name, spec.notebook, *marks.tags, marks.note]
    event = _last_event(directory)
    if isinstance(event, RunEnded):
        parts += [event.state.value, reason_text(event.reason)]
    elif isinstance(event, RunLost):
        parts += ["lost", reason_text(event.reason)]
    else:
        parts.append("running")
    return "\n".join(parts).lower()


# The news for pages.

_PERIOD = 1.0

log = logging.getLogger("nbdist.server")

InThread = Callable[..., Awaitable[Any]]  # runs a function in a thread


class Page(Protocol):
    """The socket of a page."""

    paused: bool

    async def send(self, data: bytes) -> None:
        """Send a frame and wait for room. Raises ConnectionError when the page has gone."""


class ListWatch:
    """A page, and the part of the list that it has."""

    def __init__(self, page: Page, limit: int) -> None:
        self.page = page
        self.limit = limit
        self.sending: asyncio.Task[None] | None = None
        self._rows: dict[str, RunRow] = {}
        self._live = -1

    def news(self, page: RunPage) -> bytes | None:
        """Return the frame that brings the browser's page up to date; None for no news."""
        first = self._live < 0
        ended = [row for row in page.rows if not row.live and not row.pinned][: self.limit]
        shown = {row.run_id: row for row in page.rows if row.live or row.pinned}
        shown |= {row.run_id: row for row in ended}
        changed = [row for run_id, row in shown.items() if self._rows.get(run_id) != row]
        removed = [run_id for run_id in self._rows if run_id not in page.run_ids]
        if not first and not changed and not removed and self._live == page.live:
            return None
        self._live = page.live
        # a row that has left the first page is still on the browser's
        self._rows = {run_id: row for run_id, row in self._rows.items() if run_id in page.run_ids} | shown
        rows = [row.to_dict() for row in changed]
        return frame({"kind": "runs", "runs": rows, "removed": removed, "live": page.live, "first": first})


class ListFeed:
    """A sender of the list to pages. Its methods are for the server's loop; ``run`` works in a thread."""

    def __init__(self, runs: RunList, run: InThread) -> None:
        self._runs = runs
        self._run = run
        self._watches: dict[Page, ListWatch] = {}
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def watch(self, page: Page, limit: int) -> None:
        """Send the list to the page from now on."""
        self._watches[page] = ListWatch(page, limit)
        self.hurry()
        if self._task is None:
            self._task = asyncio.create_task(self._follow())

    def unwatch(self, page: Page) -> None:
        self._watches.pop(page, None)
        self.hurry()

    def hurry(self) -> None:
        """Look now instead of at the next second."""
        self._look.set()

    async def close(self) -> None:
        self._watches.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            while self._watches:
                self._look.clear()
                awake = [watch for watch in self._watches.values() if not watch.page.paused]
                if awake:
                    page = await self._run(self._runs.page, limit=max(watch.limit for watch in awake))
                    for watch in awake:
                        # a slow page holds up no other, and gets all news at once
                        if watch.sending is None or watch.sending.done():
                            watch.sending = asyncio.create_task(self._send(watch, page))
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._look.wait(), _PERIOD if awake else None)
        except web.HTTPError as refusal:
            for watch in self._watches.values():
                with contextlib.suppress(ConnectionError):
                    await watch.page.send(frame({"kind": "problem", "message": refusal.log_message}))
        except Exception:
            log.exception("the list of runs cannot be followed")
        finally:
            self._task = None

    async def _send(self, watch: ListWatch, page: RunPage) -> None:
        if (data := watch.news(page)) is None:
            return
        try:
            await watch.page.send(data)
        except ConnectionError:
            self._watches.pop(watch.page, None)
