"""A partition of Slurm as ``scontrol -o show partition`` describes it, and what speaks against using it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbdist.doctor.report import Entry, Level


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
        return _entry(Level.ERROR, what, what_zh, instead)
    chosen = known.get(asked) or next((each for each in partitions if each.default), None)
    if chosen is None:
        listed = ", ".join(known)
        what = f"none is the default: there are {listed}"
        return _entry(Level.ERROR, what, f"没有默认分区，可选 {listed}", instead)
    if wrong := chosen.against(nodes=nodes, groups=groups, accounts=accounts):
        what, what_zh, fix = wrong
        if others and not fix.startswith("--"):
            fix = instead
        return _entry(Level.ERROR, f"{chosen.name}: {what}", f"{chosen.name}：{what_zh}", fix)
    limit = "" if chosen.limit == "UNLIMITED" else f", at most {chosen.limit}"
    limit_zh = "" if chosen.limit == "UNLIMITED" else f"，最长 {chosen.limit}"
    default = ", the default" if chosen.default and not asked else ""
    return _entry(
        Level.OK,
        f"{chosen.name}{default}, {_nodes(chosen.total)}{limit}",
        f"{chosen.name}{'（默认）' if default else ''}，{chosen.total} 个节点{limit_zh}",
        "",
    )


def _entry(level: Level, what: str, what_zh: str, fix: str) -> Entry:
    return Entry(section="slurm", title="partition", level=level, what=what, what_zh=what_zh, fix=fix)


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _listed(text: str) -> tuple[str, ...] | None:
    return None if text.upper() in ("ALL", "(NULL)", "N/A", "") else tuple(text.split(","))
