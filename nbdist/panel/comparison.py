"""Several runs beside each other, and the points of a sweep: as text, as static HTML for a notebook, and a
sweep as lines while it goes on."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

from nbdist.feed.ansi import printable
from nbdist.feed.comparison import Compared, Comparison, Row
from nbdist.feed.curves import picked
from nbdist.feed.labels import clipped, cut, pad, state_mark, state_word, width
from nbdist.feed.sweeps import SweepTable, SweepView, main_metric, ranking
from nbdist.feed.view import duration, number_text
from nbdist.model import RunState
from nbdist.panel.summary import sheet
from nbdist.text import messages, reason_text, say, size_text

_BESIDE = 5
"""Runs that are columns, and whose programs are shown; more are rows."""

_COLUMNS = 48  # of a value in text
_DIFF = 80  # lines of a program's differences
_CODED = frozenset({"run", "code", "machine", "time"})
_METRICS = frozenset({"last", "best", "at"})


def comparison_text(found: Comparison, language: str, *, all_rows: bool) -> str:
    """The table, and how the programs differ."""
    rows = found.shown(all_rows=all_rows)
    parts = [_text_table(found, rows, language) if rows else say("compare.same", language)]
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
        "text/html": _framed("nbdist-comparison", "".join(body)),
    }


def _diffed(found: Comparison) -> Sequence[Compared]:
    return found.runs[1:] if len(found.runs) <= _BESIDE else ()


def _name(one: Compared) -> str:
    return f"{one.letter} {one.run.label}"


def _text_table(found: Comparison, rows: Sequence[Row], language: str, *, beside: int = _BESIDE) -> str:
    """Up to ``beside`` runs are columns, more are rows."""
    groups = [_group(row, found, language) for row in rows]
    grid = [["", "", *map(_name, found.runs)]]
    for group, before, row in zip(groups, ["", *groups], rows, strict=False):
        said = "" if group == before else group
        grid.append([said, _title(row, language), *_cells(row, language)])
    if len(found.runs) > beside:
        # a row for each run, and the groups above the names
        grid = [list(column) for column in zip(*grid, strict=True)]
    cells = [[cut(printable(cell), _COLUMNS) for cell in line] for line in grid]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(pad, line, widths)).rstrip() for line in cells)


def _group(row: Row, found: Comparison, language: str) -> str:
    return say(f"compare.group-{row.group}", language, step=found.step)


def _title(row: Row, language: str) -> str:
    coded = row.group in _CODED and row.name in messages("compare")
    return say(f"compare.{row.name}", language) if coded else row.name


def _cells(row: Row, language: str) -> list[str]:
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
    """Runs are columns."""
    head = "".join(f"<th>{_html_name(one)}</th>" for one in found.runs)
    body, before = [], ""
    for row in rows:
        group = _group(row, found, language)
        shown, before = ("" if group == before else group), group
        cells = "".join(
            f"<td{_MARKED.get(row.group, '')}>{html.escape(printable(text))}</td>"
            for text in _cells(row, language)
        )
        title = html.escape(printable(_title(row, language)))
        body.append(f'<tr><td class="n-muted">{html.escape(shown)}</td><th>{title}</th>{cells}</tr>')
    return _table(f"<td></td><td></td>{head}", "".join(body))


def _table(head: str, body: str) -> str:
    """A notebook's page scrolls where it is wide."""
    return f'<div class="n-wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


_MARKED = dict.fromkeys(("last", "best", "at"), " class=n-number")


def _html_name(one: Compared) -> str:
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


def _framed(name: str, body: str) -> str:
    """Under a class of its own, in the look of a table."""
    return f'{sheet(name, _LOOK)}<div class="{name}">{body}</div>'


_LOOK = """
& .n-wide { overflow: auto; }
&.nbdist-points .n-wide { max-height: 420px; }
& table { border-collapse: collapse; font: inherit; margin: 4px 0 8px; border: 0; table-layout: auto; }
& th, & td { text-align: left; padding: 2px 16px 2px 0; font-weight: 400; white-space: nowrap; border: 0;
  max-width: 320px; overflow: hidden; text-overflow: ellipsis; vertical-align: baseline; }
& thead th { font-weight: 600; }
&.nbdist-points thead span { font-weight: 400; }
& thead tr { border-bottom: 1px solid LINE; }
& tr { background: none; }
& code, & pre { font: 12px/18px var(--jp-code-font-family, monospace); background: none; color: inherit;
  padding: 0; border: 0; }
& pre { margin: 4px 0 8px; padding: 4px 8px; background: GROUND; max-height: 480px; overflow: auto; }
& summary { cursor: pointer; }
& .n-more { color: var(--n-ok); } & .n-less { color: var(--n-err); }
"""


# A sweep.

_SHARE = 5
"""What a look costs, times this, is the least pause before the next."""

_WIDTH, _HEIGHT = 480, 160
_DRAWN = 32  # curves
_COLOURS = 8


def follow_sweep(
    look: Callable[[], SweepView],
    show: Callable[[SweepView], object],
    *,
    least: float = 0.25,
    wait: Callable[[float], object] = time.sleep,
) -> SweepView:
    """Show a sweep again and again until it has ended, every ``least`` seconds or, where that costs much,
    less often; how it ended. Raises UnknownRun."""
    while True:
        begun = time.monotonic()
        view = look()
        show(view)
        if not view.live:
            return view
        wait(max(least, _SHARE * (time.monotonic() - begun)))


class SweepLines:
    """Writes a line for each point that has ended."""

    def __init__(self, write: Callable[[str], object], language: str) -> None:
        self._write = write
        self._language = language
        self._table = SweepTable(language)
        self._said: set[str] = set()

    def show(self, view: SweepView) -> None:
        ended = [
            (run, directory)
            for run, directory in view.runs
            if run.state.terminal and run.run_id not in self._said and run.started is not None
        ]
        for run, directory in sorted(ended, key=lambda one: one[0].ended or 0.0):
            self._said.add(run.run_id)
            point = run.spec.sweep
            values = " ".join(f"{k}={v}" for k, v in point.values.items()) if point is not None else ""
            state = state_word(run.state, self._language)
            took = duration(run.elapsed(run.ended or 0.0))
            said = [run.label, values, state, took, self._table.cause(run, directory)]
            done = f"{len(self._said)}/{len(view.runs)}"
            self._write(f"[nbdist] {done} {printable(' · '.join(filter(None, said)))}\n")


def sweep_headline(view: SweepView, language: str) -> str:
    """``Sweep lenet-k3f9 · Running · 3 of 8 points · 1 failed · 2 running``."""
    counts = view.counts
    state = state_word(view.state, language)
    head = say(
        "compare.sweep",
        language,
        label=view.sweep.label,
        state=state,
        ended=counts["ended"],
        points=counts["points"],
    )
    kinds = [
        kind for kind in ("failed", "running", "waiting") if counts[kind] and (view.live or kind == "failed")
    ]
    said = [say(f"compare.sweep-{kind}", language, count=counts[kind]) for kind in kinds]
    return " · ".join([head, *said, *filter(None, [reason_text(view.reason, language)])])


def sweep_text(view: SweepView, language: str) -> str:
    """The points as a table, sorted by the main metric."""
    return _sweep_text(view, _sorted(SweepTable(language).compare(view), view), language)


def _sweep_text(view: SweepView, found: Comparison, language: str) -> str:
    table = _text_table(found, found.rows, language, beside=0)
    return f"{sweep_headline(view, language)}\n\n{table}"


def sweep_bundle(view: SweepView, language: str) -> dict[str, str]:
    """The same for a notebook, with the curves of the main metric over each other: as HTML without scripts or
    outside resources, and as plain text."""
    found = _sorted(SweepTable(language).compare(view), view)
    title = html.escape(sweep_headline(view, language))
    body = f"<b>{title}</b>{_html_points(found, language)}{_html_curves(found, view.sweep.metric)}"
    return {"text/plain": _sweep_text(view, found, language), "text/html": _framed("nbdist-points", body)}


def sweep_failures(view: SweepView, language: str) -> str:
    """Which points have failed, and why, a line each."""
    table = SweepTable(language)
    causes = [(run, table.cause(run, directory)) for run, directory in view.runs]
    failed = [f"  {run.label}: {cause}" for run, cause in causes if cause]
    head = say(
        "compare.sweep-failures", language, count=len(failed), points=len(view.runs), label=view.sweep.label
    )
    return "\n".join([head, *failed])


def _sorted(found: Comparison, view: SweepView) -> Comparison:
    """The best point first."""
    order = ranking(found, view.sweep.metric)
    rows = tuple(
        replace(
            row,
            values=tuple(row.values[number] for number in order),
            steps=tuple(row.steps[number] for number in order) if row.steps else (),
        )
        for row in found.rows
    )
    return replace(found, runs=tuple(found.runs[number] for number in order), rows=rows)


def _html_points(found: Comparison, language: str) -> str:
    heads = [
        (html.escape(printable(clipped(_title(row, language), 40))), _group(row, found, language))
        for row in found.rows
    ]
    head = "".join(
        f'<th>{title}<br><span class="n-muted">{html.escape(group)}</span></th>' for title, group in heads
    )
    columns = [_cells(row, language) for row in found.rows]
    body = "".join(
        f"<tr><th>{_html_name(one)}</th>"
        + "".join(f"<td>{html.escape(printable(column[number]))}</td>" for column in columns)
        + "</tr>"
        for number, one in enumerate(found.runs)
    )
    return _table(f"<td></td>{head}", body)


def _html_curves(found: Comparison, wanted: str) -> str:
    """The main metric of the best points in one picture, each with its letter at its end."""
    row, _ = main_metric(found, wanted)
    if row is None:
        return ""
    drawn = [
        (one, [(at, value) for at, value in curve.points if isfinite(at) and isfinite(value)])
        for one in found.runs[:_DRAWN]
        for curve in one.curves
        if curve.tag == row.name
    ]
    points = [point for _, curve in drawn for point in curve]
    if len(points) < 2:
        return ""
    (left, right), (low, high) = (_range([point[axis] for point in points]) for axis in (0, 1))

    def place(at: float, value: float) -> tuple[float, float]:
        x = 4 + (at - left) / (right - left) * (_WIDTH - 24)
        return x, _HEIGHT - 4 - (value - low) / (high - low) * (_HEIGHT - 12)

    lines = []
    for one, curve in drawn:
        if not curve:
            continue
        colour = f"var(--n-{_number(one.letter) % _COLOURS})"
        places = [place(*curve[at]) for at in picked(len(curve), _WIDTH // 2)]
        path, (x, y) = " ".join(f"{x:.0f},{y:.1f}" for x, y in places), places[-1]
        lines.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{path}"></polyline>'
            f'<text x="{x + 3:.0f}" y="{y + 4:.1f}" fill="{colour}" font-size="11">{one.letter}</text>'
        )
    name = html.escape(clipped(row.name, 80))
    return (
        f'<div><b>{name}</b> <span class="n-muted">{number_text(low)} – {number_text(high)}</span></div>'
        f'<svg role="img" aria-label="{name}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'style="max-width:100%">{"".join(lines)}</svg>'
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _number(letter: str) -> int:
    """The number of a run by its letters (``feed.comparison.letter_of``)."""
    number = 0
    for each in letter:
        number = number * 26 + ord(each) - ord("A") + 1
    return number - 1
