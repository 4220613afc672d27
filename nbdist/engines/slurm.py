"""Slurm (21.08 and later) as an engine, by its commands: sbatch, squeue, scancel, and sacct where there is
accounting; and its words as reasons.

No word reaches a shell: a job is ``exec "$@"`` of sbatch's arguments.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.engines.engine import JobStatus, Phase
from nbdist.errors import LaunchError
from nbdist.model import Reason, RunSpec, RunState
from nbdist.store.paths import RunDirectory, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Partition: the number of its nodes, and of unusable ones; its time limit."""

    name: str
    total: int
    unusable: int
    up: bool
    limit: str

    @classmethod
    def read(cls, name: str, text: str) -> Partition | None:
        """Parse ``0/2/0/2|up|infinite`` (allocated/idle/other/total) of ``sinfo -o '%F|%a|%l'``."""
        match = re.match(r"\d+/\d+/(\d+)/(\d+)\|(\w*)\|(\S*)", text.strip())
        if match is None:
            return None
        unusable, total, state, limit = match.groups()
        return cls(name=name, total=int(total), unusable=int(unusable), up=state == "up", limit=limit)


_WHY_WAITING = {
    "None": Reason(),
    "Resources": Reason("slurm-resources"),
    "Priority": Reason("slurm-priority"),
    "Dependency": Reason("slurm-dependency"),
    "DependencyNeverSatisfied": Reason("slurm-dependency-never"),
    "BeginTime": Reason("slurm-begin-time"),
    "JobHeldUser": Reason("slurm-held-by-user"),
    "JobHeldAdmin": Reason("slurm-held-by-administrator"),
    "Licenses": Reason("slurm-licenses"),
    "Reservation": Reason("slurm-reservation"),
    "BadConstraints": Reason("slurm-constraints"),
    "InvalidAccount": Reason("slurm-account"),
    "InvalidQOS": Reason("slurm-qos"),
    "NodeDown": Reason("slurm-node-down"),
    "Cleaning": Reason("slurm-cleaning"),
}
_NEVER = frozenset({"DependencyNeverSatisfied", "BadConstraints", "InvalidAccount", "InvalidQOS"})


def waiting(reason: str, nodes: int, partition: Partition | None) -> tuple[Reason, bool]:
    """Return why a job waits, and whether it will forever."""
    word = re.split(r"[,:(]", reason)[0].strip()
    if partition is not None:
        name = partition.name
        if partition.total < nodes:
            return Reason("partition-too-small", nodes=nodes, partition=name, total=partition.total), True
        if not partition.up or word in ("PartitionDown", "PartitionInactive"):
            return Reason("partition-down", partition=name), False
        if partition.total - partition.unusable < nodes:
            counts = {"unusable": partition.unusable, "total": partition.total}
            return Reason("partition-drained", nodes=nodes, partition=name, **counts), False
        if word == "PartitionTimeLimit":
            return Reason("partition-time", partition=name, limit=partition.limit), True
        if word in ("PartitionNodeLimit", "PartitionConfig"):
            return Reason("partition-limit", partition=name), False
    if word == "ReqNodeNotAvail" or reason.startswith("Nodes required for job are DOWN"):
        _, _, which = reason.partition("UnavailableNodes:")
        return Reason("slurm-nodes-down", nodes=which), False
    if re.match(r"(QOS|Assoc|Max).*(Limit|PerUser|PerAccount|PerJob)", word):
        return Reason("slurm-account-limit", limit=word), False
    return _WHY_WAITING.get(word, Reason.said(reason)), word in _NEVER


def finished(state: str, reason: str, nodes: str, job: str) -> tuple[RunState | None, Reason]:
    """Return outcome and reason of an ended job; no outcome if the run itself ended."""
    match state:
        case "CANCELLED" | "REVOKED":
            return RunState.STOPPED, Reason("slurm-cancelled", job=job)
        case "TIMEOUT":
            return RunState.FAILED, Reason("slurm-time")
        case "DEADLINE":
            return RunState.FAILED, Reason("slurm-deadline")
        case "PREEMPTED":
            return RunState.FAILED, Reason("slurm-preempted")
        case "NODE_FAIL" | "BOOT_FAIL":
            return RunState.FAILED, Reason("slurm-node-failed", nodes=nodes)
        case "OUT_OF_MEMORY":
            return RunState.FAILED, Reason("slurm-memory", nodes=nodes)
        case "COMPLETED":
            return None, Reason("completed")
        case _:
            return None, Reason.said(reason if reason not in ("", "None") else state.lower())


def refusal(errors: str, options: Sequence[str], partitions: Callable[[], list[str]]) -> str:
    """Return why sbatch refused a job, and what to type instead if that is known."""
    lines = [re.sub(r"^sbatch: (error|fatal): ", "", line) for line in errors.splitlines() if line.strip()]
    causes = [line.removeprefix("Batch job submission failed: ").strip() for line in lines]
    text = "; ".join(dict.fromkeys(causes)) or "it did not say why"
    advice = ""
    if "partition" in text.lower() and "invalid" in text.lower() and (known := partitions()):
        advice = f": there are {', '.join(known)}:  --slurm partition={known[0]}"
    elif "unrecognized option" in text or "invalid option" in text:
        advice = f" (--slurm {','.join(options)}): write options as sbatch --help shows them"
    elif "account" in text.lower():
        advice = ":  --slurm account=NAME"
    return f"Slurm refused the job: {text}{advice}"


BATCH = Path(__file__).parent / "slurm_batch.py"

_SCRUBBED = ("SLURM", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_", "SACCT_", "SINFO_", "PMI_", "PMIX_")
_PATIENCE = 30.0
SCRIPT = '#!/bin/sh\nexec "$@"\n'
_FORMAT = "%T|%r|%N|%M|%P|%D"

_WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})

URGENT = "URG"
"""Signal that asks the supervisors to end the run. Slurm sends it to each process of the job; all others
ignore it by default. SIGINT would reach the ranks twice, and interrupt their cleanup."""


class Slurm:
    """Slurm's queue as an ``Engine``."""

    signals = True
    linger = 1.0

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        write_private(directory.job_script, SCRIPT)
        words = [*_sbatch(directory, spec), str(directory.job_script)]
        # the nodes have the ranks' interpreter; isolated it needs nothing else
        words += [spec.python, "-I", "-S", str(BATCH), str(directory.path)]
        done = call(words, scrubbed(environment), cwd=directory.path)
        if done.returncode:
            raise LaunchError(refusal(done.stderr, spec.engine_options, self.partitions))
        return done.stdout.strip().partition(";")[0]

    def cluster(self) -> str:
        config = call(["scontrol", "show", "config"]).stdout
        return next((line.split()[-1] for line in config.splitlines() if line.startswith("ClusterName ")), "")

    def status(self, job: str, spec: RunSpec) -> JobStatus:
        done = call(["squeue", "-h", "-t", "all", "-j", job, "-o", _FORMAT])
        lines = done.stdout.strip().splitlines()
        if done.returncode == 0 and lines:
            return self._read(lines[0], job, spec.nodes)
        if done.returncode and "invalid job id" not in done.stderr.lower():
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("slurm-silent"))
        done = call(["sacct", "-nPX", "-j", job, "-o", "State,ExitCode,NodeList"])
        return self.recorded(done.stdout, job) if done.returncode == 0 else JobStatus(phase=Phase.FORGOTTEN)

    def recorded(self, text: str, job: str) -> JobStatus:
        """Parse sacct's ``COMPLETED|0:0|n[1-2]`` about a job that the controller has forgotten."""
        lines = text.strip().splitlines()
        if not lines:
            return JobStatus(phase=Phase.FORGOTTEN)
        state, exit_code, nodes, *_ = (*lines[-1].split("|"), "", "")
        status = self._phase(state, f"exit code {exit_code}", nodes, job)
        if status.phase is not Phase.OVER:
            # the controller knows better: the job has ended
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("slurm-not-recorded"))
        return status

    def stop(self, job: str, *, gently: bool) -> bool:
        signal = [f"--signal={URGENT}"] if gently else []
        return call(["scancel", *signal, job]).returncode == 0

    def _read(self, line: str, job: str, nodes_wanted: int) -> JobStatus:
        """Parse ``PENDING|Resources||0:00|main|3``."""
        state, reason, nodes, _, partition, _ = (*line.split("|"), *[""] * 6)[:6]
        if state not in _WAITING:
            return self._phase(state, reason, nodes, job)
        text = call(["sinfo", "-h", "-p", partition, "-o", "%F|%a|%l"]).stdout if reason != "None" else ""
        why, hopeless = waiting(reason, nodes_wanted, Partition.read(partition, text))
        return JobStatus(phase=Phase.WAITING, reason=why, hopeless=hopeless)

    def _phase(self, state: str, reason: str, nodes: str, job: str) -> JobStatus:
        # sacct prints "CANCELLED by 0", and a plus for a cut
        state = (state.split() or [""])[0].rstrip("+")
        if state in _WAITING:
            return JobStatus(phase=Phase.WAITING, reason=Reason.said(reason))
        if state in _RUNNING or not state:
            return JobStatus(phase=Phase.RUNNING, nodes=nodes)
        outcome, why = finished(state, reason, nodes, job)
        completed = state == "COMPLETED"
        return JobStatus(phase=Phase.OVER, reason=why, outcome=outcome, nodes=nodes, completed=completed)

    def partitions(self) -> list[str]:
        done = call(["sinfo", "-h", "-o", "%R"])
        return sorted(set(done.stdout.split()))


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables of a job around this process."""
    return {
        key: value
        for key, value in environment.items()
        if key == "SLURM_CONF" or not (key.startswith(_SCRUBBED) or key == "CUDA_VISIBLE_DEVICES")
    }


def _sbatch(directory: RunDirectory, spec: RunSpec) -> list[str]:
    per_node = len(spec.ranks) // spec.nodes
    gpus = any(rank.device.kind == "gpu" for rank in spec.ranks)
    # sbatch replaces % in a file name
    output = str(directory.job_log).replace("%", "%%")
    words = ["sbatch", "--parsable", f"--job-name=nbdist-{spec.name}", f"--nodes={spec.nodes}"]
    words += ["--ntasks-per-node=1", f"--output={output}", "--open-mode=append", "--export=ALL"]
    words.append(f"--gpus-per-node={per_node}" if gpus else f"--cpus-per-task={per_node}")
    words += [f"--chdir={directory.path}", "--requeue" if spec.retries else "--no-requeue"]
    return words + [f"--{option}" for option in spec.engine_options]


def call(
    words: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands. Raises LaunchError if it is missing."""
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
