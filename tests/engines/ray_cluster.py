"""Ray of our own on this machine: a head and other nodes, each with a raylet of its own, on free ports."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from tests.engines.ports import free_ports

_UP = 150.0
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    # workers that nobody asked for, and what ends them, would take the time of two cores
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    # seconds, of 60: how long a node believes that a head which has gone comes back
    "RAY_gcs_rpc_server_reconnect_timeout_s": "6",
}


class NoRay(Exception):
    """No Ray here, for the reason in the message."""


class RayCluster:
    """``nodes`` machines with ``cpus`` cores and ``gpus`` GPUs each, as Ray believes. The head may have
    fewer cores: ``head_cpus``."""

    def __init__(
        self, folder: Path, *, nodes: int = 2, cpus: int = 2, gpus: int = 2, head_cpus: int | None = None
    ) -> None:
        self.folder = folder
        self.token = secrets.token_hex(24)
        self._nodes, self._cpus, self._gpus = nodes, cpus, gpus
        self._head_cpus = cpus if head_cpus is None else head_cpus
        self._port, self._dashboard = free_ports(2)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._dashboard}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that admit nbdist."""
        return {"RAY_AUTH_TOKEN": self.token}

    @property
    def headless(self) -> bool:
        """Return whether the head is gone."""
        return 0 not in self._running

    @property
    def broken(self) -> bool:
        """Return whether a part has ended by itself."""
        return any(process.poll() is not None for process in self._running.values())

    def up(self) -> None:
        """Start it, and wait until every node has joined. Raises NoRay."""
        if importlib.util.find_spec("ray") is None or importlib.util.find_spec("aiohttp_cors") is None:
            raise NoRay('no ray with its dashboard: install "ray[default]"')
        self._start(0, "--head", f"--port={self._port}", "--dashboard-host=127.0.0.1")
        self._until(self._knocks, "its head does not listen")
        for node in range(1, self._nodes):
            self.start_node(node)
        self._until(self._answers, "its dashboard does not answer")
        self.wait_for_nodes()

    def start_node(self, node: int) -> None:
        self._start(node, f"--address=127.0.0.1:{self._port}")

    def wait_for_nodes(self) -> None:
        """Wait until every started node has joined."""
        logs = [self.folder / f"{node}.out" for node in self._running]
        self._until(lambda: all(b"Ray runtime started" in log.read_bytes() for log in logs), "no nodes")

    def kill(self, node: int) -> None:
        """Kill all of Ray on a node, like a power failure."""
        process = self._running.pop(node)
        _kill(_tree(process.pid))
        process.wait()

    def down(self) -> None:
        """End it, all its processes by their ids."""
        left = [each for process in self._running.values() for each in _tree(process.pid)]
        for process in reversed(list(self._running.values())):
            process.terminate()
        if self.headless:  # who is left would look for it
            _kill(left)
        _, left = psutil.wait_procs(left, timeout=10)
        _kill(left)
        psutil.wait_procs(left, timeout=10)
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def ask(self, path: str, *, method: str = "GET") -> bytes:
        """Return the dashboard's answer."""
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.address + path, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def _start(self, node: int, *words: str) -> None:
        ports = free_ports(3)
        words = (
            *words,
            "--block",
            f"--node-ip-address=127.0.0.{node + 1}",
            f"--num-cpus={self._cpus if node else self._head_cpus}",
            f"--num-gpus={self._gpus}",
            "--object-store-memory=80000000",
            # nodes that share one would clean up each other's files
            f"--temp-dir={self.folder / str(node)}",
            "--include-log-monitor=false",
            "--min-worker-port=0",
            "--max-worker-port=0",
            f"--dashboard-agent-listen-port={ports[0]}",
            f"--metrics-export-port={ports[1]}",
        )
        if node == 0:
            words += (f"--dashboard-port={self._dashboard}", f"--ray-client-server-port={ports[2]}")
        with open(self.folder / f"{node}.out", "wb") as log:
            self._running[node] = subprocess.Popen(
                [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *words],
                env=self._environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        # a Ray of somebody's may have left its own, and without bytecode each process compiles Ray anew
        mine = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "PYTHON"))}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        return mine | _QUIET | {"RAY_AUTH_TOKEN": self.token, "PATH": path}

    def _knocks(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5):
            return True
        return False

    def _answers(self) -> bool:
        try:
            return b"ray_version" in self.ask("/api/version")
        except OSError:
            return False

    def _until(self, condition: Callable[[], bool], failed: str) -> None:
        deadline = time.monotonic() + _UP
        while not condition():
            if time.monotonic() > deadline or self.broken:
                raise NoRay(f"{failed}: {self._last_words()}")
            time.sleep(0.1)

    def _last_words(self) -> str:
        logs = [path.read_text(errors="replace")[-1000:] for path in sorted(self.folder.glob("*.out"))]
        return "\n".join(logs)


def _tree(pid: int) -> list[psutil.Process]:
    """Return a process, its descendants, and the orphans of its session."""
    with contextlib.suppress(psutil.Error):
        below = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        known = {process.pid for process in below}
        others = (process for process in psutil.process_iter() if process.pid not in known)
        return below + [process for process in others if _session(process.pid) == pid]
    return []


def _kill(members: list[psutil.Process]) -> None:
    for each in members:
        with contextlib.suppress(psutil.Error):
            each.kill()


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


@contextlib.contextmanager
def ray(**sizes: int) -> Iterator[RayCluster]:
    """A Ray for as long as it is needed. Raises NoRay.

    It is begun once more, on other ports, when a part of it ends at once: somebody may have been faster.
    """
    with contextlib.ExitStack() as stack:
        for tries_left in (1, 0):
            # sockets have short names: not below a test's own long path
            within = tempfile.TemporaryDirectory(prefix="nbray", ignore_cleanup_errors=True)
            cluster = RayCluster(Path(stack.enter_context(within)), **sizes)
            stack.callback(cluster.down)
            try:
                cluster.up()
                break
            except NoRay:
                if not (cluster.broken and tries_left):
                    raise
                cluster.down()
        yield cluster
