"""Slurm, by its commands alone (21.08 and later): sbatch, squeue, sacct where there is accounting, scancel.

Nothing goes through a shell: a job is ``exec "$@"`` of words that sbatch hands on.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nbdist.errors import LaunchError
from nbdist.model import Reason, RunSpec
from nbdist.schedulers.engine import JobStatus, Phase
from nbdist.schedulers.slurm_words import Partition, finished, refusal, waiting
from nbdist.store.paths import RunDirectory, write_private

BATCH = Path(__file__).parent / "slurm_batch.py"

_SCRUBBED = (
    "SLURM_",
    "SLURMD_",
    "SBATCH_",
    "SRUN_",
    "SQUEUE_",
    "SCANCEL_",
    "SACCT_",
    "SINFO_",
    "PMI_",
    "PMIX_",
)
_PATIENCE = 30.0
SCRIPT = '#!/bin/sh\nexec "$@"\n'
_FORMAT = "%T|%r|%N|%M|%P|%D"

_WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})

URGENT = "URG"
"""The signal that tells the supervisors to end the run. Slurm sends it to each process of the job, and only
they listen to it: by default it is ignored. SIGINT would reach the ranks twice, once in the middle of what
they do about the first."""


class Slurm:
    """An engine (``Engine``)."""

    name = "slurm"
    signals = True
    linger = 1.0

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        write_private(directory.job_script, SCRIPT)
        words = [*_sbatch(directory, spec), str(directory.job_script)]
        # the interpreter of the ranks is there, and isolated it needs nothing else
        words += [spec.python, "-I", "-S", str(BATCH), str(directory.path)]
        done = call(words, scrubbed(environment), cwd=directory.path)
        if done.returncode:
            raise LaunchError(refusal(done.stderr, spec.engine_options, self.partitions))
        return done.stdout.strip().partition(";")[0]

    def status(self, job: str, spec: RunSpec) -> JobStatus:
        return self.look(job, spec.nodes)

    def look(self, job: str, nodes: int) -> JobStatus:
        """How a job stands that asks for so many nodes."""
        done = call(["squeue", "-h", "-t", "all", "-j", job, "-o", _FORMAT])
        lines = done.stdout.strip().splitlines()
        if done.returncode == 0 and lines:
            return self._read(lines[0], job, nodes)
        if done.returncode and "invalid job id" not in done.stderr.lower():
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("slurm-silent"))
        done = call(["sacct", "-nPX", "-j", job, "-o", "State,ExitCode,NodeList"])
        return self.recorded(done.stdout, job) if done.returncode == 0 else JobStatus(phase=Phase.FORGOTTEN)

    def recorded(self, said: str, job: str) -> JobStatus:
        """How a job has ended that the controller has forgotten, as ``sacct -nPX -o State,ExitCode,NodeList``
        says: ``COMPLETED|0:0|n[1-2]``."""
        lines = said.strip().splitlines()
        if not lines:
            return JobStatus(phase=Phase.FORGOTTEN)
        state, exit_code, nodes, *_ = (*lines[-1].split("|"), "", "")
        status = self._phase(state, f"exit code {exit_code}", nodes, job)
        if status.phase is not Phase.OVER:
            # the controller knows better that it has ended
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("slurm-not-recorded"))
        return status

    def stop(self, job: str, *, kindly: bool) -> bool:
        words = ["scancel", f"--signal={URGENT}", job] if kindly else ["scancel", job]
        done = call(words)
        return done.returncode == 0

    def _read(self, line: str, job: str, nodes_wanted: int) -> JobStatus:
        """``PENDING|Resources||0:00|main|3``."""
        state, reason, nodes, _, partition, _ = (*line.split("|"), *[""] * 6)[:6]
        if state not in _WAITING:
            return self._phase(state, reason, nodes, job)
        asked = self._partition(partition) if reason != "None" else None
        why, hopeless = waiting(reason, nodes_wanted, asked)
        return JobStatus(phase=Phase.WAITING, reason=why, hopeless=hopeless)

    def _phase(self, state: str, reason: str, nodes: str, job: str) -> JobStatus:
        # sacct says "CANCELLED by 0", and cuts with a plus
        state = (state.split() or [""])[0].rstrip("+")
        if state in _WAITING:
            return JobStatus(phase=Phase.WAITING, reason=Reason.said(reason))
        if state in _RUNNING or not state:
            return JobStatus(phase=Phase.RUNNING, nodes=nodes)
        outcome, why = finished(state, reason, nodes, job)
        completed = state == "COMPLETED"
        return JobStatus(phase=Phase.OVER, reason=why, outcome=outcome, nodes=nodes, completed=completed)

    def _partition(self, name: str) -> Partition | None:
        done = call(["sinfo", "-h", "-p", name, "-o", "%F|%a|%l"])
        return Partition.read(name, done.stdout) if done.returncode == 0 else None

    def partitions(self) -> list[str]:
        done = call(["sinfo", "-h", "-o", "%R"])
        return sorted(set(done.stdout.split()))


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what the job has set in which this process may itself run; a job inherits the rest."""
    return {
        key: value
        for key, value in environment.items()
        if key == "SLURM_CONF" or not (key.startswith(_SCRUBBED) or key == "CUDA_VISIBLE_DEVICES")
    }


def _sbatch(directory: RunDirectory, spec: RunSpec) -> list[str]:
    per_node = len(spec.ranks) // spec.nodes
    gpus = any(rank.device.kind == "gpu" for rank in spec.ranks)
    words = request(f"nbdist-{spec.name}", spec.nodes, per_node, gpus=gpus, log=directory.job_log)
    words += [f"--chdir={directory.path}", "--requeue" if spec.retries else "--no-requeue"]
    return words + [f"--{option}" for option in spec.engine_options]


def request(name: str, nodes: int, per_node: int, *, gpus: bool, log: Path) -> list[str]:
    """What asks sbatch for nodes with so many ranks each."""
    # a percent sign stands for something in a name of sbatch's
    output = str(log).replace("%", "%%")
    words = ["sbatch", "--parsable", f"--job-name={name}", f"--nodes={nodes}"]
    words += ["--ntasks-per-node=1", f"--output={output}", "--open-mode=append", "--export=ALL"]
    return [*words, f"--gpus-per-node={per_node}" if gpus else f"--cpus-per-task={per_node}"]


def call(
    words: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands. Raises LaunchError where there is none."""
    try:
        return subprocess.run(
            words,
            env=scrubbed(os.environ) if environment is None else environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
        )
    except FileNotFoundError:
        if words[0] == "sacct":  # it may not be installed
            return subprocess.CompletedProcess(words, 127, "", "")
        raise LaunchError(
            f"no {words[0]} here: Slurm's commands belong into PATH, and are on the cluster's login nodes"
        ) from None
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"{words[0]} did not answer in {_PATIENCE:g} s")
