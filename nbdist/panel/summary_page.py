"""The summary of a finished run as HTML: words, lists and details, which a style only makes pleasant.

Each part has a budget, so that no run makes a notebook that cannot be opened.
"""

from __future__ import annotations

import html
import itertools
import time
from collections.abc import Sequence

from nbdist.diagnosis import Diagnosis, Group, Hint
from nbdist.diagnosis.ranks import rank_ranges
from nbdist.diagnosis.report import error_text, traceback_lines
from nbdist.model import Run, RunState
from nbdist.panel.ansi import ansi_html, printable
from nbdist.panel.columns import clipped, shortened
from nbdist.panel.curves import Curve, curve_svg
from nbdist.panel.endings import logs_title, outcomes, remarks
from nbdist.panel.facts import Facts
from nbdist.panel.figures import number_text, percent
from nbdist.panel.labels import (
    exit_text,
    failure_title,
    ranks_text,
    state_mark,
    state_word,
)
from nbdist.panel.stalling import StallView, hung_lines
from nbdist.panel.style import rank_chip, sheet
from nbdist.panel.view import duration
from nbdist.text import reason_text, say

_CURVES = 6
_VALUES = 30
_SHOWN = 8
_OPEN_LINES = 20
# characters
_LOGS_ROOM = 24_000
_REPORT_ROOM = 4_000
_MESSAGE_ROOM = 1_500
_LINE_ROOM = 300
_NAME_ROOM = 60


def summary_page(facts: Facts, language: str, notes: Sequence[str]) -> str:
    run = facts.run
    parts = [head_html(facts, language)]
    if run.state is not RunState.SUCCEEDED:
        parts.append(outcomes_html(facts, language))
    if facts.diagnosis is not None:
        parts.append(failure_html(facts.diagnosis, facts, language))
    if facts.stall is not None:
        parts.append(stall_html(facts.stall, language))
    if facts.curves:
        parts.append(_metrics(facts, language))
    parts += [f"<div>{html.escape(note)}</div>" for note in remarks(facts, language, notes)]
    parts.append(_logs(facts, language))
    parts.append(_foot(facts, language))
    named = f'data-run="{html.escape(run.run_id)}" data-label="{_escaped(run.label, _NAME_ROOM)}"'
    return f'{SHEET}<div class="nbdist-summary" {named}>{"".join(parts)}</div>'


def head_html(facts: Facts, language: str) -> str:
    run, state = facts.run, facts.run.state
    said = [ranks_text(run.spec.world_size, language), duration(run.elapsed(0))]
    if facts.progress is not None:
        so_far = ", ".join(filter(None, (percent(facts.progress.fraction), facts.progress.text)))
        said.append(say("panel.at", language, progress=so_far))
    if run.reason:
        said.append(reason_text(run.reason, language))
    return (
        f'<div class="n-head"><span class="n-pill n-{state.value}"><span aria-hidden="true">'
        f"{state_mark(state.value)}</span> <b>{html.escape(state_word(state, language))}</b></span> "
        f"<code>{_escaped(run.label, _NAME_ROOM)}</code> "
        f'<span class="n-muted">{_escaped(" · ".join(said), _LINE_ROOM)}</span></div>'
    )


def outcomes_html(facts: Facts, language: str) -> str:
    cells = "".join(
        f"<div>{rank_chip(clipped(ranks, _NAME_ROOM))} "
        f'<span class="n-{_BY_MARK.get(mark, "muted")}" aria-hidden="true">{mark}</span> '
        f"{html.escape(how)}</div>"
        for ranks, mark, how in outcomes(facts, language)[:_SHOWN]
    )
    return f'<div class="n-ranks">{cells}</div>'


_BY_MARK = {"✓": "succeeded", "✕": "failed"}


def _metrics(facts: Facts, language: str) -> str:
    """The first metrics with their curves, the values of the others behind them."""
    tiles = "".join(_tile(curve, language) for curve in facts.curves[:_CURVES])
    others = " · ".join(
        f"{_escaped(curve.tag, _NAME_ROOM)} <b>{number_text(curve.last)}</b>"
        for curve in facts.curves[_CURVES:_VALUES]
    )
    title = html.escape(say("panel.metrics", language))
    return f'<div class="n-muted">{title}</div><div class="n-metrics">{tiles}</div>' + (
        f"<div>{others}</div>" if others else ""
    )


def _tile(curve: Curve, language: str) -> str:
    first = say("panel.from", language, value=number_text(curve.first))
    drawn = curve_svg(curve)
    begun = f' <span class="n-muted">{html.escape(first)}</span>{drawn}' if drawn else ""
    return f"<div>{_escaped(curve.tag, _NAME_ROOM)} <b>{number_text(curve.last)}</b>{begun}</div>"


def failure_html(diagnosis: Diagnosis, facts: Facts, language: str) -> str:
    failure = diagnosis.failure
    after = max(0.0, failure.time - (facts.run.started or failure.time))
    when = say("panel.at-time", language, time=duration(after))
    parts = [
        f"<div><b>{html.escape(failure_title(failure, language))}</b> "
        f'<span class="n-muted">{html.escape(when)}</span></div>'
    ]
    if facts.code:
        parts.append(_code(facts))
    if said := error_text(failure):
        parts.append(f'<pre class="n-error">{_escaped(said, _MESSAGE_ROOM)}</pre>')
    if diagnosis.hint is not None:
        parts.append(_hint(diagnosis.hint, language))
    parts += [f"<div>{_escaped(note.text(language), _LINE_ROOM)}</div>" for note in diagnosis.notes[:_SHOWN]]
    if lines := traceback_lines(failure, language):
        title = html.escape(say("panel.traceback", language))
        trace = html.escape(_printable(shortened("\n".join(lines), _REPORT_ROOM)))
        parts.append(f"<details><summary>{title}</summary><pre>{trace}</pre></details>")
    if diagnosis.groups:
        parts.append(_others(diagnosis.groups, facts.run, language))
    return f'<div class="n-failure">{"".join(parts)}</div>'


def stall_html(stall: StallView, language: str) -> str:
    """Where the ranks were: the sentence, and the stacks behind it."""
    first, *others = hung_lines(stall, language)
    stacks = _escaped("\n".join(others), _REPORT_ROOM)
    title = html.escape(say("panel.stacks", language))
    folded = f"<details><summary>{title}</summary><pre>{stacks}</pre></details>" if stacks else ""
    return f'<div class="n-failure"><b>{_escaped(first, _MESSAGE_ROOM)}</b>{folded}</div>'


def _hint(hint: Hint, language: str) -> str:
    texts = (hint.cause_zh, hint.fix_zh) if language == "zh" else (hint.cause_en, hint.fix_en)
    rows = "".join(
        f'<div><span class="n-muted">{html.escape(say(f"panel.{key}", language))}</span> '
        f"{_escaped(text, _MESSAGE_ROOM)}</div>"
        for key, text in zip(("cause", "fix"), texts, strict=True)
    )
    return f'<div class="n-hint">{rows}</div>'


def _code(facts: Facts) -> str:
    places = len(str(facts.code[-1].number))
    lines = "\n".join(
        f"<span{' class=n-at' if line.failing else ''}>{'▸' if line.failing else ' '}"
        f"{line.number:>{places + 1}}  {_escaped(line.text, _LINE_ROOM)}</span>"
        for line in facts.code
    )
    # only a line of the program is a link into the cell
    other = "" if _in_program(facts) else " n-other"
    return f'<pre class="n-code{other}">{lines}</pre>'


def _in_program(facts: Facts) -> bool:
    failure = facts.failure
    at = failure.place if failure is not None else None
    return failure is not None and at is not None and failure.sources.is_program(at.file)


def _others(groups: Sequence[Group], run: Run, language: str) -> str:
    """The ranks that ended after it, those of which the same is to be said in one line."""
    count = sum(len(group.ranks) for group in groups)
    title = say("panel.others", language, count=count)
    rows = []
    for group in groups[:_SHOWN]:
        how = exit_text(run.ranks[group.ranks[0]], language) if group.exit else ""
        said = f"{group.kind} ({how})" if group.kind and how else group.kind or how
        ranks = clipped(rank_ranges(group.ranks), _NAME_ROOM)
        rows.append(f"<div>{rank_chip(ranks)} {_escaped(said, _LINE_ROOM)}</div>")
    return f"<details><summary>{html.escape(title)}</summary>{''.join(rows)}</details>"


def _logs(facts: Facts, language: str) -> str:
    """The logs, or their ends: open as far as a reader takes them in at one look, and that of the rank that
    failed first of all."""
    failure = facts.failure
    failed = failure.rank if failure is not None else None
    # equal weights stay in the order of the ranks
    ordered = sorted(facts.logs, key=lambda log: failed not in [rank.rank for rank in log.ranks])
    lengths = itertools.accumulate(len(log.lines) for log in ordered)
    shown = [log for log, length in zip(ordered, lengths, strict=True) if length <= _OPEN_LINES]
    room = _LOGS_ROOM // max(1, len(facts.logs))
    no_output = html.escape(say("panel.no-output", language))
    ends = "".join(
        f"<details{' open' if log in shown else ''}>"
        f"<summary>{html.escape(logs_title(log.ranks, language))}</summary>"
        f"<pre>{_log(log.lines if log.whole else ('…', *log.lines), room) or no_output}</pre></details>"
        for log in facts.logs
    )
    whole = all(log.whole for log in facts.logs)
    title = html.escape(
        say("panel.log", language).capitalize() if whole else say("panel.ends-of-logs", language)
    )
    return f'<div class="n-muted">{title}</div><div class="n-logs">{ends}</div>'


def _log(lines: Sequence[str], room: int) -> str:
    """As many of the last lines, in colours, as fit in ``room`` characters of HTML."""
    kept: list[str] = []
    for line in reversed(lines):
        shown = ansi_html(line)
        if len(shown) > room // 4:
            # markup may not be cut, and text becomes up to five times as long by it
            shown = html.escape(clipped(printable(line), room // 20), quote=False)
        room -= len(shown) + 1
        if room < 0:
            break
        kept.append(shown)
    return "\n".join(reversed(kept))


def _foot(facts: Facts, language: str) -> str:
    run = facts.run
    label = _escaped(run.label, _NAME_ROOM)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.spec.created))
    # the page's extension has buttons for it
    full = f"{html.escape(say('panel.full-log', language))}: <code>%dist_logs {label}</code>"
    text = f'<span class="n-full">{full}</span> <span>{when}</span>'
    kept = sum(len(log.ranks) for log in facts.logs)
    if kept < len(run.ranks):
        kept_text = say("panel.more-ranks", language, shown=kept, count=len(run.ranks))
        text = f"<span>{html.escape(kept_text)}</span> {text}"
    return f'<div class="n-foot n-muted">{text}</div>'


def initial_html(run: Run, language: str) -> str:
    """What stands in for the widget where widgets are not drawn, while the run goes on."""
    return (
        f'{SHEET}<div class="nbdist-summary"><b>{_escaped(run.label, _NAME_ROOM)}</b> '
        f"{html.escape(say('panel.live-elsewhere', language))}</div>"
    )


def _printable(text: str) -> str:
    """``text`` line by line without what a terminal would act on."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(text: str, room: int) -> str:
    return html.escape(clipped(_printable(text), room))


SHEET = sheet(
    "nbdist-summary",
    """
& { border: 1px solid LINE; border-radius: 2px; padding: 8px 12px;
  background: var(--jp-layout-color1, transparent); }
& code, & pre { font: 12px/20px var(--jp-code-font-family, monospace); background: none; color: inherit;
  padding: 0; border: 0; }
& pre { margin: 4px 0; max-height: 320px; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
& details pre { padding: 4px 8px; background: GROUND; }
& summary { cursor: pointer; }
& > div { margin-bottom: 4px; }
& .n-head code { font-weight: 600; margin: 0 4px; }
& .n-pill { display: inline-block; padding: 0 8px; border-radius: 10px; background: GROUND; font-size: 12px; }
& .n-pill b { font-weight: 600; color: var(--jp-ui-font-color1, inherit); }
& .n-pill.n-failed, & .n-pill.n-lost { background: var(--n-soft); }
& .n-failed b, & .n-lost b { color: inherit; }
& .n-ranks { display: flex; flex-wrap: wrap; gap: 4px 24px; padding: 6px 0; border: solid LINE;
  border-width: 1px 0; }
& .n-metrics { display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); gap: 8px 24px; }
& .n-metrics > div { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
& svg { display: block; width: 100%; max-width: 240px; height: 24px; color: var(--n-brand); }
& .n-failure > * { margin: 4px 0; }
& pre.n-code { padding: 4px 0; border: 1px solid LINE; white-space: pre; }
& .n-code > span { display: inline-block; box-sizing: border-box; min-width: 100%; padding: 0 8px; }
& .n-code > .n-at { background: var(--n-soft); box-shadow: inset 3px 0 var(--n-err); }
& pre.n-error { color: var(--n-err); }
& .n-hint { padding: 4px 8px; background: GROUND; }
& .n-hint .n-muted { display: inline-block; min-width: 52px; }
& .n-logs { display: flex; flex-wrap: wrap; gap: 0 24px; }
& .n-logs [open] { flex-basis: 100%; min-width: 0; }
& .n-foot { display: flex; flex-wrap: wrap; gap: 4px 8px; align-items: center; font-size: 12px; margin: 0; }
& .n-c1 { color: var(--n-red); } & .n-c2 { color: var(--n-green); } & .n-c3 { color: var(--n-yellow); }
& .n-c4 { color: var(--n-blue); } & .n-c5 { color: var(--n-magenta); } & .n-c6 { color: var(--n-cyan); }
& .n-c7 { opacity: .7; } & .n-cb { font-weight: 700; } & .n-cd { opacity: .7; }
& .n-ci { font-style: italic; } & .n-cu { text-decoration: underline; }
""",
)
