"""What can be asked of a Slurm without a job: its commands, the controller, partition and account."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nbdist.doctor.report import Entry, Level
from nbdist.engines.slurm import scrubbed

_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. ``missing``: there is none; ``late``: it did not answer in time."""

    code: int
    out: str = ""
    err: str = ""
    missing: bool = False
    late: bool = False

    @property
    def fine(self) -> bool:
        return self.code == 0

    @property
    def why(self) -> str:
        """The last line about what went wrong, without the command's own name."""
        if self.late:
            return f"no answer in {_PATIENCE:g} s"
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1].split(": ", 2)[-1].strip() if lines else f"exit code {self.code}"


def slurm_environment() -> dict[str, str]:
    """Of this process, without what a job has set in which it may itself run."""
    return scrubbed(os.environ)


def call(*words: str) -> Answer:
    try:
        done = subprocess.run(
            words,
            env=slurm_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except OSError:
        return Answer(127, missing=True)
    except subprocess.TimeoutExpired:
        return Answer(124, late=True)
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
        """One a line."""
        described = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in text.splitlines()]
        return [cls._of(fields) for fields in described if "PartitionName" in fields]

    @classmethod
    def _of(cls, fields: Mapping[str, str]) -> PartitionFacts:
        return cls(
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

    def against(
        self, *, nodes: int, groups: Sequence[str] | None, accounts: Sequence[str]
    ) -> tuple[str, str, str] | None:
        """Why this user may not have that many nodes of it, in English and Chinese, and what to do."""
        if self.state != "UP":
            return (
                f"it is {self.state.lower()}",
                f"处于 {self.state.lower()} 状态",
                "an administrator has to open it, or choose another one",
            )
        if self.groups is not None and groups is not None and not set(groups) & set(self.groups):
            listed = ", ".join(self.groups)
            return (
                f"it is for the groups {listed}",
                f"只允许用户组 {listed}",
                "ask for a group, or choose another one",
            )
        if refused := self._refuses(accounts):
            return refused
        if self.total < nodes:
            return (
                f"it has {_nodes(self.total)}, not {nodes}",
                f"只有 {self.total} 个节点",
                f"--nodes {self.total}",
            )
        if self.most is not None and self.most < nodes:
            return (
                f"a job may have {_nodes(self.most)} of it, not {nodes}",
                f"每个作业最多 {self.most} 个节点",
                f"--nodes {self.most}",
            )
        if self.least > nodes:
            return (
                f"a job has to take {_nodes(self.least)} of it",
                f"每个作业至少 {self.least} 个节点",
                f"--nodes {self.least}",
            )
        return None

    def _refuses(self, accounts: Sequence[str]) -> tuple[str, str, str] | None:
        if not accounts:
            return None
        if self.accounts is not None and not set(accounts) & set(self.accounts):
            listed = ", ".join(self.accounts)
            return (
                f"it is for the accounts {listed}, and you have {', '.join(accounts)}",
                f"只允许账户 {listed}，而您有 {', '.join(accounts)}",
                f"--slurm account={self.accounts[0]}  where you may use that, or choose another one",
            )
        if self.denied and set(accounts) <= set(self.denied):
            listed = ", ".join(accounts)
            return f"it refuses {listed}", f"不允许账户 {listed}", "choose another partition or account"
        return None


def judge_partition(
    partitions: Sequence[PartitionFacts],
    *,
    asked: str,
    nodes: int,
    groups: Sequence[str] | None,
    accounts: Sequence[str],
) -> Entry:
    """The partition that a run would be in, and whether it may. ``groups`` None: the user needs none."""
    known = {partition.name: partition for partition in partitions}
    others = [
        name
        for name, partition in known.items()
        if partition.against(nodes=nodes, groups=groups, accounts=accounts) is None
    ]
    instead = f"--slurm partition={(others or [*known, 'NAME'])[0]}"
    if asked and asked not in known:
        listed = ", ".join(known)
        what, what_zh = f"there is no {asked}: there are {listed}", f"没有 {asked}，只有 {listed}"
        return _entry("partition", Level.ERROR, what, what_zh, instead)
    chosen = known.get(asked) or next((each for each in partitions if each.default), None)
    if chosen is None:
        listed = ", ".join(known)
        what = f"none is the default: there are {listed}"
        return _entry("partition", Level.ERROR, what, f"没有默认分区，可选 {listed}", instead)
    if wrong := chosen.against(nodes=nodes, groups=groups, accounts=accounts):
        what, what_zh, fix = wrong
        if others and not fix.startswith("--"):
            fix = instead
        return _entry("partition", Level.ERROR, f"{chosen.name}: {what}", f"{chosen.name}：{what_zh}", fix)
    limit = "" if chosen.limit == "UNLIMITED" else f", at most {chosen.limit}"
    limit_zh = "" if chosen.limit == "UNLIMITED" else f"，最长 {chosen.limit}"
    default = ", the default" if chosen.default and not asked else ""
    return _entry(
        "partition",
        Level.OK,
        f"{chosen.name}{default}, {_nodes(chosen.total)}{limit}",
        f"{chosen.name}{'（默认）' if default else ''}，{chosen.total} 个节点{limit_zh}",
        "",
    )


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


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
        missing = [name for name in COMMANDS if self._which(name) is None]
        yield _commands(missing, self._which("sbatch") or "")
        if missing:
            return
        if (misled := self._configuration()) is not None:
            yield misled
            return
        answer = self._ask("squeue", "-h", "--me", "-o", "%i")
        yield _controller(answer)
        if not answer.fine:
            return
        accounts, account = self._accounts()
        partitions = PartitionFacts.read_all(self._ask("scontrol", "-o", "show", "partition").out)
        asked = [self._account] if self._account else accounts
        partition = judge_partition(
            partitions, asked=self._partition, nodes=self._nodes, groups=self._groups, accounts=asked
        )
        yield partition
        yield account
        if partition.level is not Level.ERROR:
            yield self._gpus(partitions)
        self.usable = Level.ERROR not in (partition.level, account.level)

    def _configuration(self) -> Entry | None:
        """Slurm's commands wait for a minute where its configuration is not to be found."""
        named = self._environ.get("SLURM_CONF")
        if named is None or os.path.isfile(named):
            return None
        return _entry(
            "controller",
            Level.ERROR,
            f"SLURM_CONF is {named or 'empty'}, and there is no such file",
            f"SLURM_CONF 为 {named or '空'}，该文件不存在",
            "%env SLURM_CONF=/etc/slurm/slurm.conf  , or unset it",
        )

    def _accounts(self) -> tuple[list[str], Entry]:
        """Those that the user may charge, where Slurm keeps accounts."""
        config = dict(re.findall(r"^(\w+) *= *(.*?) *$", self._ask("scontrol", "show", "config").out, re.M))
        if config.get("AccountingStorageType", "").endswith("/none"):
            what, what_zh = "this Slurm keeps no accounts, and needs none", "此 Slurm 不记账，不需要账户"
            if self._account:
                what += f": account={self._account} changes nothing"
            return [], _entry("account", Level.INFO, what, what_zh)
        user = pwd.getpwuid(os.getuid()).pw_name
        answer = self._ask("sacctmgr", "-nP", "show", "assoc", f"user={user}", "format=account,partition")
        if not answer.fine:
            why = "no sacctmgr here" if answer.missing else answer.why
            return [], _entry(
                "account",
                Level.INFO,
                f"cannot be looked at: {why}",
                f"无法查看：{why}",
                "--slurm account=NAME",
            )
        accounts = list(dict.fromkeys(line.split("|")[0] for line in answer.out.splitlines() if line.strip()))
        enforced = bool(
            re.search(r"associations|limits|qos|safe", config.get("AccountingStorageEnforce", ""))
        )
        return accounts, _account(self._account, accounts, user, enforced=enforced)

    def _gpus(self, partitions: Sequence[PartitionFacts]) -> Entry:
        named = self._partition or next((each.name for each in partitions if each.default), "")
        where = [f"--partition={named}"] if named else []
        lines = self._ask("sinfo", "-h", "-N", *where, "-o", "%N|%G").out.splitlines()
        count = {node: gpus_of(gres) for node, _, gres in (line.partition("|") for line in lines)}
        return _entry("GPUs", Level.INFO, *_gpus_in_words(count))


def gpus_of(gres: str) -> int:
    """GPUs of a node by what Slurm calls its generic resources: ``gpu:2``, ``gpu:a100:4(S:0-1),nic:1``."""
    return sum(int(number) for number in re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", gres))


def _gpus_in_words(count: dict[str, int]) -> tuple[str, str]:
    if not any(count.values()):
        return "none: ranks run on CPUs ( -n 2 )", "没有 GPU：使用 CPU（ -n 2 ）"
    by_number: dict[int, list[str]] = {}
    for node, number in sorted(count.items()):
        by_number.setdefault(number, []).append(node)
    parts = [f"{number} on {listed(nodes)}" for number, nodes in sorted(by_number.items(), reverse=True)]
    parts_zh = [
        f"{listed(nodes)} 各 {number} 块" for number, nodes in sorted(by_number.items(), reverse=True)
    ]
    return ", ".join(parts), "，".join(parts_zh)


def listed(nodes: Sequence[str], most: int = 4) -> str:
    """``n1, n2``; of many the first few and how many more."""
    names = list(nodes)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def _commands(missing: Sequence[str], sbatch: str) -> Entry:
    if not missing:
        return _entry(
            "commands", Level.OK, f"in {os.path.dirname(sbatch)}", f"位于 {os.path.dirname(sbatch)}"
        )
    names = ", ".join(missing)
    return _entry(
        "commands",
        Level.ERROR,
        f"not found: {names}",
        f"找不到 {names}",
        "start the notebook on a login node, and put Slurm's commands into PATH before ( module load slurm )",
        "请在登录节点上启动笔记本，并事先把 Slurm 的命令加入 PATH（ module load slurm ）",
    )


def _controller(answer: Answer) -> Entry:
    if answer.fine:
        return _entry("controller", Level.OK, "it answers", "有响应")
    fix, fix_zh = "ask again later; is it up?  scontrol ping", "稍后再试； scontrol ping  可查看其状态"
    said = (answer.err + answer.out).lower()
    if "configuration source" in said or "dns srv" in said:
        fix = "tell it where its configuration is:  %env SLURM_CONF=/etc/slurm/slurm.conf"
        fix_zh = "指明配置文件：  %env SLURM_CONF=/etc/slurm/slurm.conf"
    elif "munge" in said or "authentication" in said or "protocol" in said:
        fix = "this machine is not part of the cluster (munge): start the notebook on a login node"
        fix_zh = "本机不属于该集群（munge）：请在登录节点上启动笔记本"
    return _entry(
        "controller", Level.ERROR, f"it does not answer: {answer.why}", f"没有响应：{answer.why}", fix, fix_zh
    )


def _account(asked: str, accounts: Sequence[str], user: str, *, enforced: bool) -> Entry:
    level = Level.ERROR if enforced else Level.WARNING
    if not accounts:
        return _entry(
            "account",
            level,
            f"{user} has none",
            f"{user} 没有账户",
            f"an administrator adds one:  sacctmgr add user {user} account=NAME",
            f"请管理员添加：  sacctmgr add user {user} account=NAME",
        )
    names = ", ".join(accounts)
    if asked and asked not in accounts:
        what, what_zh = f"{asked} is not one of yours: {names}", f"{asked} 不是您的账户：{names}"
        return _entry("account", level, what, what_zh, f"--slurm account={accounts[0]}")
    return _entry("account", Level.OK, asked or names, asked or names)


def _entry(title: str, level: Level, what: str, what_zh: str, fix: str = "", fix_zh: str = "") -> Entry:
    return Entry(
        section="slurm", title=title, level=level, what=what, what_zh=what_zh, fix=fix, fix_zh=fix_zh
    )


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
