"""Job on Ray's side, which takes the nodes and starts a supervisor on each.

``python ray_driver.py RUN_DIR``, within the job, in a Python that has Ray; the ranks' own need not have it.
The watcher of the run (``ray``) reads its output over HTTP.
"""

from __future__ import annotations

import importlib
import os
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, whose names would hide others
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nbdist import config
from nbdist.engines.ray import STARTS, TROUBLE, WAITS, line, why_it_waits
from nbdist.engines.slurm_batch import attempts_before, end_of_life
from nbdist.errors import UnknownRun
from nbdist.model import Reason, RunSpec, RunState, StopRequested
from nbdist.store.journal import load_object, read_events
from nbdist.store.paths import RunDirectory, append_whole, open_to_append
from nbdist.store.run_store import Heartbeat, read_spec

NODE = Path(__file__).resolve().parent / "node.py"

_OTHERS = 20.0
"""Seconds for the other nodes to end by themselves, once Ray has lost one."""

_NICE = "RAY_worker_niceness"


class CannotStart(Exception):
    """Reason that the run cannot start."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.code)
        self.reason = reason


class Driver:
    """Run of ``directory`` on a connected Ray."""

    def __init__(self, ray: Any, directory: RunDirectory, spec: RunSpec, environment: dict[str, str]) -> None:
        self._ray = ray
        self._directory = directory
        self._spec = spec
        self._environment = environment
        self._last = ""
        self._lost = Reason()
        self._pulse = Heartbeat(directory.pulse)

    def run(self) -> int:
        """Run the job, and return its exit code for Ray. Raises CannotStart."""
        for life in range(self._spec.retries + 1):
            group, nodes = self._take_nodes()
            self._live(life, nodes)
            self._ray.util.remove_placement_group(group)
            if not self._lost:
                break
            if not self._begins_again(life):
                raise CannotStart(self._lost)
            self._lost = Reason()
        end = end_of_life(self._directory, life, self._spec.nodes)
        return 0 if end is not None and end.state is RunState.FINISHED else 1

    def _take_nodes(self) -> tuple[Any, list[Any]]:
        """Wait for the nodes; return their placement group and a process on each."""
        per_node = len(self._spec.ranks) // self._spec.nodes
        gpus = any(rank.device.kind == "gpu" for rank in self._spec.ranks)
        kind, need = "GPU" if gpus else "CPU", float(per_node)
        bundle = {kind: need}
        placement = importlib.import_module("ray.util.placement_group")
        scheduling = importlib.import_module("ray.util.scheduling_strategies")
        group = placement.placement_group([bundle] * self._spec.nodes, strategy="STRICT_SPREAD")
        while not group.wait(1):
            alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._say(line(WAITS, why_it_waits(self._spec.nodes, kind, need, alive)))
            self._leave_if_forsaken()
        remote = self._ray.remote(Node)
        nodes = []
        for at in range(self._spec.nodes):
            place = scheduling.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=at)
            nodes.append(
                remote.options(
                    num_cpus=bundle.get("CPU", 0), num_gpus=bundle.get("GPU", 0), scheduling_strategy=place
                ).remote()
            )
        return group, nodes

    def _live(self, life: int, nodes: list[Any]) -> None:
        """Start the nodes' supervisors, and wait for their ends."""
        needed = [str(self._directory.spec), str(NODE)]
        addresses = [str(address) for address in self._ray.get([node.address.remote() for node in nodes])]
        problems = self._ray.get([node.problem.remote(needed, self._spec.python) for node in nodes])
        for address, problem in zip(addresses, problems, strict=True):
            if problem:
                raise CannotStart(Reason("ray-node-unfit", node=address, problem=problem))
        master: list[str] = []
        if len(nodes) > 1:
            if not (port := self._ray.get(nodes[0].ports.remote(addresses[0]))):
                raise CannotStart(Reason("ray-no-ports", node=addresses[0]))
            master = [f"{addresses[0]}:{port}"]
        self._say(STARTS + ", ".join(addresses))
        # a secret of the supervisors: Ray passes it from process to process, and no file has it
        environment = self._environment | {config.LINK_KEY: secrets.token_hex(32)}
        words = [self._spec.python, "-I", "-S", str(NODE), str(self._directory.path), str(life)]
        words += [str(attempts_before(self._directory)), *master]
        log = str(self._directory.job_log)
        running = {
            node.supervise.remote(words, environment | {"NBDIST_NODE": str(at)}, log): addresses[at]
            for at, node in enumerate(nodes)
        }
        self._wait(running, life)

    def _wait(self, running: dict[Any, str], life: int) -> None:
        """Wait until each has ended, or its time is over after the loss of a node."""
        deadline = float("inf")
        while running and time.monotonic() < deadline:
            done, _ = self._ray.wait(list(running), num_returns=1, timeout=1.0)
            for task in done:
                address = running.pop(task)
                try:
                    self._ray.get(task)
                except self._ray.exceptions.RayError:
                    self._lost = self._lost or Reason("ray-lost-node", node=address)
            end = end_of_life(self._directory, life, self._spec.nodes) if done else None
            if end is not None and end.reason.code == "node-gone":
                self._lost = self._lost or end.reason  # the supervisors have seen it before Ray
            if self._lost and deadline == float("inf"):
                deadline = time.monotonic() + _OTHERS
                if self._begins_again(life):
                    self._say(line(WAITS, Reason("begins-again", why=self._lost)))
            self._leave_if_forsaken()

    def _begins_again(self, life: int) -> bool:
        """Return whether a run that lost a node begins again: nobody stopped it, and it has attempts left."""
        stops = (event for event in read_events(self._directory.journal) if isinstance(event, StopRequested))
        # the reason of a supervisor whose line to Ray's process on its node has closed (``node``)
        wanted = all(stop.reason.origin.code == "engine-process-ended" for stop in stops)
        return wanted and life < self._spec.retries

    def _leave_if_forsaken(self) -> None:
        if not self._spec.detached and self._pulse.has_stopped():
            raise CannotStart(Reason("ray-forsaken"))

    def _say(self, words: str) -> None:
        if words != self._last:
            self._last = words
            say(self._directory, words)


class Node:
    """Process of Ray's on one node of a run, which starts the supervisor there and ends after it.

    Ray sends a class of ``__main__`` by value, and a node that cannot see the file must report that. So its
    imports stand in its methods, and none is of nbdist.
    """

    def address(self) -> str:
        """Return the address by which other nodes reach this one."""
        return str(__import__("ray").util.get_node_ip_address())

    def problem(self, needed: list[str], python: str) -> str:
        """Return why this node cannot take part; empty when it can."""
        import os

        for path in needed:
            if not os.path.exists(path):
                return f"does not see {path}"
            if not os.access(path, os.R_OK):
                return f"may not read {path}: it runs as user {os.getuid()}"
        folder = os.path.dirname(needed[0])
        if os.stat(folder).st_uid != os.geteuid():
            return f"runs as user {os.getuid()}, and {folder} belongs to user {os.stat(folder).st_uid}"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"may not write into {folder}: it runs as user {os.getuid()}"
        if not os.access(python, os.X_OK):
            return f"has no {python}, which is the Python of the ranks"
        return ""

    def ports(self, address: str) -> int:
        """Return the first of two free ports in a row, for ranks and supervisors; 0 for none."""
        import random
        import socket

        for _ in range(500):
            port = random.randrange(20_000, 30_000, 2)
            with socket.socket() as ranks, socket.socket() as supervisors:
                try:
                    ranks.bind((address, port))
                    supervisors.bind((address, port + 1))
                except OSError:
                    continue
                return port
        return 0

    def supervise(self, words: list[str], environment: dict[str, str], log: str) -> int:
        """Start the supervisor, and wait until it and the process above it have ended."""
        import os
        import socket
        import subprocess

        mine = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "NBDIST_"))}
        if mine.get("PYTHONBREAKPOINT", "").startswith("ray."):
            del mine["PYTHONBREAKPOINT"]
        both = mine | environment
        for name in ("PATH", "LD_LIBRARY_PATH"):  # only the node knows the place of its drivers
            parts = [environment.get(name), mine.get(name)]
            both[name] = os.pathsep.join(part for part in dict.fromkeys(parts) if part)
            if not both[name]:
                del both[name]
        ours, theirs = socket.socketpair()
        both["NBDIST_LIFELINE"] = str(theirs.fileno())
        written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # Ray kills the children of a process that it ends: so the supervisor leaves this one
        # (``node``), whose end closes the line
        with theirs, open(written, "ab") as file:
            started = subprocess.run(
                words,
                env=both,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        with ours:
            ours.recv(1)
        return started.returncode


def say(directory: RunDirectory, words: str) -> None:
    """Print a line for the watcher, and append it to the job's log."""
    print(words, flush=True)
    try:
        handle = open_to_append(directory.job_log)
    except OSError:
        return
    append_whole(handle, f"{words}\n".encode(errors="replace"))
    os.close(handle)


def main(arguments: list[str]) -> int:
    directory = RunDirectory(Path(arguments[0]))
    try:
        spec = read_spec(directory)
    except UnknownRun as error:
        print(f"{TROUBLE}{error}", flush=True)  # it may be another user's: write nothing there
        return 1
    try:
        environment = take_environment(directory)
        ray = connect()
        # Ray stops a job in three seconds; a supervisor needs only the end of this process
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return Driver(ray, directory, spec, environment).run()
    except CannotStart as trouble:
        say(directory, line(TROUBLE, trouble.reason))
        return 1


def take_environment(directory: RunDirectory) -> dict[str, str]:
    """Return the environment of the ranks, and remove its file. Raises CannotStart."""
    try:
        values = load_object(directory.job_environment, exact=True)
        directory.job_environment.unlink()
        return {name: str(value) for name, value in values.items()}
    except (OSError, ValueError) as error:
        raise CannotStart(Reason("unusable", what=str(directory.job_environment), error=str(error))) from None


def connect() -> Any:
    """Connect to Ray. Raises CannotStart."""
    try:
        ray: Any = importlib.import_module("ray")
        # the ranks would inherit the lowest priority, Ray's default
        ray.init(log_to_driver=False, logging_level="error", runtime_env={"env_vars": {_NICE: "0"}})
    except Exception as error:  # noqa: BLE001 - Ray has many of its own
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = " ".join(lines)[:300] or type(error).__name__
        raise CannotStart(Reason("unusable", what="Ray", error=why)) from None
    return ray


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
