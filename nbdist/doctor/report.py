"""What the doctor has found: entries, each with a level, and a fix where one is needed; as values, as text
for a terminal, and as static HTML for a notebook, on light and dark pages."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from nbdist.feed.ansi import harmless
from nbdist.feed.labels import pad, width
from nbdist.panel.summary import sheet


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


MARKS = {Level.OK: "✓", Level.INFO: "·", Level.WARNING: "!", Level.ERROR: "✕"}
_FIX = ("fix: ", "解决方法：")


def report_text(report: Report, language: str) -> str:
    chinese = language == "zh"
    lines: list[str] = []
    for section, (english, zh) in SECTIONS.items():
        entries = [entry for entry in report.entries if entry.section == section]
        if entries:
            lines += ["", zh if chinese else english, *_section(entries, language)]
    return harmless("\n".join([*lines[1:], "", verdict(report, language)]))


def _section(entries: Sequence[Entry], language: str) -> list[str]:
    room = max(width(entry.heading(language)) for entry in entries)
    lines = []
    for entry in entries:
        what, fix = entry.texts(language)
        lines.append(f"  {MARKS[entry.level]} {pad(entry.heading(language), room)}  {what}")
        if fix:
            lines.append(f"    {'':<{room}}  {_FIX[language == 'zh']}{fix}")
    return lines


def verdict(report: Report, language: str) -> str:
    """One line: whether runs can be started here."""
    errors, warnings = report.count(Level.ERROR), report.count(Level.WARNING)
    took = f"{report.seconds:.1f} s"
    if language == "zh":
        said = f"{errors} 个问题，{warnings} 个警告" if errors or warnings else "一切正常"
        return f"{said}（{took}）"
    if not errors and not warnings:
        return f"all is well ({took})"
    parts = [
        f"{count} {word}{'s' if count > 1 else ''}"
        for count, word in ((errors, "problem"), (warnings, "warning"))
        if count
    ]
    return f"{', '.join(parts)} ({took})"


_WORDS = {
    Level.OK: ("works", "正常"),
    Level.INFO: ("fact", "信息"),
    Level.WARNING: ("warning", "警告"),
    Level.ERROR: ("problem", "问题"),
}


def report_bundle(report: Report, language: str) -> dict[str, str]:
    """The report for a notebook: as HTML and as plain text."""
    return {"text/html": report_html(report, language), "text/plain": report_text(report, language)}


def report_html(report: Report, language: str) -> str:
    chinese = language == "zh"
    rows = []
    for section, titles in SECTIONS.items():
        entries = [entry for entry in report.entries if entry.section == section]
        if entries:
            rows.append(f'<tr class="n-head"><th colspan="3">{html.escape(titles[chinese])}</th></tr>')
            rows += [_row(entry, language) for entry in entries]
    level = Level.OK if report.healthy else Level.ERROR
    return (
        f'{_SHEET}<div class="nbdist-doctor"><div class="n-verdict">{_mark(level, language)} '
        f"{html.escape(verdict(report, language))}</div><table>{''.join(rows)}</table></div>"
    )


def _row(entry: Entry, language: str) -> str:
    what, fix = entry.texts(language)
    mended = (
        f'<div class="n-fix">{"解决方法" if language == "zh" else "Fix"}: {_code(fix)}</div>' if fix else ""
    )
    title = html.escape(entry.heading(language))
    return (
        f'<tr><td>{_mark(entry.level, language)}</td><td class="n-title">{title}</td>'
        f"<td>{html.escape(what)}{mended}</td></tr>"
    )


def _mark(level: Level, language: str) -> str:
    """A shape beside a word, so that no level is a colour alone."""
    word = _WORDS[level][language == "zh"]
    return (
        f'<span class="n-{level.value}" title="{word}" role="img" aria-label="{word}">{MARKS[level]}</span>'
    )


def _code(fix: str) -> str:
    return f"<code>{html.escape(fix)}</code>"


_SHEET = sheet(
    "nbdist-doctor",
    """
& table { border-collapse: collapse; font: inherit; color: inherit; margin: 4px 0 0; border: 0; width: 100%;
  table-layout: auto; }
& td:last-child { width: 100%; }
& th, & td { text-align: left; padding: 2px 12px 2px 0; border: 0; vertical-align: baseline; max-width: none;
  font-weight: 400; white-space: normal; overflow-wrap: anywhere; }
& tr { background: none; }
& .n-head th { padding-top: 8px; font-weight: 600; border-bottom: 1px solid LINE; }
& .n-verdict { font-weight: 600; }
& .n-title { white-space: nowrap; color: var(--jp-ui-font-color2, inherit); }
& .n-ok { color: var(--n-ok); } & .n-error { color: var(--n-err); } & .n-warning { color: var(--n-warn); }
& .n-fix code { font: 12px/20px var(--jp-code-font-family, monospace); background: GROUND; color: inherit;
  padding: 0 4px; border-radius: 2px; white-space: pre-wrap; }
& { container-type: inline-size; }
@container (max-width: 480px) {
  & td { display: inline-block; padding-right: 6px; } & tr, & th, & td:last-child { display: block; }
  & tr { padding: 2px 0; text-align: left; } & td:last-child { padding-left: 18px; width: auto; }
}
""",
)
