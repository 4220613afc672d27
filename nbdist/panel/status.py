"""Runs and their ranks at this moment: a table as text, and as static HTML."""

from __future__ import annotations

import html
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from nbdist.diagnosis.silent import MistakeReader
from nbdist.feed.curves import spark_of
from nbdist.feed.labels import ranks_text, state_mark, state_word
from nbdist.feed.measures import FailureWatch, glance
from nbdist.feed.stalling import StallReader, held_words, slow_text, stall_sentence
from nbdist.feed.view import (
    RankView,
    RunView,
    UsageWatch,
    duration,
    memory_text,
    number_text,
    progress_text,
    rate_text,
    use_text,
    view_of,
)
from nbdist.model import RankState, Run, RunState
from nbdist.panel.look import mark, page_sheet, rank_chip, text_table
from nbdist.store import RunDirectory, RunReader
from nbdist.store.run_store import unreadable
from nbdist.text import say

_PERIOD = 1.0
_LIMIT = 3600.0
_LINE = 80


class StatusReader:
    """Views of these runs at each look, with their first ``failures`` on request. A run that cannot be read
    is lost, with the reason; a deleted one is left out."""

    def __init__(self, directories: Sequence[RunDirectory], *, failures: bool = False) -> None:
        self._failures = failures
        self._runs = [
            (directory, RunReader(directory), UsageWatch(), StallReader(directory), MistakeReader(directory))
            for directory in directories
        ]
        self._ended: dict[RunDirectory, RunView] = {}

    def look(self, now: float) -> list[RunView]:
        """Return the views of the runs at the moment ``now`` (Unix seconds)."""
        views = []
        for directory, reader, watch, stalls, mistakes in self._runs:
            if (run := reader.look() or unreadable(directory)) is None:
                continue
            if directory in self._ended:
                views.append(self._ended[directory])
                continue
            seen = glance(run, directory, now)
            # this process measures only where the supervisor does not
            usage = {} if seen.system else watch.look(run)
            view = view_of(
                run,
                now=now,
                usage=usage,
                last_lines=seen.last_lines,
                system=seen.system,
                rates=seen.rates,
                progress=None if run.state is RunState.FINISHED else seen.progress,
                failure=FailureWatch(directory).look(run) if self._failures else None,
                stall=stalls.look(run) if not run.state.terminal else None,
                slow=seen.slow,
                mistakes=mistakes.look(run),
            )
            if run.state.terminal:
                view = self._ended[directory] = replace(view, about=_about(run, directory))
            views.append(view)
        return views


def _about(run: Run, directory: RunDirectory) -> str:
    """Return ``lenet.ipynb · 11-20 14:15 · loss 0.0435``."""
    spark, stands = spark_of(run, directory)
    ended = time.localtime(run.ended if run.ended is not None else run.spec.created)
    metric = "" if spark is None else f"{spark.tag} {number_text(stands)}"
    notebook = os.path.basename(run.spec.notebook)
    return " · ".join(filter(None, (notebook, time.strftime("%m-%d %H:%M", ended), metric)))


def watch_status(
    read: Callable[[], list[RunView]],
    show: Callable[[list[RunView]], object],
    wait: Callable[[float], object],
    *,
    shown: Sequence[RunView],
    grain: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Show the views each second if they differ from those ``shown``, until all runs have ended or an hour is
    over. Times differ every ``grain`` seconds; ``wait`` returns True at once when no page shows the table."""
    end, views = clock() + _LIMIT, shown
    known = _coarse(views, grain)
    while any(view.live for view in views) and clock() < end and not wait(_PERIOD):
        views = read()
        if (text := _coarse(views, grain)) != known:
            known = text
            show(views)


def _coarse(views: Sequence[RunView], grain: float) -> str:
    """Return the table with its times in steps of ``grain`` seconds."""

    def stepped(seconds: float) -> float:
        return math.floor(seconds / grain) * grain

    def coarse(view: RunView) -> RunView:
        progress = view.progress
        if progress is not None and progress.remaining is not None:
            progress = replace(progress, remaining=stepped(progress.remaining))
        ranks = tuple(replace(rank, elapsed=stepped(rank.elapsed)) for rank in view.ranks)
        return replace(view, elapsed=stepped(view.elapsed), progress=progress, ranks=ranks)

    return status_text([coarse(view) for view in views], "en")


def status_bundle(views: Sequence[RunView], language: str, now: float) -> dict[str, str]:
    """Return the table for a notebook, as HTML and as plain text; ``now`` in Unix seconds."""
    return {"text/plain": status_text(views, language), "text/html": status_html(views, language, now)}


def shows_ranks(view: RunView, views: Sequence[RunView]) -> bool:
    """Return whether a table of these runs lists the ranks of this one: only of live ones, or of one run."""
    return view.live or len(views) == 1


def rank_cells(rank: RankView, view: RunView, language: str) -> dict[str, str]:
    """Return the cells of a rank, by column."""
    return {
        "rank": str(rank.rank),
        "state": _held_text(view, rank, language) or _rank_state_text(rank, language),
        "device": rank.device,
        "pid": str(rank.pid or ""),
        "memory": memory_text(rank),
        "use": use_text(rank),
        "rate": rate_text(rank.rate),
        "elapsed": duration(rank.elapsed),
        "last-line": rank.last_line.strip(),
    }


def run_state_text(view: RunView, language: str) -> str:
    """Return ``Running``; ``Stalled`` for a hang; ``Idle`` for a session without a cell."""
    if view.idle:
        return say("panel.session-idle", language).capitalize()
    return say("panel.stalled", language) if view.hangs else state_word(RunState(view.state), language)


def _remarks(view: RunView, language: str) -> list[str]:
    stall = stall_sentence(view.stall, view.elapsed, language) if view.hangs and view.stall else ""
    slow = slow_text(view.slow, language) if view.slow is not None and view.live else ""
    reason = view.reason_zh if language == "zh" else view.reason
    warnings = [warning.sentence(language) for warning in view.warnings]
    resumed = say("panel.goes-on-from", language, run=view.resumed) if view.resumed else ""
    texts = (stall, progress_text(view, language), slow, reason, resumed, view.about, *warnings)
    return [text for text in texts if text]


def _held_text(view: RunView, rank: RankView, language: str) -> str:
    """Return ``Held up, time.sleep`` or ``Waiting, all_reduce``; empty for any other rank."""
    if rank.state != "running":
        return ""
    if view.slow is not None and view.slow.rank == rank.rank and view.live:
        return say("panel.slowest", language).capitalize()
    kind, call = _held(view, rank)
    key = {"held": "held-up", "waits": "waiting", "loads": "waiting"}.get(kind)
    return ", ".join(filter(None, (say(f"panel.{key}", language), call))) if view.hangs and key else ""


def _held(view: RunView, rank: RankView) -> tuple[str, str]:
    return held_words(view.stall).get(rank.rank, ("", "")) if view.stall is not None else ("", "")


def _rank_state_text(rank: RankView, language: str) -> str:
    """Return ``Running``; ``Failed, exit 1``; ``Stopped, SIGTERM``."""
    state = state_word(RankState(rank.state), language)
    if rank.state == "running" and rank.exit:
        return (rank.exit_zh if language == "zh" else rank.exit).capitalize()
    if rank.state not in ("failed", "stopped") or not rank.exit:
        return state
    ended = re.fullmatch(r"stopped by nbdist \((\w+)\)", rank.exit)
    return f"{state}, {rank.exit if ended is None else ended[1]}"


_RANKS = 16
_HEADS = ("rank", "state", "device", "memory", "use", "rate", "elapsed", "pid", "last-line")
_COLUMNS = ("run", "rank", "state", "device", "pid", "memory", "use", "rate", "elapsed", "last-line")
_IF_KNOWN = ("use", "rate")
_OF_RANKS = ("rank", "device", "pid", "memory", *_IF_KNOWN)


def status_text(views: Sequence[RunView], language: str) -> str:
    """Return a line for each run, and for each of its ranks (``shows_ranks``)."""
    if not views:
        return say("panel.no-runs", language)
    rows: list[dict[str, str]] = []
    for view in views:
        state, remarks = run_state_text(view, language), " · ".join(_remarks(view, language))
        elapsed = duration(view.elapsed)
        rows.append({"run": view.label, "state": state, "elapsed": elapsed, "last-line": remarks})
        for rank in view.ranks if shows_ranks(view, views) else ():
            cells = rank_cells(rank, view, language)
            rows.append(cells | {"last-line": cells["last-line"][:_LINE]})
    # leave out empty columns
    optional = _IF_KNOWN if any("rank" in row for row in rows) else _OF_RANKS
    kept = [column for column in _COLUMNS if column not in optional or any(row.get(column) for row in rows)]
    titles = [say("panel." + column, language) for column in kept]
    return text_table([titles, *([row.get(column, "") for column in kept] for row in rows)])


def status_html(views: Sequence[RunView], language: str, now: float) -> str:
    """Return a table with a heading for each run and a line for each of its ranks (``shows_ranks``)."""
    if not views:
        return f"<p>{html.escape(say('panel.no-runs', language))}</p>"
    heads = _HEADS if any(shows_ranks(view, views) for view in views) else ()
    head = "".join(f"<th>{html.escape(say('panel.' + column, language))}</th>" for column in heads)
    body = "".join(_run(view, language, ranks=shows_ranks(view, views)) for view in views)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    foot = html.escape(say("panel.as-of", language, time=moment))
    return (
        f'{page_sheet("status")}<div class="nbdist-status"><table><thead><tr>{head}</tr></thead>'
        f'{body}</table><div class="n-muted">{foot}</div></div>'
    )


def _run(view: RunView, language: str, *, ranks: bool) -> str:
    shown = _that_matter(view) if ranks else []
    rows = "".join(_rank(rank, view, language) for rank in shown)
    if ranks and len(shown) < len(view.ranks):
        rows += _others(view, shown, language)
    return f"<tbody>{_heading(view, language)}{rows}</tbody>"


def _heading(view: RunView, language: str) -> str:
    about = [ranks_text(len(view.ranks), language), duration(view.elapsed), *_remarks(view, language)]
    bar = ""
    if view.progress is not None and view.live:
        share = 100 * min(1.0, max(0.0, view.progress.fraction))
        bar = f'<span class="n-bar"><span style="width:{share:.0f}%"></span></span> '
    return (
        f'<tr class="n-run"><th colspan="{len(_HEADS)}">{mark("stalled" if view.hangs else view.state)} '
        f"{html.escape(run_state_text(view, language))} <code>{html.escape(view.label)}</code> "
        f'{bar}<span class="n-muted">{html.escape(" · ".join(about))}</span></th></tr>'
    )


def _rank(rank: RankView, view: RunView, language: str) -> str:
    cells = {column: html.escape(text) for column, text in rank_cells(rank, view, language).items()}
    attributes = {
        "elapsed": ' class="n-extra"',
        "pid": ' class="n-extra"',
        "last-line": f' class="n-last" title="{cells["last-line"]}"',
    }
    if cells["rate"]:
        # a narrow page has no headings, and this figure alone would mean nothing
        attributes["rate"] = f' class="n-rate" data-unit="{html.escape(say("panel.rate", language))}"'
    shown = rank.state
    if _held_text(view, rank, language):
        shown = "stalled" if _held(view, rank)[0] == "held" else "pending"
    cells |= {"rank": rank_chip(str(rank.rank)), "state": f"{mark(shown)} {cells['state']}"}
    return "<tr>" + "".join(f"<td{attributes.get(head, '')}>{cells[head]}</td>" for head in _HEADS) + "</tr>"


def _that_matter(view: RunView) -> list[RankView]:
    """Return all ranks; of many, first those that failed, then the lowest."""
    if len(view.ranks) <= _RANKS:
        return list(view.ranks)
    weighed = sorted(view.ranks, key=lambda rank: (rank.state not in ("failed", "lost"), rank.rank))
    return sorted(weighed[: _RANKS // 2], key=lambda rank: rank.rank)


def _others(view: RunView, shown: Sequence[RankView], language: str) -> str:
    """Return a line that counts the other ranks by state."""
    left = Counter(rank.state for rank in view.ranks)
    left.subtract(rank.state for rank in shown)
    counts = "  ".join(
        f"{state_mark(state)} {count} {state_word(RankState(state), language)}"
        for state, count in left.most_common()
        if count
    )
    return f'<tr><td>…</td><td colspan="{len(_HEADS) - 1}">{html.escape(counts)}</td></tr>'
