"""What can be asked of a Slurm without a job: its commands, the controller, partition and account."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from nbdist.doctor.report import Entry, Level, find
from nbdist.engines import slurm
from nbdist.errors import LaunchError

_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. ``missing``: there is none."""

    code: int
    out: str = ""
    err: str = ""
    missing: bool = False

    @property
    def fine(self) -> bool:
        return self.code == 0

    @property
    def why(self) -> str:
        """The last line about what went wrong, without the command's own name."""
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1].split(": ", 2)[-1].strip() if lines else f"exit code {self.code}"


def call(*words: str) -> Answer:
    try:
        done = slurm.call(words, limit=_LIMIT)
    except (OSError, LaunchError):
        return Answer(127, missing=True)
    return Answer(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """``groups`` and ``accounts`` are those that may use it, None for all; ``most`` None is no limit."""

    name: str
    default: bool
    state: str
    total: int
    most: int | None
    least: int
    limit: str
    groups: tuple[str, ...] | None
    accounts: tuple[str, ...] | None
    denied: tuple[str, ...]

    @classmethod
    def read_all(cls, text: str) -> list[PartitionFacts]:
        """One a line, as ``scontrol -o show partition`` writes them."""
        described = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in text.splitlines()]
        return [
            cls(
                name=fields["PartitionName"],
                default=fields.get("Default") == "YES",
                state=fields.get("State", "UP"),
                total=_number(fields.get("TotalNodes", "")) or 0,
                most=_number(fields.get("MaxNodes", "")),
                least=_number(fields.get("MinNodes", "")) or 0,
                limit=fields.get("MaxTime", "UNLIMITED"),
                groups=_listed(fields.get("AllowGroups", "ALL")),
                accounts=_listed(fields.get("AllowAccounts", "ALL")),
                denied=_listed(fields.get("DenyAccounts", "ALL")) or (),
            )
            for fields in described
            if "PartitionName" in fields
        ]

    def against(self, *, nodes: int, groups: Sequence[str] | None, accounts: Sequence[str]) -> Entry | None:
        """Why this user may not have that many nodes of it."""
        code, mine = "", set(accounts)
        if self.state != "UP":
            code = "closed"
        elif self.groups is not None and groups is not None and not set(groups) & set(self.groups):
            code = "of-groups"
        elif mine and self.accounts is not None and not mine & set(self.accounts):
            code = "of-accounts"
        elif mine and self.denied and mine <= set(self.denied):
            code = "denies"
        elif self.total < nodes:
            code = "too-small"
        elif self.most is not None and self.most < nodes:
            code = "most"
        elif self.least > nodes:
            code = "least"
        if not code:
            return None
        facts = asdict(self) | {"state": self.state.lower(), "allowed": self.accounts}
        first = self.accounts[0] if self.accounts else ""
        facts |= {"nodes": nodes, "accounts": tuple(accounts), "first": first}
        return find(f"slurm.partition-{code}", **facts)


def check_partition(
    partitions: Sequence[PartitionFacts],
    *,
    asked: str,
    nodes: int,
    groups: Sequence[str] | None,
    accounts: Sequence[str],
) -> Entry:
    """The partition that a run would be in, and whether it may. ``groups`` None: the user needs none."""
    known = {partition.name: partition for partition in partitions}
    wrong = {
        name: partition.against(nodes=nodes, groups=groups, accounts=accounts)
        for name, partition in known.items()
    }
    others = [name for name, why in wrong.items() if why is None]
    other = f"--slurm partition={(others or [*known, 'NAME'])[0]}"
    chosen = known.get(asked) or next((each for each in partitions if each.default), None)
    if asked and asked not in known:
        return find("slurm.partition-unknown", name=asked, known=tuple(known), other=other)
    if chosen is None:
        return find("slurm.partition-without-default", known=tuple(known), other=other)
    if entry := wrong[chosen.name]:
        return replace(entry, fix=other) if others and not entry.fix.startswith("--") else entry
    code = "slurm.partition-by-default" if chosen.default and not asked else "slurm.partition"
    limit = None if chosen.limit == "UNLIMITED" else chosen.limit
    return find(code, name=chosen.name, total=chosen.total, limit=limit)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _listed(text: str) -> tuple[str, ...] | None:
    return None if text.upper() in ("ALL", "(NULL)", "N/A", "") else tuple(text.split(","))


COMMANDS = ("sbatch", "squeue", "scancel", "srun", "sinfo", "scontrol")


class SlurmExamination:
    """What was asked for (``options`` of ``--slurm``), and a way to ask Slurm."""

    def __init__(
        self,
        *,
        options: Sequence[str],
        nodes: int,
        ask: Callable[..., Answer] = call,
        which: Callable[[str], str | None] = shutil.which,
        groups: Sequence[str] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        given = dict(option.partition("=")[::2] for option in options)
        self._partition, self._account = given.get("partition", ""), given.get("account", "")
        self._nodes = nodes
        self._ask = ask
        self._which = which
        self._environ = environ
        self._groups = _own_groups() if groups is None else groups
        self.usable = False
        """Whether a job can be tried, once ``entries`` has been gone through."""

    def entries(self) -> Iterator[Entry]:
        if missing := tuple(name for name in COMMANDS if self._which(name) is None):
            yield find("slurm.no-commands", missing=missing)
            return
        yield find("slurm.commands", folder=os.path.dirname(self._which("sbatch") or ""))
        # Slurm's commands wait for a minute where its configuration is not to be found
        configuration = self._environ.get("SLURM_CONF")
        if configuration is not None and not os.path.isfile(configuration):
            code = "slurm.no-configuration" if configuration else "slurm.empty-configuration"
            yield find(code, file=configuration)
            return
        answer = self._ask("squeue", "-h", "--me", "-o", "%i")
        yield _controller(answer)
        if not answer.fine:
            return
        accounts, account = self._accounts()
        partitions = PartitionFacts.read_all(self._ask("scontrol", "-o", "show", "partition").out)
        asked = [self._account] if self._account else accounts
        partition = check_partition(
            partitions, asked=self._partition, nodes=self._nodes, groups=self._groups, accounts=asked
        )
        yield partition
        yield account
        if partition.level is not Level.ERROR:
            yield self._gpus(partitions)
        self.usable = Level.ERROR not in (partition.level, account.level)

    def _accounts(self) -> tuple[list[str], Entry]:
        """Those that the user may charge, where Slurm keeps accounts."""
        config = dict(re.findall(r"^(\w+) *= *(.*?) *$", self._ask("scontrol", "show", "config").out, re.M))
        if config.get("AccountingStorageType", "").endswith("/none"):
            return [], find("slurm.no-accounting", account=self._account)
        user = pwd.getpwuid(os.getuid()).pw_name
        answer = self._ask("sacctmgr", "-nP", "show", "assoc", f"user={user}", "format=account,partition")
        if not answer.fine:
            return [], find(
                "slurm.accounts-unknown", why="no sacctmgr here" if answer.missing else answer.why
            )
        accounts = list(dict.fromkeys(line.split("|")[0] for line in answer.out.splitlines() if line.strip()))
        enforced = re.search(r"associations|limits|qos|safe", config.get("AccountingStorageEnforce", ""))
        level, asked = None if enforced else Level.WARNING, self._account
        if not accounts:
            return [], find("slurm.no-account", level, user=user)
        if asked and asked not in accounts:
            facts = {"account": asked, "accounts": tuple(accounts), "first": accounts[0]}
            return accounts, find("slurm.account-of-others", level, **facts)
        return accounts, find("slurm.account", account=asked or tuple(accounts))

    def _gpus(self, partitions: Sequence[PartitionFacts]) -> Entry:
        named = self._partition or next((each.name for each in partitions if each.default), "")
        where = [f"--partition={named}"] if named else []
        by_number: dict[int, list[str]] = {}
        for node, number in sorted(gpus_by_node(self._ask, *where).items()):
            by_number.setdefault(number, []).append(node)
        if not any(by_number):
            return find("slurm.no-gpus")
        counts = [(number, listed(nodes)) for number, nodes in sorted(by_number.items(), reverse=True)]
        return find(
            "slurm.gpus",
            counts=tuple(f"{number} on {nodes}" for number, nodes in counts),
            counts_zh="，".join(f"{nodes} 各 {number} 块" for number, nodes in counts),
        )


def gpus_by_node(ask: Callable[..., Answer] = call, *where: str) -> dict[str, int]:
    """How many GPUs Slurm's configuration gives each node."""
    lines = ask("sinfo", "-h", "-N", *where, "-o", "%N|%G").out.splitlines()
    return {node: gpus_of(gres) for node, _, gres in (line.partition("|") for line in lines)}


def gpus_of(gres: str) -> int:
    """GPUs of a node by what Slurm calls its generic resources: ``gpu:2``, ``gpu:a100:4(S:0-1),nic:1``."""
    return sum(int(number) for number in re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", gres))


def listed(nodes: Sequence[str], most: int = 4) -> str:
    """``n1, n2``; of many the first few and how many more."""
    names = list(nodes)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def _controller(answer: Answer) -> Entry:
    if answer.fine:
        return find("slurm.controller")
    said, code = (answer.err + answer.out).lower(), "silent"
    if "configuration source" in said or "dns srv" in said:
        code = "not-found"
    elif "munge" in said or "authentication" in said or "protocol" in said:
        code = "refuses"
    return find(f"slurm.controller-{code}", why=answer.why)


def _own_groups() -> list[str] | None:
    """The user's; None for root, whom Slurm lets into every partition."""
    if os.getuid() == 0:
        return None
    names = []
    for number in {*os.getgroups(), os.getgid()}:
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return names
