"""What the probes of a cluster's nodes have said, judged: is it the same there as here, do they see the same
files, do they reach each other. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.doctor.report import Entry, Level, find
from nbdist.doctor.slurm import listed


@dataclass(slots=True)
class ProbeResult:
    """What one node has said: how it is (``hello``), what it has seen of others (``looked``), and how late it
    saw a file grow (``grown``)."""

    name: str
    hello: Mapping[str, Any] = field(default_factory=dict)
    looked: Mapping[str, Any] = field(default_factory=dict)
    grown: Mapping[str, Any] = field(default_factory=dict)
    came: float = 0.0
    """When its first word came."""
    late: float | None = None
    """After how many seconds its file was seen here; None: not at all."""

    @property
    def has_python(self) -> bool:
        return bool(self.hello)


@dataclass(slots=True)
class JobResult:
    """What came of the job: the nodes that said something, and the problem where there is one.

    ``waits`` is why it was not started in time, ``refused`` why Slurm did not take it, ``silent`` that it
    runs and not every node has spoken, ``noise`` its last words on stderr."""

    nodes: dict[str, ProbeResult] = field(default_factory=dict)
    job: str = ""
    queued: float = 0.0
    seconds: float = 0.0
    waits: str = ""
    refused: str = ""
    silent: bool = False
    unwritable: str = ""
    noise: str = ""

    def heard(self, said: Mapping[str, Any]) -> None:
        """A node has said something."""
        node = self.nodes.setdefault(said["name"], ProbeResult(name=said["name"]))
        match said["say"]:
            case "hello":
                node.hello, node.came = said, time.time()
                self.job = said["job"] or self.job
            case "looked":
                node.looked = said
            case "grown":
                node.grown = said


_LATE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What is compared with: this machine."""

    python: str
    executable: str
    packages: Mapping[str, Sequence[str]]
    home: Path
    folder: str
    gpus: Mapping[str, int]
    """GPUs of a node as the engine has them in its configuration."""

    engine: str = "Slurm"


def _files(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
    blind = [node.name for node in nodes if node.looked["seen"] is None]
    unwritten = {node.name: node.looked["wrote"] for node in nodes if node.looked["wrote"]}
    unseen = [node.name for node in nodes if node.late is None and node.name not in unwritten]
    if blind:
        yield find("nodes.unseen-there", home=here.home, names=listed(blind))
    elif unwritten:
        why = next(iter(unwritten.values()))
        yield find("nodes.unwritable", home=here.home, names=listed([*unwritten]), why=why)
    elif unseen:
        yield find("nodes.unseen-here", home=here.home, names=listed(unseen))
    else:
        yield find("nodes.shared", home=here.home)
        yield from _lateness(nodes)
    if homeless := [node.name for node in nodes if not node.looked["folder"]]:
        yield find("nodes.no-folder", folder=here.folder, names=listed(homeless))


def _lateness(nodes: Sequence[ProbeResult]) -> Iterator[Entry]:
    """A file that grew, and a new one, seen late: the cache of a network file system."""
    late = [value for node in nodes for value in (node.late, node.grown.get("after")) if value is not None]
    if never := [node.name for node in nodes if node.grown and node.grown["after"] is None]:
        yield find("nodes.files-never", names=listed(never))
    elif (worst := max(late, default=0.0)) > _LATE:
        yield find("nodes.files-late", seconds=worst)


def _network(nodes: Sequence[ProbeResult]) -> Iterator[Entry]:
    if len(nodes) < 2:
        return
    # each looks for itself as well: programs that ask for their own name get that
    found = [(node.name, name, address) for node in nodes for name, address in node.looked["names"].items()]
    nameless = sorted({name for _, name, address in found if not address})
    looped = sorted({name for node, name, address in found if name != node and address.startswith("127.")})
    if nameless or looped:
        yield find("nodes.nameless" if nameless else "nodes.looped", names=listed(nameless or looped))
    else:
        yield find("nodes.names")
    cut = sorted(
        (node.name, other, str(why)) for node in nodes for other, why in node.looked["unreachable"].items()
    )
    if cut:
        one, other, why = cut[0]
        yield find("nodes.unreachable", one=one, other=other, why=why, more=len(cut) - 1 or None)
    else:
        yield find("nodes.ports")


_SKEW = 5.0


def check_nodes(words: JobResult, here: Here, *, asked: int) -> Iterator[Entry]:
    """The entries about the job and about the nodes, as far as they came to be known."""
    yield from _job(words, here, asked)
    nodes = sorted(words.nodes.values(), key=lambda node: node.name)
    yield from _python(nodes, here)
    awake = [node for node in nodes if node.has_python]
    if not awake:
        return
    yield from _packages(awake, here)
    looked = [node for node in awake if node.looked]
    if quiet := [node.name for node in awake if not node.looked]:
        yield find("nodes.quiet", names=listed(quiet), home=here.home)
    if looked:
        yield from _files(looked, here)
        yield from _network(looked)
    yield from _gpus(awake, here)
    yield from _clocks(awake)


def _job(words: JobResult, here: Here, asked: int) -> Iterator[Entry]:
    if words.unwritable:
        yield find("nodes.job-unwritable", home=here.home, why=words.unwritable)
    elif words.refused:
        yield find("nodes.job-refused", why=words.refused)
    elif words.waits:
        partition = "--slurm partition=NAME" if here.engine == "Slurm" else ""
        yield find("nodes.job-waits", seconds=words.seconds, why=words.waits, partition=partition)
    elif words.silent and not words.nodes:
        yield find("nodes.job-silent")
    elif not words.nodes:
        yield find("nodes.job-ended", noise=words.noise)
    else:
        missing = asked - len(words.nodes)
        yield find(
            "nodes.job",
            None if missing else Level.OK,
            job=words.job or "it",
            names=listed(sorted(words.nodes)),
            queued=words.queued,
            seconds=words.seconds,
            missing=missing or None,
        )


def _python(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
    if without := [node.name for node in nodes if not node.has_python]:
        yield find("nodes.no-python", names=listed(without), executable=here.executable)
    there = {node.name: str(node.hello["python"]) for node in nodes if node.has_python}
    if other := _different(there, here.python):
        yield find("nodes.python-differs", other=other, here=here.python)
    elif there and not without:
        yield find("nodes.python", version=here.python)


def _packages(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
    for name in ("nbdist", "torch", "paddle"):
        mine = here.packages.get(name, ("-",))[0]
        there = {node.name: str(node.hello["packages"].get(name, ("-",))[0]) for node in nodes}
        if other := _different(there, mine):
            wanted = {"paddle": "paddlepaddle"}.get(name, name)
            wanted += f"=={mine}" if mine not in ("-", "?") else ""
            yield find("nodes.package-differs", package=name, other=other, here=mine, wanted=wanted)
        elif mine != "-":
            yield find("nodes.package", package=name, version=mine)


def _gpus(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
    """Those that the engine gives, and those that the node's driver has."""
    wrong = [
        f"{node.name} has {node.hello['gpus']}, {here.engine} says {here.gpus[node.name]}"
        for node in nodes
        if node.name in here.gpus and node.hello["gpus"] < here.gpus[node.name]
    ]
    counts = sorted({int(node.hello["gpus"]) for node in nodes})
    if wrong:
        yield find("nodes.gpus-lost", wrong="; ".join(wrong[:3]))
    elif len(counts) > 1:
        yield find("nodes.gpus-differ", least=counts[0], most=counts[-1])
    elif counts[0]:
        yield find("nodes.gpus", count=counts[0])


def _clocks(nodes: Sequence[ProbeResult]) -> Iterator[Entry]:
    ahead = {node.name: float(node.hello["time"]) - node.came for node in nodes}
    name, worst = max(ahead.items(), key=lambda each: abs(each[1]))
    if abs(worst) > _SKEW:
        yield find("nodes.clock-ahead" if worst > 0 else "nodes.clock-behind", name=name, seconds=abs(worst))


def _different(there: Mapping[str, str], here: str) -> str:
    """``3.9.2 on n1, n2``: what is not as it is here."""
    by_value: dict[str, list[str]] = {}
    for node, value in there.items():
        if value != here:
            by_value.setdefault(value, []).append(node)
    missing = by_value.pop("-", [])
    parts = [f"{value} on {listed(nodes)}" for value, nodes in by_value.items()]
    return ", ".join([*parts, *([f"not on {listed(missing)}"] if missing else [])])
