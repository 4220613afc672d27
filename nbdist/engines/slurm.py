"""Slurm, by its commands alone (21.08 and later): sbatch, squeue, sacct where there is accounting, scancel;
and what it says, as reasons.

Nothing goes through a shell: a job is ``exec "$@"`` of words that sbatch hands on.
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
    """Nodes of a partition: how many, and how many of them can do nothing now; its limit of time."""

    name: str
    total: int
    unusable: int
    up: bool
    limit: str

    @classmethod
    def read(cls, name: str, text: str) -> Partition | None:
        """What ``sinfo -o '%F|%a|%l'`` says: ``0/2/0/2|up|infinite`` (allocated/idle/other/total)."""
        found = re.match(r"(\d+)/(\d+)/(\d+)/(\d+)\|(\w*)\|(\S*)", text.strip())
        if found is None:
            return None
        return cls(
            name=name, total=int(found[4]), unusable=int(found[3]), up=found[5] == "up", limit=found[6]
        )


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
    """Why a job waits, and whether it will for ever."""
    word = re.split(r"[,:(]", reason)[0].strip()
    if partition is not None:
        name = partition.name
        if partition.total < nodes:
            return Reason("partition-too-small", nodes=nodes, partition=name, total=partition.total), True
        if not partition.up or word in ("PartitionDown", "PartitionInactive"):
            return Reason("partition-down", partition=name), False
        if partition.total - partition.unusable < nodes:
            why = Reason(
                "partition-drained",
                nodes=nodes,
                partition=name,
                unusable=partition.unusable,
                total=partition.total,
            )
            return why, False
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
    """What ended a job: no outcome where that was the run itself."""
    match state:
        case "CANCELLED" | "REVOKED":
            return RunState.CANCELLED, Reason("slurm-cancelled", job=job)
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


def refusal(said: str, options: Sequence[str], partitions: Callable[[], list[str]]) -> str:
    """Why sbatch did not take a job, and what to type instead where that is known."""
    lines = [re.sub(r"^sbatch: (error|fatal): ", "", line) for line in said.splitlines() if line.strip()]
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
"""The signal that tells the supervisors to end the run. Slurm sends it to each process of the job, and only
they listen to it: by default it is ignored. SIGINT would reach the ranks twice, once in the middle of what
they do about the first."""


class Slurm:
    """An engine (``Engine``)."""

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

    def cluster(self) -> str:
        said = call(["scontrol", "show", "config"]).stdout
        return next((line.split()[-1] for line in said.splitlines() if line.startswith("ClusterName ")), "")

    def status(self, job: str, spec: RunSpec) -> JobStatus:
        done = call(["squeue", "-h", "-t", "all", "-j", job, "-o", _FORMAT])
        lines = done.stdout.strip().splitlines()
        if done.returncode == 0 and lines:
            return self._read(lines[0], job, spec.nodes)
        if done.returncode and "invalid job id" not in done.stderr.lower():
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("slurm-silent"))
        done = call(["sacct", "-nPX", "-j", job, "-o", "State,ExitCode,NodeList"])
        return self.recorded(done.stdout, job) if done.returncode == 0 else JobStatus(phase=Phase.FORGOTTEN)

    def recorded(self, said: str, job: str) -> JobStatus:
        """How a job has ended that the controller has forgotten, as sacct says: ``COMPLETED|0:0|n[1-2]``."""
        lines = said.strip().splitlines()
        if not lines:
            return JobStatus(phase=Phase.FORGOTTEN)
        state, exit_code, nodes, *_ = (*lines[-1].split("|"), "", "")
        status = self._phase(state, f"exit code {exit_code}", nodes, job)
        if status.phase is not Phase.OVER:
            # the controller knows better that it has ended
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("slurm-not-recorded"))
        return status

    def stop(self, job: str, *, gently: bool) -> bool:
        signal = [f"--signal={URGENT}"] if gently else []
        return call(["scancel", *signal, job]).returncode == 0

    def _read(self, line: str, job: str, nodes_wanted: int) -> JobStatus:
        """``PENDING|Resources||0:00|main|3``."""
        state, reason, nodes, _, partition, _ = (*line.split("|"), *[""] * 6)[:6]
        if state not in _WAITING:
            return self._phase(state, reason, nodes, job)
        text = call(["sinfo", "-h", "-p", partition, "-o", "%F|%a|%l"]).stdout if reason != "None" else ""
        why, hopeless = waiting(reason, nodes_wanted, Partition.read(partition, text))
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
    # a percent sign stands for something in a name of sbatch's
    output = str(directory.job_log).replace("%", "%%")
    words = ["sbatch", "--parsable", f"--job-name=nbdist-{spec.name}", f"--nodes={spec.nodes}"]
    words += ["--ntasks-per-node=1", f"--output={output}", "--open-mode=append", "--export=ALL"]
    words.append(f"--gpus-per-node={per_node}" if gpus else f"--cpus-per-task={per_node}")
    words += [f"--chdir={directory.path}", "--requeue" if spec.retries else "--no-requeue"]
    return words + [f"--{option}" for option in spec.engine_options]


def call(
    words: Sequence[str],
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
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
