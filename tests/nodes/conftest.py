"""Two machines in one: network namespaces with an address and a home each, joined by a switch.

They need root. Where that is refused the tests are skipped, and say so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.runner.handle import RunHandle
from nbdist.store import RunStore
from tests import programs

NBDIST = (sys.executable, "-m", "nbdist")
MASTER = "10.213.77.1:29400"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def until(condition: Callable[[], object], limit: float = 40.0) -> None:
    programs.until(condition, limit)


class Machine:
    """One machine: ``number`` counts from 0, as nodes do."""

    def __init__(self, number: int, switch: str, folder: Path) -> None:
        self.number = number
        self.address = f"10.213.77.{number + 1}"
        self.folder = folder / f"machine{number}"
        self.folder.mkdir()
        self.home = self.folder / "home"
        self.config = folder / "config"
        """The directory that machines with one home directory share."""
        self._switch = switch
        self._name = f"{switch[:-1]}{number}"
        self._started: list[subprocess.Popen[str]] = []

    def build(self) -> None:
        ip("netns", "add", self._name)
        cable = ["peer", "name", f"v{self.number}", "netns", self._switch]
        ip("-n", self._name, "link", "add", "eth0", "type", "veth", *cable)
        ip("-n", self._switch, "link", "set", f"v{self.number}", "master", "br0", "up")
        ip("-n", self._name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self._name, "link", "set", device, "up")

    def demolish(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
        subprocess.run(["ip", "netns", "del", self._name], capture_output=True)

    def unplug(self) -> None:
        """Take the cable out: nothing arrives any more, and nobody is told."""
        ip("-n", self._switch, "link", "set", f"v{self.number}", "down")

    def script(self, text: str) -> None:
        (self.folder / "train.py").write_text(text)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start ``nbdist run`` with these words here."""
        return self.execute(*NBDIST, "run", *words, **variables)

    def execute(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Start a program here."""
        own = {"NBDIST_HOME": str(self.home), "XDG_CONFIG_HOME": str(self.config), "LANG": "C.UTF-8"}
        environment = os.environ | own | variables
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._name, *command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    @property
    def run(self) -> RunHandle:
        """The only run."""
        until(lambda: RunStore(self.home).directories())
        (directory,) = RunStore(self.home).directories()
        until(directory.spec.exists)
        return RunHandle(directory)

    def until_ready(self) -> None:
        """Until each rank that runs here has printed "ready"."""
        handle = self.run
        here = [rank.rank for rank in handle.run.spec.here]
        until(lambda: all("ready" in handle.logs(rank) for rank in here))

    def kill_supervisor(self) -> None:
        supervisor = self.run.run.supervisor
        assert supervisor is not None, "the run goes on"
        processes.send(supervisor, signal.SIGKILL)


class Cluster:
    """Both machines."""

    def __init__(self, machines: list[Machine]) -> None:
        self.machines = machines

    def script(self, text: str) -> None:
        for machine in self.machines:
            machine.script(text)

    def start(self, *words: str) -> list[subprocess.Popen[str]]:
        """The same command on each."""
        return [machine.start(*words, "train.py") for machine in self.machines]

    def begin(self, text: str, *words: str) -> list[subprocess.Popen[str]]:
        """Start a program on each, and wait until its ranks are ready."""
        self.script(text)
        running = self.start(*words)
        for machine in self.machines:
            machine.until_ready()
        return running

    def run(self, text: str, *words: str, limit: float = 60.0) -> list[tuple[int, str]]:
        """Run a program on each to its end; return how each ended, and all that it wrote."""
        self.script(text)
        return self.finish(self.start(*words), limit)

    def finish(self, running: list[subprocess.Popen[str]], limit: float = 60.0) -> list[tuple[int, str]]:
        """Wait for the ends; return how each ended, and all that it wrote."""
        ends = [process.communicate(timeout=limit) for process in running]
        return [(process.returncode, out + err) for process, (out, err) in zip(running, ends, strict=True)]

    def states(self) -> list[str]:
        return [machine.run.wait(10) for machine in self.machines]

    def left(self) -> list[int]:
        """Processes of the runs that are still there."""
        runs = [run for machine in self.machines for run in RunStore(machine.home).directories()]
        return [p.pid for run in runs for p in processes.marked("NBDIST_RUN_DIR", str(run.path))]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    switch = f"nb{os.getpid() % 100_000}s"
    machines = [Machine(number, switch, tmp_path) for number in range(2)]
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("NOT TESTED: two machines need Linux and the ip command (iproute2)")
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for machine in machines:
            machine.build()
    except subprocess.CalledProcessError as refused:
        _demolish(machines, switch)
        pytest.skip(f"NOT TESTED: two machines need network namespaces: {refused.stderr.strip()}")
    both = Cluster(machines)
    try:
        yield both
        until(lambda: not both.left(), limit=30)
    finally:
        _demolish(machines, switch)


def _demolish(machines: list[Machine], switch: str) -> None:
    for machine in machines:
        machine.demolish()
    with contextlib.suppress(OSError):
        subprocess.run(["ip", "netns", "del", switch], capture_output=True)
