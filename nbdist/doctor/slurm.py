"""What can be asked of a Slurm without a job: its commands, the controller, partition and account."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

from nbdist.doctor.partition import PartitionFacts, judge_partition
from nbdist.doctor.report import Entry, Level
from nbdist.doctor.slurm_commands import Answer, call

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
