"""The list of this user's runs, read anew only where something has changed; and what changes in it, looked at
once a second for all pages that watch it."""

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
from nbdist.store.run_store import read_spec, unreadable
from nbdist.text import reason_text

_END = 4096  # bytes of a journal, in which its last event is
_ROWS = 1000
_SETTLED = 3.0  # seconds after which the directory of runs shows by its time that it has changed again
_FRESH = 2.0  # seconds for which the row of a run that goes on is true enough
_HEADLINE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepShown:
    """``SweepPoint`` in openapi.yaml says what each field is."""

    sweep_id: str
    label: str
    number: int
    points: int
    values: str
    higher: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """``RunRow`` in openapi.yaml says what each field is."""

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

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def row_of(run: Run, directory: RunDirectory, now: float) -> RunRow:
    """The row at the moment ``now`` (Unix seconds). Reads a little of the run's files."""
    spec, live = run.spec, not run.state.terminal
    (spark, stands), reason = spark_of(run, directory), run.reason or run.stop_reason
    headline, headline_zh = _headline(run, directory, spark, stands)
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
    )


def _sweep_of(run: Run, spark: Spark | None) -> SweepShown | None:
    point = run.spec.sweep
    if point is None:
        return None
    best = best_of(spark.tag) if spark is not None else None
    return SweepShown(
        sweep_id=point.sweep,
        label=point.sweep.split("-", 2)[-1],
        number=point.number,
        points=point.points,
        values=" ".join(f"{name}={value}" for name, value in point.values.items()),
        higher=None if best is None else best is max,
    )


def _headline(run: Run, directory: RunDirectory, spark: Spark | None, stands: float) -> tuple[str, str]:
    """In English and Chinese."""
    if run.state in (RunState.FAILED, RunState.LOST):
        failure = FailureWatch(directory).look(run)
        if failure is None:
            return reason_text(run.reason), reason_text(run.reason, "zh")
        return failure.headline, failure.headline_zh
    if cell := cell_reason(run):
        return reason_text(cell), reason_text(cell, "zh")
    if spark is None:
        return "", ""
    said = f"{spark.tag} {number_text(stands)}"
    return said, said


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """``next`` is where the next page begins, None when there is none; ``live`` how many runs go on;
    ``run_ids`` all that there are."""

    rows: tuple[RunRow, ...]
    next: str | None
    live: int
    run_ids: frozenset[str]


@dataclass(slots=True)
class _Known:
    """What is known of one run. ``row`` was made at ``made``; of a run that has ended it is true for good."""

    reader: RunReader
    ended: bool
    run: Run | None = None
    words: str | None = None
    row: RunRow | None = None
    made: float = 0.0


class RunList:
    """Its methods take time, and are for threads; any number may ask at once."""

    def __init__(self, store: RunStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._all: list[RunDirectory] = []
        self._refused: frozenset[str] = frozenset()
        self._changed: float | None = None

    def directory(self, run_id: str) -> RunDirectory | None:
        """The directory of a run; None when there is none of this user. Raises NotPrivate."""
        return self._store.directory(run_id)

    def page(self, *, limit: int, before: str | None = None, search: str = "") -> RunPage:
        """The first runs that have ended, those older than ``before``; without it, all that go on first.

        Raises NotPrivate.
        """
        words = search.lower().split()
        with self._lock:
            directories = self._directories()
            run_ids = frozenset(directory.run_id for directory in directories)
            self._forget_others(run_ids)
            live = [directory for directory in directories if self._goes_on(directory)]
            going = {directory.run_id for directory in live}
            ended = [directory for directory in directories if directory.run_id not in going]
            if before is not None:
                ended = _after(ended, before)
            if words:
                ended = [directory for directory in ended if self._found(directory, words)]
            page, rest = ended[:limit], ended[limit:]
            wanted = page if before is not None else [*(d for d in live if self._found(d, words)), *page]
            rows = tuple(row for directory in wanted if (row := self._row(directory)) is not None)
            self._shed()
            following = page[-1].run_id if page and rest else None
            return RunPage(rows=rows, next=following, live=len(live), run_ids=run_ids)

    def row(self, directory: RunDirectory, run: Run) -> RunRow:
        """The row of a run that stands so now."""
        return row_of(run, directory, self._clock())

    def _directories(self) -> list[RunDirectory]:
        """Those of all runs, the newest first; looked up again when one has come or gone."""
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
            # what has come just now may not be written yet, and another may come in the same moment
            settled = self._clock() - changed > _SETTLED
            self._changed = changed if settled else None
        return self._all

    def _forget_others(self, run_ids: frozenset[str]) -> None:
        for run_id in self._known.keys() - run_ids:
            del self._known[run_id]

    def _goes_on(self, directory: RunDirectory) -> bool:
        known = self._about(directory)
        return not known.ended and known.run is not None and not known.run.state.terminal

    def _about(self, directory: RunDirectory) -> _Known:
        known = self._known.get(directory.run_id)
        if known is None:
            known = self._known[directory.run_id] = self._seen_first(directory)
        if not known.ended:
            known.run = known.reader.look()
            # one that was found LOST has that written down, unless no supervisor had ever been named in it
            known.ended = known.run is not None and known.run.state.terminal
        return known

    def _seen_first(self, directory: RunDirectory) -> _Known:
        reader = RunReader(directory)
        if directory.run_id in self._refused:
            return _Known(reader=reader, ended=True, words=directory.run_id)
        return _Known(reader=reader, ended=_has_ended(directory))

    def _row(self, directory: RunDirectory) -> RunRow | None:
        known, now = self._about(directory), self._clock()
        self._known.move_to_end(directory.run_id)
        row = known.row
        if row is not None and (not row.live or (0 <= now - known.made < _FRESH and not known.ended)):
            return row
        if (run := known.reader.look()) is None:
            lost = unreadable(directory)
            return None if lost is None else row_of(lost, directory, now)
        known.row, known.made = row_of(run, directory, now), now
        return known.row

    def _shed(self) -> None:
        """Keep the rows that were asked for last."""
        extra = sum(known.row is not None for known in self._known.values()) - _ROWS
        for known in self._known.values():
            if extra <= 0:
                return
            if known.row is not None:
                known.row = None
                extra -= 1

    def _found(self, directory: RunDirectory, words: list[str]) -> bool:
        if not words:
            return True
        known = self._about(directory)
        if known.words is None or not known.ended:
            known.words = _words(directory)
        return all(word in known.words for word in words)


def _after(directories: list[RunDirectory], before: str) -> list[RunDirectory]:
    """Those behind ``before``; when that has been deleted, those that are older by their ids."""
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


def _has_ended(directory: RunDirectory) -> bool:
    return isinstance(_last_event(directory), (RunEnded, RunLost))


def _words(directory: RunDirectory) -> str:
    """What a search looks in."""
    parts = [directory.run_id]
    with contextlib.suppress(UnknownRun):
        spec = read_spec(directory)
        parts += [spec.name, spec.notebook]
    event = _last_event(directory)
    if isinstance(event, RunEnded):
        parts += [event.state.value, reason_text(event.reason)]
    elif isinstance(event, RunLost):
        parts += ["lost", reason_text(event.reason)]
    else:
        parts.append("running")
    return "\n".join(parts).lower()


# What pages are told of it.

_PERIOD = 1.0

log = logging.getLogger("nbdist.server")

InThread = Callable[..., Awaitable[Any]]
"""Does something in a thread."""


class Page(Protocol):
    """The socket of a page."""

    paused: bool

    async def send(self, data: bytes) -> None:
        """Send a frame; returns when there is room for more. Raises ConnectionError when it has gone."""


class ListWatch:
    """What one page has of the list."""

    def __init__(self, page: Page, limit: int) -> None:
        self.page = page
        self.limit = limit
        self.sending: asyncio.Task[None] | None = None
        self._rows: dict[str, RunRow] = {}
        self._live = -1

    def news(self, page: RunPage) -> bytes | None:
        """What the page of the browser lacks, as a frame; None for nothing."""
        first = self._live < 0
        ended = 0
        shown: dict[str, RunRow] = {}
        for row in page.rows:
            ended += not row.live
            if row.live or ended <= self.limit:
                shown[row.run_id] = row
        changed = [row for run_id, row in shown.items() if self._rows.get(run_id) != row]
        removed = [run_id for run_id in self._rows if run_id not in page.run_ids]
        if not first and not changed and not removed and self._live == page.live:
            return None
        self._live = page.live
        # a row that has left the first page is still on the browser's
        self._rows = {run_id: row for run_id, row in self._rows.items() if run_id in page.run_ids} | shown
        return frame(
            {
                "kind": "runs",
                "runs": [row.to_dict() for row in changed],
                "removed": removed,
                "live": page.live,
                "first": first,
            }
        )


class ListFeed:
    """Its methods are for the server's loop. ``run`` does something in a thread."""

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
        """Something has changed, or a page looks again: do not wait for the next second."""
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
                        # a slow page holds up no other, and gets the sum of it then
                        if watch.sending is None or watch.sending.done():
                            watch.sending = asyncio.create_task(self._tell(watch, page))
                try:
                    await asyncio.wait_for(self._look.wait(), _PERIOD if awake else None)
                except asyncio.TimeoutError:
                    continue
        except web.HTTPError as refusal:
            for watch in self._watches.values():
                with contextlib.suppress(ConnectionError):
                    await watch.page.send(frame({"kind": "problem", "message": refusal.log_message}))
        except Exception:
            log.exception("the list of runs cannot be followed")
        finally:
            self._task = None

    async def _tell(self, watch: ListWatch, page: RunPage) -> None:
        data = watch.news(page)
        if data is None:
            return
        try:
            await watch.page.send(data)
        except ConnectionError:
            self._watches.pop(watch.page, None)
