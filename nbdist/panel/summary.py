"""What stays in the notebook when a run has ended: static, readable wherever the .ipynb is opened."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.diagnosis import failure_headline, first_failure
from nbdist.model import Rank, Run, RunState
from nbdist.panel.ansi import strip_ansi
from nbdist.panel.labels import leftover_text, ranks_text, state_word, word
from nbdist.panel.view import duration, view_of
from nbdist.store import LogLines, LogStream, RunDirectory, last_values

_TAIL_BYTES = 16_384
_TAIL_LINES = 15

_MARKS = {
    RunState.SUCCEEDED: ("✓", "#188038"),
    RunState.FAILED: ("✕", "#c5221f"),
    RunState.LOST: ("✕", "#c5221f"),
    RunState.CANCELLED: ("■", "#70757a"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The facts of a finished run that a saved notebook keeps. ``failure`` is one line; the whole report
    is in the cell's error."""

    run: Run
    metrics: tuple[tuple[str, float], ...]
    failure: str
    tails: tuple[tuple[Rank, tuple[str, ...]], ...]


def summarize(run: Run, directory: RunDirectory) -> Summary:
    """Read from the run's directory what its summary shows."""
    failure = first_failure(run, directory)
    return Summary(
        run=run,
        metrics=tuple(last_values(run, directory).items()),
        failure=failure_headline(failure) if failure is not None else "",
        tails=tuple((rank, _tail(rank, run, directory)) for rank in run.ranks[:8]),
    )


def headline(run: Run, language: str) -> str:
    """``lenet-k3f9 · Finished · 2 ranks · 0:47``, with the reason when it did not succeed."""
    ranks = ranks_text(run.spec.world_size, language)
    text = f"{run.label} · {state_word(run.state, language)} · {ranks} · {duration(run.elapsed(0))}"
    return f"{text} · {run.reason}" if run.reason else text


def summary_text(run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()) -> str:
    """The summary as a few lines of text, with ``notes`` at its end."""
    summary = summarize(run, directory)
    lines = [f"[nbdist] {headline(run, language)}"]
    if summary.metrics:
        values = "  ".join(f"{tag}={_number(value)}" for tag, value in summary.metrics)
        lines.append(f"[nbdist] {word('metrics', language)}: {values}")
    if summary.failure:
        lines.append(f"[nbdist] {summary.failure}")
    lines += [f"[nbdist] {note}" for note in (leftover_text(run.leftover, language), *notes) if note]
    return "\n".join(lines)


def summary_html(run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()) -> str:
    """The summary as HTML without scripts or outside resources."""
    summary = summarize(run, directory)
    mark, colour = _MARKS[run.state]
    parts = [
        f'<div class="nbdist-summary-head"><span style="color:{colour}" aria-hidden="true">{mark}'
        f"</span> <b>{html.escape(state_word(run.state, language))}</b> "
        f"<code>{html.escape(run.label)}</code> "
        f"{html.escape(ranks_text(run.spec.world_size, language))} · {duration(run.elapsed(0))}"
        + (f" · {html.escape(run.reason)}" if run.reason else "")
        + "</div>"
    ]
    if summary.metrics:
        cells = " ".join(
            f"<span>{html.escape(tag)} <b>{_number(value)}</b></span>" for tag, value in summary.metrics
        )
        parts.append(
            f'<div class="nbdist-summary-metrics">{html.escape(word("metrics", language))}: {cells}</div>'
        )
    if summary.failure:
        parts.append(f"<div><b>{html.escape(summary.failure)}</b></div>")
    parts += [
        f"<div>{html.escape(note)}</div>" for note in (leftover_text(run.leftover, language), *notes) if note
    ]
    parts += [_tail_html(rank, lines, language) for rank, lines in summary.tails]
    parts.append(
        f'<div class="nbdist-summary-foot">{html.escape(word("full log", language))}: '
        f"<code>%dist_logs {html.escape(run.label)}</code></div>"
    )
    return f'<style>{_STYLE}</style><div class="nbdist-summary">{"".join(parts)}</div>'


_STYLE = """
.nbdist-summary { border: 1px solid var(--jp-border-color2, #dadce0); border-radius: 2px;
  padding: 8px 12px; font: 13px/20px var(--jp-ui-font-family, sans-serif);
  font-variant-numeric: tabular-nums; }
.nbdist-summary code, .nbdist-summary pre { font: 12px/20px var(--jp-code-font-family, monospace);
  background: none; }
.nbdist-summary pre { margin: 4px 0; padding: 8px; max-height: 320px; overflow: auto;
  background: var(--jp-layout-color2, #f5f5f5); white-space: pre-wrap; overflow-wrap: anywhere; }
.nbdist-summary-metrics span { margin-right: 12px; }
.nbdist-summary summary { cursor: pointer; }
.nbdist-summary-foot { color: var(--jp-ui-font-color2, #5f6368); }
"""


def _tail_html(rank: Rank, lines: tuple[str, ...], language: str) -> str:
    title = (
        f"{word('rank', language)} {rank.rank} · {state_word(rank.state, language)} · "
        f"{word('end of log', language)}"
    )
    text = html.escape("\n".join(lines)) if lines else html.escape(word("no output", language))
    return f"<details><summary>{html.escape(title)}</summary><pre>{text}</pre></details>"


def _tail(rank: Rank, run: Run, directory: RunDirectory) -> tuple[str, ...]:
    stream = LogStream(directory.rank(rank.rank, run.attempt).log)
    stream.skip_to_tail(_TAIL_BYTES)
    lines = LogLines()
    found = [*lines.feed(stream.read(_TAIL_BYTES)), *lines.close()]
    return tuple(strip_ansi(line) for line in found[-_TAIL_LINES:])


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def initial_html(run: Run, language: str) -> str:
    """What stands in for the widget where widgets are not drawn, while the run goes on."""
    view = view_of(run, now=run.spec.created)
    return (
        f'<style>{_STYLE}</style><div class="nbdist-summary"><b>{html.escape(view.label)}</b> '
        f"{html.escape(word('live elsewhere', language))}</div>"
    )
