"""A Jupyter server as a user starts one: a process of its own, under a prefix, with its own home."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbdist.board.server import status_of

TOKEN = "a-token-of-a-test"
LIMIT = 60.0


@dataclass(frozen=True)
class RealServer:
    port: int
    base_url: str
    home: Path
    pid: int

    @property
    def url(self) -> str:
        """Return the address of the extension."""
        return f"http://127.0.0.1:{self.port}{self.base_url}nbdist"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"token {TOKEN}"}


@contextlib.contextmanager
def real_server(
    folder: Path, *options: str, base_url: str = "/user/ada/", extension: str = "nbdist"
) -> Iterator[RealServer]:
    """Start a server with one extension, whose runs are in ``folder``/home; end it behind the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = folder / "home"
    directories = {name: str(folder / name.lower()) for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    environment = os.environ | directories | {"NBDIST_HOME": str(home), "LANG": "C.UTF-8"}
    environment |= {"JUPYTER_CONFIG_DIR": str(folder / "config"), "JUPYTER_NO_CONFIG": "1"}
    command = [sys.executable, "-m", "jupyter_server", f"--port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.base_url={base_url}", f"--IdentityProvider.token={TOKEN}", "--no-browser"]
    command += ["--allow-root", f"--ServerApp.root_dir={folder}", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.jpserver_extensions={{'{extension}': True}}", *options]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        server = RealServer(port=port, base_url=base_url, home=home, pid=process.pid)
        _wait_until_it_answers(server, process, folder / "server.log", extension)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(
    server: RealServer, process: subprocess.Popen[bytes], log: Path, extension: str
) -> None:
    deadline = time.monotonic() + LIMIT
    # the extension imports its half at its first request
    path = "nbdist/api/status" if extension == "nbdist" else "api"
    while status_of(f"http://127.0.0.1:{server.port}{server.base_url}{path}", TOKEN) != 200:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server does not answer: {log.read_text()}")
        time.sleep(0.1)
