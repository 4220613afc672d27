"""Whether a run would start on an engine: ``nbdist doctor --on slurm``, ``%dist_doctor --on ray``."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist import config
from nbdist.doctor import node_probe
from nbdist.doctor.node_checks import Here, check_nodes
from nbdist.doctor.node_job import SlurmJob
from nbdist.doctor.ray import RayJob, find_ray
from nbdist.doctor.report import Entry, Report, find
from nbdist.doctor.slurm import SlurmExamination, gpus_by_node
from nbdist.errors import UsageMistake
from nbdist.runner.placement import check_shared

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


def examine_cluster(asked: ClusterRequest) -> Report:
    """Look at the engine, and by a small job at its nodes. Raises nothing of theirs, and comes back."""
    started = time.monotonic()
    entries = _examine_ray(asked) if asked.engine == "ray" else _examine_slurm(asked)
    return Report(entries=tuple(entries), seconds=time.monotonic() - started)


def _examine_slurm(asked: ClusterRequest) -> list[Entry]:
    examination = SlurmExamination(options=asked.options, nodes=asked.nodes)
    entries = [*examination.entries(), *_unshared("slurm")]
    if not examination.usable:
        return [*entries, find("nodes.not-looked-at")]
    home = config.home()
    job = SlurmJob(nodes=asked.nodes, options=asked.options, home=home, wait=asked.wait)
    words = job.run()
    return [*entries, *check_nodes(words, _here(home, gpus_by_node()), asked=asked.nodes)]


def _examine_ray(asked: ClusterRequest) -> list[Entry]:
    entries, api = find_ray(asked.address)
    if api is not None:
        home = config.home()
        job = RayJob(api, nodes=asked.nodes, home=home, wait=asked.wait)
        words = job.run()
        entries += check_nodes(words, _here(home, job.gpus, "Ray"), asked=asked.nodes)
    return [*entries, *_unshared("ray")]


def _here(home: Path, gpus: Mapping[str, int], engine: str = "Slurm") -> Here:
    return Here(
        python=platform.python_version().rstrip("+"),
        executable=sys.executable,
        packages=node_probe.versions(),
        home=home,
        folder=os.getcwd(),
        gpus=gpus,
        engine=engine,
    )


def _unshared(section: str) -> list[Entry]:
    """Without NBDIST_HOME the runs may lie where only this machine looks."""
    try:
        check_shared(config.home(), os.environ)
    except UsageMistake as mistake:
        what, _, fix = str(mistake).removeprefix("--on: ").partition(": ")
        entry = find("nodes.runs-unshared", what=what, fix=fix, home=config.home())
        return [dataclasses.replace(entry, section=section)]
    return []
