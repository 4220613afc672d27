"""What stays when a run has ended: a few lines of text, and static HTML that needs no script.

The HTML is words, lists and details. Each part has a budget, so that no run makes a notebook that cannot be
opened. Greys and state colours are JupyterLab's variables, with fallbacks that are read on either ground. A
code host that takes styles away leaves words, marks and tables.
"""

from __future__ import annotations

import html
import itertools
import time
from collections.abc import Sequence

from nbdist.diagnosis import Failure, Group, Hint, failure_headline, failure_report
from nbdist.diagnosis.exits import rank_ranges
from nbdist.diagnosis.report import error_text, traceback_lines
from nbdist.feed.ansi import ansi_html, printable
from nbdist.feed.curves import Curve, curve_svg, read_curves
from nbdist.feed.given import Given, inputs_of
from nbdist.feed.labels import (
    clipped,
    exit_text,
    ranks_text,
    shortened,
    state_mark,
    state_word,
)
from nbdist.feed.stalling import StallView, hung_lines
from nbdist.feed.summary import Facts, facts_of, logs_title, outcomes, remarks
from nbdist.feed.view import duration, end_reason, number_text, percent
from nbdist.model import Run, RunState
from nbdist.store import RunDirectory
from nbdist.text import reason_text, say

_LIGHT = (
    "--n-err:#b71c1c;--n-ok:#2e7d32;--n-brand:#1565c0;--n-warn:#8a4b00;--n-soft:#fdecea;"
    "--n-0:#0067a8;--n-1:#b84a00;--n-2:#007a5a;--n-3:#9a4c86;--n-4:#5e5200;--n-5:#117690;--n-6:#5a5a5a;"
    "--n-7:#7d1238;--n-on:#fff;--n-red:#b71c1c;--n-green:#00703c;--n-yellow:#7a5b00;--n-blue:#1258a8;"
    "--n-magenta:#8e3b9c;--n-cyan:#0b6e83"
)
_DARK = (
    "--n-err:#ff9d94;--n-ok:#7ccf98;--n-brand:#7cc0fa;--n-warn:#ffb74d;--n-soft:#3a2322;"
    "--n-0:#56b4e9;--n-1:#ff8a4c;--n-2:#2fc39a;--n-3:#d99ac5;--n-4:#f2e07a;--n-5:#9fe3f0;--n-6:#b8b8b8;"
    "--n-7:#ff7f9d;--n-on:#111;--n-red:#ff9d94;--n-green:#7ccf98;--n-yellow:#dfbd5c;--n-blue:#7cc0fa;"
    "--n-magenta:#d9a3e3;--n-cyan:#66cadb"
)
# how JupyterLab and nbconvert, VS Code, and Colab say that a page is dark
_DARK_PAGES = ("[data-jp-theme-light=false]", ".vscode-dark", "[theme=dark]")
_GREY = "color:var(--jp-ui-font-color2,inherit)"
_FONT = "var(--jp-ui-font-family, system-ui, sans-serif)"
_LINE = "var(--jp-border-color2,rgba(127,127,127,.35))"
# between the page and its text on either ground; --jp-layout-color2 leaves grey text too little contrast
_GROUND = "rgba(127,127,127,.1)"


def sheet(name: str, rules: str) -> str:
    """A style element for the class ``name``: the palette, what is common, then ``rules``, in which
    ``&`` stands for the class, ``LINE`` and ``GROUND`` for colours of the page."""
    # three times, to weigh more than what JupyterLab says of tables and code in an output
    own = f".{name}" * 3
    dark = ",".join(f"{page} {own}" for page in _DARK_PAGES)
    text = f"{own}{{{_LIGHT}}}{dark}{{{_DARK}}}{_COMMON}{rules}"
    text = text.replace("&", own).replace("LINE", _LINE).replace("GROUND", _GROUND)
    return f"<style>{' '.join(text.split())}</style>"


_COMMON = f"""
& {{ font: 13px/20px {_FONT}; color: var(--jp-ui-font-color1, inherit);
  font-variant-numeric: tabular-nums; }}
& .n-muted {{ {_GREY}; }}
& .n-succeeded {{ color: var(--n-ok); }} & .n-failed, & .n-lost {{ color: var(--n-err); }}
& .n-running {{ color: var(--n-brand); }} & .n-stopping {{ color: var(--n-warn); }}
& .n-rank {{ display: inline-block; box-sizing: border-box; min-width: 20px; padding: 0 4px;
  border-radius: 2px; background: var(--n-6); color: var(--n-on); font: 700 11px/16px {_FONT};
  text-align: center; white-space: nowrap; }}
""" + "".join(f"& .n-k{rank} {{ background: var(--n-{rank}); }}" for rank in range(8))


def rank_chip(ranks: str) -> str:
    """A rank's number on its colour; for several ranks (``0–3``) on grey."""
    number = f" n-k{int(ranks) % 8}" if ranks.isdigit() else ""
    return f'<span class="n-rank{number}">{ranks}</span>'


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
    parts = [_head(facts, language)]
    parts += [_given(key, given, language) for key, given in _gifts(facts)]
    if run.state is not RunState.SUCCEEDED:
        parts.append(_outcomes(facts, language))
    if facts.failure is not None:
        parts.append(_failure(facts.failure, facts, language))
    if facts.stall is not None:
        parts.append(_stall(facts.stall, language))
    if facts.curves:
        parts.append(_metrics(facts.curves, language))
    parts += [f"<div>{html.escape(note)}</div>" for note in remarks(facts, language, notes)]
    parts.append(_logs(facts, language))
    parts.append(_foot(facts, language))
    named = f'data-run="{html.escape(run.run_id)}" data-label="{_escaped(run.label, _NAME_ROOM)}"'
    return f'{SHEET}<div class="nbdist-summary" {named}>{"".join(parts)}</div>'


def _head(facts: Facts, language: str) -> str:
    run, state = facts.run, facts.run.state
    said = [ranks_text(run.spec.world_size, language), duration(run.elapsed(0))]
    if facts.progress is not None:
        so_far = ", ".join(filter(None, (percent(facts.progress.fraction), facts.progress.text)))
        said.append(say("panel.at", language, progress=so_far))
    if reason := _reason(facts, language):
        said.append(reason)
    if before := run.spec.resumed_label:
        said.append(say("panel.goes-on-from", language, run=before))
    return (
        f'<div class="n-head"><span class="n-pill n-{state.value}"><span aria-hidden="true">'
        f"{state_mark(state.value)}</span> <b>{html.escape(state_word(state, language))}</b></span> "
        f"<code>{_escaped(run.label, _NAME_ROOM)}</code> "
        f'<span class="n-muted">{_escaped(" · ".join(said), _LINE_ROOM)}</span></div>'
    )


def _gifts(facts: Facts) -> list[tuple[str, Given]]:
    """What went into the run and what came out of it, by what it is called."""
    both = (("inputs", inputs_of(facts.run)), ("results", facts.results))
    return [(key, given) for key, given in both if given.values]


def _given(key: str, given: Given, language: str) -> str:
    title = html.escape(say(f"panel.{key}", language))
    values = " · ".join(
        f"<b>{_escaped(name, _NAME_ROOM)}</b> {_escaped(about, _LINE_ROOM)}"
        for name, about in given.texts(language)
    )
    more = f" · +{given.more}" if given.more else ""
    return f'<div><span class="n-muted">{title}</span> {values}{more}</div>'


def _outcomes(facts: Facts, language: str) -> str:
    cells = "".join(
        f"<div>{rank_chip(clipped(ranks, _NAME_ROOM))} "
        f'<span class="n-{_BY_MARK.get(mark, "muted")}" aria-hidden="true">{mark}</span> '
        f"{html.escape(how)}</div>"
        for ranks, mark, how in outcomes(facts, language)[:_SHOWN]
    )
    return f'<div class="n-ranks">{cells}</div>'


_BY_MARK = {"✓": "succeeded", "✕": "failed"}


def curves_html(runs: Sequence[tuple[Run, RunDirectory]], language: str) -> str:
    """The metrics of the runs as still pictures; empty where none logged any."""
    read = ((run, read_curves(run, directory)) for run, directory in runs)
    parts = [
        f"<b>{_escaped(run.label, _NAME_ROOM)}</b>{_metrics(curves, language)}"
        for run, curves in read
        if curves
    ]
    return f'{SHEET}<div class="nbdist-summary">{"".join(parts)}</div>' if parts else ""


def _metrics(curves: Sequence[Curve], language: str) -> str:
    """The first metrics with their curves, the values of the others behind them."""
    tiles = "".join(_tile(curve, language) for curve in curves[:_CURVES])
    others = " · ".join(
        f"{_escaped(curve.tag, _NAME_ROOM)} <b>{number_text(curve.last)}</b>"
        for curve in curves[_CURVES:_VALUES]
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


def _failure(failure: Failure, facts: Facts, language: str) -> str:
    after = max(0.0, failure.time - (facts.run.started or failure.time))
    when = say("panel.at-time", language, time=duration(after))
    parts = [
        f"<div><b>{html.escape(failure_headline(failure, language))}</b> "
        f'<span class="n-muted">{html.escape(when)}</span></div>'
    ]
    if facts.code:
        parts.append(_code(facts))
    if said := error_text(failure):
        parts.append(f'<pre class="n-error">{_escaped(said, _MESSAGE_ROOM)}</pre>')
    if failure.hint is not None:
        parts.append(_hint(failure.hint, language))
    parts += [f"<div>{_escaped(note.text(language), _LINE_ROOM)}</div>" for note in failure.notes[:_SHOWN]]
    if lines := traceback_lines(failure, language):
        title = html.escape(say("panel.traceback", language))
        trace = html.escape(_printable(shortened("\n".join(lines), _REPORT_ROOM)))
        parts.append(f"<details><summary>{title}</summary><pre>{trace}</pre></details>")
    if failure.groups:
        parts.append(_others(failure.groups, facts.run, language))
    return f'<div class="n-failure">{"".join(parts)}</div>'


def _stall(stall: StallView, language: str) -> str:
    """Where the ranks were: the sentence, why they do not go on, and the stacks behind it."""
    first, *others = hung_lines(stall, language)
    why = [line for line in others if not line.startswith(" ")]
    said = "".join(f"<div>{_escaped(line, _MESSAGE_ROOM)}</div>" for line in why)
    stacks = _escaped("\n".join(line for line in others if line.startswith(" ")), _REPORT_ROOM)
    title = html.escape(say("panel.stacks", language))
    folded = f"<details><summary>{title}</summary><pre>{stacks}</pre></details>" if stacks else ""
    return f'<div class="n-failure"><b>{_escaped(first, _MESSAGE_ROOM)}</b>{said}{folded}</div>'


def _hint(hint: Hint, language: str) -> str:
    texts = (hint.cause.text(language), hint.fix.text(language))
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


# characters
_PLAIN_ROOM = 12_000


def _reason(facts: Facts, language: str) -> str:
    """Why it ended early; empty of a run that succeeded."""
    first = None if facts.failure is None else facts.failure.rank
    return reason_text(end_reason(facts.run, first), language)


def headline(facts: Facts, language: str) -> str:
    """``lenet-k3f9 · Finished · 2 ranks · 0:47``, with the reason when it did not succeed."""
    run, reason = facts.run, _reason(facts, language)
    ranks = ranks_text(run.spec.world_size, language)
    text = f"{run.label} · {state_word(run.state, language)} · {ranks} · {duration(run.elapsed(0))}"
    return f"{text} · {reason}" if reason else text


def summary_text(run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()) -> str:
    """The summary as a few lines of text, with ``notes`` at its end."""
    return _text(facts_of(run, directory), language, notes)


def summary_bundle(
    run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()
) -> dict[str, str]:
    """The summary for a notebook: as HTML without scripts or outside resources, and as plain text."""
    return ending(run, directory, language, notes)[0]


def ending(
    run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The summary for a notebook, and what a panel that stays has to say besides what it shows."""
    facts = facts_of(run, directory)
    bundle = {
        "text/plain": _plain(facts, language, notes),
        "text/html": summary_page(facts, language, notes),
    }
    hung = hung_lines(facts.stall, language)[:1] if facts.stall is not None else []
    said = (*hung, *filter(None, (_values(facts, language),)), *remarks(facts, language, notes))
    return bundle, tuple(clipped(printable(line), _LINE_ROOM) for line in said)


def _text(facts: Facts, language: str, notes: Sequence[str]) -> str:
    lines = [headline(facts, language)]
    lines += [_given_text(key, given, language) for key, given in _gifts(facts)]
    if values := _values(facts, language):
        lines.append(values)
    if facts.failure is not None:
        lines.append(failure_headline(facts.failure, language))
    lines += remarks(facts, language, notes)
    return "\n".join(f"[nbdist] {printable(line)}" for line in lines)


def _given_text(key: str, given: Given, language: str) -> str:
    """``Results: acc (float, 0.93), model (state_dict (Linear), 12 MB)``."""
    values = [f"{name} ({about})" for name, about in given.texts(language)]
    more = [f"+{given.more}"] if given.more else []
    return f"{say(f'panel.{key}', language)}: {', '.join([*values, *more])}"


def _values(facts: Facts, language: str) -> str:
    """``metrics: loss=0.0435  acc=0.98``; empty where nothing was logged."""
    values = "  ".join(
        f"{clipped(curve.tag, _NAME_ROOM)}={number_text(curve.last)}" for curve in facts.curves[:_VALUES]
    )
    return f"{say('panel.metrics', language)}: {values}" if values else ""


def _plain(facts: Facts, language: str, notes: Sequence[str]) -> str:
    """All that the HTML says, as text."""
    parts = [_text(facts, language, notes)]
    if facts.run.state is not RunState.SUCCEEDED:
        parts.append("\n".join(" ".join(outcome) for outcome in outcomes(facts, language)))
    if facts.failure is not None:
        parts.append(failure_report(facts.failure, language))
    if facts.stall is not None:
        parts.append("\n".join(hung_lines(facts.stall, language)))
    for log in facts.logs:
        kind = say("panel.log" if log.whole else "panel.end-of-log", language)
        title = f"{logs_title(log.ranks, language)} · {kind}"
        parts.append("\n    ".join([title, *(log.lines or [say("panel.no-output", language)])]))
    cut = (clipped(printable(line), _LINE_ROOM) for line in "\n\n".join(parts).split("\n"))
    return shortened("\n".join(cut), _PLAIN_ROOM)
