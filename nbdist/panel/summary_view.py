"""The summary of an ended run: a few lines of text, and static HTML without scripts.

Each part of the HTML has a budget, so that every notebook still opens.
"""

from __future__ import annotations

import html
import itertools
import re
import time
from collections.abc import Iterator, Sequence

from nbdist.diagnosis import Failure, Group, Hint, failure_headline, failure_report
from nbdist.diagnosis.exits import rank_ranges
from nbdist.diagnosis.report import error_text, traceback_lines
from nbdist.feed.ansi import ansi_html, printable
from nbdist.feed.curves import Curve, curve_svg, read_curves
from nbdist.feed.given import Given, inputs_of
from nbdist.feed.labels import clipped, exit_text, ranks_text, shortened, state_mark, state_word
from nbdist.feed.stalling import StallView, hung_lines
from nbdist.feed.summary import Facts, facts_of, logs_title, outcomes, remarks
from nbdist.feed.view import duration, end_reason, number_text, percent, stop_text
from nbdist.model import Run, RunState
from nbdist.panel.look import page_sheet, rank_chip
from nbdist.store import RunDirectory
from nbdist.text import reason_text, say

_CURVES = 6
_VALUES = 30
_SHOWN = 8
_IN_LINE = 3  # metrics whose values stand in the first line of a run that finished
_OPEN_LINES = 20
# characters
_PLAIN_ROOM = 12_000
_LOGS_ROOM = 24_000
_REPORT_ROOM = 4_000
_MESSAGE_ROOM = 1_500
_LINE_ROOM = 300
_NAME_ROOM = 60


def summary_text(run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()) -> str:
    """Return the summary as a few lines of text, ``notes`` last."""
    return _text(facts_of(run, directory), language, notes)


def summary_bundle(
    run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()
) -> dict[str, str]:
    """Return the summary as HTML without scripts or outside resources, and as plain text."""
    return ending(run, directory, language, notes)[0]


def ending(
    run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the summary for a notebook, and the lines for a panel that stays."""
    facts = facts_of(run, directory)
    bundle = {"text/plain": _plain(facts, language, notes), "text/html": summary_page(facts, language, notes)}
    hung = hung_lines(facts.stall, language)[:1] if facts.stall is not None else []
    # of a run that finished the panel has the values in its first line
    values = _values(facts, language) if run.state is not RunState.FINISHED else ""
    lines = (*hung, *filter(None, (values,)), *remarks(facts, language, notes))
    return bundle, tuple(clipped(printable(line), _LINE_ROOM) for line in lines)


def initial_html(run: Run, language: str) -> str:
    """Return the output of a live run where widgets are not drawn."""
    elsewhere = html.escape(say("panel.live-elsewhere", language))
    return _page([f"<b>{_escaped(run.label, _NAME_ROOM)}</b> {elsewhere}"])


def curves_html(runs: Sequence[tuple[Run, RunDirectory]], language: str) -> str:
    """Return the metrics of the runs as still pictures; empty where none logged any."""
    read = ((run, read_curves(run, directory)) for run, directory in runs)
    parts = [
        f"<b>{_escaped(run.label, _NAME_ROOM)}</b>{_metrics(curves, language)}"
        for run, curves in read
        if curves
    ]
    return _page(parts) if parts else ""


def summary_page(facts: Facts, language: str, notes: Sequence[str]) -> str:
    """Return the summary as HTML."""
    run = facts.run
    named = f' data-run="{html.escape(run.run_id)}" data-label="{_escaped(run.label, _NAME_ROOM)}"'
    return _page(_parts(facts, language, notes), named)


def _page(parts: Iterator[str] | Sequence[str], attributes: str = "") -> str:
    return f'{page_sheet("summary")}<div class="nbdist-summary"{attributes}>{"".join(parts)}</div>'


def _parts(facts: Facts, language: str, notes: Sequence[str]) -> Iterator[str]:
    yield _head(facts, language)
    for key, given in _gifts(facts):
        yield _given(key, given, language)
    if facts.run.state is not RunState.FINISHED:
        yield _outcomes(facts, language)
    if facts.failure is not None:
        yield f'<div class="n-failure">{"".join(_failure(facts.failure, facts, language))}</div>'
    if facts.stall is not None:
        yield _stall(facts.stall, language)
    if facts.curves:
        yield _metrics(facts.curves, language)
    for note in remarks(facts, language, notes):
        yield f"<div>{html.escape(note)}</div>"
    yield _logs(facts, language)
    yield _foot(facts, language)


def _head(facts: Facts, language: str) -> str:
    run, state = facts.run, facts.run.state
    about = [ranks_text(run.spec.world_size, language), duration(run.elapsed(0))]
    if stopped := stop_text(run, facts.progress, language):
        about.append(stopped)
    elif facts.progress is not None:
        so_far = ", ".join(filter(None, (percent(facts.progress.fraction), facts.progress.text)))
        about.append(say("panel.at", language, progress=so_far))
    if reason := _reason(facts, language):
        about.append(reason)
    if before := run.spec.resumed_label:
        about.append(say("panel.goes-on-from", language, run=before))
    return (
        f'<div class="n-head"><span class="n-pill n-{state.value}"><span aria-hidden="true">'
        f"{state_mark(state.value)}</span> <b>{html.escape(state_word(state, language))}</b></span> "
        f"<code>{_escaped(run.label, _NAME_ROOM)}</code> "
        f'<span class="n-muted">{_escaped(" · ".join(about), _LINE_ROOM)}</span></div>'
    )


def _gifts(facts: Facts) -> list[tuple[str, Given]]:
    """Return the inputs and results of the run, each with its name."""
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
    colours = {"✓": "finished", "✕": "failed"}
    cells = "".join(
        f"<div>{rank_chip(clipped(ranks, _NAME_ROOM))} "
        f'<span class="n-{colours.get(mark, "muted")}" aria-hidden="true">{mark}</span> '
        f"{html.escape(how)}</div>"
        for ranks, mark, how in outcomes(facts, language)[:_SHOWN]
    )
    return f'<div class="n-ranks">{cells}</div>'


def _metrics(curves: Sequence[Curve], language: str) -> str:
    """Return the first metrics with their curves, and the values of the others."""
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


def _failure(failure: Failure, facts: Facts, language: str) -> Iterator[str]:
    after = max(0.0, failure.time - (facts.run.started or failure.time))
    when = html.escape(say("panel.at-time", language, time=duration(after)))
    headline = html.escape(failure_headline(failure, language))
    yield f'<div><b>{headline}</b> <span class="n-muted">{when}</span></div>'
    if facts.code:
        yield _code(facts, failure)
    if message := error_text(failure):
        yield f'<pre class="n-error">{_escaped(message, _MESSAGE_ROOM)}</pre>'
    if failure.hint is not None:
        yield _hint(failure.hint, language)
    for note in failure.notes[:_SHOWN]:
        yield f"<div>{_escaped(note.text(language), _LINE_ROOM)}</div>"
    if lines := traceback_lines(failure, language):
        trace = html.escape(_printable(shortened("\n".join(lines), _REPORT_ROOM)))
        yield _details(say("panel.traceback", language), f"<pre>{trace}</pre>")
    if failure.groups:
        yield _others(failure.groups, facts.run, language)


def _details(title: str, body: str, attributes: str = "") -> str:
    return f"<details{attributes}><summary>{html.escape(title)}</summary>{body}</details>"


def _stall(stall: StallView, language: str) -> str:
    """Return the sentence about the stall, its reasons, and the stacks."""
    first, *others = hung_lines(stall, language)
    why = [line for line in others if not line.startswith(" ")]
    reasons = "".join(f"<div>{_escaped(line, _MESSAGE_ROOM)}</div>" for line in why)
    stacks = _escaped("\n".join(line for line in others if line.startswith(" ")), _REPORT_ROOM)
    folded = _details(say("panel.stacks", language), f"<pre>{stacks}</pre>") if stacks else ""
    return f'<div class="n-failure"><b>{_escaped(first, _MESSAGE_ROOM)}</b>{reasons}{folded}</div>'


def _hint(hint: Hint, language: str) -> str:
    rows = "".join(
        f'<div><span class="n-muted">{html.escape(say(f"panel.{key}", language))}</span> '
        f"{_escaped(text.text(language), _MESSAGE_ROOM)}</div>"
        for key, text in (("cause", hint.cause), ("fix", hint.fix))
    )
    return f'<div class="n-hint">{rows}</div>'


def _code(facts: Facts, failure: Failure) -> str:
    places = len(str(facts.code[-1].number))
    lines = "\n".join(
        f"<span{' class=n-at' if line.failing else ''}>{'▸' if line.failing else ' '}"
        f"{line.number:>{places + 1}}  {_escaped(line.text, _LINE_ROOM)}</span>"
        for line in facts.code
    )
    # only a line of the program is a link into the cell
    in_program = failure.place is not None and failure.sources.is_program(failure.place.file)
    return f'<pre class="n-code{"" if in_program else " n-other"}">{lines}</pre>'


def _others(groups: Sequence[Group], run: Run, language: str) -> str:
    """Return the ranks that ended after the failure, a line for each group."""
    count = sum(len(group.ranks) for group in groups)
    rows = []
    for group in groups[:_SHOWN]:
        how = exit_text(run.ranks[group.ranks[0]], language) if group.exit else ""
        text = f"{group.kind} ({how})" if group.kind and how else group.kind or how
        ranks = clipped(rank_ranges(group.ranks), _NAME_ROOM)
        rows.append(f"<div>{rank_chip(ranks)} {_escaped(text, _LINE_ROOM)}</div>")
    return _details(say("panel.others", language, count=count), "".join(rows))


def _logs(facts: Facts, language: str) -> str:
    """Return the logs, or their ends. The first ``_OPEN_LINES`` lines are open, the failed rank's first."""
    failed = facts.failure.rank if facts.failure is not None else None
    ordered = sorted(facts.logs, key=lambda log: failed not in [rank.rank for rank in log.ranks])
    lengths = itertools.accumulate(len(log.lines) for log in ordered)
    shown = [log for log, length in zip(ordered, lengths, strict=True) if length <= _OPEN_LINES]
    room = _LOGS_ROOM // max(1, len(facts.logs))
    no_output = html.escape(say("panel.no-output", language))
    ends = ""
    for log in facts.logs:
        lines = _log(log.lines if log.whole else ("…", *log.lines), room) or no_output
        ends += _details(
            logs_title(log.ranks, language), f"<pre>{lines}</pre>", " open" if log in shown else ""
        )
    whole = all(log.whole for log in facts.logs)
    title = say("panel.log", language).capitalize() if whole else say("panel.ends-of-logs", language)
    return f'<div class="n-muted">{html.escape(title)}</div><div class="n-logs">{ends}</div>'


def _log(lines: Sequence[str], room: int) -> str:
    """Return the last lines, in colours, that fit in ``room`` characters of HTML."""
    kept: list[str] = []
    for line in reversed(lines):
        shown = ansi_html(line)
        if len(shown) > room // 4:
            # cut before escaping, which makes text up to five times as long
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
    # the page's extension has buttons in its place
    full = f"{html.escape(say('panel.full-log', language))}: <code>%dist_logs {label}</code>"
    text = f'<span class="n-full">{full}</span> <span>{when}</span>'
    kept = sum(len(log.ranks) for log in facts.logs)
    if kept < len(run.ranks):
        kept_text = say("panel.more-ranks", language, shown=kept, count=len(run.ranks))
        text = f"<span>{html.escape(kept_text)}</span> {text}"
    return f'<div class="n-foot n-muted">{text}</div>'


def _printable(text: str) -> str:
    """Return ``text`` without control sequences; its lines stay."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(text: str, room: int) -> str:
    return html.escape(clipped(_printable(text), room))


def _reason(facts: Facts, language: str) -> str:
    """Return the reason for an early end; empty for a run that finished."""
    first = None if facts.failure is None else facts.failure.rank
    return reason_text(end_reason(facts.run, first), language)


def _text(facts: Facts, language: str, notes: Sequence[str]) -> str:
    run = facts.run
    state, ranks = state_word(run.state, language), ranks_text(run.spec.world_size, language)
    stopped = stop_text(run, facts.progress, language) if facts.progress is not None else ""
    headline = [run.label, state, ranks, duration(run.elapsed(0)), stopped, _reason(facts, language)]
    calm = run.state is RunState.FINISHED or run.stopped_as_asked
    one_line = calm and len(facts.curves) <= _IN_LINE
    if one_line:
        headline += [_value(curve) for curve in facts.curves]
    lines = [" · ".join(filter(None, headline))]
    # a note says at the start what the notebook gave
    lines += [_given_text(key, given, language) for key, given in _gifts(facts) if key != "inputs"]
    if (values := _values(facts, language)) and not one_line:
        lines.append(values)
    if facts.failure is not None:
        lines.append(failure_headline(facts.failure, language))
    lines += remarks(facts, language, notes)
    return "\n".join(f"[nbdist] {printable(line)}" for line in lines)


_NUMBER = re.compile(r"-?\d[\d.e+-]*|True|False|nan|-?inf")


def _given_text(key: str, given: Given, language: str) -> str:
    """Return ``Results: acc 0.93, model (state_dict (Linear), 12 MB)``."""
    values = [
        f"{name} {about}" if _NUMBER.fullmatch(about) else f"{name} ({about})"
        for name, about in given.texts(language)
    ]
    more = [f"+{given.more}"] if given.more else []
    return f"{say(f'panel.{key}', language)}: {', '.join([*values, *more])}"


def _values(facts: Facts, language: str) -> str:
    """Return ``metrics: loss=0.0435  acc=0.98``; empty without metrics."""
    values = "  ".join(map(_value, facts.curves[:_VALUES]))
    title = "panel.metrics" if facts.run.spec.world_size == 1 else "panel.metrics-of-ranks"
    return f"{say(title, language)}: {values}" if values else ""


def _value(curve: Curve) -> str:
    return f"{clipped(curve.tag, _NAME_ROOM)}={number_text(curve.last)}"


def _plain(facts: Facts, language: str, notes: Sequence[str]) -> str:
    """Return the content of the HTML as text."""
    parts = [_text(facts, language, notes)]
    if facts.run.state is not RunState.FINISHED:
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
