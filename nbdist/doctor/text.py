"""A report as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.doctor.report import SECTIONS, Entry, Level, Report
from nbdist.panel.ansi import harmless
from nbdist.panel.columns import pad, width

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
