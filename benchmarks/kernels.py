"""A real kernel for a benchmark: its surroundings, its cells, and the end of all that it started.

This module alone starts kernels and ends processes. Every kernel gets an environment with a mark of its own;
whatever carries that mark when the kernel is done is ended, by pid and start time. A launcher that leaves
ranks behind therefore cannot slow down the case that follows it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

MARK = "BENCHMARK_KERNEL"
SECONDS_TO_START = 60.0
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# what the machine's own user or a launcher around us may have set, and a rank would inherit
NOT_INHERITED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
NOT_INHERITED_PREFIXES = ("MASTER_", "PADDLE_", "FLAGS_", "TORCHELASTIC_", "NBDIST_", "JUPYTER_")


class CellFailed(Exception):
    """Cell that did not end, or ended with an error. The text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A submission that came to its end; times are seconds since the epoch, on this machine."""

    submitted: float
    idle: float
    text: str

    @property
    def seconds(self) -> float:
        return self.idle - self.submitted


class Kernel(Protocol):
    """Interface of a kernel for a case."""

    def run(self, cells: Sequence[str], *, seconds: float, submitted: float | None = None) -> Finished:
        """Submit all cells at once, as `Run All` does, and wait until the last one is done.

        `submitted`: when the user's wait began, where that was before these cells were sent. Raises
        CellFailed when a cell fails, the kernel dies, or `seconds` have passed.
        """

    def send(self, cells: Sequence[str], *, seconds: float) -> Submission:
        """Submit cells without a wait: `finish` of the result waits."""

    def processes(self) -> list[psutil.Process]:
        """Return the kernel and all its descendants."""

    def kernel_processes(self) -> list[psutil.Process]:
        """Return the kernel, and the one that replaced it after a restart."""

    def interrupt(self) -> None:
        """Interrupt, like the square button of a notebook."""

    def restart(self, *, seconds: float) -> None:
        """Restart, like the round arrow, until the new kernel answers. Raises CellFailed."""

    def end(self) -> None:
        """End the kernel and every process that came of it."""


@dataclass(slots=True)
class Submission:
    """The kernel's answers to a few cells, read until the last one is idle."""

    client: BlockingKernelClient
    submitted: float
    requests: list[str]
    seconds: float
    text: list[str] = field(default_factory=list)
    error: str | None = None

    def finish(self) -> Finished:
        for message in self._messages():
            match message["msg_type"]:
                case "stream":
                    self.text.append(message["content"]["text"])
                case "error":
                    self._failed(message["content"])
                case "status" if self._last_is_idle(message):
                    return self._finished(idle=time.time())
        raise AssertionError("the messages end only with an exception")

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + self.seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self.client.get_iopub_msg(timeout=min(left, 1.0))
            except queue.Empty:
                if not self.client.is_alive():
                    raise CellFailed(f"the kernel died{self._tail()}") from None
                continue
            if message["parent_header"].get("msg_id") in self.requests:
                yield message
        raise CellFailed(f"not done after {self.seconds:g} s{self._tail()}")

    def _failed(self, content: dict[str, Any]) -> None:
        if self.error is None:  # later cells are aborted because of the first
            self.error = f"{content['ename']}: {content['evalue']}"

    def _last_is_idle(self, message: dict[str, Any]) -> bool:
        is_last = message["parent_header"]["msg_id"] == self.requests[-1]
        return bool(is_last and message["content"]["execution_state"] == "idle")

    def _finished(self, *, idle: float) -> Finished:
        if self.error is not None:
            raise CellFailed(self.error + self._tail())
        return Finished(submitted=self.submitted, idle=idle, text="".join(self.text))

    def _tail(self) -> str:
        return tail("".join(self.text))


def tail(text: str) -> str:
    """Return the last lines of what a cell printed, as the end of a sentence about its failure."""
    lines = [line.strip() for line in ANSI.sub("", text).splitlines()]
    last = [line for line in lines if line][-3:]
    return f"; it said: {' / '.join(last)}" if last else "; it said nothing"


def submit(
    client: BlockingKernelClient,
    cells: Sequence[str],
    *,
    seconds: float,
    submitted: float | None = None,
) -> Submission:
    submitted = time.time() if submitted is None else submitted
    requests = [client.execute(cell, allow_stdin=False) for cell in cells]
    return Submission(client, submitted, requests, seconds)


class LocalKernel:
    """An ipykernel of this interpreter, started by jupyter_client."""

    def __init__(self, scratch: Path) -> None:
        self._mark = uuid.uuid4().hex
        # no directories: the kernel of this interpreter, not one that the user installed as python3
        specs = KernelSpecManager(kernel_dirs=[])
        self._manager = KernelManager(kernel_name="python3", kernel_spec_manager=specs)
        self._manager.connection_file = str(scratch / f"{self._mark}.json")
        # open until the end: a kernel that is restarted is given it again
        self._log = (scratch / f"{self._mark}.log").open("wb")
        self._manager.start_kernel(
            env=surroundings(scratch, self._mark), cwd=scratch, stdout=self._log, stderr=self._log
        )
        self._client: BlockingKernelClient = self._manager.blocking_client()
        try:
            connect(self._client)
        except BaseException:
            self.end()
            raise

    def run(self, cells: Sequence[str], *, seconds: float, submitted: float | None = None) -> Finished:
        return submit(self._client, cells, seconds=seconds, submitted=submitted).finish()

    def send(self, cells: Sequence[str], *, seconds: float) -> Submission:
        return submit(self._client, cells, seconds=seconds)

    def processes(self) -> list[psutil.Process]:
        return marked(self._mark)

    def kernel_processes(self) -> list[psutil.Process]:
        return started_with(self._manager.connection_file, self.processes())

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def restart(self, *, seconds: float) -> None:
        self._manager.restart_kernel(now=False)
        answers(self._client, seconds)

    def end(self) -> None:
        self._client.stop_channels()
        # never politely: some peers, asked to stop, end other people's processes by name
        end_marked(self._mark)
        self._manager.shutdown_kernel(now=True)
        self._log.close()


class ServedKernel:
    """A kernel of a Jupyter server, for peers that are an extension of the server.

    Cells go straight to the kernel's sockets; the server is used for what only it can do.
    """

    def __init__(self, scratch: Path) -> None:
        self._mark = uuid.uuid4().hex
        self._token = uuid.uuid4().hex
        self._home = scratch / self._mark
        self._home.mkdir()
        env = surroundings(self._home, self._mark) | {"JUPYTER_TOKEN": self._token}
        with (self._home / "server.log").open("wb") as log:
            self._server = subprocess.Popen(server_command(), env=env, cwd=self._home, stdout=log, stderr=log)
        self._client = BlockingKernelClient()
        try:
            self._url = self._wait_for_url()
            self.kernel_id = self.post("api/kernels", {"name": "python3"})["id"]
            connection = self._home / "runtime" / f"kernel-{self.kernel_id}.json"
            self._client.load_connection_file(str(connection))
            connect(self._client)
        except BaseException:
            self.end()
            raise

    def post(self, path: str, body: object, *, seconds: float = SECONDS_TO_START) -> Any:
        request = urllib.request.Request(
            f"{self._url}{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"token {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as reply:
                text = reply.read()
                return json.loads(text) if text else None  # 204: done, and nothing to say
        except OSError as error:  # HTTPError and timeouts are among them
            raise CellFailed(f"the server did not do POST {path}: {error}") from error

    def run(self, cells: Sequence[str], *, seconds: float, submitted: float | None = None) -> Finished:
        return submit(self._client, cells, seconds=seconds, submitted=submitted).finish()

    def send(self, cells: Sequence[str], *, seconds: float) -> Submission:
        return submit(self._client, cells, seconds=seconds)

    def processes(self) -> list[psutil.Process]:
        return [process for process in marked(self._mark) if process.pid != self._server.pid]

    def kernel_processes(self) -> list[psutil.Process]:
        return started_with(f"kernel-{self.kernel_id}.json", self.processes())

    def interrupt(self) -> None:
        self.post(f"api/kernels/{self.kernel_id}/interrupt", {})

    def restart(self, *, seconds: float) -> None:
        self.post(f"api/kernels/{self.kernel_id}/restart", {}, seconds=seconds)
        answers(self._client, seconds)

    def end(self) -> None:
        self._client.stop_channels()
        end_marked(self._mark)
        self._server.wait()

    def _wait_for_url(self) -> str:
        info = self._home / "runtime" / f"jpserver-{self._server.pid}.json"
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline and self._server.poll() is None:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                return str(json.loads(info.read_text())["url"])
            time.sleep(0.05)  # it announces itself by this file and in no other way
        raise CellFailed("the Jupyter server did not start")


def connect(client: BlockingKernelClient) -> None:
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS_TO_START)
    except RuntimeError as error:
        raise CellFailed(f"the kernel did not start: {error}") from error


def answers(client: BlockingKernelClient, seconds: float) -> None:
    """Wait until a kernel that was restarted answers."""
    try:
        client.wait_for_ready(timeout=seconds)
    except RuntimeError as error:
        raise CellFailed(f"the restarted kernel does not answer: {error}") from error


def started_with(word: str, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that have an argument with this ending."""
    matching = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if any(argument.endswith(word) for argument in process.cmdline()):
                matching.append(process)
    return matching


def server_command() -> list[str]:
    command = [sys.executable, "-m", "jupyter_server", "--ServerApp.port=0", "--no-browser"]
    return [*command, "--allow-root"] if os.geteuid() == 0 else command


def surroundings(scratch: Path, mark: str) -> dict[str, str]:
    """Return the environment of a kernel: the same for every case, and nothing of the user's own.

    One thread a rank, because torchrun sets that by itself and the others do not.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_INHERITED and not name.startswith(NOT_INHERITED_PREFIXES)
    }
    scripts = str(Path(sys.executable).parent)
    return inherited | {
        MARK: mark,
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "OMP_NUM_THREADS": "1",
        # not "nbdist": warm ranks are not used where what may be a module of that name is new beside them
        "NBDIST_HOME": str(scratch / "runs"),
        # ranks that are made ready beside what is measured would disturb it
        "NBDIST_WARM": "off",
        "IPYTHONDIR": str(scratch / "ipython"),
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "JUPYTER_DATA_DIR": str(scratch / "data"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def end_marked(mark: str) -> None:
    """Kill all processes with the mark, again until none is left.

    psutil checks the start time before it signals a pid. One look is not enough: a launcher may be starting a
    process while its others are being listed.
    """
    for _ in range(20):
        processes = marked(mark)
        if not processes:
            return
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=1.0)
    left = ", ".join(f"{process.pid} ({process.name()})" for process in marked(mark))
    if left:
        raise CellFailed(f"could not be ended: {left}")


def marked(mark: str) -> list[psutil.Process]:
    """Return every process whose environment carries the mark, however far from the kernel it is."""
    matching = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # gone, a zombie, or another user's
            if process.environ().get(MARK) == mark:
                matching.append(process)
    return matching


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
