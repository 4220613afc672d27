"""The kernel or its server ends: a foreground run ends with it and says why, a detached one goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.blocking import BlockingKernelClient

from nbdist import runner
from nbdist.model import Escalated, Event
from nbdist.store import RunStore, read_events
from nbdist.text import reason_text
from tests.magics.conftest import Kernel
from tests.programs import FAMILY, MEMBERS, SLEEP, family_of, left_of, until, until_ready

FOREGROUND = f"%%distributed -n 2\n{FAMILY}\ntime.sleep(600)"
DETACHED = f"%%distributed -n 2 -d\n{FAMILY}\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('done')"


def interrupt(kernel: Kernel) -> None:
    kernel.interrupt()


def restart(kernel: Kernel) -> None:
    kernel.manager.restart_kernel(now=False)


def restart_now(kernel: Kernel) -> None:
    kernel.manager.restart_kernel(now=True)


def kill(kernel: Kernel) -> None:
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)


def terminate(kernel: Kernel) -> None:
    os.kill(kernel.manager.provisioner.pid, signal.SIGTERM)


INTERRUPTED, GONE = "the kernel was interrupted", "the notebook's kernel ended"
FAULTS = [
    pytest.param(interrupt, {INTERRUPTED}, id="interrupted"),
    # a kernel that is restarted politely is interrupted first, and may not hear in time what for
    pytest.param(restart, {"kernel restarted", INTERRUPTED, GONE}, id="restarted"),
    pytest.param(restart_now, {GONE}, id="restarted at once"),
    pytest.param(kill, {GONE}, id="killed"),
    pytest.param(terminate, {GONE}, id="told to end"),
]


def the_run(home: Path) -> runner.RunHandle:
    """Return the one run of a home, once its ranks are ready."""
    until(lambda: RunStore(home).directories())
    handle = runner.RunHandle(RunStore(home).directories()[0])
    until(lambda: handle.directory.spec.exists())
    until_ready(handle)
    return handle


@pytest.mark.parametrize(("fault", "reasons"), FAULTS)
def test_a_foreground_run_is_stopped(
    kernel: Kernel, fault: Callable[[Kernel], None], reasons: set[str]
) -> None:
    kernel.submit(FOREGROUND)
    handle = the_run(kernel.home)
    family = family_of(handle)
    assert len(family) == 2 * (1 + MEMBERS)

    fault(kernel)

    assert handle.wait(20) == "stopped"
    assert reason_text(handle.run.reason) in reasons
    assert left_of(handle, family) == []


@pytest.mark.parametrize("fault", [pytest.param(fault.values[0], id=fault.id) for fault in FAULTS])
def test_a_detached_run_goes_on(kernel: Kernel, fault: Callable[[Kernel], None]) -> None:
    assert kernel.run(DETACHED).status == "ok"
    handle = the_run(kernel.home)

    fault(kernel)
    # the word to go on comes after the fault, and only a run that has outlived it hears it
    (kernel.home.parent / "go").touch()

    assert handle.wait(20) == "finished"
    assert "done" in handle.logs(0)
    assert "done" in handle.logs(1)


def test_a_foreground_run_ends_with_its_kernel_though_a_fork_of_it_lives(start_owner, leaves_nothing) -> None:
    forks = "import os, time\nif os.fork() == 0: time.sleep(600)\nsys.stdin.read()"
    owner = start_owner("-n 1", SLEEP, after=forks, start_new_session=True)
    until_ready(owner.handle)

    try:
        owner.process.kill()

        assert owner.handle.wait(15) == "stopped"
    finally:
        os.killpg(owner.process.pid, signal.SIGKILL)


class JupyterServer:
    """A server with one kernel that has nbdist loaded."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self._token = "for-the-tests-alone"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._log = (root / "server.log").open("wb")
        self._environment = os.environ | {
            "NBDIST_HOME": str(self.home),
            "JUPYTER_TOKEN": self._token,
            "JUPYTER_CONFIG_DIR": str(root / "config"),
            "JUPYTER_DATA_DIR": str(root / "data"),
            "JUPYTER_RUNTIME_DIR": str(root / "runtime"),
            "IPYTHONDIR": str(root / "ipython"),
        }
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
        self.process = subprocess.Popen(
            [*command, f"--port={self._port}", "--port-retries=0", f"--ServerApp.root_dir={root}"],
            env=self._environment,
            cwd=root,
            stdout=self._log,
            stderr=self._log,
        )
        self._root = root
        self.client = BlockingKernelClient()

    def start_kernel(self) -> None:
        until(self._is_up, limit=60)
        body = json.dumps({"name": "python3"}).encode()
        with urllib.request.urlopen(self._request("api/kernels", body), timeout=60) as reply:
            kernel_id = json.load(reply)["id"]
        self.client.load_connection_file(str(self._root / f"runtime/kernel-{kernel_id}.json"))
        self.client.start_channels()
        # not wait_for_ready, which takes a slow machine for a dead kernel
        self.client.kernel_info(reply=True, timeout=60)
        self.client.execute("%load_ext nbdist")

    def stop(self) -> None:
        """Stop it as a person does: ``jupyter server stop PORT`` asks, then terminates, then kills."""
        command = [sys.executable, "-m", "jupyter_server", "stop", str(self._port)]
        # it waits for the end of a process that this one has to collect
        with subprocess.Popen(command, env=self._environment, stdout=self._log, stderr=self._log):
            self.process.wait(timeout=60)

    def kill(self) -> None:
        self.process.kill()

    def _is_up(self) -> bool:
        assert self.process.poll() is None, (self._root / "server.log").read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(self._request("api"), timeout=5):
            return True
        return False

    def _request(self, path: str, body: bytes | None = None) -> urllib.request.Request:
        headers = {"Authorization": f"token {self._token}", "Content-Type": "application/json"}
        return urllib.request.Request(f"http://127.0.0.1:{self._port}/{path}", body, headers)

    def close(self) -> None:
        self.client.stop_channels()
        self.process.kill()
        self.process.wait()
        self._log.close()


@pytest.fixture
def server(tmp_path: Path, leaves_nothing_in) -> Iterator[JupyterServer]:
    server = JupyterServer(tmp_path)
    try:
        server.start_kernel()
        yield server
    finally:
        server.close()
    leaves_nothing_in(server.home)


@pytest.mark.parametrize(
    ("fault", "reasons"),
    [
        pytest.param(JupyterServer.stop, {INTERRUPTED, GONE}, id="stopped"),
        pytest.param(JupyterServer.kill, {GONE}, id="killed"),
    ],
)
def test_a_foreground_run_ends_with_the_jupyter_server_and_a_detached_one_goes_on(
    server: JupyterServer, fault: Callable[[JupyterServer], None], reasons: set[str], tmp_path: Path
) -> None:
    server.client.execute(DETACHED)
    detached = the_run(server.home)
    server.client.execute(FOREGROUND)
    until(lambda: len(RunStore(server.home).directories()) == 2)
    foreground = the_run(server.home)
    family = family_of(foreground)
    assert len(family) == 2 * (1 + MEMBERS)

    fault(server)

    assert foreground.wait(30) == "stopped"
    assert reason_text(foreground.run.reason) in reasons
    assert left_of(foreground, family) == []
    (tmp_path / "go").touch()
    assert detached.wait(20) == "finished"


def test_a_run_whose_owner_was_gone_before_it_began_is_stopped(start_owner, leaves_nothing) -> None:
    # the ranks are asked to end while they are made: each time at another moment
    owners = [start_owner("-n 4", SLEEP, before="import os", after="os._exit(0)") for _ in range(5)]

    signalled = []
    for owner in owners:
        assert owner.handle.wait(20) == "stopped", reason_text(owner.handle.run.reason)
        assert reason_text(owner.handle.run.reason) == GONE
        signalled.append([event.signal for event in events_of(owner.handle) if isinstance(event, Escalated)])
    # Python drops a KeyboardInterrupt that meets one of its own callbacks, as an import has them: then
    # SIGTERM follows
    assert signalled.count(["SIGINT"]) >= len(owners) - 1, signalled
    assert all(signals[0] == "SIGINT" for signals in signalled)


def events_of(handle: runner.RunHandle) -> list[Event]:
    return read_events(handle.directory.journal)
