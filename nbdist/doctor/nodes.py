"""What the nodes have said, judged: is it the same there as here, do they see the same files, do they reach
each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nbdist.doctor.between import SHARE, SHARE_ZH, Here, judge_files, judge_network, node_entry
from nbdist.doctor.node_words import JobWords, NodeWords
from nbdist.doctor.report import Entry, Level
from nbdist.doctor.slurm import listed

_SKEW = 5.0


def judge_nodes(words: JobWords, here: Here, *, asked: int) -> Iterator[Entry]:
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


def _job(words: JobWords, here: Here, asked: int) -> Iterator[Entry]:
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


def _python(nodes: Sequence[NodeWords], here: Here) -> Iterator[Entry]:
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


def _packages(nodes: Sequence[NodeWords], here: Here) -> Iterator[Entry]:
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


def _gpus(nodes: Sequence[NodeWords], here: Here) -> Iterator[Entry]:
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


def _clocks(nodes: Sequence[NodeWords]) -> Iterator[Entry]:
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
