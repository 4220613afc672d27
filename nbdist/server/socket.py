"""The stream's end on the server: what a page may say, which is read here, and done by ``streams``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from nbdist.feed.protocol import frame
from nbdist.model.decoding import loads
from nbdist.server.backend import Backend
from nbdist.server.streams import Watcher, gone_frame
from nbdist.store.run_store import RUN_ID

_MOST_WATCHED = 64
_MOST_WAITING = 256  # of what a page said and was not done yet
_LONGEST = 64 * 1024  # bytes that a page may say at once
_LARGEST = 1 << 53
_MOST_RUNS = 500

log = logging.getLogger("nbdist.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a page said. ``have``: of some ranks, the address of the first line that the page lacks. Of the
    lines between ``after`` and ``before`` the last come first."""

    kind: Literal["watch", "unwatch", "ack", "pull", "runs", "unruns", "pause", "resume"]
    run_id: str = ""
    have: Mapping[int, int] = field(default_factory=dict)
    rank: int = 0
    after: int = 0
    before: int = 0
    limit: int = 0


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One page. What it says is done in its order; what it is sent waits until it has room."""

    auth_resource = "nbdist"
    paused = False

    def initialize(self) -> None:
        self._watchers: dict[str, Watcher] = {}
        self._said: asyncio.Queue[Request] = asyncio.Queue(_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    @property
    def backend(self) -> Backend:
        backend: Backend = self.settings["nbdist"]()
        return backend

    @authorized(action="execute")  # type: ignore[untyped-decorator]
    async def get(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        if self.current_user is None:
            raise web.HTTPError(403)
        opened = super().get(*args, **kwargs)
        if opened is not None:
            await opened

    @property
    def max_message_size(self) -> int:
        return _LONGEST

    def get_compression_options(self) -> None:
        return None  # it would be done on the server's loop

    def open(self, *args: Any, **kwargs: Any) -> None:
        super().open(*args, **kwargs)
        self.set_nodelay(True)
        self._task = asyncio.create_task(self._work())

    async def on_message(self, message: str | bytes) -> None:
        try:
            said = read_request(message)
        except ValueError as error:
            await self._send_or_leave(frame({"kind": "problem", "message": str(error)}))
            return
        if said.kind == "ack":
            if (watcher := self._watchers.get(said.run_id)) is not None:
                watcher.cursor.taken()
                watcher.wake()
        elif said.kind in ("pause", "resume"):
            self._pause(said.kind == "pause")
        else:
            # while it is full, nothing more is read of what the page says
            await self._said.put(said)

    def on_close(self) -> None:
        super().on_close()
        if self._task is not None:
            self._task.cancel()
        for watcher in self._watchers.values():
            self.backend.streams.unwatch(watcher)
        self._watchers.clear()
        self.backend.feed.unwatch(self)

    async def send(self, data: bytes) -> None:
        try:
            await self.write_message(data, binary=True)
        except WebSocketClosedError as error:
            raise ConnectionError("the page has gone") from error

    async def _send_or_leave(self, data: bytes) -> None:
        try:
            await self.send(data)
        except ConnectionError:
            return

    def _pause(self, paused: bool) -> None:
        self.paused = paused
        self.backend.streams.paused(self._watchers.values())
        if not paused:
            self.backend.feed.hurry()

    async def _work(self) -> None:
        while True:
            said = await self._said.get()
            try:
                await self._do(said)
            except ConnectionError:
                return
            except web.HTTPError as refusal:
                await self._send_or_leave(frame({"kind": "problem", "message": refusal.log_message}))
            except Exception:
                log.exception("what a page asked for cannot be done")
                await self._send_or_leave(
                    frame({"kind": "problem", "message": "this went wrong; see the log"})
                )

    async def _do(self, said: Request) -> None:
        match said.kind:
            case "watch":
                await self._watch(said)
            case "unwatch":
                if (watcher := self._watchers.pop(said.run_id, None)) is not None:
                    self.backend.streams.unwatch(watcher)
            case "pull":
                watcher = self._watchers.get(said.run_id)
                if watcher is None:
                    await self.send(frame({"kind": "problem", "message": f"{said.run_id} is not watched"}))
                else:
                    await self.send(
                        await self.backend.streams.pull(watcher, said.rank, said.after, said.before)
                    )
            case "runs":
                self.backend.feed.watch(self, said.limit)
            case "unruns":
                self.backend.feed.unwatch(self)

    async def _watch(self, said: Request) -> None:
        if (old := self._watchers.pop(said.run_id, None)) is not None:
            self.backend.streams.unwatch(old)
        if len(self._watchers) >= _MOST_WATCHED:
            message = f"a page watches at most {_MOST_WATCHED} runs"
            await self.send(frame({"kind": "problem", "message": message}))
            return
        watcher = await self.backend.streams.watch(self, said.run_id, said.have)
        if watcher is None:
            await self.send(gone_frame(said.run_id))
        else:
            self._watchers[said.run_id] = watcher


def read_request(text: str | bytes) -> Request:
    """What the page said. Raises ValueError, with what is wrong."""
    try:
        said = loads(text)
    except ValueError as error:
        raise ValueError("this is not JSON") from error
    if not isinstance(said, dict):
        raise ValueError("this is not an object")
    match said.get("kind"):
        case "watch":
            return Request(kind="watch", run_id=_run_id(said), have=_have(said.get("from", "tail")))
        case "unwatch" | "ack" as kind:
            return Request(kind=kind, run_id=_run_id(said))
        case "pull":
            return Request(
                kind="pull",
                run_id=_run_id(said),
                rank=_number(said, "rank"),
                after=_number(said, "after"),
                before=_number(said, "before"),
            )
        case "runs":
            limit = _number(said, "limit") if "limit" in said else 50
            return Request(kind="runs", limit=max(1, min(_MOST_RUNS, limit)))
        case "unruns" | "pause" | "resume" as kind:
            return Request(kind=kind)
        case kind:
            raise ValueError(f"no kind {str(kind)[:40]!r}")


def _run_id(said: Mapping[str, Any]) -> str:
    run_id = said.get("run_id")
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise ValueError("run_id is not the id of a run")
    return run_id


def _have(wanted: object) -> dict[int, int]:
    if wanted == "tail":
        return {}
    if not isinstance(wanted, dict) or not all(
        key.isascii() and key.isdigit() and len(key) < 10 for key in wanted
    ):
        raise ValueError('from is "tail", or the address of a line for each rank')
    return {int(rank): _number(wanted, rank) for rank in wanted}


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"{name} is not a number from 0 on")
    return value
