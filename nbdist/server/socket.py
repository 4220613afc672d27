"""The server's end of a page's stream: reading requests, on which ``streams`` acts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from nbdist.feed.protocol import frame
from nbdist.model.decoding import loads
from nbdist.server.backend import Handler
from nbdist.server.streams import Gap, Watcher, gone_frame
from nbdist.store.run_store import RUN_ID

_MOST_WATCHED = 64
_MOST_WAITING = 256  # requests of a page
_LONGEST = 64 * 1024  # bytes of a request
_MOST_GAPS = 512
_LARGEST = 1 << 53
_MOST_RUNS = 500

log = logging.getLogger("nbdist.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of a page. ``have`` has, for some ranks, the address of the first line that it lacks."""

    kind: Literal["watch", "unwatch", "ack", "pull", "runs", "unruns", "pause", "resume"]
    run_id: str = ""
    have: Mapping[int, int] = field(default_factory=dict)
    gaps: Sequence[Gap] = ()
    limit: int = 0


class StreamHandler(WebSocketMixin, WebSocketHandler, Handler):
    """The stream of one page: it serves requests in order, and sends frames while the page has room."""

    paused = False

    def initialize(self) -> None:
        self._watchers: dict[str, Watcher] = {}
        self._requests: asyncio.Queue[Request] = asyncio.Queue(_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

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
            request = read_request(message)
        except ValueError as error:
            with contextlib.suppress(ConnectionError):
                await self._send_problem(str(error))
            return
        if request.kind == "ack":
            if (watcher := self._watchers.get(request.run_id)) is not None:
                watcher.cursor.under_way = max(0, watcher.cursor.under_way - 1)
                watcher.news.set()
        elif request.kind in ("pause", "resume"):
            self.paused = request.kind == "pause"
            self.backend.streams.paused(self._watchers.values())
            if not self.paused:
                self.backend.feed.hurry()
        else:
            # while it is full, no more requests are read
            await self._requests.put(request)

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

    async def _send_problem(self, message: str | None) -> None:
        await self.send(frame({"kind": "problem", "message": message}))

    async def _work(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                request = await self._requests.get()
                try:
                    await self._do(request)
                except ConnectionError:
                    return
                except web.HTTPError as refusal:
                    await self._send_problem(refusal.log_message)
                except Exception:
                    log.exception("a page's request cannot be done")
                    await self._send_problem("this went wrong; see the log")

    async def _do(self, request: Request) -> None:
        match request.kind:
            case "watch":
                await self._watch(request)
            case "unwatch":
                if (watcher := self._watchers.pop(request.run_id, None)) is not None:
                    self.backend.streams.unwatch(watcher)
            case "pull":
                watcher = self._watchers.get(request.run_id)
                if watcher is None:
                    await self._send_problem(f"{request.run_id} is not watched")
                else:
                    await self.send(await self.backend.streams.pull(watcher, request.gaps))
            case "runs":
                self.backend.feed.watch(self, request.limit)
            case "unruns":
                self.backend.feed.unwatch(self)

    async def _watch(self, request: Request) -> None:
        if (old := self._watchers.pop(request.run_id, None)) is not None:
            self.backend.streams.unwatch(old)
        if len(self._watchers) >= _MOST_WATCHED:
            await self._send_problem(f"a page watches at most {_MOST_WATCHED} runs")
            return
        watcher = await self.backend.streams.watch(self, request.run_id, request.have)
        if watcher is None:
            await self.send(gone_frame(request.run_id))
        else:
            self._watchers[request.run_id] = watcher


def read_request(text: str | bytes) -> Request:
    """Read a request of a page. Raises ValueError, with what is wrong."""
    try:
        sent = loads(text)
    except ValueError as error:
        raise ValueError("this is not JSON") from error
    if not isinstance(sent, dict):
        raise ValueError("this is not an object")
    match sent.get("kind"):
        case "watch":
            return Request(kind="watch", run_id=_run_id(sent), have=_have(sent.get("from", "tail")))
        case "unwatch" | "ack" as kind:
            return Request(kind=kind, run_id=_run_id(sent))
        case "pull":
            return Request(kind="pull", run_id=_run_id(sent), gaps=_gaps(sent.get("gaps")))
        case "runs":
            limit = _number(sent, "limit") if "limit" in sent else 50
            return Request(kind="runs", limit=max(1, min(_MOST_RUNS, limit)))
        case "unruns" | "pause" | "resume" as kind:
            return Request(kind=kind)
        case kind:
            raise ValueError(f"no kind {str(kind)[:40]!r}")


def _run_id(sent: Mapping[str, Any]) -> str:
    run_id = sent.get("run_id")
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise ValueError("run_id is not the id of a run")
    return run_id


def _have(begin: object) -> dict[int, int]:
    if begin == "tail":
        return {}
    if not isinstance(begin, dict) or not all(
        key.isascii() and key.isdigit() and len(key) < 10 for key in begin
    ):
        raise ValueError('from is "tail", or the address of a line for each rank')
    return {int(rank): _number(begin, rank) for rank in begin}


def _gaps(sent: object) -> list[Gap]:
    if not isinstance(sent, list) or len(sent) > _MOST_GAPS:
        raise ValueError(f"gaps is not a list of {_MOST_GAPS} at most")
    gaps: list[Gap] = []
    for gap in sent:
        match gap:
            case [int(rank), int(after), int(before)] if min(gap) >= 0 and max(gap) < _LARGEST:
                gaps.append((rank, after, before))
            case _:
                raise ValueError("a gap is a rank and two addresses: [0, 400, 90000]")
    return gaps


def _number(sent: Mapping[str, Any], name: str) -> int:
    value = sent.get(name)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"{name} is not a number from 0 on")
    return value
