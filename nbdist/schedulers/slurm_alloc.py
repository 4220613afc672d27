"""Nodes of Slurm that are asked for once and kept: asked for, looked at, given back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import LaunchError
from nbdist.schedulers.engine import JobStatus, Phase
from nbdist.schedulers.slurm import SCRIPT, Slurm, call, request, scrubbed
from nbdist.schedulers.slurm_words import refusal
from nbdist.store.allocations import Allocation, AllocationDirectory
from nbdist.store.paths import write_private

ATTENDANT = Path(__file__).parent.parent / "launch" / "jobs" / "attendant.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an allocation stands: ``since`` and ``left`` are Slurm's words for when it began, and for how much
    of its time is left."""

    status: JobStatus
    since: str = ""
    left: str = ""


def ask(directory: AllocationDirectory, about: Allocation, environment: Mapping[str, str]) -> str:
    """Put the allocation into the queue; what Slurm calls it. Raises LaunchError, with nothing asked for."""
    write_private(directory.job_script, SCRIPT)
    words = request("nbdist-alloc", about.nodes, about.per_node, gpus=about.gpus, log=directory.job_log)
    words += [f"--chdir={directory.path}", "--no-requeue", *(f"--{option}" for option in about.options)]
    done = call([*words, str(directory.job_script), *_attendants(directory, about)], scrubbed(environment))
    if done.returncode:
        raise LaunchError(refusal(done.stderr, about.options, Slurm().partitions))
    return done.stdout.strip().partition(";")[0]


def stand(job: str, nodes: int) -> Standing:
    """How it stands. Raises LaunchError where there is no Slurm."""
    status = Slurm().look(job, nodes)
    if status.phase is not Phase.RUNNING:
        return Standing(status=status)
    done = call(["squeue", "-h", "-j", job, "-o", "%S|%L"])
    since, _, left = done.stdout.strip().partition("|")
    return Standing(status=status, since=since, left=left)


def release(job: str) -> bool:
    """Give the nodes back; whether Slurm has heard it."""
    return call(["scancel", job]).returncode == 0


def _attendants(directory: AllocationDirectory, about: Allocation) -> list[str]:
    """What the job is: on each node one process that waits."""
    words = ["srun", "--kill-on-bad-exit=1", "--wait=3", "--export=ALL", "--mpi=none"]
    words += [f"--nodes={about.nodes}", f"--ntasks={about.nodes}", "--ntasks-per-node=1"]
    if not about.gpus:
        words.append(f"--cpus-per-task={about.per_node}")  # since 22.05 a step does not inherit it
    return [*words, about.python, "-I", "-S", str(ATTENDANT), str(directory.path)]


def slurm_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Which Slurm it is: whoever looks after it may have another environment."""
    return {"SLURM_CONF": environ["SLURM_CONF"]} if "SLURM_CONF" in environ else {}
