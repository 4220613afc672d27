"""What Slurm says, as reasons: why a job waits, what ended it, why it was refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbdist.model import Reason, RunState


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


_WAITING = {
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
    return _WAITING.get(word, Reason.said(reason)), word in _NEVER


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
