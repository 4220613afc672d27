"""Report of the doctor: entries by ``checks.toml``, as values, text and static HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache
from typing import Any

from nbdist.feed.ansi import harmless
from nbdist.feed.labels import pad, width
from nbdist.panel.look import sheet
from nbdist.tables import read_table
from nbdist.text import fill, say


class Level(Enum):
    """Level of an entry. INFO: a fact; WARNING: works, but worse than it could; ERROR: does not work."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finding. Scripts search for ``title``; ``what`` is the finding, ``fix`` what to type, ``repair``
    the repair of ``--fix``. An empty Chinese text falls back to English."""

    section: str
    title: str
    level: Level
    what: str
    fix: str = ""
    what_zh: str = ""
    fix_zh: str = ""
    repair: str = ""

    def heading(self, language: str) -> str:
        return str(checks()["titles"].get(self.title, self.title)) if language == "zh" else self.title

    def texts(self, language: str) -> tuple[str, str]:
        """Return finding and fix."""
        if language == "zh":
            return self.what_zh or self.what, self.fix_zh or self.fix
        return self.what, self.fix


@cache
def checks() -> Mapping[str, Mapping[str, Any]]:
    """Return the table: sections, titles in Chinese, and by section the checks."""
    return read_table(__file__, "checks")


def find(code: str, level: Level | None = None, /, **facts: object) -> Entry:
    """Return the entry of the check ``section.name``, with ``level`` where the facts decide it."""
    section, _, name = code.partition(".")
    row = checks()[section][name]
    level = level or Level(row["level"])
    texts = {
        key: fill(row.get(key, ""), facts, "zh" if key.endswith("_zh") else "en")
        for key in ("title", "what", "what_zh", "fix", "fix_zh", "repair")
        if level is not Level.OK or key not in ("fix", "fix_zh", "repair")
    }
    return Entry(section=section, level=level, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Entries in the order of the page, and the seconds that the examination took."""

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


def report_text(report: Report, language: str) -> str:
    lines: list[str] = []
    for title, entries in _sections(report, language):
        lines += ["", title]
        room = max(width(entry.heading(language)) for entry in entries)
        for entry in entries:
            what, fix = entry.texts(language)
            lines.append(f"  {MARKS[entry.level]} {pad(entry.heading(language), room)}  {what}")
            if fix:
                lines.append(f"    {'':<{room}}  {say('doctor.fix-in-text', language)}{fix}")
    return harmless("\n".join([*lines[1:], "", verdict(report, language)]))


def _sections(report: Report, language: str) -> Iterator[tuple[str, list[Entry]]]:
    for section, titles in checks()["sections"].items():
        if entries := [entry for entry in report.entries if entry.section == section]:
            yield titles[language == "zh"], entries


def verdict(report: Report, language: str) -> str:
    """Return the number of errors and warnings, in one line."""
    counts = {"errors": report.count(Level.ERROR), "warnings": report.count(Level.WARNING)}
    if not any(counts.values()):
        return say("doctor.well", language, seconds=report.seconds)
    parts = [say(f"doctor.{code}", language, count=count) for code, count in counts.items() if count]
    joined = ("，" if language == "zh" else ", ").join(parts)
    return say("doctor.verdict", language, counts=joined, seconds=report.seconds)


def report_bundle(report: Report, language: str) -> dict[str, str]:
    """Return the report for a notebook, as HTML and plain text."""
    rows = []
    for title, entries in _sections(report, language):
        rows.append(f'<tr class="n-head"><th colspan="3">{html.escape(title)}</th></tr>')
        rows += [_row(entry, language) for entry in entries]
    level = Level.OK if report.healthy else Level.ERROR
    page = (
        f'{_SHEET}<div class="nbdist-doctor"><div class="n-verdict">{_mark(level, language)} '
        f"{html.escape(verdict(report, language))}</div><table>{''.join(rows)}</table></div>"
    )
    return {"text/html": page, "text/plain": report_text(report, language)}


def _row(entry: Entry, language: str) -> str:
    what, fix = map(html.escape, entry.texts(language))
    fixed = f'<div class="n-fix">{say("doctor.fix", language)}<code>{fix}</code></div>' if fix else ""
    cells = (
        f"<td>{_mark(entry.level, language)}</td>",
        f'<td class="n-title">{html.escape(entry.heading(language))}</td>',
        f"<td>{what}{fixed}</td>",
    )
    return f"<tr>{''.join(cells)}</tr>"


def _mark(level: Level, language: str) -> str:
    """Return a shape with a word: no level is a colour alone."""
    word = say(f"doctor.{level.value}", language)
    return (
        f'<span class="n-{level.value}" title="{word}" role="img" aria-label="{word}">{MARKS[level]}</span>'
    )


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
