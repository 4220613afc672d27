"""What Slurm says, in words: why a job waits, what ended it, why it was refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbdist.model import RunState


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
    "None": "",
    "Resources": "it is next, and waits for nodes or cores to become free",
    "Priority": "jobs of higher priority come first",
    "Dependency": "it waits for a job that it depends on",
    "DependencyNeverSatisfied": "the job that it depends on will never end so",
    "BeginTime": "the time at which it may begin has not come",
    "JobHeldUser": "it is held: scontrol release lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "Licenses": "it waits for a license",
    "Reservation": "it waits for its reservation",
    "BadConstraints": "no node has what it asks for",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "NodeDown": "a node that it needs is down",
    "Cleaning": "its last life is still being cleaned up",
}
_NEVER = frozenset({"DependencyNeverSatisfied", "BadConstraints", "InvalidAccount", "InvalidQOS"})


def waiting(reason: str, nodes: int, partition: Partition | None) -> tuple[str, bool]:
    """Why a job waits, and whether it will for ever."""
    word = re.split(r"[,:(]", reason)[0].strip()
    if partition is not None:
        if partition.total < nodes:
            said = f"asks for {nodes} nodes, the partition {partition.name} has {partition.total}"
            return said, True
        if not partition.up or word in ("PartitionDown", "PartitionInactive"):
            return f"the partition {partition.name} is down: an administrator has to open it", False
        if partition.total - partition.unusable < nodes:
            said = f"asks for {_nodes(nodes)}, and {partition.unusable} of {partition.total}"
            return f"{said} in the partition {partition.name} are down or drained", False
        if word == "PartitionTimeLimit":
            said = f"asks for more time than the partition {partition.name} gives, which is {partition.limit}"
            return f"{said}: --slurm time=…", True
        if word in ("PartitionNodeLimit", "PartitionConfig"):
            said = f"asks for more of each node, or for more nodes, than the partition {partition.name} gives"
            return said, False
    if word == "ReqNodeNotAvail" or reason.startswith("Nodes required for job are DOWN"):
        _, _, which = reason.partition("UnavailableNodes:")
        return "nodes that it needs are down, drained or reserved" + (f": {which}" if which else ""), False
    if re.match(r"(QOS|Assoc|Max).*(Limit|PerUser|PerAccount|PerJob)", word):
        return f"a limit of your account is reached ({word})", False
    return _WAITING.get(word, reason), word in _NEVER


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"


def finished(state: str, reason: str, nodes: str, job: str) -> tuple[RunState | None, str]:
    """What ended a job: no outcome where that was the run itself."""
    where = f" ({nodes})" if nodes else ""
    match state:
        case "CANCELLED" | "REVOKED":
            return RunState.CANCELLED, f"Slurm's job {job} was cancelled, and not from here"
        case "TIMEOUT":
            return (
                RunState.FAILED,
                "the job's time is over: --slurm time=2:00:00 asks Slurm for more",
            )
        case "DEADLINE":
            return RunState.FAILED, "the deadline of the job came first"
        case "PREEMPTED":
            return RunState.FAILED, "Slurm took the nodes back for a job of higher priority"
        case "NODE_FAIL" | "BOOT_FAIL":
            return RunState.FAILED, f"a node of the job failed{where}"
        case "OUT_OF_MEMORY":
            return (
                RunState.FAILED,
                f"the job used more memory than it may{where}: --slurm mem=16G",
            )
        case "COMPLETED":
            return None, "it completed"
        case _:
            return None, reason if reason not in ("", "None") else state.lower()


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
