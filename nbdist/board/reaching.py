"""How a browser gets to the board: through Jupyter's proxy, the server extension, or a port.

How a browser reaches the board: directly, or through what stands between it and this machine.

In this order: ``NBDIST_PROXY_URL`` (``https://host/api_serving/%PORT%/``), where the user sets it; the
route of nbdist's own server extension; jupyter-server-proxy. The last two are asked, not guessed: only a
Jupyter server itself knows what it passes on. They are a path on the server that the notebook's page is
from, so they are right whatever that page calls its host. Else the port on this machine, which only a
browser on this machine reaches.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from nbdist import processes
from nbdist.board.request import ALIVE, RUN_SEPARATOR, page
from nbdist.board.server import Board
from nbdist.errors import UsageMistake

_ANSWER_SECONDS = 3.0
_GENERATIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class JupyterServer:
    """``url`` is where it listens, ``base_url`` begins and ends with a slash. ``token`` lets us in; it may
    be empty where people come in by a password."""

    url: str
    base_url: str
    token: str

    def answers(self, path: str) -> bool | None:
        """Whether a GET of ``path`` gives 204; None when we are not let in."""
        address = urlsplit(self.url)
        host = address.hostname or "127.0.0.1"
        connection: http.client.HTTPConnection
        if address.scheme == "https":
            # our own server, on this machine, whose certificate has the name that browsers use
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            connection = http.client.HTTPSConnection(
                host, address.port, timeout=_ANSWER_SECONDS, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, address.port, timeout=_ANSWER_SECONDS)
        headers = {"Authorization": f"token {self.token}"} if self.token else {}
        with contextlib.closing(connection):
            try:
                connection.request("GET", path, headers=headers)
                status = connection.getresponse().status
            except (OSError, http.client.HTTPException):
                return None
        # without a token a server sends us to its login page
        return True if status == 204 else None if status in (301, 302, 303, 401, 403) else False


def find_jupyter(environ: Mapping[str, str] = os.environ) -> JupyterServer | None:
    """The server whose kernel or terminal this is; None where there is none."""
    folder = _runtime(environ)
    for pid in _ancestors(environ):
        try:
            said = json.loads((folder / f"jpserver-{pid}.json").read_bytes())
            # a socket file is no address that we can ask
            if str(said["url"]).startswith("http"):
                token = str(said.get("token") or environ.get("JUPYTERHUB_API_TOKEN") or "")
                return JupyterServer(url=_here(said), base_url=str(said["base_url"]), token=token)
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return None


def _here(said: Mapping[str, object]) -> str:
    """Where it listens, seen from this machine: the name that it says may be that of a container."""
    address = urlsplit(str(said["url"]))
    host = str(said.get("hostname") or "")
    local = "127.0.0.1" if host in ("", "0.0.0.0", "*", "localhost", "::", "127.0.0.1") else host
    return f"{address.scheme}://{local}:{said['port']}"


def _runtime(environ: Mapping[str, str]) -> Path:
    if folder := environ.get("JUPYTER_RUNTIME_DIR"):
        return Path(folder)
    try:
        from jupyter_core.paths import jupyter_runtime_dir
    except ImportError:
        return Path("/nonexistent")
    return Path(jupyter_runtime_dir())


def _ancestors(environ: Mapping[str, str]) -> Iterator[int]:
    """Who may have started us: whom a kernel is told, and then parent by parent (a terminal's shell)."""
    if environ.get("JPY_PARENT_PID", "").isdigit():
        yield int(environ["JPY_PARENT_PID"])
    pid = os.getpid()
    for _ in range(_GENERATIONS):
        stat = processes.read_stat(pid)
        if stat is None or stat.parent <= 1:
            return
        pid = stat.parent
        yield pid


EXTENSION = "nbdist/visualdl"
"""Below a Jupyter server's base URL: the board behind nbdist's own server extension."""

_HOSTED = ("JUPYTERHUB_SERVICE_PREFIX", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """``url`` is what a page opens, a path where it is of the page's own server; empty where no browser
    can reach the board, and then ``problem`` says why and what to do. ``direct``: only a browser on this
    machine reaches it, and whether it is one, only it can say."""

    url: str = ""
    direct: bool = False
    problem: str = ""


def reach(
    board: Board,
    run_ids: Sequence[str],
    viewer: str = "",
    *,
    environ: Mapping[str, str] = os.environ,
) -> Reach:
    """The best way there. Raises UsageMistake for an NBDIST_PROXY_URL that is none."""
    if template := environ.get("NBDIST_PROXY_URL"):
        return Reach(url=_by_template(template, board, run_ids, viewer))
    jupyter = find_jupyter(environ)
    if jupyter is not None and (path := _behind(jupyter, board, run_ids, viewer)):
        return Reach(url=path)
    if any(name in environ for name in _HOSTED) or "google.colab" in sys.modules:
        return Reach(
            problem="this notebook is hosted elsewhere and its server passes no ports on: "
            "%pip install jupyter-server-proxy  and start the server again, or set NBDIST_PROXY_URL to the "
            "address of its ports, with %PORT% for the number"
        )
    return Reach(url=board.url(run_ids, viewer), direct=True)


def _by_template(template: str, board: Board, run_ids: Sequence[str], viewer: str) -> str:
    if "%PORT%" not in template:
        raise UsageMistake(
            f"NBDIST_PROXY_URL={template} has no %PORT%: write it as  https://host/api_serving/%PORT%/"
        )
    address = urlsplit(template.replace("%PORT%", str(board.port)))
    origin = f"{address.scheme}://{address.netloc}" if address.netloc else ""
    return origin + board.path(run_ids, address.path.rstrip("/"), viewer, stripped=True)


def _behind(jupyter: JupyterServer, board: Board, run_ids: Sequence[str], viewer: str) -> str:
    """The path on the Jupyter server; empty where it passes nothing on."""
    extension = f"{jupyter.base_url}{EXTENSION}"
    # its home may be another one than ours: does it know these runs?
    if jupyter.answers(f"{extension}/{RUN_SEPARATOR.join(run_ids)}/{ALIVE}"):
        return f"{extension}/{page(run_ids, viewer)}"
    prefix = f"{jupyter.base_url}proxy/absolute/{board.port}"
    path = board.path(run_ids, prefix, viewer)
    answer = jupyter.answers(board.path(run_ids, prefix).removesuffix("scalar") + ALIVE)
    # where we are not let in to ask, what is installed beside us is the best guess
    if answer or (answer is None and find_spec("jupyter_server_proxy") is not None):
        return path
    return ""
