"""One board server per home: find it, start it, end it, and lead a browser to it.

``<home>/board/`` (0700) holds ``server.json`` (0600) with port and token; ``server.lock``, which the server
holds while it lives; and ``server.log``. The token is in no command line and no log.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from nbdist import processes
from nbdist.board.request import (
    ALIVE,
    AUTHORIZATION,
    PUBLIC_PATH,
    RUN_SEPARATOR,
    encoded,
    page,
    proxied_token,
)
from nbdist.errors import LaunchError, UsageMistake
from nbdist.model.decoding import MALFORMED, as_int, build
from nbdist.model.spec import ProcessId
from nbdist.store.journal import load_object
from nbdist.store.paths import PathBelow, check_home, make_private, write_private

IDLE_SECONDS = 15 * 60.0
READY = b"ready\n"  # printed by a server that can be found and answers
_ANSWER_SECONDS = 2.0
_LOG_TAIL = 2000  # characters
_MAIN = """\
import os, runpy, sys
sys.path += [entry for entry in sys.argv.pop(1).split(os.pathsep) if entry not in sys.path]
runpy.run_module("nbdist.board", run_name="__main__", alter_sys=True)"""


@dataclass(frozen=True, slots=True)
class BoardDirectory:
    """The files of the board server: ``<home>/board/``."""

    path: Path

    discovery = PathBelow("server.json")
    lock = PathBelow("server.lock")
    log = PathBelow("server.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board server. Its ``token`` opens every run of this home."""

    process: ProcessId
    port: int
    token: str

    def url(self, run_ids: Sequence[str]) -> str:
        """Return the address of these runs, at least one, for a browser on this machine."""
        return f"http://127.0.0.1:{self.port}/{self.token}/{page(run_ids)}"

    def path(self, run_ids: Sequence[str], prefix: str, *, stripped: bool = False) -> str:
        """Return their path behind a proxy at ``prefix`` (``/user/ann/proxy/absolute/8040``), which removes
        it again where ``stripped``."""
        token = proxied_token(self.token)
        mark = f"/{encoded(prefix)}" if stripped else ""
        return f"{prefix}/{token}{mark}/{page(run_ids)}"

    def answers(self) -> bool:
        """Return whether this server is alive and lets us in: another program may have its port by now."""
        url = f"http://127.0.0.1:{self.port}/{self.token}/{ALIVE}"
        return processes.alive(self.process) and status_of(url, seconds=_ANSWER_SECONDS) == 204


def status_of(url: str, token: str = "", seconds: float = 3.0) -> int:
    """Return the status of a GET to this machine, without redirection or proxy; 0 for none."""
    address = urlsplit(url)
    host = address.hostname or "127.0.0.1"
    connection = http.client.HTTPConnection(host, address.port, timeout=seconds)
    if address.scheme == "https":
        # our own server, whose certificate has the name that browsers use
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, address.port, timeout=seconds, context=context)
    headers = {"Authorization": f"token {token}"} if token else {}
    with contextlib.closing(connection):
        try:
            connection.request("GET", urlunsplit(("", "", *address[2:])), headers=headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRoute:
    """The route by which a web server that knows its user forwards his requests to the board.

    Send each GET to ``host``:``port`` with the browser's path and query (not stripped), and ``headers``
    besides its own; return the answer unchanged. No address in the browser holds a token. A refused
    connection means that the board has ended: get a new route.
    """

    host: str
    port: int
    headers: Mapping[str, str]
    public_path: str

    def path(self, run_ids: Sequence[str]) -> str:
        """Return the path of these runs, at least one, behind the same web server."""
        return f"{self.public_path}/{page(run_ids)}"


def route_to_board(home: Path, public_path: str) -> BoardRoute:
    """Return the route for a web server that serves the board below ``public_path``; start the board if
    needed, which takes a second. Raises LaunchError."""
    board = ensure_board(home)
    public_path = public_path.rstrip("/")
    headers = {AUTHORIZATION: f"Bearer {board.token}", PUBLIC_PATH: public_path}
    return BoardRoute(host="127.0.0.1", port=board.port, headers=headers, public_path=public_path)


def find_board(home: Path) -> Board | None:
    """Return the server of this home, if one is running."""
    board = read_board(home)
    return board if board is not None and board.answers() else None


def ensure_board(home: Path, *, idle_seconds: float = IDLE_SECONDS, deadline: float = 20.0) -> Board:
    """Return the server of this home; start it if needed, within ``deadline`` seconds. Callers may compete.

    The server ends after ``idle_seconds`` without a request. Raises LaunchError with the end of its log, and
    NotPrivate when another user has filled the home, or could have.
    """
    board = find_board(home)
    if board is not None:
        return board
    try:
        directory = BoardDirectory(make_private(home / "board"))
        directory.path.chmod(0o700)
    except OSError as error:
        raise LaunchError(f"no place for the VisualDL server's files: {error}") from error
    started = _start(home, directory, idle_seconds)
    trouble = _wait_until_ready(started, deadline)
    board = find_board(home)  # ours, or one that another process started meanwhile
    if board is not None:
        return board
    started.kill()
    raise LaunchError(
        f"the VisualDL server {trouble or 'does not answer'}; {directory.log} ends with:\n{_tail(directory)}"
    )


def stop_board(home: Path, *, grace: float = 3.0) -> bool:
    """End the server of this home, after ``grace`` seconds by force; return False when there was none."""
    board, stopped = read_board(home), False
    for number in (signal.SIGTERM, signal.SIGKILL):
        if board is None or not processes.send(board.process, number):
            break
        stopped, end = True, time.monotonic() + grace
        while processes.alive(board.process) and time.monotonic() < end:
            time.sleep(0.02)
    return stopped


def read_board(home: Path) -> Board | None:
    """Read the discovery file, which may be out of date. Raises NotPrivate."""
    directory = BoardDirectory(home / "board")
    check_home(home)
    check_home(directory.path)
    try:
        entry = load_object(directory.discovery)
        return Board(process=build(ProcessId, entry), port=as_int(entry["port"]), token=str(entry["token"]))
    except (OSError, *MALFORMED):
        return None


def write_board(home: Path, board: Board) -> None:
    """Write the discovery file, whole or not at all, for this user alone."""
    entry = {**asdict(board.process), "port": board.port, "token": board.token}
    write_private(BoardDirectory(home / "board").discovery, json.dumps(entry) + "\n")


def _start(home: Path, directory: BoardDirectory, idle_seconds: float) -> subprocess.Popen[bytes]:
    # nbdist may lie where only this notebook's sys.path.append() leads; last, so that it hides nothing
    path = os.pathsep.join(entry for entry in sys.path if os.path.isabs(entry))
    command = [sys.executable, "-c", _MAIN, path, str(home.absolute())]
    command += ["--idle-seconds", str(idle_seconds)]
    environment = {k: v for k, v in os.environ.items() if k != "VISUALDL_RUN_PREFIX"}
    log = os.open(directory.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        started = subprocess.Popen(
            command,
            # python -c looks for modules here first, and a notebook's folder may hold a random.py
            cwd=directory.path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(f"the VisualDL server did not start: {error}") from error
    finally:
        os.close(log)
    threading.Thread(target=started.wait, name="nbdist-board-reaper", daemon=True).start()
    return started


def _wait_until_ready(started: subprocess.Popen[bytes], seconds: float) -> str:
    """Wait until the server has printed READY; return the trouble in words, empty for none."""
    assert started.stdout is not None
    end = time.monotonic() + seconds
    printed = b""
    with started.stdout as output:
        while not printed.endswith(READY):  # a sitecustomize may print something before it
            if not processes.wait_for(output, end - time.monotonic()):
                return f"took over {seconds:g} s"
            data = os.read(output.fileno(), 4096)
            if not data:
                return "has ended"
            printed += data
    return ""


def _tail(directory: BoardDirectory) -> str:
    try:
        return directory.log.read_text(errors="replace")[-_LOG_TAIL:].strip() or "(nothing)"
    except OSError as error:
        return f"({error})"


# A browser reaches the board by NBDIST_PROXY_URL (``https://host/api_serving/%PORT%/``), by nbdist's own
# server extension, or by jupyter-server-proxy: paths on the server of the notebook's page, valid under any
# name of its host. Only that server knows what it forwards, so we ask it. Else by the port, on this machine.

_GENERATIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class JupyterServer:
    """A Jupyter server of this user. ``url`` is its address as seen from this machine, ``base_url`` its path
    with a slash at either end. ``token`` lets us in; it is empty where users log in by a password."""

    pid: int
    port: int
    url: str
    base_url: str
    token: str

    def answers(self, path: str) -> bool | None:
        """Return whether a GET of ``path`` gives 204; None when the server does not let us in."""
        status = status_of(self.url + path, self.token)
        # without a token a server sends us to its login page
        return True if status == 204 else None if status in (0, 301, 302, 303, 401, 403) else False


def jupyter_servers(environ: Mapping[str, str] = os.environ) -> Iterator[JupyterServer]:
    """Yield the servers that have left their files in Jupyter's runtime directory, dead ones included."""
    # it takes a while to import, and many callers need no browser
    from jupyter_core.paths import jupyter_runtime_dir

    folder = Path(environ.get("JUPYTER_RUNTIME_DIR") or jupyter_runtime_dir())
    for file in sorted(folder.glob("jpserver-*.json")):
        with contextlib.suppress(OSError, *MALFORMED):
            entry = load_object(file)
            # the name in the entry's url may be that of a container
            host, port = str(entry.get("hostname") or ""), as_int(entry["port"])
            local = "127.0.0.1" if host in ("", "0.0.0.0", "*", "localhost", "::", "127.0.0.1") else host
            yield JupyterServer(
                pid=as_int(entry["pid"]),
                port=port,
                url=f"{urlsplit(str(entry['url'])).scheme}://{local}:{port}",
                base_url=str(entry.get("base_url", "/")),
                # a hub's server has no token of its own
                token=str(entry.get("token") or environ.get("JUPYTERHUB_API_TOKEN") or ""),
            )


def find_jupyter(environ: Mapping[str, str] = os.environ) -> JupyterServer | None:
    """Return the server whose kernel or terminal this is; None without one."""
    # a socket file is no address that we can ask
    servers = {server.pid: server for server in jupyter_servers(environ) if server.url.startswith("http")}
    return next((servers[pid] for pid in _ancestors(environ) if pid in servers), None)


def _ancestors(environ: Mapping[str, str]) -> Iterator[int]:
    """Yield the pids that may be our Jupyter server: JPY_PARENT_PID, then our ancestors (from a terminal)."""
    if environ.get("JPY_PARENT_PID", "").isdigit():
        yield int(environ["JPY_PARENT_PID"])
    pid = os.getpid()
    for _ in range(_GENERATIONS):
        stat = processes.read_stat(pid)
        if stat is None or stat.parent <= 1:
            return
        pid = stat.parent
        yield pid


EXTENSION = "nbdist/visualdl"  # the board behind our server extension, below the server's base URL
_HOSTED = ("JUPYTERHUB_SERVICE_PREFIX", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The address that a page opens: a path on the page's own server, or a whole one. It is empty where no
    browser can reach the board; ``problem`` says why. ``direct``: only for a browser on this machine."""

    url: str = ""
    direct: bool = False
    problem: str = ""


def reach(board: Board, run_ids: Sequence[str], *, environ: Mapping[str, str] = os.environ) -> Reach:
    """Return the best route there. Raises UsageMistake for a malformed NBDIST_PROXY_URL."""
    if template := environ.get("NBDIST_PROXY_URL"):
        return Reach(url=_by_template(template, board, run_ids))
    jupyter = find_jupyter(environ)
    if jupyter is not None and (path := _behind(jupyter, board, run_ids)):
        return Reach(url=path)
    if any(name in environ for name in _HOSTED) or "google.colab" in sys.modules:
        return Reach(
            problem="this notebook is hosted elsewhere and its server passes no ports on: "
            "%pip install jupyter-server-proxy  and start the server again, or set NBDIST_PROXY_URL to the "
            "address of its ports, with %PORT% for the number"
        )
    return Reach(url=board.url(run_ids), direct=True)


def _by_template(template: str, board: Board, run_ids: Sequence[str]) -> str:
    if "%PORT%" not in template:
        raise UsageMistake(
            f"NBDIST_PROXY_URL={template} has no %PORT%: write it as  https://host/api_serving/%PORT%/"
        )
    address = urlsplit(template.replace("%PORT%", str(board.port)))
    origin = f"{address.scheme}://{address.netloc}" if address.netloc else ""
    return origin + board.path(run_ids, address.path.rstrip("/"), stripped=True)


def _behind(jupyter: JupyterServer, board: Board, run_ids: Sequence[str]) -> str:
    """Return the path on the Jupyter server; empty where it forwards nothing."""
    extension = f"{jupyter.base_url}{EXTENSION}"
    # its home may be another one than ours, without these runs
    if jupyter.answers(f"{extension}/{RUN_SEPARATOR.join(run_ids)}/{ALIVE}"):
        return f"{extension}/{page(run_ids)}"
    prefix = f"{jupyter.base_url}proxy/absolute/{board.port}"
    path = board.path(run_ids, prefix)
    answer = jupyter.answers(path.removesuffix("scalar") + ALIVE)
    # where the server does not let us in, guess by the packages installed beside us
    if answer or (answer is None and find_spec("jupyter_server_proxy") is not None):
        return path
    return ""
