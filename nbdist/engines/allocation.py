"""Nodes of Slurm that are kept: the engine (``Engine``) of a run that begins in them, and the process that
gives them back when their owner has gone.

The engine starts the run by the agents of the nodes, asks them how it stands, and lets them end it. What they
cannot say, because their machine or the whole allocation has gone, Slurm says."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nbdist import config, processes
from nbdist.engines import slurm
from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.slurm import Slurm, scrubbed
from nbdist.errors import LaunchError
from nbdist.launch.lifetime import Lifeline
from nbdist.launch.machines.link import Message, call
from nbdist.model import ProcessId, Reason, RunSpec, RunState
from nbdist.store.allocations import AllocationDirectory
from nbdist.store.paths import RunDirectory


class AllocationEngine:
    """An engine for the runs of one allocation."""

    signals = True
    linger = 1.0

    def __init__(self, allocation: AllocationDirectory, run: RunDirectory) -> None:
        self._allocation = allocation
        self._run = str(run.path)

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        """Begin at once. Raises LaunchError, with nothing begun."""
        gpus = any(rank.device.kind == "gpu" for rank in spec.ranks)
        order = {
            "kind": "start",
            "run": str(directory.path),
            "master": self._meeting() if spec.nodes > 1 else "",
            "detached": spec.detached,
            "gpus": len(spec.ranks) // spec.nodes if gpus else 0,
            "environment": {k: v for k, v in scrubbed(environment).items() if k != config.LINK_KEY},
            "link_key": secrets.token_hex(32),
        }
        try:
            for node in range(spec.nodes):
                ask(self._allocation, node, order)
        except LaunchError:
            self.stop("", gently=False)
            raise
        return self._allocation.number()

    def cluster(self) -> str:
        return ""  # its nodes are asked themselves

    def status(self, job: str, spec: RunSpec) -> JobStatus:
        if why := self._allocation.why_over():
            reason = Reason("allocation-released", job=job, why=why)
            return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.CANCELLED)
        try:
            said = [ask(self._allocation, node, self._question("look")) for node in range(spec.nodes)]
        except LaunchError as error:
            status = Slurm().look(job, self._allocation.read().nodes)
            if status.phase is Phase.RUNNING:
                return JobStatus(phase=Phase.UNKNOWN, reason=Reason.said(str(error)))
            if status.phase is Phase.WAITING:
                reason = Reason("allocation-requeued", job=job)
                return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.FAILED)
            return status
        if any(answer.get("state") == "running" for answer in said):
            return JobStatus(phase=Phase.RUNNING, nodes=self._hosts(spec.nodes))
        codes = [answer.get("code", "unknown") for answer in said]
        reason = Reason("supervisors-ended", statuses=tuple(map(str, codes)))
        return JobStatus(phase=Phase.OVER, reason=reason)

    def stop(self, job: str, *, gently: bool) -> bool:
        told = False
        for node in range(self._allocation.read().nodes):
            with contextlib.suppress(LaunchError):
                told |= bool(ask(self._allocation, node, self._question("stop", gently=gently))["told"])
        return told

    def _question(self, kind: str, **more: object) -> Message:
        return {"kind": kind, "run": self._run, **more}

    def _meeting(self) -> str:
        place = ask(self._allocation, 0, {"kind": "meet"})
        return f"{place['address']}:{place['port']}"

    def _hosts(self, nodes: int) -> str:
        places = [self._allocation.place(node) for node in range(nodes)]
        return ", ".join(place.host for place in places if place is not None)


def ask(allocation: AllocationDirectory, node: int, question: Message, *, limit: float = 5.0) -> Message:
    """What the agent of a node answers. Raises LaunchError where it does not, or will not."""
    place = allocation.place(node)
    if place is None:
        raise LaunchError(f"node {node} of the allocation is not there yet")
    try:
        key = allocation.key.read_text(encoding="utf-8")
    except OSError:
        raise LaunchError("the allocation's directory has gone") from None
    answer = call(place.address, place.port, key, question, limit=limit)
    if problem := answer.get("problem"):
        raise LaunchError(f"the allocation did not take the run: {problem}")
    return answer


_PULSE = 5.0
_LOOK = 60.0
_DETACHED = 5.0
_INSIST = 600.0
"""Seconds for which this process repeats the release of the nodes to an engine that does not answer."""


class AllocationHeartbeat:
    """Of one allocation, which the process ``owner`` has made."""

    def __init__(self, directory: AllocationDirectory, owner: ProcessId) -> None:
        self._directory = directory
        self._owner = owner
        self._job = directory.number()
        self._nodes = directory.read().nodes
        self._looked = time.monotonic()

    def care(self) -> None:
        """Until the allocation is over."""
        lifeline = Lifeline(self._owner, None)
        with selectors.DefaultSelector() as selector:
            for descriptor in lifeline.descriptors():
                selector.register(descriptor, selectors.EVENT_READ)
            while processes.alive(self._owner) and not self._is_over():
                self._beat()
                selector.select(_PULSE if lifeline.descriptors() else 1.0)
        while self._has_detached_runs():
            self._beat()
            time.sleep(_DETACHED)
        with contextlib.suppress(OSError):
            self._directory.end(Reason("kernel-ended"))
        self._give_back()

    def _is_over(self) -> bool:
        if self._directory.why_over() or not self._directory.about.exists():
            return True
        if time.monotonic() - self._looked < _LOOK:
            return False
        self._looked = time.monotonic()
        return self._is_gone()

    def _has_detached_runs(self) -> bool:
        if self._directory.why_over():
            return False
        try:
            there = ask(self._directory, 0, {"kind": "hosted"})["hosted"]
        except LaunchError:
            return False
        return any(hosted["detached"] for hosted in there)

    def _give_back(self) -> None:
        deadline = time.monotonic() + _INSIST
        pause = 0.2
        while time.monotonic() < deadline and not self._is_gone():
            with contextlib.suppress(LaunchError):
                slurm.release(self._job)
            time.sleep(pause)
            pause = min(2 * pause, 10.0)

    def _is_gone(self) -> bool:
        try:
            return slurm.stand(self._job, self._nodes).status.gone
        except LaunchError:
            return False

    def _beat(self) -> None:
        with contextlib.suppress(OSError):
            self._directory.pulse.touch(mode=0o600)


def main(arguments: Sequence[str]) -> int:
    """The process: ``DIR``. Nothing but the allocation's end ends it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    directory = AllocationDirectory(Path(arguments[0]))
    owner = directory.read().owner
    if owner is not None:
        os.environ.update(directory.environment())
        AllocationHeartbeat(directory, owner).care()
    return 0
