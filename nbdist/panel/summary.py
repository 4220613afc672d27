"""What stays when a run has ended: a few lines of text; in a notebook HTML that is readable wherever the
.ipynb is opened, and the same as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.diagnosis import failure_report
from nbdist.model import Run, RunState
from nbdist.panel.ansi import printable
from nbdist.panel.columns import clipped, shortened
from nbdist.panel.endings import logs_title, outcomes, remarks
from nbdist.panel.facts import Facts, facts_of
from nbdist.panel.figures import number_text
from nbdist.panel.labels import failure_title, ranks_text, state_word
from nbdist.panel.stalling import hung_lines
from nbdist.panel.summary_page import summary_page
from nbdist.panel.view import duration
from nbdist.store import RunDirectory
from nbdist.text import reason_text, say

_VALUES = 30
# characters
_PLAIN_ROOM = 12_000
_LINE_ROOM = 300
_NAME_ROOM = 60


def headline(run: Run, language: str) -> str:
    """``lenet-k3f9 · Finished · 2 ranks · 0:47``, with the reason when it did not succeed."""
    ranks = ranks_text(run.spec.world_size, language)
    text = f"{run.label} · {state_word(run.state, language)} · {ranks} · {duration(run.elapsed(0))}"
    return f"{text} · {reason_text(run.reason, language)}" if run.reason else text


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


def summary_html(run: Run, directory: RunDirectory, language: str, notes: Sequence[str] = ()) -> str:
    """The summary as HTML alone."""
    return summary_page(facts_of(run, directory), language, notes)


def _text(facts: Facts, language: str, notes: Sequence[str]) -> str:
    run = facts.run
    lines = [headline(run, language)]
    if values := _values(facts, language):
        lines.append(values)
    if facts.failure is not None:
        lines.append(failure_title(facts.failure, language))
    lines += remarks(facts, language, notes)
    return "\n".join(f"[nbdist] {printable(line)}" for line in lines)


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
    if facts.diagnosis is not None:
        parts.append(failure_report(facts.diagnosis, language))
    if facts.stall is not None:
        parts.append("\n".join(hung_lines(facts.stall, language)))
    for log in facts.logs:
        kind = say("panel.log" if log.whole else "panel.end-of-log", language)
        title = f"{logs_title(log.ranks, language)} · {kind}"
        parts.append("\n    ".join([title, *(log.lines or [say("panel.no-output", language)])]))
    cut = (clipped(printable(line), _LINE_ROOM) for line in "\n\n".join(parts).split("\n"))
    return shortened("\n".join(cut), _PLAIN_ROOM)
