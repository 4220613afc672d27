"""What the doctor has found, as values: entries, each with a level, and a fix where one is needed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Level(Enum):
    """OK: works. INFO: a fact. WARNING: works, and something will be worse than it could be. ERROR: does
    not work."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


SECTIONS = {
    "host": ("This host", "运行环境"),
    "python": ("Python and packages", "Python 与软件包"),
    "frameworks": ("Frameworks", "框架"),
    "gpus": ("GPUs", "GPU"),
    "machine": ("Machine", "机器"),
    "network": ("Network", "网络"),
    "notebook": ("Notebook", "笔记本"),
    "board": ("Curves", "曲线"),
    "smoke": ("Trial run", "试运行"),
    "slurm": ("Slurm", "Slurm"),
    "ray": ("Ray", "Ray"),
    "nodes": ("Nodes", "节点"),
}
"""In the order of the page."""

TITLES_ZH = {
    "the server's JupyterLab": "服务器的 JupyterLab",
    "system": "系统",
    "container": "容器",
    "Slurm job": "Slurm 作业",
    "packages": "软件包",
    "torch starts": "torch 启动",
    "paddle starts": "paddle 启动",
    "driver": "驱动",
    "visible": "可见的 GPU",
    "CPU, memory": "CPU、内存",
    "runs": "运行目录",
    "open files": "打开的文件",
    "control groups": "控制组",
    "loopback": "回环地址",
    "host name": "主机名",
    "proxy": "代理",
    "JupyterLab extension": "JupyterLab 扩展",
    "server extension": "服务器扩展",
    "server": "Jupyter 服务",
    "GPUs": "GPU",
    "commands": "命令",
    "controller": "控制器",
    "partition": "分区",
    "account": "账户",
    "job": "检查作业",
    "Python there": "节点上的 Python",
    "nbdist there": "节点上的 nbdist",
    "torch there": "节点上的 torch",
    "paddle there": "节点上的 paddle",
    "shared directory": "共享目录",
    "late files": "文件延迟",
    "folder": "工作目录",
    "names": "主机名解析",
    "ports": "端口",
    "GPUs there": "节点上的 GPU",
    "clocks": "时钟",
    "address": "地址",
    "token": "令牌",
    "version": "版本",
}
"""What has a name of its own, as AI Studio, keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finding. ``title`` is short, and a name that scripts can look for; ``what`` says what is there,
    ``fix`` what to type; the Chinese texts are the English ones where they are left out. ``repair`` names
    what ``--fix`` can do about it."""

    section: str
    title: str
    level: Level
    what: str
    fix: str = ""
    what_zh: str = ""
    fix_zh: str = ""
    repair: str = ""

    def heading(self, language: str) -> str:
        """The title on a screen."""
        return TITLES_ZH.get(self.title, self.title) if language == "zh" else self.title

    def texts(self, language: str) -> tuple[str, str]:
        """What is there, and the fix."""
        if language == "zh":
            return self.what_zh or self.what, self.fix_zh or self.fix
        return self.what, self.fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All entries, in the order of the page, and how long it took to find them, in seconds."""

    entries: tuple[Entry, ...]
    seconds: float

    @property
    def healthy(self) -> bool:
        return all(entry.level is not Level.ERROR for entry in self.entries)

    def count(self, level: Level) -> int:
        return sum(entry.level is level for entry in self.entries)

    def to_dict(self) -> dict[str, Any]:
        entries = [asdict(entry) | {"level": entry.level.value} for entry in self.entries]
        return {"healthy": self.healthy, "seconds": round(self.seconds, 2), "entries": entries}
