"""Examination of a cluster: a run whose ranks examine their nodes, and a comparison of the answers.

It starts like every run on Slurm or Ray: what stops it would stop the user's.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nbdist import config, options, runner
from nbdist.doctor.examination import examine, probes
from nbdist.doctor.examination_report import Entry, Level, Report, find
from nbdist.errors import NbdistError
from nbdist.model import Reason, Run, RunState
from nbdist.model.decoding import MALFORMED, loads
from nbdist.runner.handle import RunHandle
from nbdist.text import reason_text

ENGINES = ("slurm", "ray")

_LIMIT = 180.0
"""Seconds for the nodes: each imports the frameworks once."""

_MEET = 30.0
"""Seconds in which each node must reach the first."""

_OF_NODES = frozenset({"python", "frameworks", "gpus", "machine", "network"})
_OF_BOTH = frozenset({"python", "frameworks"})
_AS_HERE = (("python", "Python"), ("python", "nbdist"), ("frameworks", "torch"), ("frameworks", "paddle"))
"""Entries, by section and title, that each node must have as this machine has them."""

_ALIKE = (("frameworks", "torch starts"), ("frameworks", "paddle starts"), ("gpus", "driver"))
"""Entries that the nodes must have alike, and this machine may lack."""

_MARK = "nbdist-doctor "
_PROGRAM = """\
import os
os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # it hides the GPUs from a rank on the CPU
from nbdist.doctor.cluster import print_answer
print_answer()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRequest:
    """Request for an examination: ``engine`` is one of ENGINES, ``options`` are sbatch's, ``address`` is
    Ray's, ``wait`` the seconds in the queue."""

    engine: str
    nodes: int
    options: tuple[str, ...]
    address: str
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """Entries of one node."""

    name: str
    entries: tuple[Entry, ...]


def print_answer() -> None:
    """Examine the node of this rank, and print the answer in a line."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    report = examine(looked_at=[probe for probe in probes() if probe.section in _OF_NODES])
    print(_MARK + json.dumps({"node": name, **report.to_dict()}), flush=True)


def examine_cluster(request: ClusterRequest) -> Report:
    """Examine the nodes by a small run. Catch the engine's errors, and leave no run."""
    started = time.monotonic()
    # an interrupt while the job is submitted would leave it in the queue
    with runner.Interrupts(lambda _: Reason.said("the doctor was interrupted"), raises=True) as interrupts:
        try:
            planned = _plan(request)
            interrupts.begin()
            handle = runner.start(planned)
        except NbdistError as error:
            entries = (find("nodes.job-refused", why=error),)
            return Report(entries=entries, seconds=time.monotonic() - started)
        interrupts.stop(handle)
        return _examined(handle, request, started)


def _examined(handle: RunHandle, request: ClusterRequest, started: float) -> Report:
    """Wait for the nodes' answers and compare them; end and remove the run."""
    try:
        here = examine(looked_at=[probe for probe in probes() if probe.section in _OF_BOTH])
        handle.wait(max(0.0, request.wait - (time.monotonic() - started)), until="running")
        if not _waits(handle.run):
            handle.wait(_LIMIT)
        entries = list(_entries(handle, here.entries, request, time.monotonic() - started))
    finally:
        handle.stop("the doctor is done", timeout=60.0)
        shutil.rmtree(handle.directory.path, ignore_errors=True)
    return Report(entries=tuple(entries), seconds=time.monotonic() - started)


def _plan(request: ClusterRequest) -> runner.Plan:
    line = f"--on {request.engine} --nodes {request.nodes} -n 1 --framework none --name doctor"
    if request.address:
        line += f" --ray {request.address}"
    given = replace(options.parse(line), slurm=request.options, wait=_MEET)
    return runner.plan(given, cell=_PROGRAM, cwd=os.getcwd(), python_path=sys.path)


def _waits(run: Run) -> bool:
    """Return whether the run waits for its engine; one that awaits a node has begun on another."""
    return run.state is RunState.PENDING and not run.awaited


def _entries(
    handle: RunHandle, here: Sequence[Entry], request: ClusterRequest, seconds: float
) -> Iterator[Entry]:
    run = handle.run
    if _waits(run):
        yield find("nodes.job-waits", why=reason_text(run.queued), seconds=seconds)
        return
    if not run.state.terminal:
        yield find("nodes.job-silent", seconds=seconds)
        return
    answers = [
        answer for rank in range(request.nodes) if (answer := answer_in(handle.logs(rank))) is not None
    ]
    if len(answers) < request.nodes:
        yield find("nodes.job-failed", why=reason_text(run.reason) or run.state.value)
        return
    names = tuple(answer.name for answer in answers)
    queued = max(0.0, (run.started or run.spec.created) - run.spec.created)
    yield find("nodes.job", job=run.job, names=names, queued=queued, seconds=seconds)
    yield find("nodes.shared", home=config.home())
    if request.nodes > 1:
        yield find("nodes.ports")
    yield from compare(here, answers)


def answer_in(log: str) -> NodeAnswer | None:
    """Return the answer in a node's log, or None."""
    for line in log.splitlines():
        if line.startswith(_MARK):
            try:
                answer = loads(line.removeprefix(_MARK))
                entries = [Entry(**(entry | {"level": Level(entry["level"])})) for entry in answer["entries"]]
                return NodeAnswer(name=str(answer["node"]), entries=tuple(entries))
            except MALFORMED:
                continue
    return None


def compare(here: Sequence[Entry], answers: Sequence[NodeAnswer]) -> Iterator[Entry]:
    """Compare the nodes' answers with each other and with the entries of this machine."""
    for section, title in _AS_HERE:
        mine = _text_of(here, section, title)
        others = {answer.name: _text_of(answer.entries, section, title) for answer in answers}
        if set(others.values()) == {mine}:
            yield find("nodes.same", title=title, what=mine)
        else:
            yield find("nodes.differs", title=title, other=_by_text(others, mine), here=mine)
    for section, title in _ALIKE:
        others = {answer.name: _text_of(answer.entries, section, title) for answer in answers}
        if len(set(others.values())) > 1:
            yield find("nodes.unlike", title=title, other=_by_text(others))
    yield from _gpus(answers)
    yield from _errors(answers)


def _gpus(answers: Sequence[NodeAnswer]) -> Iterator[Entry]:
    counts = [sum(entry.title.startswith("GPU ") for entry in answer.entries) for answer in answers]
    if len(set(counts)) > 1:
        yield find("nodes.gpus-differ", least=min(counts), most=max(counts))
    elif counts[0]:
        yield find("nodes.gpus", count=counts[0])


def _errors(answers: Sequence[NodeAnswer]) -> Iterator[Entry]:
    """Yield the errors of the nodes, each once."""
    names: dict[Entry, list[str]] = {}
    for answer in answers:
        for entry in answer.entries:
            if entry.level is Level.ERROR:
                names.setdefault(entry, []).append(answer.name)
    for entry, nodes in names.items():
        what, fix = entry.texts("zh")
        facts = {"title": entry.title, "what": entry.what, "what_zh": what, "fix": entry.fix, "fix_zh": fix}
        yield find("nodes.error", names=tuple(nodes), **facts)


def _text_of(entries: Sequence[Entry], section: str, title: str) -> str:
    """Return the text of an entry; a dash for none."""
    texts = (entry.what for entry in entries if (entry.section, entry.title) == (section, title))
    return next(texts, "-")


def _by_text(others: Mapping[str, str], mine: str = "") -> str:
    """Return ``3.9.2 (n1, n2), - (n3)``: each text but ``mine``, with its nodes."""
    by_text: dict[str, list[str]] = {}
    for name, text in others.items():
        if text != mine:
            by_text.setdefault(text, []).append(name)
    return ", ".join(f"{text} ({', '.join(names)})" for text, names in by_text.items())
