"""The part that handlers share, imported at a first request: it takes half a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from tornado import web

from nbdist.board import BoardRoute, route_to_board
from nbdist.errors import NotPrivate
from nbdist.feed.machine import Machine
from nbdist.server.run_list import ListFeed, RunList
from nbdist.server.streams import Streams
from nbdist.store import RunStore
from nbdist.store.run_store import SweepStore

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8


class Backend:
    """The readers and threads of a server. VisualDL is at ``visualdl_path``, and may pause for
    ``board_patience`` seconds."""

    def __init__(
        self,
        home: Path,
        visualdl_path: str,
        *,
        find_board: Callable[[Path, str], BoardRoute] = route_to_board,
        board_patience: float = 60.0,
    ) -> None:
        self.home = home
        self.visualdl_path = visualdl_path
        self.board_patience = board_patience
        self._find_board = find_board
        self.runs = RunList(RunStore(home))
        self.sweeps = SweepStore(home)
        self.machine = Machine()
        self._route: BoardRoute | None = None
        self._routing = asyncio.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="nbdist")
        self.streams = Streams(self.runs, self.run)
        self.feed = ListFeed(self.runs, self.run)

    async def run(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Work in a thread. Raises HTTPError where the home is not this user's."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, lambda: work(*args, **more))
        except NotPrivate as refusal:
            raise web.HTTPError(403, str(refusal)) from None

    async def board_route(self, *, fresh: bool = False) -> BoardRoute:
        """Return the last route to VisualDL, or a ``fresh`` one; start it if needed. Raises LaunchError."""
        async with self._routing:
            if fresh or self._route is None:
                self._route = await self.run(self._find_board, self.home, self.visualdl_path)
            return self._route

    async def close(self) -> None:
        await self.streams.close()
        await self.feed.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


Method = TypeVar("Method", bound=Callable[..., Any])


def signed_in(method: Method) -> Method:
    """Admit users that have logged in and are authorized for the HTTP method."""
    return cast("Method", web.authenticated(authorized(method)))


def may_execute(method: Method) -> Method:
    """Admit those of them that may execute code in kernels, and so in ranks."""
    return signed_in(cast("Method", authorized("execute", "kernels")(method)))


class Handler(JupyterHandler):
    """The base of all handlers, which the server's authorizer knows as ``nbdist``."""

    auth_resource = "nbdist"

    @property
    def backend(self) -> Backend:
        backend: Backend = self.settings["nbdist"]()
        return backend
