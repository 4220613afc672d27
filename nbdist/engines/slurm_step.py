"""Run inside an allocation of Slurm: a step ``JOB.STEP`` by ``srun``, which waits in no queue."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping

from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.slurm import BATCH, Slurm, call, scrubbed
from nbdist.engines.slurm_batch import find_step, hosts_of
from nbdist.errors import LaunchError
from nbdist.launch import local
from nbdist.model import Reason, RunSpec, RunState
from nbdist.store.paths import RunDirectory, open_to_append

_QUEUE = " --slurm time=1:00:00  for a job of its own in the queue"
_APPEARS = 60.0
"""Seconds in which a step begins: longer than a busy controller makes ``srun`` wait."""

_LOOK = 0.05


def allocation_of(spec: RunSpec, environment: Mapping[str, str]) -> str:
    """Return the job in which the run begins as a step; empty for a run in the queue."""
    inside = spec.engine == "slurm" and not spec.engine_options
    return environment.get("SLURM_JOB_ID", "") if inside else ""


class SlurmStep(Slurm):
    """Slurm as an ``Engine`` whose jobs are steps of the user's allocation."""

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        job = environment["SLURM_JOB_ID"]
        allocation = {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": _nodes_of(job, spec.nodes)}
        with open(open_to_append(directory.job_log), "ab") as log:
            words = [spec.python, "-I", "-S", str(BATCH), str(directory.path), "--step"]
            inside = scrubbed(environment) | allocation
            started = local.spawn(words, environment=inside, output=log.fileno())
        step = _await_step(directory, started)
        if not step:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGTERM)
                started.wait()
            raise LaunchError(_refusal(directory, job))
        local.collect(started)
        return step

    def status(self, job: str, spec: RunSpec) -> JobStatus:
        done = call(["squeue", "-h", f"--steps={job}", "-o", "%N"])
        if done.returncode == 0 and done.stdout.strip():
            return JobStatus(phase=Phase.RUNNING, nodes=done.stdout.strip())
        # Slurm no longer lists the step: ask for its allocation
        allocation = job.partition(".")[0]
        state = call(["squeue", "-h", "-t", "all", "-j", allocation, "-o", "%T"]).stdout.strip()
        if state in ("RUNNING", "SUSPENDED"):
            # only its nodes know the outcome, and their files may be late
            reason = Reason("slurm-step-ended", job=job)
            return JobStatus(phase=Phase.OVER, reason=reason, completed=True)
        status = super().status(allocation, spec)
        if status.completed:
            reason = Reason("slurm-allocation-ended", job=allocation)
            return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.STOPPED)
        return status


def _nodes_of(job: str, wanted: int) -> str:
    """Return the list of the allocation's nodes. Raises LaunchError if it has fewer than ``wanted``."""
    done = call(["squeue", "-h", "-t", "RUNNING", "-j", job, "-o", "%N"])
    if not (nodelist := done.stdout.strip()):
        why = done.stderr.strip().rpartition("error: ")[2] or "that job does not run"
        raise LaunchError(f"SLURM_JOB_ID={job}: {why}: unset it, or write {_QUEUE}")
    count = len(hosts_of(nodelist))
    if wanted > count:
        raise LaunchError(
            f"--nodes {wanted}: the allocation {job} has {count}: write  --nodes {count} , or {_QUEUE}"
        )
    return nodelist


def _await_step(directory: RunDirectory, started: subprocess.Popen[bytes]) -> str:
    """Return the step's name once a node of it has begun; empty if none does."""
    deadline = time.monotonic() + _APPEARS
    while time.monotonic() < deadline:
        ended = started.poll() is not None
        if (step := find_step(directory)) or ended:
            return step
        time.sleep(_LOOK)
    return ""


def _refusal(directory: RunDirectory, job: str) -> str:
    lines = directory.job_log.read_text(encoding="utf-8", errors="replace").splitlines()
    causes = [line.removeprefix("srun: error: ") for line in lines if line.startswith("srun: error: ")]
    text = "; ".join(dict.fromkeys(causes[-3:])) or "it did not say why"
    return f"Slurm began no step in the allocation {job}: {text}: ask for what it has, or write {_QUEUE}"
