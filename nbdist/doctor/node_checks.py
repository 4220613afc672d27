"""What the probes of a cluster's nodes have said, judged: is it the same there as here, do they see the same
files, do they reach each other. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.doctor.report import Entry, Level
from nbdist.doctor.slurm import listed


@dataclass(slots=True)
class ProbeResult:
    """What one node has said: how it is (``hello``), what it has seen of others (``looked``), and how late it
    saw a file grow (``grown``)."""

    name: str
    hello: Mapping[str, Any] = field(default_factory=dict)
    looked: Mapping[str, Any] = field(default_factory=dict)
    grown: Mapping[str, Any] = field(default_factory=dict)
    address: str = ""
    came: float = 0.0
    """When its first word came."""
    late: float | None = None
    """After how many seconds its file was seen here; None: not at all."""

    @property
    def has_python(self) -> bool:
        return bool(self.hello)


@dataclass(slots=True)
class JobResult:
    """What came of the job: the nodes that said something, and the problem where there is one.

    ``waits`` is why it was not started in time, ``refused`` why Slurm did not take it, ``silent`` that it
    runs and not every node has spoken, ``noise`` its last words on stderr."""

    nodes: dict[str, ProbeResult] = field(default_factory=dict)
    job: str = ""
    queued: float = 0.0
    seconds: float = 0.0
    waits: str = ""
    refused: str = ""
    silent: bool = False
    unwritable: str = ""
    noise: str = ""

    def heard(self, said: Mapping[str, Any]) -> None:
        """A node has said something."""
        node = self.nodes.setdefault(said["name"], ProbeResult(name=said["name"]))
        match said["say"]:
            case "hello":
                node.hello, node.came = said, time.time()
                self.job = said["job"] or self.job
            case "looked":
                node.looked = said
            case "grown":
                node.grown = said


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


def judge_files(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
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


def _lateness(nodes: Sequence[ProbeResult]) -> Iterator[Entry]:
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


def judge_network(nodes: Sequence[ProbeResult]) -> Iterator[Entry]:
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


_SKEW = 5.0


def judge_nodes(words: JobResult, here: Here, *, asked: int) -> Iterator[Entry]:
    """The entries about the job and about the nodes, as far as they came to be known."""
    yield from _job(words, here, asked)
    nodes = sorted(words.nodes.values(), key=lambda node: node.name)
    yield from _python(nodes, here)
    awake = [node for node in nodes if node.has_python]
    if not awake:
        return
    yield from _packages(awake, here)
    looked = [node for node in awake if node.looked]
    if quiet := [node.name for node in awake if not node.looked]:
        yield node_entry(
            "shared directory",
            Level.ERROR,
            f"{listed(quiet)}: no answer: does a file system stall there?",
            f"{listed(quiet)}：没有响应，可能是文件系统卡住",
            f"look at  ls {here.home}  on that node",
        )
    if looked:
        yield from judge_files(looked, here)
        yield from judge_network(looked)
    yield from _gpus(awake, here)
    yield from _clocks(awake)


def _job(words: JobResult, here: Here, asked: int) -> Iterator[Entry]:
    if words.unwritable:
        what = f"the runs' directory {here.home} cannot be written: {words.unwritable}"
        yield node_entry(
            "job", Level.ERROR, what, f"运行目录 {here.home} 无法写入：{words.unwritable}", SHARE, SHARE_ZH
        )
    elif words.refused:
        yield node_entry("job", Level.ERROR, words.refused, words.refused, "")
    elif words.waits:
        on_slurm = here.engine == "Slurm"
        elsewhere = ", elsewhere ( --slurm partition=NAME )" if on_slurm else ""
        elsewhere_zh = "、换分区（ --slurm partition=NAME ）" if on_slurm else ""
        yield node_entry(
            "job",
            Level.ERROR,
            f"it was not started, and taken back after {words.seconds:.0f} s: {words.waits}; the nodes were "
            "not looked at",
            f"作业未能启动，{words.seconds:.0f} 秒后已撤回：{words.waits}；未检查节点",
            f"ask for less ( --nodes 1 ){elsewhere}, or wait longer ( --wait 10m )",
            f"减少节点（ --nodes 1 ）{elsewhere_zh}，或延长等待（ --wait 10m ）",
        )
    elif words.silent and not words.nodes:
        yield node_entry(
            "job",
            Level.WARNING,
            "it was started, and nothing came back: the nodes do not reach this machine, or a file system "
            "stalls there",
            "作业已启动，但没有返回：节点无法连回本机，或那里的文件系统卡住",
            "runs need no way back; for this look, let the nodes reach srun's ports here (SrunPortRange)",
            "运行本身不需要这条回路；若要检查，请放行本机 srun 的端口（SrunPortRange）",
        )
    elif not words.nodes:
        yield node_entry(
            "job", Level.ERROR, f"it ended without a word: {words.noise or 'nothing was said'}", "", ""
        )
    else:
        names = sorted(words.nodes)
        missing = asked - len(names)
        yield node_entry(
            "job",
            Level.ERROR if missing else Level.OK,
            f"{words.job or 'it'} on {listed(names)}: {words.queued:.1f} s in the queue, "
            f"{words.seconds:.1f} s in all" + (f"; {missing} said nothing" if missing else ""),
            f"{words.job} 在 {listed(names)}：排队 {words.queued:.1f} 秒，共 {words.seconds:.1f} 秒"
            + (f"；{missing} 个节点没有响应" if missing else ""),
            "scontrol show node  shows how that one stands" if missing else "",
        )


def _python(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
    if without := [node.name for node in nodes if not node.has_python]:
        yield node_entry(
            "Python there",
            Level.ERROR,
            f"{listed(without)}: no {here.executable}",
            f"{listed(without)} 上没有 {here.executable}",
            "install the environment where all machines see it, and start the notebook from there",
            "把环境装在所有机器可见的目录，并从那里启动笔记本",
        )
    there = {node.name: str(node.hello["python"]) for node in nodes if node.has_python}
    if other := _different(there, here.python):
        yield node_entry(
            "Python there",
            Level.ERROR,
            f"{other}; here {here.python}",
            f"{other}；本机 {here.python}",
            "use one environment that all machines see",
            "使用所有机器可见的同一个环境",
        )
    elif there and not without:
        yield node_entry(
            "Python there", Level.OK, f"{here.python}, as here", f"{here.python}，与本机相同", ""
        )


def _packages(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
    for name in ("nbdist", "torch", "paddle"):
        mine = here.packages.get(name, ("", ""))[0]
        there = {node.name: str(node.hello["packages"].get(name, ("-",))[0]) for node in nodes}
        if not mine and set(there.values()) == {"-"}:
            continue
        title = f"{name} there"
        if other := _different(there, mine or "-"):
            install = {"paddle": "paddlepaddle"}.get(name, name)
            version = f"=={mine}" if mine and mine != "?" else ""
            yield node_entry(
                title,
                Level.ERROR,
                f"{other}; here {mine or '-'}",
                f"{other}；本机 {mine or '-'}",
                f"use one environment that all machines see, or there:  pip install {install}{version}",
                f"使用所有机器可见的同一个环境，或在那里：  pip install {install}{version}",
            )
        else:
            yield node_entry(title, Level.OK, f"{mine}, as here", f"{mine}，与本机相同", "")


def _gpus(nodes: Sequence[ProbeResult], here: Here) -> Iterator[Entry]:
    """Those that the engine gives, and those that the node's driver has."""
    wrong = [
        f"{node.name} has {node.hello['gpus']}, {here.engine} says {here.gpus[node.name]}"
        for node in nodes
        if node.name in here.gpus and node.hello["gpus"] < here.gpus[node.name]
    ]
    if wrong:
        yield node_entry(
            "GPUs there",
            Level.WARNING,
            "; ".join(wrong[:3]),
            "；".join(wrong[:3]),
            "does the driver run?  nvidia-smi  on that node",
            "请在该节点运行  nvidia-smi",
        )
        return
    counts = sorted({int(node.hello["gpus"]) for node in nodes})
    if counts == [0]:
        return
    said = (
        f"{counts[0]} on each" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}, not the same on each"
    )
    said_zh = f"每个节点 {counts[0]} 块" if len(counts) == 1 else f"{counts[0]} 到 {counts[-1]} 块，各不相同"
    level = Level.OK if len(counts) == 1 else Level.WARNING
    fix = "" if len(counts) == 1 else f"--gpus {counts[0]}  or choose nodes by  --slurm constraint=NAME"
    yield node_entry("GPUs there", level, said, said_zh, fix)


def _clocks(nodes: Sequence[ProbeResult]) -> Iterator[Entry]:
    off = {node.name: float(node.hello["time"]) - node.came for node in nodes}
    name, worst = max(off.items(), key=lambda each: abs(each[1]))
    if abs(worst) > _SKEW:
        yield node_entry(
            "clocks",
            Level.WARNING,
            f"{name} is {abs(worst):.0f} s {'ahead' if worst > 0 else 'behind'}: the panel merges by time",
            f"{name} 的时钟{'快' if worst > 0 else '慢'} {abs(worst):.0f} 秒：面板按时间合并日志",
            "let the machines keep their time (chrony)",
            "请同步各机器的时钟（chrony）",
        )


def _different(there: Mapping[str, str], here: str) -> str:
    """``3.9.2 on n1, n2``: what is not as it is here."""
    by_value: dict[str, list[str]] = {}
    for node, value in there.items():
        if value != here:
            by_value.setdefault(value, []).append(node)
    missing = by_value.pop("-", [])
    parts = [f"{value} on {listed(nodes)}" for value, nodes in by_value.items()]
    return ", ".join([*parts, *([f"not on {listed(missing)}"] if missing else [])])
