"""Whether a run would start on an engine: ``nbdist doctor --on slurm``, ``%dist_doctor --on ray``."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist import config
from nbdist.doctor import node_probe
from nbdist.doctor.node_checks import Here, JobResult, judge_nodes
from nbdist.doctor.node_job import NodeJob
from nbdist.doctor.ray import RayJob, ray_entries
from nbdist.doctor.report import Entry, Level, Report
from nbdist.doctor.slurm import SlurmExamination, call, gpus_of
from nbdist.engines.slurm import Partition, waiting
from nbdist.errors import UsageMistake
from nbdist.runner.placement import check_shared
from nbdist.text import reason_text

ENGINES = ("slurm", "ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRequest:
    """What to look at: ``engine`` is one of ENGINES, ``options`` are sbatch's, ``address`` is Ray's; ``wait``
    seconds in the queue."""

    engine: str
    nodes: int
    options: tuple[str, ...]
    address: str
    wait: float


def examine_cluster(asked: ClusterRequest, *, clock: Callable[[], float] = time.monotonic) -> Report:
    """Look at the engine, and by a small job at its nodes. Raises nothing of theirs, and comes back."""
    started = clock()
    if asked.engine == "ray":
        entries = _examine_ray(asked)
    else:
        entries = _examine_slurm(asked)
    return Report(entries=tuple(entries), seconds=clock() - started)


def _examine_slurm(asked: ClusterRequest) -> list[Entry]:
    examination = SlurmExamination(options=asked.options, nodes=asked.nodes)
    entries = list(examination.entries())
    if (unshared := _unshared("slurm")) is not None:
        entries.append(unshared)
    home = config.home()
    if not examination.usable:
        return [*entries, _not_looked_at()]
    words = _look_at_nodes(asked, home)
    return [*entries, *judge_nodes(words, _here(home, _slurm_gpus()), asked=asked.nodes)]


def _examine_ray(asked: ClusterRequest) -> list[Entry]:
    home = config.home()

    def judged(words: JobResult, gpus: Mapping[str, int]) -> Iterator[Entry]:
        here = dataclasses.replace(_here(home, gpus), engine="Ray")
        return judge_nodes(words, here, asked=asked.nodes)

    entries = ray_entries(
        asked.address, judged, lambda api: RayJob(api, nodes=asked.nodes, home=home, wait=asked.wait)
    )
    return [*entries, *filter(None, [_unshared("ray")])]


def _look_at_nodes(asked: ClusterRequest, home: Path) -> JobResult:
    return NodeJob(
        nodes=asked.nodes,
        options=asked.options,
        home=home,
        wait=asked.wait,
        ask=lambda name: job_stands(name, asked.nodes),
        address_of=address_of,
    ).run()


def job_stands(name: str, nodes: int) -> tuple[bool, str, bool]:
    """Of a job by its name: whether it waits, why (or that it is "running"), whether it will for ever."""
    answer = call("squeue", "-h", f"--name={name}", "-o", "%T|%r|%P")
    state, reason, partition = (*answer.out.strip().partition("\n")[0].split("|"), "", "", "")[:3]
    if state != "PENDING":
        return False, "running" if state else "", False
    told = call("sinfo", "-h", "-p", partition, "-o", "%F|%a|%l") if reason != "None" else None
    why, hopeless = waiting(reason, nodes, Partition.read(partition, told.out) if told else None)
    return True, reason_text(why), hopeless


def address_of(node: str) -> str:
    """The address by which Slurm knows a node, which its name need not lead to."""
    for word in call("scontrol", "-o", "show", "node", node).out.split():
        if word.startswith("NodeAddr="):
            return node_probe.resolve(word.partition("=")[2])
    return node_probe.resolve(node)


def _slurm_gpus() -> dict[str, int]:
    lines = call("sinfo", "-h", "-N", "-o", "%N|%G").out.splitlines()
    return {node: gpus_of(gres) for node, _, gres in (line.partition("|") for line in lines)}


def _here(home: Path, gpus: Mapping[str, int]) -> Here:
    return Here(
        python=platform.python_version().rstrip("+"),
        executable=sys.executable,
        packages=node_probe.versions(),
        home=home,
        folder=os.getcwd(),
        gpus=gpus,
    )


def _unshared(section: str) -> Entry | None:
    """Without NBDIST_HOME the runs may lie where only this machine looks."""
    try:
        check_shared(config.home(), os.environ)
    except UsageMistake as mistake:
        said = str(mistake).removeprefix("--on: ")
        what, _, fix = said.partition(": ")
        return Entry(
            section=section,
            title="runs",
            level=Level.ERROR,
            what=what,
            what_zh=f"运行目录 {config.home()} 只在本机可见",
            fix=fix,
            fix_zh="请指定所有机器共享的目录，例如  %env NBDIST_HOME=~/nbdist",
        )
    return None


def _not_looked_at() -> Entry:
    return Entry(
        section="nodes",
        title="job",
        level=Level.INFO,
        what="the nodes were not looked at: mend what is above first",
        what_zh="未检查节点：请先解决上面的问题",
    )
