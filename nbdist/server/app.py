"""The server extension, and what its handlers share."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.web import RequestHandler

from nbdist import config
from nbdist.board import BoardRoute, route_to_board
from nbdist.errors import NotPrivate
from nbdist.server.list_feed import ListFeed
from nbdist.server.machine import Machine
from nbdist.server.run_list import RunList
from nbdist.server.streams import Streams
from nbdist.store import RunStore

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8


class Backend:
    """Made once a server; no thread and no file is used before something is asked."""

    def __init__(
        self,
        home: Path,
        visualdl_path: str,
        *,
        find_board: Callable[[Path, str], BoardRoute] = route_to_board,
        board_patience: float = 60.0,
    ) -> None:
        self.home = home
        self._find_board = find_board
        self.board_patience = board_patience
        """Seconds that VisualDL may think, or a part of its answer may take."""
        self.visualdl_path = visualdl_path
        """Where browsers find VisualDL: ``/user/ann/nbdist/visualdl``."""
        self.runs = RunList(RunStore(home))
        self.machine = Machine()
        self._route: BoardRoute | None = None
        self._routing = asyncio.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="nbdist")
        self.streams = Streams(self.runs, self.run)
        self.feed = ListFeed(self.runs, self.run)

    async def run(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Do something that takes time in a thread. Raises HTTPError where the home is not this user's."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, lambda: work(*args, **more))
        except NotPrivate as refusal:
            raise web.HTTPError(403, str(refusal)) from None

    async def board_route(self, *, fresh: bool = False) -> BoardRoute:
        """The way to VisualDL, which is started where it does not run; the one that was known last, unless
        ``fresh``. Raises LaunchError."""
        async with self._routing:
            if fresh or self._route is None:
                self._route = await self.run(self._find_board, self.home, self.visualdl_path)
            return self._route

    async def close(self) -> None:
        await self.streams.close()
        await self.feed.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


VISUALDL = "visualdl"

_LATER = 10.0
"""Seconds after which the server and pages that were opened at once have started. A page of ours asks for
nothing before that; where it does, its first request waits for the imports."""

# What stands for a run or a rank is whatever is no slash: the handlers say what is wrong with it.
ROUTES = {
    "api/status": "handlers.StatusHandler",
    "api/runs": "handlers.RunsHandler",
    "api/runs/([^/]+)": "handlers.RunHandler",
    "api/runs/([^/]+)/summary": "handlers.SummaryHandler",
    "api/runs/([^/]+)/stop": "handlers.StopHandler",
    "api/runs/([^/]+)/stacks": "handlers.StacksHandler",
    "api/runs/([^/]+)/ranks/([^/]+)/log": "log_handler.LogHandler",
    "api/runs/([^/]+)/ranks/([^/]+)/interrupt": "handlers.InterruptHandler",
    "api/devices": "handlers.DevicesHandler",
    "api/options": "handlers.OptionsHandler",
    "api/board": "handlers.BoardHandler",
    "api/stream": "socket.StreamHandler",
    f"{VISUALDL}/(.*)": "board_proxy.BoardProxy",
}


def handler_named(name: str) -> type[RequestHandler]:
    """The handler of a route, imported: ``module.Class`` of this package."""
    module, _, title = name.partition(".")
    handler: type[RequestHandler] = getattr(importlib.import_module(f"nbdist.server.{module}"), title)
    return handler


def _import_handlers() -> None:
    for named in ROUTES.values():
        handler_named(named)


class _Deferred(RequestHandler):
    """Stands for a handler that is not imported yet: what is made of it is that handler."""

    named: ClassVar[str]

    def __new__(cls, *args: Any, **more: Any) -> RequestHandler:  # type: ignore[misc]
        return handler_named(cls.named)(*args, **more)


class NbdistApp(ExtensionApp):
    """``nbdist`` in ``jupyter server extension list``. The runs are those of NBDIST_HOME."""

    name = "nbdist"
    description = "Watch and stop runs of many ranks"
    _made: Backend | None = None

    def initialize_settings(self) -> None:
        self.settings["nbdist"] = self.backend

    def initialize_handlers(self) -> None:
        for path, named in ROUTES.items():
            deferred = type(named.partition(".")[2], (_Deferred,), {"named": named})
            self.handlers.append((f"/{self.name}/{path}", deferred))

    def backend(self) -> Backend:
        """What the handlers share, made for the first of them. In the server's loop alone."""
        if self._made is None:
            base_url = self.serverapp.base_url if self.serverapp is not None else "/"
            self._made = Backend(config.home(), url_path_join(base_url, self.name, VISUALDL))
        return self._made

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(_LATER, loop.run_in_executor, None, _import_handlers)

    async def stop_extension(self) -> None:
        if self._made is not None:
            await self._made.close()
