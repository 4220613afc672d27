"""A run in an allocation that is kept warm: an engine (``Engine``) whose queue is behind us.

It starts the run by the agents of the nodes, asks them how it stands, and lets them end it. What they
cannot say, because their machine or the whole allocation has gone, Slurm says.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping

from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.slurm import Slurm, scrubbed
from nbdist.errors import LaunchError
from nbdist.launch.machines.link import call
from nbdist.launch.machines.messages import Message
from nbdist.model import Reason, RunSpec, RunState
from nbdist.store.allocations import AllocationDirectory
from nbdist.store.paths import RunDirectory


class AllocationEngine:
    """The runs of one allocation, each of which this is told with every question."""

    name = "slurm"
    signals = True
    linger = 1.0

    def __init__(self, allocation: AllocationDirectory, run: RunDirectory) -> None:
        self._allocation = allocation
        self._run = str(run.path)

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        """Begin at once. Raises LaunchError, with nothing begun."""
        from nbdist.launch.machines.coordinator import LINK_KEY  # most runs are elsewhere

        gpus = any(rank.device.kind == "gpu" for rank in spec.ranks)
        order = {
            "kind": "start",
            "run": str(directory.path),
            "master": self._meeting() if spec.nodes > 1 else "",
            "detached": spec.detached,
            "gpus": len(spec.ranks) // spec.nodes if gpus else 0,
            "environment": {k: v for k, v in scrubbed(environment).items() if k != LINK_KEY},
            "link_key": secrets.token_hex(32),
        }
        try:
            for node in range(spec.nodes):
                ask(self._allocation, node, order)
        except LaunchError:
            self.stop("", gently=False)
            raise
        return self._allocation.number()

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
