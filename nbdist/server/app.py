"""The server extension: a server that starts loads this module alone, the rest later."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join
from tornado.ioloop import PeriodicCallback
from tornado.web import RequestHandler

from nbdist import config

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from nbdist.server.backend import Backend

VISUALDL = "visualdl"

_PULSE = 10_000.0
"""Milliseconds between two looks for runs that go on, for which no hub is to take the server for idle."""

_LATER = 10.0  # seconds until the server has started; an earlier request waits for the imports

# a run or a rank is any text without a slash: the handlers check it
ROUTES = {
    "api/status": "handlers.StatusHandler",
    "api/runs": "handlers.RunsHandler",
    "api/runs/([^/]+)": "handlers.RunHandler",
    "api/runs/([^/]+)/summary": "handlers.SummaryHandler",
    "api/runs/([^/]+)/explain": "handlers.ExplainHandler",
    "api/runs/([^/]+)/report": "handlers.ReportHandler",
    "api/runs/([^/]+)/stop": "handlers.StopHandler",
    "api/runs/([^/]+)/profile": "handlers.ProfileHandler",
    "api/runs/([^/]+)/debug": "handlers.DebugHandler",
    "api/runs/([^/]+)/stacks": "handlers.StacksHandler",
    "api/runs/([^/]+)/ranks/([^/]+)/log": "log_handler.LogHandler",
    "api/runs/([^/]+)/ranks/([^/]+)/media/([^/]+)": "handlers.MediaHandler",
    "api/runs/([^/]+)/ranks/([^/]+)/interrupt": "handlers.InterruptHandler",
    "api/sweeps/([^/]+)/stop": "handlers.StopSweepHandler",
    "api/devices": "handlers.DevicesHandler",
    "api/options": "handlers.OptionsHandler",
    "api/board": "handlers.BoardHandler",
    "api/compare": "handlers.CompareHandler",
    "api/stream": "socket.StreamHandler",
    f"{VISUALDL}/(.*)": "board_proxy.BoardProxy",
}


def handler_named(name: str) -> type[RequestHandler]:
    """Import the handler of a route: ``module.Class`` of this package."""
    module, _, title = name.partition(".")
    handler: type[RequestHandler] = getattr(importlib.import_module(f"nbdist.server.{module}"), title)
    return handler


def _import_handlers() -> None:
    for named in ROUTES.values():
        handler_named(named)


class _Deferred(RequestHandler):
    """A handler that is not imported yet: an instance is one of that handler."""

    named: ClassVar[str]

    def __new__(cls, *args: Any, **more: Any) -> RequestHandler:  # type: ignore[misc]
        return handler_named(cls.named)(*args, **more)


async def _count_as_active(serverapp: ServerApp) -> None:
    """Count a run that goes on as activity: a hub ends a server without any, and the run with it."""
    if await asyncio.get_running_loop().run_in_executor(None, _runs_go_on):
        now = datetime.datetime.now(datetime.timezone.utc)
        serverapp.web_app.settings["last_activity_times"]["nbdist"] = now


def _runs_go_on() -> bool:
    from nbdist.errors import NotPrivate
    from nbdist.store.run_store import RunStore, is_run_locked

    try:
        return any(map(is_run_locked, RunStore(config.home()).directories()))
    except NotPrivate:
        return False


class NbdistApp(ExtensionApp):
    """The extension ``nbdist``, for the runs of NBDIST_HOME."""

    name = "nbdist"
    description = "Watch and stop runs of many ranks"
    _made: Backend | None = None
    _pulse: PeriodicCallback | None = None

    def initialize_settings(self) -> None:
        self.settings["nbdist"] = self.backend

    def initialize_handlers(self) -> None:
        for path, named in ROUTES.items():
            deferred = type(named.partition(".")[2], (_Deferred,), {"named": named})
            self.handlers.append((f"/{self.name}/{path}", deferred))

    def backend(self) -> Backend:
        """Return the part that handlers share; make it for the first. Only for the server's loop."""
        if self._made is None:
            from nbdist.server.backend import Backend

            base_url = self.serverapp.base_url if self.serverapp is not None else "/"
            self._made = Backend(config.home(), url_path_join(base_url, self.name, VISUALDL))
        return self._made

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(_LATER, loop.run_in_executor, None, _import_handlers)
        # inherited by the kernels, whose detached runs this server keeps from being culled
        os.environ[config.SERVED] = "1"
        self._pulse = PeriodicCallback(partial(_count_as_active, serverapp), _PULSE)
        self._pulse.start()

    async def stop_extension(self) -> None:
        if self._pulse is not None:
            self._pulse.stop()
        if self._made is not None:
            await self._made.close()
