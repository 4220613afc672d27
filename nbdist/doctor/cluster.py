"""Whether a run would start on an engine: ``nbdist doctor --on slurm``, ``%dist_doctor --on ray``."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist import config
from nbdist.doctor import node_look
from nbdist.doctor.between import Here
from nbdist.doctor.node_job import NodeJob
from nbdist.doctor.node_words import JobWords
from nbdist.doctor.nodes import judge_nodes
from nbdist.doctor.ray import RayJob, ray_entries
from nbdist.doctor.report import Entry, Level, Report
from nbdist.doctor.slurm import SlurmExamination, gpus_of
from nbdist.doctor.slurm_commands import call
from nbdist.errors import UsageMistake
from nbdist.options import parse_duration
from nbdist.runner.engines import check_shared
from nbdist.schedulers.slurm_options import parse_slurm
from nbdist.schedulers.slurm_words import Partition, waiting
from nbdist.text import reason_text

ENGINES = ("slurm", "ray")
_PATIENCE = "60s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to look at: ``options`` are sbatch's, ``address`` is Ray's; ``wait`` seconds in the queue."""

    engine: str
    nodes: int = 2
    options: tuple[str, ...] = ()
    address: str = ""
    wait: float = 60.0


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """What the magic and the command have in common."""
    for flag in ("--on", "--slurm", "--ray", "--nodes", "--wait"):
        parser.add_argument(flag, default="")


def asked_of(given: argparse.Namespace) -> Asked | None:
    """What is asked for by the options; None for this machine alone. Raises UsageMistake."""
    if given.on in ("", "local"):
        for name, engine in (("slurm", "slurm"), ("ray", "ray"), ("nodes", "slurm"), ("wait", "slurm")):
            if getattr(given, name):
                raise UsageMistake(f"--{name} is about a cluster: add  --on {engine}")
        return None
    if given.on not in ENGINES:
        raise UsageMistake(f"--on {given.on}: there are slurm and ray:  --on slurm")
    nodes = given.nodes or "2"
    if not nodes.isdigit() or int(nodes) < 1:
        raise UsageMistake(f"--nodes {nodes}: write a number of nodes:  --nodes 2")
    try:
        wait = parse_duration(given.wait or _PATIENCE)
    except UsageMistake:
        raise UsageMistake(f"--wait {given.wait}: write a time such as  --wait 90s, 5m") from None
    return Asked(
        engine=given.on,
        nodes=int(nodes),
        options=parse_slurm(given.slurm) if given.slurm else (),
        address=given.ray,
        wait=wait,
    )


def examine_cluster(asked: Asked, *, clock: Callable[[], float] = time.monotonic) -> Report:
    """Look at the engine, and by a small job at its nodes. Raises nothing of theirs, and comes back."""
    started = clock()
    if asked.engine == "ray":
        entries = _examine_ray(asked)
    else:
        entries = _examine_slurm(asked)
    return Report(entries=tuple(entries), seconds=clock() - started)


def _examine_slurm(asked: Asked) -> list[Entry]:
    examination = SlurmExamination(options=asked.options, nodes=asked.nodes)
    entries = list(examination.entries())
    if (unshared := _unshared("slurm")) is not None:
        entries.append(unshared)
    home = config.home()
    if not examination.usable:
        return [*entries, _not_looked_at()]
    words = _look_at_nodes(asked, home)
    return [*entries, *judge_nodes(words, _here(home, _slurm_gpus()), asked=asked.nodes)]


def _examine_ray(asked: Asked) -> list[Entry]:
    home = config.home()

    def judged(words: JobWords, gpus: Mapping[str, int]) -> Iterator[Entry]:
        here = dataclasses.replace(_here(home, gpus), engine="Ray")
        return judge_nodes(words, here, asked=asked.nodes)

    entries = ray_entries(
        asked.address, judged, lambda api: RayJob(api, nodes=asked.nodes, home=home, wait=asked.wait)
    )
    return [*entries, *filter(None, [_unshared("ray")])]


def _look_at_nodes(asked: Asked, home: Path) -> JobWords:
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
            return node_look.resolve(word.partition("=")[2])
    return node_look.resolve(node)


def _slurm_gpus() -> dict[str, int]:
    lines = call("sinfo", "-h", "-N", "-o", "%N|%G").out.splitlines()
    return {node: gpus_of(gres) for node, _, gres in (line.partition("|") for line in lines)}


def _here(home: Path, gpus: Mapping[str, int]) -> Here:
    return Here(
        python=platform.python_version().rstrip("+"),
        executable=sys.executable,
        packages=node_look.versions(),
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
