"""A report as a page for a notebook: static HTML in the house's look, on light and dark pages."""

from __future__ import annotations

import html

from nbdist.doctor.report import SECTIONS, Entry, Level, Report
from nbdist.doctor.text import MARKS, report_text, verdict
from nbdist.panel.style import sheet

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
""",
)
