"""Hosts as people have them: a JupyterHub, and a web server that forwards one port."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page

from nbdist import processes
from tests.browser.lab import TOKEN, LabServer, write_notebook, write_settings
from tests.engines.ports import free_ports

HERE = Path(__file__).parent
HUB_PROXY = HERE / "node_modules/.bin/configurable-http-proxy"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
LIMIT = 120.0

NGINX_CONFIG = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  map $http_upgrade $connection_upgrade {{ default upgrade; "" close; }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    location {prefix} {{ proxy_pass http://127.0.0.1:{inner}; }}
    location ~ ^{prefix}api_serving/([0-9]+)(/.*)$ {{ proxy_pass http://127.0.0.1:$1$2$is_args$args; }}
  }}
}}
"""


TRAINING = """import os, time, nbdist
for step in range(100_000):
    print(f"step {step} of rank {os.environ['RANK']}", flush=True)
    nbdist.log(step=step, loss=1 / (step + 1))
    time.sleep(0.05)
"""
"""Goes on until it is stopped."""


@dataclass(frozen=True)
class Host:
    """One user's server as a browser reaches it: ``url`` ends with a slash, notebooks are in ``folder``."""

    url: str
    token: str
    folder: Path
    user: str = ""
    """The user that logs in at a hub; empty where the token lets a browser in."""

    @property
    def entry(self) -> str:
        """Return the end of a page's address."""
        return "reset" if self.user else f"token={self.token}&reset"

    def write_notebook(self, name: str, *cells: str) -> Path:
        return write_notebook(self.folder / name, *cells)

    def log_in(self, page: Page) -> None:
        """Log in at a hub, as people do; elsewhere the first address does it."""
        if self.user:
            hub = self.url.partition("user/")[0] + "hub/"
            page.goto(f"{hub}login?next={urlsplit(hub).path}home")
            page.locator("#username_input").fill(self.user)
            page.locator("#password_input").fill("any")
            page.locator("#login_submit").click()
            page.wait_for_url("**/hub/home")

    def ask(self, path: str, method: str = "GET", body: object = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        return ask(f"{self.url}{path}", self.token, method, body)


def ask(url: str, token: str, method: str = "GET", body: object = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def until(condition: Callable[[], Any], limit: float = LIMIT) -> Any:
    """Wait until the condition returns something; return it."""
    deadline = time.monotonic() + limit
    while True:
        with contextlib.suppress(OSError):
            if value := condition():
                return value
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.1)


@contextlib.contextmanager
def behind_nginx(folder: Path) -> Iterator[Host]:
    """Yield a JupyterLab of which nginx forwards one port, under a prefix."""
    server = LabServer(folder, base_url="/behind/ada/")
    try:
        server.wait_until_up()
        with nginx(folder, "/behind/", server.port, free_ports(1)[0]) as origin:
            host = Host(f"{origin}/behind/ada/", TOKEN, server.notebooks)
            until(lambda: host.ask("api/status")[0] == 200, 20)
            yield host
    finally:
        server.close()


@contextlib.contextmanager
def nginx(folder: Path, prefix: str, inner: int, port: int) -> Iterator[str]:
    """Yield the address of an nginx on ``port``. It forwards requests below the prefix to the port ``inner``
    as they are, and those below ``PREFIXapi_serving/PORT/`` to that port, without all this."""
    assert NGINX is not None
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=folder, port=port, inner=inner, prefix=prefix))
    with running([NGINX, "-c", str(config), "-p", str(folder)], folder / "nginx.log"):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def hub(folder: Path, *users: str, idle: int | None = None) -> Iterator[list[Host]]:
    """Yield a JupyterHub with a server of each of these users, who have logged in. Its culler ends a server
    after ``idle`` seconds without activity."""
    ports = free_ports(3)
    token = secrets.token_hex(16)
    for user in users:
        news = {"fetchNews": "false", "checkForUpdates": False}
        write_settings(folder / "homes" / user / ".jupyter", "notification", news)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(HERE.parents[1]),
        "HUB_FOLDER": str(folder),
        "HUB_PORTS": " ".join(map(str, ports)),
        "HUB_TOKEN": token,
        "HUB_PROXY": str(HUB_PROXY),
        "HUB_IDLE": str(idle or ""),
        "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16),
    }
    command = [sys.executable, "-m", "jupyterhub", "-f", str(HERE / "hub_config.py")]
    root = f"http://127.0.0.1:{ports[0]}/behind/"
    with contextlib.ExitStack() as opened:
        # a hub that is killed leaves its services behind
        opened.callback(_end_services, f"http://127.0.0.1:{ports[1]}/behind/hub/api")
        opened.enter_context(running(command, folder / "hub.log", environment, folder))
        api = f"{root}hub/api/"
        until(lambda: ask(api, token)[0] == 200)
        # both at once, and the hub ends them when it ends
        for user in users:
            assert ask(f"{api}users/{user}", token, "POST")[0] in (201, 409)
            assert ask(f"{api}users/{user}/server", token, "POST")[0] in (201, 202)
        yield [_server_of(user, root, token, folder / "homes" / user) for user in users]


def _end_services(api: str) -> None:
    for process in processes.marked("JUPYTERHUB_API_URL", api):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _server_of(user: str, root: str, token: str, home: Path) -> Host:
    api = f"{root}hub/api/users/{user}"
    scopes = [f"access:servers!user={user}"]
    status, body = ask(f"{api}/tokens", token, "POST", {"scopes": scopes, "note": "a browser"})
    assert status == 201, body
    host = Host(f"{root}user/{user}/", json.loads(body)["token"], home, user)
    until(lambda: host.ask("nbdist/api/status")[0] == 200)
    return host


@contextlib.contextmanager
def running(
    command: list[str], log: Path, environment: dict[str, str] | None = None, folder: Path | None = None
) -> Iterator[None]:
    """Run a service for the length of a block, and end everything that it has started."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, cwd=folder, start_new_session=True
        )
    try:
        yield
    except BaseException:
        print(log.read_text()[-5000:])
        raise
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
