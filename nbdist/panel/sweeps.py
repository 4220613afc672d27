"""A sweep as text, as static HTML for a notebook, and as lines while it goes on."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

from nbdist.feed.ansi import printable
from nbdist.feed.comparison import Comparison
from nbdist.feed.labels import clipped, state_word
from nbdist.feed.sweeps import SweepTable, SweepView, main_metric, ranking
from nbdist.feed.view import duration, number_text
from nbdist.panel.comparison import group_of, html_name, text_table, title_of, values_of
from nbdist.panel.summary import sheet
from nbdist.text import reason_text, say

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
    return _text(view, _sorted(SweepTable(language).compare(view), view), language)


def _text(view: SweepView, found: Comparison, language: str) -> str:
    table = text_table(found, found.rows, language, beside=0)
    return f"{sweep_headline(view, language)}\n\n{table}"


def sweep_bundle(view: SweepView, language: str) -> dict[str, str]:
    """The same for a notebook, with the curves of the main metric over each other: as HTML without scripts or
    outside resources, and as plain text."""
    found = _sorted(SweepTable(language).compare(view), view)
    title = html.escape(sweep_headline(view, language))
    body = f"<b>{title}</b>{_html_points(found, language)}{_html_curves(found, view.sweep.metric)}"
    return {
        "text/plain": _text(view, found, language),
        "text/html": f'{_SHEET}<div class="nbdist-points">{body}</div>',
    }


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
        (html.escape(printable(clipped(title_of(row, language), 40))), group_of(row, found, language))
        for row in found.rows
    ]
    head = "".join(
        f'<th>{title}<br><span class="n-muted">{html.escape(group)}</span></th>' for title, group in heads
    )
    columns = [values_of(row, language) for row in found.rows]
    body = "".join(
        f"<tr><th>{html_name(one)}</th>"
        + "".join(f"<td>{html.escape(printable(column[number]))}</td>" for column in columns)
        + "</tr>"
        for number, one in enumerate(found.runs)
    )
    return (
        f'<div class="n-wide"><table><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


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
        path = " ".join(f"{x:.0f},{y:.1f}" for x, y in (place(*point) for point in _thinned(curve)))
        x, y = place(*curve[-1])
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


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    step = max(1, len(points) // (_WIDTH // 2))
    return [*points[::step], points[-1]]


def _number(letter: str) -> int:
    """The number of a run by its letters (``feed.comparison.letter_of``)."""
    number = 0
    for each in letter:
        number = number * 26 + ord(each) - ord("A") + 1
    return number - 1


_SHEET = sheet(
    "nbdist-points",
    """
& .n-wide { overflow: auto; max-height: 420px; }
& table { border-collapse: collapse; font: inherit; margin: 4px 0 8px; border: 0; table-layout: auto; }
& th, & td { text-align: left; padding: 2px 16px 2px 0; font-weight: 400; white-space: nowrap; border: 0;
  max-width: 320px; overflow: hidden; text-overflow: ellipsis; vertical-align: baseline; }
& thead th { font-weight: 600; } & thead span { font-weight: 400; }
& thead tr { border-bottom: 1px solid LINE; }
& tr { background: none; }
& code { font: 12px/18px var(--jp-code-font-family, monospace); background: none; color: inherit;
  padding: 0; }
""",
)
