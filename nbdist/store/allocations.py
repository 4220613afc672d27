"""Allocations that are kept warm: nodes of an engine which wait for runs. The only place that knows their
files, below ``<home>/allocations/<id>/``, which the nodes see, too."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from nbdist.errors import NotPrivate
from nbdist.model import ProcessId, Reason
from nbdist.model.decoding import MALFORMED, build
from nbdist.store.journal import load_object, read_object
from nbdist.store.logs import is_listed
from nbdist.store.paths import PathBelow, check_home, check_private, make_private, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What was asked for: on each of ``nodes`` nodes ``per_node`` ranks, each with a GPU where ``gpus``.

    ``idle`` is after how many seconds without a run it is released. It is released with ``owner``, a process
    of ``host``, unless it was kept for all. ``options`` are what the user told the engine.
    """

    engine: str
    nodes: int
    per_node: int
    gpus: bool
    idle: float
    python: str
    created: float
    options: tuple[str, ...] = ()
    owner: ProcessId | None = None
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """Where the agent of a node listens, and the address by which the other nodes reach it."""

    node: int
    host: str
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class AllocationDirectory:
    """The files of one allocation."""

    path: Path

    about = PathBelow("allocation.json")

    job = PathBelow("job.json")
    """What the engine calls it: there once it was asked for."""

    key = PathBelow("key")
    """By which the agents of the nodes know who may start a run: a secret of this user."""

    places = PathBelow("nodes")
    """One file a node, when its agent listens."""

    over = PathBelow("over.json")
    """Why it is over: written as soon as that is decided."""

    pulse = PathBelow("pulse")
    """Touched again and again while its owner lives."""

    job_script = PathBelow("job.sh")

    job_log = PathBelow("job.log")

    log = PathBelow("heartbeat.log")
    """What the process that looks after it had to say."""

    def read(self) -> Allocation:
        """Raises OSError, or one of MALFORMED, when it is none, and NotPrivate when it is not this user's."""
        check_private(self.path)
        return build(Allocation, load_object(self.about))

    def number(self) -> str:
        """What the engine calls it; empty before it was asked for."""
        return str(read_object(self.job).get("job", ""))

    def environment(self) -> dict[str, str]:
        """What leads to the engine that has it."""
        found = read_object(self.job).get("environment")
        return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}

    def put_job(self, job: str, environment: Mapping[str, str]) -> None:
        """Raises OSError."""
        write_private(self.job, json.dumps({"job": job, "environment": dict(environment)}))

    def place(self, node: int) -> NodeAddress | None:
        """Where a node can be reached; None before its agent listens."""
        path = self.places / f"{node}.json"
        if not is_listed(path):
            return None
        try:
            return build(NodeAddress, load_object(path))
        except (OSError, *MALFORMED):
            return None

    def put_place(self, place: NodeAddress) -> None:
        """Raises OSError."""
        write_private(self.places / f"{place.node}.json", json.dumps(asdict(place)))

    def why_over(self) -> Reason:
        """Why it was released; none while it was not."""
        if not is_listed(self.over):
            return Reason()
        try:
            return Reason.decode(read_object(self.over).get("reason", ""))
        except ValueError:
            return Reason()

    def end(self, reason: Reason) -> None:
        """Write down why it is over, unless that was done before. Raises OSError."""
        if not self.why_over():
            write_private(self.over, json.dumps({"reason": reason.encode()}))


def make_allocation(home: Path, name: str, about: Allocation) -> AllocationDirectory:
    """A new one, with a key of its own. Raises OSError."""
    directory = AllocationDirectory(home / "allocations" / name)
    make_private(directory.places)
    write_private(directory.key, os.urandom(32).hex())
    write_private(directory.about, json.dumps(asdict(about)))
    directory.pulse.touch(mode=0o600)
    return directory


def allocations(home: Path) -> list[AllocationDirectory]:
    """All of this user that are there, the newest first. Raises NotPrivate when the home is not his."""
    above = home / "allocations"
    check_home(home)
    check_home(above)
    try:
        names = sorted(os.listdir(above), reverse=True)
    except OSError:
        return []
    private = []
    for name in names:
        with contextlib.suppress(OSError, NotPrivate):
            check_private(above / name)
            private.append(AllocationDirectory(above / name))
    return private
