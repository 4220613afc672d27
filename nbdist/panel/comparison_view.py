"""Runs side by side, and the points of a sweep, as text and as static HTML; a live sweep as lines."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from math import isfinite
from typing import Any

from nbdist.feed.ansi import printable
from nbdist.feed.comparison import Compared, Comparison, Row, main_metric, ranking
from nbdist.feed.curves import Point, picked
from nbdist.feed.labels import clipped, state_mark, state_word
from nbdist.feed.scale import Scaling
from nbdist.feed.sweep_state import SweepTable, SweepView
from nbdist.feed.view import duration, number_text
from nbdist.model import RunState
from nbdist.panel.look import mark, page_sheet, text_table
from nbdist.text import messages, reason_text, say, size_text

_BESIDE = 5  # runs that are columns, and whose programs are shown; more are rows
_COLUMNS = 48  # of a value in text
_DIFF = 80  # lines of a program's differences
_CODED = frozenset({"run", "code", "machine", "time", "training"})
_METRICS = frozenset({"last", "best", "at"})


def comparison_text(comparison: Comparison, language: str, *, all_rows: bool) -> str:
    """Return the table, and the differences of the programs."""
    rows = comparison.shown(all_rows=all_rows)
    parts = list(_changed(comparison, language))
    parts.append(_text_table(comparison, rows, language) if rows else say("compare.same", language))
    for title, lines in _diffs(comparison, language):
        parts.append("\n    ".join([title, *map(printable, lines)]))
    return "\n\n".join(parts)


def comparison_bundle(comparison: Comparison, language: str, *, all_rows: bool) -> dict[str, str]:
    """Return the same as HTML without scripts or outside resources, and as plain text."""
    rows = comparison.shown(all_rows=all_rows)
    title = html.escape(say("compare.title", language, count=len(comparison.runs)))
    table = _html_table(comparison, rows, language) if rows else _html_diff(say("compare.same", language), ())
    diffs = "".join(_html_diff(*diff) for diff in _diffs(comparison, language))
    changed = map(html.escape, _changed(comparison, language))
    changes = "".join(f'<pre class="n-wrap">{text}</pre>' for text in changed)
    return {
        "text/plain": comparison_text(comparison, language, all_rows=all_rows),
        "text/html": _framed("comparison", f"<b>{title}</b>{changes}{table}{diffs}"),
    }


def _changed(comparison: Comparison, language: str) -> Iterator[str]:
    """Yield what a run with more ranks changes in the training, each with the lines of code that undo it."""
    base = comparison.base
    for each in comparison.runs:
        ranks = {"ranks": each.run.spec.world_size, "base_ranks": base.run.spec.world_size}
        names = {"run": f"{each.letter} {each.run.label}", "first": base.letter}
        lines = [say("accuracy.title", language, **ranks, **names)]
        for number, change in enumerate(each.changes, 1):
            lines += [f"  {number}. {change.text.text(language)}", *(f"       {fix}" for fix in change.fixes)]
        if each.changes:
            yield "\n".join(map(printable, lines))


def _text_table(comparison: Comparison, rows: Sequence[Row], language: str, *, beside: int = _BESIDE) -> str:
    """Return a table with a column for each run, or a row for each where they are more than ``beside``."""
    grid = [["", "", *(f"{each.letter} {each.run.label}" for each in comparison.runs)]]
    grid += [[group, title, *cells] for group, title, cells in _grouped(comparison, rows, language)]
    if len(comparison.runs) > beside:
        # a row for each run, and the groups above the names
        grid = [list(column) for column in zip(*grid, strict=True)]
    return text_table(grid, _COLUMNS)


def _grouped(
    comparison: Comparison, rows: Sequence[Row], language: str
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each row's group (empty where the row above has the same), title and cells."""
    above = ""
    for row in rows:
        group = _group(row, comparison, language)
        yield "" if group == above else group, _title(row, language), _cells(row, language)
        above = group


def _group(row: Row, comparison: Comparison, language: str) -> str:
    return say(f"compare.group-{row.group}", language, step=comparison.step)


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
    if row.name in ("--memory", "gradient_bytes"):
        return size_text(int(value))
    if row.group in _METRICS:
        return number_text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _diffs(comparison: Comparison, language: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield a title and the differing lines for each program but the first."""
    first, *others = comparison.runs
    for each in others if len(comparison.runs) <= _BESIDE else ():
        names = {"run": f"{each.letter} {each.run.label}", "first": first.letter}
        if not each.diff:
            code = "unknown" if each.diff is None else "same"
            yield say(f"compare.{code}-program", language, **names), ()
            continue
        lines, left = each.diff[:_DIFF], len(each.diff) - _DIFF
        more = [say("compare.more-lines", language, count=left)] if left > 0 else []
        yield say("compare.program-of", language, **names), [*lines, *more]


def _html_table(comparison: Comparison, rows: Sequence[Row], language: str) -> str:
    head = "".join(f"<th>{_html_name(each)}</th>" for each in comparison.runs)
    body = ""
    for row, (group, title, texts) in zip(rows, _grouped(comparison, rows, language), strict=True):
        number = " class=n-number" if row.group in _METRICS else ""
        cells = "".join(f"<td{number}>{_escaped(text)}</td>" for text in texts)
        body += f'<tr><td class="n-muted">{html.escape(group)}</td><th>{_escaped(title)}</th>{cells}</tr>'
    return _table(f"<td></td><td></td>{head}", body)


def _table(head: str, body: str) -> str:
    """Return a table that scrolls when it is wider than the page."""
    return f'<div class="n-wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _html_name(each: Compared) -> str:
    return f"{mark(each.run.state.value)} {each.letter} <code>{html.escape(each.run.label)}</code>"


def _html_diff(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return f"<div>{html.escape(title)}</div>"
    kinds = {"+": "n-more", "-": "n-less", "@": "n-muted"}
    shown = "\n".join(f'<span class="{kinds.get(line[:1], "")}">{_escaped(line)}</span>' for line in lines)
    return f"<details open><summary>{html.escape(title)}</summary><pre>{shown}</pre></details>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _framed(name: str, body: str) -> str:
    return f'{page_sheet("comparison", name)}<div class="nbdist-{name}">{body}</div>'


_SHARE = 5  # of the duration of a look: the least pause before the next
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
    """Show a sweep every ``least`` seconds, or less often where a look takes long, until it ends; return its
    last view. Raises UnknownRun."""
    while True:
        begun = time.monotonic()
        view = look()
        show(view)
        if not view.live:
            return view
        wait(max(least, _SHARE * (time.monotonic() - begun)))


class SweepLines:
    """Lines of a sweep: one for each point that has ended."""

    def __init__(self, write: Callable[[str], object], language: str) -> None:
        self._write = write
        self._language = language
        self._table = SweepTable(language)
        self._written: set[str] = set()

    def show(self, view: SweepView) -> None:
        ended = [
            (run, directory)
            for run, directory in view.runs
            if run.state.terminal and run.run_id not in self._written and run.started is not None
        ]
        for run, directory in sorted(ended, key=lambda pair: pair[0].ended or 0.0):
            self._written.add(run.run_id)
            point = run.spec.sweep
            values = point.text if point is not None else ""
            state = state_word(run.state, self._language)
            took = duration(run.elapsed(run.ended or 0.0))
            words = [run.label, values, state, took, self._table.cause(run, directory)]
            done = f"{len(self._written)}/{len(view.runs)}"
            self._write(f"[nbdist] {done} {printable(' · '.join(filter(None, words)))}\n")


def sweep_headline(view: SweepView, language: str) -> str:
    """Return ``Sweep lenet-k3f9 · Running · 3 of 8 points · 1 failed · 2 running``."""
    counts, state = view.counts, state_word(view.state, language)
    done = {"ended": counts["ended"], "points": counts["points"]}
    code = "compare.sweep" if view.sweep.span is None else "scale.head"
    head = say(code, language, label=view.sweep.label, state=state, **done)
    kinds = ("failed", "running", "waiting") if view.live else ("failed",)
    words = [say(f"compare.sweep-{kind}", language, count=counts[kind]) for kind in kinds if counts[kind]]
    return " · ".join([head, *words, *filter(None, [reason_text(view.reason, language)])])


def sweep_text(view: SweepView, language: str) -> str:
    """Return the points as a table, sorted by the main metric, or by their ranks."""
    if (scaling := view.scaling) is not None:
        return f"{sweep_headline(view, language)}\n\n{_scale_text(scaling, language)}"
    return _sweep_text(view, _sorted(view, language), language)


def _sweep_text(view: SweepView, points: Comparison, language: str) -> str:
    return f"{sweep_headline(view, language)}\n\n{_text_table(points, points.rows, language, beside=0)}"


def sweep_bundle(view: SweepView, language: str) -> dict[str, str]:
    """Return the same as plain text, and as static HTML with the curves of the main metric in one picture."""
    title = html.escape(sweep_headline(view, language))
    if (scaling := view.scaling) is not None:
        body = f"<b>{title}</b>{_scale_html(scaling, language)}"
        return {"text/plain": sweep_text(view, language), "text/html": _framed("points", body)}
    points = _sorted(view, language)
    body = f"<b>{title}</b>{_html_points(points, language)}{_html_curves(points, view.sweep.metric)}"
    return {"text/plain": _sweep_text(view, points, language), "text/html": _framed("points", body)}


def sweep_failures(view: SweepView, language: str) -> str:
    """Return the failed points with their causes, a line each; the first in the line that counts them."""
    table = SweepTable(language)
    causes = [(run, table.cause(run, directory)) for run, directory in view.runs]
    failed = [f"{run.label}: {cause}" for run, cause in causes if cause]
    first, *others = failed or [""]
    counts = {"count": len(failed), "points": len(view.runs), "first": first, "more": len(others) or ""}
    head = say("compare.sweep-failures", language, label=view.sweep.label, **counts)
    return "\n".join([head, *(f"  {other}" for other in others)])


def _sorted(view: SweepView, language: str) -> Comparison:
    """Return the points side by side, the best first."""
    points = SweepTable(language).compare(view)
    order = ranking(points, view.sweep.metric)

    def in_order(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[number] for number in order) if values else ()

    rows = (replace(row, values=in_order(row.values), steps=in_order(row.steps)) for row in points.rows)
    return replace(points, runs=in_order(points.runs), rows=tuple(rows))


def _html_points(points: Comparison, language: str) -> str:
    head = "".join(
        f"<th>{_escaped(clipped(_title(row, language), 40))}"
        f'<br><span class="n-muted">{html.escape(_group(row, points, language))}</span></th>'
        for row in points.rows
    )
    columns = [_cells(row, language) for row in points.rows]
    body = "".join(
        f"<tr><th>{_html_name(each)}</th>"
        + "".join(f"<td>{_escaped(column[number])}</td>" for column in columns)
        + "</tr>"
        for number, each in enumerate(points.runs)
    )
    return _table(f"<td></td>{head}", body)


def _html_curves(points: Comparison, wanted: str) -> str:
    """Return the main metric of the best points in one picture, each curve with its letter at its end."""
    row, _ = main_metric(points, wanted)
    drawn: list[tuple[Compared, list[Point]]] = [
        (each, [(at, value) for at, value in curve.points if isfinite(at) and isfinite(value)])
        for each in points.runs[:_DRAWN]
        for curve in each.curves
        if row is not None and curve.tag == row.name
    ]
    places = list(chain.from_iterable(curve for _, curve in drawn))
    if row is None or len(places) < 2:
        return ""
    (left, right), (low, high) = (_range([place[axis] for place in places]) for axis in (0, 1))

    def line(each: Compared, curve: Sequence[Point]) -> str:
        spots = [
            (
                4 + (at - left) / (right - left) * (_WIDTH - 24),
                _HEIGHT - 4 - (value - low) / (high - low) * (_HEIGHT - 12),
            )
            for at, value in (curve[at] for at in picked(len(curve), _WIDTH // 2))
        ]
        colour = f"var(--n-{_number(each.letter) % _COLOURS})"
        path, (x, y) = " ".join(f"{x:.0f},{y:.1f}" for x, y in spots), spots[-1]
        return (
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{path}"></polyline>'
            f'<text x="{x + 3:.0f}" y="{y + 4:.1f}" fill="{colour}" font-size="11">{each.letter}</text>'
        )

    lines = "".join(line(each, curve) for each, curve in drawn if curve)
    name = html.escape(clipped(row.name, 80))
    return (
        f'<div><b>{name}</b> <span class="n-muted">{number_text(low)} – {number_text(high)}</span></div>'
        f'<svg role="img" aria-label="{name}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'style="max-width:100%">{lines}</svg>'
    )


def _scale_text(scaling: Scaling, language: str) -> str:
    """Return the table, and the sentence."""
    table = text_table(scaling.table(language))
    return "\n\n".join(filter(None, [table, printable(scaling.sentence(language))]))


def _scale_html(scaling: Scaling, language: str) -> str:
    """Return the same."""
    titles, *rows = scaling.table(language)
    head = "".join(f"<th>{_escaped(title)}</th>" for title in titles)
    cells = ("".join(f"<td class=n-wrap>{_escaped(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<div>{_escaped(scaling.sentence(language))}</div>{_table(head, body)}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _number(letter: str) -> int:
    """Invert ``feed.comparison.letter_of``."""
    return reduce(lambda number, each: number * 26 + ord(each) - ord("A") + 1, letter, 0) - 1
