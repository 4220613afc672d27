"""A real kernel, with requests as nbclient and the consoles send them."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from nbdist.model import CellStarted
from nbdist.store import RunDirectory, RunStore, read_events
from tests.programs import until


@dataclass
class Reply:
    """The messages about one cell. ``begun``: the kernel has announced its execution."""

    begun: bool = False
    status: str = ""
    error: str = ""
    stdout: str = ""
    stderr: str = ""
    traceback: str = ""
    data: list[dict[str, Any]] = field(default_factory=list)


def by_rank(text: str) -> dict[int, list[str]]:
    """Return the lines of each rank; on a slow machine a line of all ranks may appear for each."""
    lines: dict[int, list[str]] = {}
    for first, last, line in re.findall(r"^\[(\d)(?:–(\d))?\] (.*)$", text, re.M):
        for rank in range(int(first), int(last or first) + 1):
            lines.setdefault(rank, []).append(line)
    return lines


class Kernel:
    """A kernel with nbdist loaded. Its environment is private to the test."""

    def __init__(self, home: Path) -> None:
        environment = os.environ | {"NBDIST_HOME": str(home), "LANG": "en_US.UTF-8"}
        # paddle sets it where it is imported, as another test may have done in this process
        environment.pop("OMP_NUM_THREADS", None)
        self.home = home
        self.displays: dict[str, list[tuple[datetime, dict[str, Any]]]] = {}
        """The outputs under each display id, of any cell, with the times of their messages."""

        # of two kernels that start at once, both may choose the same free TCP port
        self._sockets = tempfile.TemporaryDirectory()
        self.manager = KernelManager(
            kernel_name="python3", transport="ipc", ip=os.path.join(self._sockets.name, "kernel")
        )
        self.manager.start_kernel(env=environment, cwd=str(home.parent))
        self.client: BlockingKernelClient = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        assert self.run("%load_ext nbdist").status == "ok"

    def submit(self, cell: str, metadata: dict[str, Any] | None = None, *, stdin: bool = False) -> str:
        """Send a cell; do not wait for it. ``stdin``: somebody answers ``input()``."""
        content = {"code": cell, "silent": False, "store_history": True, "allow_stdin": stdin}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def run(self, cell: str, *, limit: float = 90.0, metadata: dict[str, Any] | None = None) -> Reply:
        return self.collect(self.submit(cell, metadata), limit=limit)

    def collect(
        self, message_id: str, *, limit: float = 90.0, until: Callable[[Reply], bool] = lambda _: False
    ) -> Reply:
        """Return the messages of a cell until it is done, or ``until`` returns True."""
        reply = Reply()
        deadline = time.monotonic() + limit
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if display_id := message["content"].get("transient", {}).get("display_id"):
                shown = self.displays.setdefault(display_id, [])
                shown.append((message["header"]["date"], message["content"]["data"]))
            if message["parent_header"].get("msg_id") != message_id:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    setattr(reply, content["name"], getattr(reply, content["name"]) + content["text"])
                case "execute_input":
                    reply.begun = True
                case "error":
                    reply.error = f"{content['ename']}: {content['evalue']}"
                    reply.traceback = "\n".join(content["traceback"])
                case "display_data" | "execute_result" | "update_display_data":
                    reply.data.append(content["data"])
                case "status" if content["execution_state"] == "idle":
                    answer = self._answer(message_id, deadline)
                    reply.status = str(answer["status"])
                    # what is an error to the queue need not be one on the screen
                    if reply.status == "error" and not reply.error:
                        reply.error = f"{answer['ename']}: {answer['evalue']}"
                    return reply
            if until(reply):
                return reply

    def _answer(self, message_id: str, deadline: float) -> dict[str, Any]:
        while True:
            answer = self.client.get_shell_msg(timeout=max(0.1, deadline - time.monotonic()))
            # a kernel that started slowly was asked twice how it is
            if answer["parent_header"].get("msg_id") == message_id:
                content: dict[str, Any] = answer["content"]
                return content

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self._sockets.cleanup()


def session_of(kernel: Kernel) -> RunDirectory:
    """Return the live session."""
    return next(run for run in RunStore(kernel.home).directories() if run.socket.exists())


def submitted(kernel: Kernel, cell: str) -> str:
    """Send a cell to the ranks, and wait until they have begun it."""

    def cells() -> int:
        return sum(isinstance(event, CellStarted) for event in read_events(directory.journal))

    directory = session_of(kernel)
    before = cells()
    message = kernel.submit(cell)
    until(lambda: cells() > before)
    return message


@pytest.fixture
def kernel(tmp_path: Path, leaves_nothing_in: Callable[[Path], None]) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path / "home")
    yield kernel
    kernel.close()
    leaves_nothing_in(kernel.home)


@pytest.fixture(scope="module")
def same_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Share one kernel in a module whose cells start nothing: a start takes a second of a core."""
    kernel = Kernel(tmp_path_factory.mktemp("kernel") / "home")
    yield kernel
    kernel.close()


_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_PASSED] = report.passed
    return report


@pytest.fixture(scope="module")
def _kernels_with_runs() -> Iterator[list[Kernel]]:
    kernels: list[Kernel] = []
    yield kernels
    for kernel in kernels:
        kernel.close()


@pytest.fixture
def used_kernel(
    _kernels_with_runs: list[Kernel],
    leaves_nothing_in: Callable[[Path], None],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Kernel]:
    """Share one kernel in a module whose tests may find each other's runs and names, until one fails."""
    kernels = _kernels_with_runs
    kernel = kernels.pop() if kernels else Kernel(tmp_path_factory.mktemp("kernel") / "home")
    yield kernel
    if request.node.stash[_PASSED]:
        kernels.append(kernel)
    else:
        kernel.close()
    leaves_nothing_in(kernel.home)


@pytest.fixture
def leaves_nothing_in() -> Callable[[Path], None]:
    from nbdist import processes
    from nbdist.store import RunStore

    def check(home: Path, limit: float = 10.0) -> None:
        """Fail the test when a process of a run under ``home`` outlives it."""
        paths = [str(directory.path) for directory in RunStore(home).directories()]
        deadline = time.monotonic() + limit
        while left := [p for path in paths for p in processes.marked("NBDIST_RUN_DIR", path)]:
            if time.monotonic() > deadline:
                processes.send_all(left, signal.SIGKILL)
                raise AssertionError(f"left behind: {left}")
            time.sleep(0.05)

    return check
