"""Several runs beside each other, as text and as static HTML for a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence

from nbdist.feed.ansi import printable
from nbdist.feed.comparison import Compared, Comparison, Row
from nbdist.feed.labels import cut, pad, state_mark, state_word, width
from nbdist.feed.view import duration, number_text
from nbdist.model import RunState
from nbdist.panel.summary import sheet
from nbdist.text import messages, say, size_text

_BESIDE = 5
"""Runs that are columns, and whose programs are shown; more are rows."""

_COLUMNS = 48  # of a value in text
_DIFF = 80  # lines of a program's differences
_CODED = frozenset({"run", "code", "machine", "time"})
_METRICS = frozenset({"last", "best", "at"})


def comparison_text(found: Comparison, language: str, *, all_rows: bool) -> str:
    """The table, and how the programs differ."""
    rows = found.shown(all_rows=all_rows)
    parts = [text_table(found, rows, language) if rows else say("compare.same", language)]
    for one in _diffed(found):
        title, lines = _diff(found, one, language)
        parts.append("\n    ".join([title, *map(printable, lines)]))
    return "\n\n".join(parts)


def comparison_bundle(found: Comparison, language: str, *, all_rows: bool) -> dict[str, str]:
    """The same for a notebook: as HTML without scripts or outside resources, and as plain text."""
    rows = found.shown(all_rows=all_rows)
    title = html.escape(say("compare.title", language, count=len(found.runs)))
    body = [f"<b>{title}</b>", _html_table(found, rows, language) if rows else ""]
    body += [] if rows else [f"<div>{html.escape(say('compare.same', language))}</div>"]
    body += [_html_diff(*_diff(found, one, language)) for one in _diffed(found)]
    return {
        "text/plain": comparison_text(found, language, all_rows=all_rows),
        "text/html": f'{_SHEET}<div class="nbdist-comparison">{"".join(body)}</div>',
    }


def _diffed(found: Comparison) -> Sequence[Compared]:
    return found.runs[1:] if len(found.runs) <= _BESIDE else ()


def _name(one: Compared) -> str:
    return f"{one.letter} {one.run.label}"


def text_table(found: Comparison, rows: Sequence[Row], language: str, *, beside: int = _BESIDE) -> str:
    """Up to ``beside`` runs are columns, more are rows."""
    groups = [group_of(row, found, language) for row in rows]
    grid = [["", "", *map(_name, found.runs)]]
    for group, before, row in zip(groups, ["", *groups], rows, strict=False):
        said = "" if group == before else group
        grid.append([said, title_of(row, language), *values_of(row, language)])
    if len(found.runs) > beside:
        # a row for each run, and the groups above the names
        grid = [list(column) for column in zip(*grid, strict=True)]
    cells = [[cut(printable(cell), _COLUMNS) for cell in line] for line in grid]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(pad, line, widths)).rstrip() for line in cells)


def group_of(row: Row, found: Comparison, language: str) -> str:
    return say(f"compare.group-{row.group}", language, step=found.step)


def title_of(row: Row, language: str) -> str:
    coded = row.group in _CODED and row.name in messages("compare")
    return say(f"compare.{row.name}", language) if coded else row.name


def values_of(row: Row, language: str) -> list[str]:
    texts = [_value(row, number, language) for number in range(len(row.values))]
    steps = row.steps or (None,) * len(texts)
    return [text if at is None else f"{text} ({at})" for text, at in zip(texts, steps, strict=True)]


def _value(row: Row, number: int, language: str) -> str:
    value = row.values[number]
    match value:
        case None | "":
            return "–"
        case bool():
            return say("compare.yes" if value else "compare.no", language)
        case str() if (row.group, row.name) == ("run", "state"):
            return f"{state_mark(value)} {state_word(RunState(value), language)}"
        case str():
            return value
    if row.name == "duration" and row.group == "run":
        return duration(value)
    if row.group == "time":
        return f"{value:.0f} %"
    if row.name == "--memory":
        return size_text(int(value))
    if row.group in _METRICS:
        return number_text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _diff(found: Comparison, one: Compared, language: str) -> tuple[str, Sequence[str]]:
    """The words about a program beside the first, and its lines."""
    names = {"run": _name(one), "first": found.runs[0].letter}
    if not one.diff:
        return say(f"compare.{'unknown' if one.diff is None else 'same'}-program", language, **names), ()
    lines, left = one.diff[:_DIFF], len(one.diff) - _DIFF
    more = [say("compare.more-lines", language, count=left)] if left > 0 else []
    return say("compare.program-of", language, **names), [*lines, *more]


def _html_table(found: Comparison, rows: Sequence[Row], language: str) -> str:
    """Runs are columns; a notebook's page scrolls where they are many."""
    head = "".join(f"<th>{html_name(one)}</th>" for one in found.runs)
    body, before = [], ""
    for row in rows:
        group = group_of(row, found, language)
        shown, before = ("" if group == before else group), group
        cells = "".join(
            f"<td{_MARKED.get(row.group, '')}>{html.escape(printable(text))}</td>"
            for text in values_of(row, language)
        )
        title = html.escape(printable(title_of(row, language)))
        body.append(f'<tr><td class="n-muted">{html.escape(shown)}</td><th>{title}</th>{cells}</tr>')
    return (
        f'<div class="n-wide"><table><thead><tr><td></td><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


_MARKED = dict.fromkeys(("last", "best", "at"), " class=n-number")


def html_name(one: Compared) -> str:
    state = one.run.state.value
    return (
        f'<span class="n-{state}" aria-hidden="true">{state_mark(state)}</span> '
        f"{one.letter} <code>{html.escape(one.run.label)}</code>"
    )


def _html_diff(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return f"<div>{html.escape(title)}</div>"
    kinds = {"+": "n-more", "-": "n-less", "@": "n-muted"}
    shown = "\n".join(
        f'<span class="{kinds.get(line[:1], "")}">{html.escape(printable(line))}</span>' for line in lines
    )
    return f"<details open><summary>{html.escape(title)}</summary><pre>{shown}</pre></details>"


_SHEET = sheet(
    "nbdist-comparison",
    """
& .n-wide { overflow-x: auto; }
& table { border-collapse: collapse; font: inherit; margin: 4px 0 8px; border: 0; table-layout: auto; }
& th, & td { text-align: left; padding: 2px 16px 2px 0; font-weight: 400; white-space: nowrap; border: 0;
  max-width: 320px; overflow: hidden; text-overflow: ellipsis; vertical-align: baseline; }
& thead th { font-weight: 600; }
& thead tr { border-bottom: 1px solid LINE; }
& tr { background: none; }
& code, & pre { font: 12px/18px var(--jp-code-font-family, monospace); background: none; color: inherit;
  padding: 0; border: 0; }
& pre { margin: 4px 0 8px; padding: 4px 8px; background: GROUND; max-height: 480px; overflow: auto; }
& summary { cursor: pointer; }
& .n-more { color: var(--n-ok); } & .n-less { color: var(--n-err); }
""",
)
