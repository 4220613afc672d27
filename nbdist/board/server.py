"""One board server per home: find it, start it, end it, and lead a browser to it.

``<home>/board/`` (0700) holds ``server.json`` (0600), by which any program of this user finds the server and
gets in; ``server.lock``, which the server holds while it lives, so that there is one; and ``server.log``. The
token is in no command line and no log.
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
READY = b"ready\n"
"""A server prints this once it can be found and answers."""

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
    """A board server. A client with its ``token`` may read every run of this home."""

    process: ProcessId
    port: int
    token: str

    def url(self, run_ids: Sequence[str]) -> str:
        """Return the address of these runs, at least one, for a browser on this machine."""
        return f"http://127.0.0.1:{self.port}/{self.token}/{page(run_ids)}"

    def path(self, run_ids: Sequence[str], prefix: str, *, stripped: bool = False) -> str:
        """Return their path behind a proxy with ``prefix`` (``/user/ann/proxy/absolute/8040``) in front, that
        the proxy takes away again where ``stripped``."""
        token = proxied_token(self.token)
        mark = f"/{encoded(prefix)}" if stripped else ""
        return f"{prefix}/{token}{mark}/{page(run_ids)}"

    def answers(self) -> bool:
        """Return whether this server is alive and lets us in."""
        # another program may have its port by now
        url = f"http://127.0.0.1:{self.port}/{self.token}/{ALIVE}"
        return processes.alive(self.process) and status_of(url, seconds=_ANSWER_SECONDS) == 204


def status_of(url: str, token: str = "", seconds: float = 3.0) -> int:
    """Return the status of a GET to a server on this machine, 0 for none; follow no redirection and use no
    proxy. ``token`` is Jupyter's."""
    address = urlsplit(url)
    host = address.hostname or "127.0.0.1"
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        # our own server, whose certificate has the name that browsers use
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, address.port, timeout=seconds, context=context)
    else:
        connection = http.client.HTTPConnection(host, address.port, timeout=seconds)
    headers = {"Authorization": f"token {token}"} if token else {}
    with contextlib.closing(connection):
        try:
            connection.request("GET", urlunsplit(("", "", *address[2:])), headers=headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRoute:
    """How a web server that knows its user passes his requests on to the board.

    Send each GET to ``host``:``port`` with the path and the query of the browser (not stripped), with
    ``headers`` in addition to the browser's own, and return status, headers and body as they are. No address
    in the browser holds a token. When the connection is refused, the board has ended: get a new route.
    """

    host: str
    port: int
    headers: Mapping[str, str]
    public_path: str

    def path(self, run_ids: Sequence[str]) -> str:
        """Return the path of these runs, at least one, behind the same web server."""
        return f"{self.public_path}/{page(run_ids)}"


def route_to_board(home: Path, public_path: str) -> BoardRoute:
    """Return the way to the server of this home, for a web server that serves it below ``public_path``
    (``/user/ann/nbdist/visualdl``); start it where there is none, which takes a second.

    Raises LaunchError. ``<public_path>/alive`` answers 204, and ``<public_path>/<run_id>~<run_id>/alive``
    where these runs are known.
    """
    board = ensure_board(home)
    public_path = public_path.rstrip("/")
    headers = {AUTHORIZATION: f"Bearer {board.token}", PUBLIC_PATH: public_path}
    return BoardRoute(host="127.0.0.1", port=board.port, headers=headers, public_path=public_path)


def find_board(home: Path) -> Board | None:
    """Return the server of this home, if one is running."""
    board = read_board(home)
    return board if board is not None and board.answers() else None


def ensure_board(home: Path, *, idle_seconds: float = IDLE_SECONDS, deadline: float = 20.0) -> Board:
    """Return the server of this home; start it when there is none. Any number of callers may compete.

    A server ends by itself after ``idle_seconds`` without a request, and when its home goes.
    ``deadline`` is in seconds.

    :raises LaunchError: when it does not start, or not in time; with the end of its log.
    :raises NotPrivate: when another user has filled the home, or could have.
    """
    board = find_board(home)
    if board is not None:
        return board
    directory = _private_directory(home)
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
    """End the server of this home, after ``grace`` seconds by force; False when there was none."""
    board = read_board(home)
    if board is None or not processes.send(board.process, signal.SIGTERM):
        return False
    if not _has_gone(board.process, grace):
        processes.send(board.process, signal.SIGKILL)
        _has_gone(board.process, grace)
    return True


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
    """Write the discovery file: whole, or not at all, and only for this user."""
    entry = {**asdict(board.process), "port": board.port, "token": board.token}
    write_private(BoardDirectory(home / "board").discovery, json.dumps(entry) + "\n")


def _private_directory(home: Path) -> BoardDirectory:
    try:
        path = make_private(home / "board")
        path.chmod(0o700)
    except OSError as error:
        raise LaunchError(f"no place for the VisualDL server's files: {error}") from error
    return BoardDirectory(path)


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
    """Return why it is not ready, in words; nothing when it is."""
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


def _has_gone(process: ProcessId, seconds: float) -> bool:
    """Wait at most ``seconds`` for the end of a process; return whether it has ended."""
    end = time.monotonic() + seconds
    while processes.alive(process) and time.monotonic() < end:
        time.sleep(0.02)
    return not processes.alive(process)


def _tail(directory: BoardDirectory) -> str:
    try:
        return directory.log.read_text(errors="replace")[-_LOG_TAIL:].strip() or "(nothing)"
    except OSError as error:
        return f"({error})"


# How a browser reaches the board: by ``NBDIST_PROXY_URL`` (``https://host/api_serving/%PORT%/``), where the
# user sets it; by nbdist's own server extension; by jupyter-server-proxy. Only a Jupyter server itself knows
# what it passes on, so we ask it. These are paths on the server of the notebook's page, right under any name
# of its host. Else by the port on this machine, which only a browser on this machine reaches.

_GENERATIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class JupyterServer:
    """A server that listens at ``url``; ``base_url`` begins and ends with a slash. ``token`` lets us in; it
    is empty where users log in by a password."""

    url: str
    base_url: str
    token: str

    def answers(self, path: str) -> bool | None:
        """Return whether a GET of ``path`` gives 204; None when we are not let in."""
        status = status_of(self.url + path, self.token)
        # without a token a server sends us to its login page
        return True if status == 204 else None if status in (0, 301, 302, 303, 401, 403) else False


def find_jupyter(environ: Mapping[str, str] = os.environ) -> JupyterServer | None:
    """Return the server whose kernel or terminal this is; None where there is none."""
    # it takes a while to import, and many callers need no browser
    from jupyter_core.paths import jupyter_runtime_dir

    folder = Path(environ.get("JUPYTER_RUNTIME_DIR") or jupyter_runtime_dir())
    for pid in _ancestors(environ):
        try:
            entry = load_object(folder / f"jpserver-{pid}.json")
            # a socket file is no address that we can ask
            if str(entry["url"]).startswith("http"):
                token = str(entry.get("token") or environ.get("JUPYTERHUB_API_TOKEN") or "")
                return JupyterServer(url=_local_url(entry), base_url=str(entry["base_url"]), token=token)
        except (OSError, *MALFORMED):
            continue
    return None


def _local_url(entry: Mapping[str, object]) -> str:
    """Return its address as seen from this machine: the name in ``url`` may be that of a container."""
    host = str(entry.get("hostname") or "")
    local = "127.0.0.1" if host in ("", "0.0.0.0", "*", "localhost", "::", "127.0.0.1") else host
    return f"{urlsplit(str(entry['url'])).scheme}://{local}:{entry['port']}"


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


EXTENSION = "nbdist/visualdl"
"""Below a Jupyter server's base URL: the board behind nbdist's own server extension."""

_HOSTED = ("JUPYTERHUB_SERVICE_PREFIX", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The address that a page opens, a path where it is on the page's own server. Where no browser can reach
    the board it is empty, and ``problem`` says why and what to do. ``direct``: only a browser on this machine
    reaches it."""

    url: str = ""
    direct: bool = False
    problem: str = ""


def reach(board: Board, run_ids: Sequence[str], *, environ: Mapping[str, str] = os.environ) -> Reach:
    """Return the best way there. Raises UsageMistake for an NBDIST_PROXY_URL that is none."""
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
    """Return the path on the Jupyter server; empty where it passes nothing on."""
    extension = f"{jupyter.base_url}{EXTENSION}"
    # its home may be another one than ours: does it know these runs?
    if jupyter.answers(f"{extension}/{RUN_SEPARATOR.join(run_ids)}/{ALIVE}"):
        return f"{extension}/{page(run_ids)}"
    prefix = f"{jupyter.base_url}proxy/absolute/{board.port}"
    path = board.path(run_ids, prefix)
    answer = jupyter.answers(path.removesuffix("scalar") + ALIVE)
    # where we are not let in to ask, guess by the packages installed beside us
    if answer or (answer is None and find_spec("jupyter_server_proxy") is not None):
        return path
    return ""
