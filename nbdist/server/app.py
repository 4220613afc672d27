"""The extension as the Jupyter server loads it."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join

from nbdist import config
from nbdist.server import handlers
from nbdist.server.backend import Backend
from nbdist.server.board_proxy import VISUALDL, BoardProxy
from nbdist.server.log_handler import LogHandler
from nbdist.server.socket import StreamHandler

# What stands for a run or a rank is whatever is no slash: the handlers say what is wrong with it.
ROUTES = (
    ("api/status", handlers.StatusHandler),
    ("api/runs", handlers.RunsHandler),
    ("api/runs/([^/]+)", handlers.RunHandler),
    ("api/runs/([^/]+)/stop", handlers.StopHandler),
    ("api/runs/([^/]+)/stacks", handlers.StacksHandler),
    ("api/runs/([^/]+)/ranks/([^/]+)/log", LogHandler),
    ("api/runs/([^/]+)/ranks/([^/]+)/interrupt", handlers.InterruptHandler),
    ("api/devices", handlers.DevicesHandler),
    ("api/options", handlers.OptionsHandler),
    ("api/board", handlers.BoardHandler),
    ("api/stream", StreamHandler),
    (f"{VISUALDL}/(.*)", BoardProxy),
)


class NbdistApp(ExtensionApp):
    """``nbdist`` in ``jupyter server extension list``. The runs are those of NBDIST_HOME."""

    name = "nbdist"
    description = "Watch and stop runs of many ranks"

    def initialize_settings(self) -> None:
        base_url = self.serverapp.base_url if self.serverapp is not None else "/"
        self.settings["nbdist"] = Backend(config.home(), url_path_join(base_url, self.name, VISUALDL))

    def initialize_handlers(self) -> None:
        self.handlers.extend((f"/{self.name}/{path}", handler) for path, handler in ROUTES)

    async def stop_extension(self) -> None:
        await self.settings["nbdist"].close()
