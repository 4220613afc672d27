"""The Jupyter server that this process was started by, as far as one can ask it what it passes on."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from nbdist import processes

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
