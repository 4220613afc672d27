"""The server extension: a server that starts loads this module alone, the rest later."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any, ClassVar

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join
from tornado.web import RequestHandler

from nbdist import config

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from nbdist.server.backend import Backend

VISUALDL = "visualdl"

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


class NbdistApp(ExtensionApp):
    """The extension ``nbdist``, for the runs of NBDIST_HOME."""

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
        """Return the part that handlers share; make it for the first. Only for the server's loop."""
        if self._made is None:
            from nbdist.server.backend import Backend

            base_url = self.serverapp.base_url if self.serverapp is not None else "/"
            self._made = Backend(config.home(), url_path_join(base_url, self.name, VISUALDL))
        return self._made

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(_LATER, loop.run_in_executor, None, _import_handlers)

    async def stop_extension(self) -> None:
        if self._made is not None:
            await self._made.close()
