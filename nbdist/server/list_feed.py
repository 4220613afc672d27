"""Tells pages what changes in the list of runs: looked at once a second for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from tornado import web

from nbdist.feed.protocol import frame
from nbdist.server.run_list import RunList, RunPage, RunRow
from nbdist.server.streams import InThread, Page

_PERIOD = 1.0

log = logging.getLogger("nbdist.server")


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
