"""What lies between the machines of a cluster: the files that they share, and the network. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.doctor.node_words import NodeWords
from nbdist.doctor.report import Entry, Level
from nbdist.doctor.slurm import listed

SHARE = "a directory that all machines share:  %env NBDIST_HOME=~/nbdist"
SHARE_ZH = "使用所有机器共享的目录：  %env NBDIST_HOME=~/nbdist"

_LATE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What is compared with: this machine."""

    python: str
    executable: str
    packages: Mapping[str, Sequence[str]]
    home: Path
    folder: str
    gpus: Mapping[str, int]
    """GPUs of a node as the engine has them in its configuration."""

    engine: str = "Slurm"


def judge_files(nodes: Sequence[NodeWords], here: Here) -> Iterator[Entry]:
    blind = [node.name for node in nodes if node.looked["seen"] is None]
    unwritten = {node.name: str(node.looked["wrote"]) for node in nodes if node.looked["wrote"]}
    unseen = [node.name for node in nodes if node.late is None and node.name not in unwritten]
    title = "shared directory"
    if blind:
        what = f"{here.home} of this machine is not seen on {listed(blind)}"
        yield node_entry(
            title, Level.ERROR, what, f"{listed(blind)} 看不到本机的 {here.home}", SHARE, SHARE_ZH
        )
    elif unwritten:
        names = listed(list(unwritten))
        why = next(iter(unwritten.values()))
        what = f"{names}: {here.home} cannot be written there: {why}"
        yield node_entry(title, Level.ERROR, what, f"{names} 无法写入 {here.home}：{why}", SHARE, SHARE_ZH)
    elif unseen:
        what = f"what {listed(unseen)} writes into {here.home} is not seen here"
        yield node_entry(title, Level.ERROR, what, f"本机看不到 {listed(unseen)} 写入的文件", SHARE, SHARE_ZH)
    else:
        what = f"{here.home} is seen by all, both ways"
        yield node_entry(title, Level.OK, what, f"{here.home} 双向可见", "")
        yield from _lateness(nodes)
    if homeless := [node.name for node in nodes if not node.looked["folder"]]:
        yield node_entry(
            "folder",
            Level.ERROR,
            f"{here.folder}, where the ranks are to work, is not on {listed(homeless)}",
            f"{listed(homeless)} 上没有工作目录 {here.folder}",
            "start the notebook in a directory that all machines share, or  --cwd DIR",
            "从所有机器共享的目录启动笔记本，或  --cwd DIR",
        )


def _lateness(nodes: Sequence[NodeWords]) -> Iterator[Entry]:
    """A file that grew, and a new one, seen late: the cache of a network file system."""
    late = [value for node in nodes for value in (node.late, node.grown.get("after")) if value is not None]
    never = [node.name for node in nodes if node.grown and node.grown["after"] is None]
    worst = max(late, default=0.0)
    if never:
        text, text_zh = f"not within a minute on {listed(never)}", f"{listed(never)} 一分钟内未见"
    elif worst > _LATE:
        text, text_zh = f"after up to {worst:.0f} s", f"最多晚 {worst:.0f} 秒"
    else:
        return
    yield node_entry(
        "late files",
        Level.WARNING,
        f"what one machine writes is seen by another {text}: the panel lags behind by as much",
        f"一台机器写入的内容，另一台看到时{text_zh}：面板会同样滞后",
        "ask for the mount option actimeo=1 (or noac) where the runs lie",
        "请管理员为运行目录所在的挂载加上 actimeo=1（或 noac）",
    )


def judge_network(nodes: Sequence[NodeWords]) -> Iterator[Entry]:
    if len(nodes) < 2:
        return
    nameless = sorted(
        {name for node in nodes for name, address in node.looked["names"].items() if not address}
    )
    # each looks for itself as well: programs that ask for their own name get that
    looped = sorted(
        {
            name
            for node in nodes
            for name, address in node.looked["names"].items()
            if name != node.name and address.startswith("127.")
        }
    )
    if nameless or looped:
        said = (
            f"no address for {listed(nameless)} on the nodes"
            if nameless
            else f"{listed(looped)} lead to 127.…"
        )
        said_zh = f"节点无法解析 {listed(nameless)}" if nameless else f"{listed(looped)} 解析为 127.…"
        yield node_entry(
            "names",
            Level.WARNING,
            f"{said}; nbdist gives ranks addresses and needs no names",
            f"{said_zh}；nbdist 使用地址，不依赖主机名",
            "a program that connects by a host's name needs /etc/hosts or DNS mended",
            "按主机名连接的程序需要修好 /etc/hosts 或 DNS",
        )
    else:
        yield node_entry(
            "names", Level.OK, "every node finds the others by name", "各节点能解析彼此的主机名", ""
        )
    cut = {
        (node.name, other): str(why) for node in nodes for other, why in node.looked["unreachable"].items()
    }
    if cut:
        (one, other), why = next(iter(sorted(cut.items())))
        more = f" and {len(cut) - 1} more ways" if len(cut) > 1 else ""
        more_zh = f"，另有 {len(cut) - 1} 处" if len(cut) > 1 else ""
        yield node_entry(
            "ports",
            Level.ERROR,
            f"{one} does not reach a port of {other}: {why}{more}",
            f"{one} 连不上 {other} 的端口：{why}{more_zh}",
            "let TCP from 20000 on through between nodes; or another network:  --env GLOO_SOCKET_IFNAME=ib0",
            "请放行节点之间 20000 以上的 TCP 端口；或换网络：  --env GLOO_SOCKET_IFNAME=ib0",
        )
    else:
        yield node_entry("ports", Level.OK, "the nodes reach each other's ports", "节点之间的端口相通", "")


def node_entry(title: str, level: Level, what: str, what_zh: str, fix: str, fix_zh: str = "") -> Entry:
    return Entry(
        section="nodes", title=title, level=level, what=what, what_zh=what_zh, fix=fix, fix_zh=fix_zh
    )
