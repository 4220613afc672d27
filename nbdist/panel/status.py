"""Runs and their ranks at this moment: a table as text, and as static HTML."""

from __future__ import annotations

import html
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any
from urllib.parse import quote

from nbdist.diagnosis.silent import MistakeReader
from nbdist.feed.curves import spark_and_last
from nbdist.feed.labels import ranks_text, state_word
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

_LINE = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView(RunView):
    """A run in a list. ``elsewhere``: its ranks may be on other machines. ``samples`` a second, by rank."""

    session: bool = False
    elsewhere: bool = False
    notebook: str = ""
    cell_id: str = ""
    samples: Mapping[int, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        names = {of_run.name for of_run in fields(RunView)}
        return {name: value for name, value in asdict(self).items() if name in names}


class StatusReader:
    """Views of runs at each look, with their first ``failures`` on request. A run that cannot be read
    is lost, with the reason; a deleted one is left out."""

    def __init__(self, directories: Sequence[RunDirectory] = (), *, failures: bool = False) -> None:
        self._failures = failures
        self._directories = directories
        self._readers: dict[RunDirectory, tuple[RunReader, UsageWatch, StallReader, MistakeReader]] = {}
        self._ended: dict[RunDirectory, StatusView] = {}

    def look(self, now: float, directories: Sequence[RunDirectory] | None = None) -> list[StatusView]:
        """Return the views of the runs, from now on of these, at the moment ``now`` (Unix seconds)."""
        if directories is not None:
            self._directories = directories
        return [view for directory in self._directories if (view := self._view(directory, now)) is not None]

    def _view(self, directory: RunDirectory, now: float) -> StatusView | None:
        if directory not in self._readers:
            of_run = RunReader(directory), UsageWatch(), StallReader(directory), MistakeReader(directory)
            self._readers[directory] = of_run
        reader, watch, stalls, mistakes = self._readers[directory]
        if (run := reader.look() or unreadable(directory)) is None:
            return None
        if directory in self._ended:
            return self._ended[directory]
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
            training=seen.training,
            mistakes=mistakes.look(run),
        )
        listed = StatusView(
            **{of_run.name: getattr(view, of_run.name) for of_run in fields(RunView)},
            session=run.spec.session is not None,
            elsewhere=bool(run.spec.engine),
            notebook=run.spec.notebook,
            cell_id=run.spec.cell_id,
            samples=seen.samples,
        )
        if run.state.terminal:
            listed = self._ended[directory] = replace(listed, about=_about(run, directory))
        return listed


_METRICS = 3  # of an ended run


def _about(run: Run, directory: RunDirectory) -> str:
    """Return ``lenet.ipynb · 11-20 14:15 · loss 0.0435 · acc 0.981``."""
    spark, last = spark_and_last(run, directory)
    ended = time.localtime(run.ended if run.ended is not None else run.spec.created)
    shown = list(last.items())[: _METRICS if spark is not None else 0]
    metrics = (f"{tag} {number_text(value)}" for tag, value in shown)
    notebook = os.path.basename(run.spec.notebook)
    return " · ".join(filter(None, (notebook, time.strftime("%m-%d %H:%M", ended), *metrics)))


Row = dict[str, Any]
"""The cells of a line, by column; ``run`` is a heading, ``mark`` that of the state."""


def run_row(view: RunView, language: str) -> Row:
    """Return the cells of a run, by column; its ranks have lines of their own."""
    return {
        "run": view.label,
        "mark": "stalled" if view.hangs else view.state,
        "state": run_state_text(view, language),
        "elapsed": duration(view.elapsed),
        "last-line": _remarks(view, language),
        "progress": view.progress.fraction if view.progress is not None and view.live else None,
    }


def rank_cells(rank: RankView, view: RunView, language: str) -> Row:
    """Return the cells of a rank, by column."""
    part, call = held_words(view.stall).get(rank.rank, ("", "")) if view.hangs and view.stall else ("", "")
    if view.slow is not None and view.slow.rank == rank.rank and view.live:
        part, call = "slow", ""
    key, shown = _PARTS.get(part, ("", "")) if rank.state == "running" else ("", "")
    words = (say(f"panel.{key}", language).capitalize(), call) if key else ()
    return {
        "rank": str(rank.rank),
        "mark": shown or rank.state,
        "state": ", ".join(filter(None, words)) or _rank_state_text(rank, language),
        "device": rank.device,
        "pid": str(rank.pid or ""),
        "memory": memory_text(rank),
        "use": use_text(rank),
        "rate": rate_text(rank.rate),
        "samples": rate_text(view.samples.get(rank.rank) if isinstance(view, StatusView) else None),
        "elapsed": duration(rank.elapsed),
        "last-line": rank.last_line.strip(),
    }


_PARTS = {
    "held": ("held-up", "stalled"),
    "waits": ("waiting", "pending"),
    "loads": ("waiting", "pending"),
    "slow": ("slowest", "slow"),
}
"""The word and the mark of a rank that runs, by its part in a stall."""


def run_state_text(view: RunView, language: str) -> str:
    """Return ``Running``; ``Stalled`` for a hang; ``Idle`` for a session without a cell."""
    if view.idle:
        return say("panel.session-idle", language).capitalize()
    return say("panel.stalled", language) if view.hangs else state_word(RunState(view.state), language)


def _remarks(view: RunView, language: str) -> str:
    stall = stall_sentence(view.stall, view.elapsed, language) if view.hangs and view.stall else ""
    slow = slow_text(view.slow, language) if view.slow is not None and view.live else ""
    reason = view.reason_zh if language == "zh" else view.reason
    warnings = [warning.sentence(language) for warning in view.warnings]
    resumed = say("panel.goes-on-from", language, run=view.resumed) if view.resumed else ""
    session = say("panel.session", language) if isinstance(view, StatusView) and view.session else ""
    training = view.training.lines(language) if view.training is not None and view.live else ()
    texts = (session, stall, progress_text(view, language), slow, reason, resumed, view.about)
    texts = (*texts, *warnings, *training)
    return " · ".join(filter(None, texts))


def _rank_state_text(rank: RankView, language: str) -> str:
    """Return ``Running``; ``Failed, exit 1``; ``Stopped, SIGTERM``."""
    state = state_word(RankState(rank.state), language)
    if rank.state == "running" and rank.exit:
        return (rank.exit_zh if language == "zh" else rank.exit).capitalize()
    if rank.state not in ("failed", "stopped") or not rank.exit:
        return state
    ended = re.fullmatch(r"stopped by nbdist \((\w+)\)", rank.exit)
    return f"{state}, {rank.exit if ended is None else ended[1]}"


_RANKS = 64
_HEADS = ("rank", "state", "device", "memory", "use", "rate", "samples", "elapsed", "pid", "last-line")
_COLUMNS = ("run", "rank", "state", "device", "pid", *_HEADS[3:7], "elapsed", "last-line")
_IF_KNOWN = ("use", "rate", "samples")
_OF_RANKS = ("rank", "device", "pid", "memory", "elapsed", *_IF_KNOWN)


def shown_ranks(view: RunView, views: Sequence[RunView]) -> Sequence[RankView]:
    """Return the ranks that a table of these runs lists: those of live runs, or of one run."""
    return view.ranks if view.live or len(views) == 1 else ()


def status_text(views: Sequence[RunView], language: str, others: Sequence[Row] = ()) -> str:
    """Return a line for each run, and for each of its ranks (``shown_ranks``), then the ``others``."""
    rows: list[Row] = []
    for view in views:
        rows.append(run_row(view, language))
        cells = (rank_cells(rank, view, language) for rank in shown_ranks(view, views))
        rows += [row | {"last-line": row["last-line"][:_LINE]} for row in cells]
    rows += others
    # leave out empty columns
    optional = _IF_KNOWN if any("rank" in row for row in rows) else _OF_RANKS
    kept = [column for column in _COLUMNS if column not in optional or any(row.get(column) for row in rows)]
    titles = [say("panel." + column, language) for column in kept]
    table = text_table([titles, *([row.get(column, "") for column in kept] for row in rows)]) if rows else ""
    return "\n".join(filter(None, ["" if views else say("panel.no-runs", language), table]))


def status_html(
    views: Sequence[RunView], language: str, now: float, others: Sequence[Row] = (), beside: str = ""
) -> str:
    """Return a table with a heading for each run and a line for each of its ranks (``shown_ranks``), then the
    ``others``. A run links to its cell, from the folder ``beside`` of the notebook that shows the table."""
    none = "" if views else f"<p>{html.escape(say('panel.no-runs', language))}</p>"
    if none and not others:
        return none
    samples = any(isinstance(view, StatusView) and view.samples for view in views)
    heads = [head for head in _HEADS if samples or head != "samples"]
    titles = heads if others or any(shown_ranks(view, views) for view in views) else ()
    head = "".join(f"<th>{html.escape(say('panel.' + column, language))}</th>" for column in titles)
    body = "".join(_run(view, views, language, heads, beside) for view in views)
    rest = "".join(_row(row, heads, language) for row in others)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    foot = html.escape(say("panel.as-of", language, time=moment))
    return (
        f'{page_sheet("status")}<div class="nbdist-status">{none}<table><thead><tr>{head}</tr></thead>'
        f'{body}<tbody>{rest}</tbody></table><div class="n-muted">{foot}</div></div>'
    )


def _run(view: RunView, views: Sequence[RunView], language: str, heads: Sequence[str], beside: str) -> str:
    ranks = shown_ranks(view, views)
    # of many ranks first those that failed
    first = sorted(ranks, key=lambda rank: rank.state not in ("failed", "lost"))[:_RANKS]
    cells = (rank_cells(rank, view, language) for rank in sorted(first, key=lambda rank: rank.rank))
    rows = "".join(_row(row, heads, language) for row in cells)
    if left := len(ranks) - len(first):
        more = html.escape(say("panel.more-lines", language, count=left))
        rows += f'<tr><td colspan="{len(heads)}">{more}</td></tr>'
    row, bar = run_row(view, language), ""
    if row["progress"] is not None:
        share = 100 * min(1.0, max(0.0, row["progress"]))
        bar = f'<span class="n-bar"><span style="width:{share:.0f}%"></span></span> '
    name = f"<code>{html.escape(view.label)}</code>"
    if isinstance(view, StatusView) and beside and view.notebook and re.fullmatch(r"[\w-]+", view.cell_id):
        path = quote(os.path.relpath(view.notebook, beside))
        name = f'<a href="{html.escape(path)}#cell-id={view.cell_id}">{name}</a>'
    about = filter(None, (ranks_text(len(view.ranks), language), row["elapsed"], row["last-line"]))
    return (
        f'<tbody><tr class="n-run"><th colspan="{len(heads)}">{mark(row["mark"])} '
        f"{html.escape(row['state'])} {name} "
        f'{bar}<span class="n-muted">{html.escape(" · ".join(about))}</span></th></tr>{rows}</tbody>'
    )


def _row(row: Row, heads: Sequence[str], language: str) -> str:
    cells = {head: html.escape(row.get(head, "")) for head in heads}
    attributes = {
        "elapsed": ' class="n-extra"',
        "pid": ' class="n-extra"',
        "last-line": f' class="n-last" title="{cells["last-line"]}"',
    }
    for column in filter(cells.get, ("rate", "samples")):
        # a narrow page has no headings, and this figure alone would mean nothing
        unit = html.escape(say("panel." + column, language))
        attributes[column] = f' class="n-rate" data-unit="{unit}"'
    if cells["rank"]:
        cells["rank"] = rank_chip(cells["rank"])
    if "mark" in row:
        cells["state"] = f"{mark(row['mark'])} {cells['state']}"
    line = "".join(f"<td{attributes.get(head, '')}>{cells[head]}</td>" for head in heads)
    name = f'<tr class="n-run"><th colspan="{len(heads)}">{html.escape(row.get("run", ""))}</th></tr>'
    return f"{name if row.get('run') else ''}<tr>{line}</tr>"
