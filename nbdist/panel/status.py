"""Runs and their ranks at this moment: a table as text, and as static HTML."""

from __future__ import annotations

import html
import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any
from urllib.parse import quote

from nbdist.diagnosis.silent import MistakeReader
from nbdist.feed.curves import spark_and_last
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


@dataclass(frozen=True, slots=True)
class _Watches:
    """The readers of one run."""

    run: RunReader
    usage: UsageWatch
    stalls: StallReader
    mistakes: MistakeReader


class StatusReader:
    """Views of runs at each look, with their first ``failures`` on request. A run that cannot be read
    is lost, with the reason; a deleted one is left out."""

    def __init__(self, directories: Sequence[RunDirectory] = (), *, failures: bool = False) -> None:
        self._failures = failures
        self._directories = directories
        self._watches: dict[RunDirectory, _Watches] = {}
        self._ended: dict[RunDirectory, StatusView] = {}

    def look(self, now: float, directories: Sequence[RunDirectory] | None = None) -> list[StatusView]:
        """Return the views of the runs, from now on of these, at the moment ``now`` (Unix seconds)."""
        if directories is not None:
            self._directories = directories
        return [view for directory in self._directories if (view := self._view(directory, now)) is not None]

    def _view(self, directory: RunDirectory, now: float) -> StatusView | None:
        if (watches := self._watches.get(directory)) is None:
            watches = self._watches[directory] = _Watches(
                RunReader(directory), UsageWatch(), StallReader(directory), MistakeReader(directory)
            )
        if (run := watches.run.look() or unreadable(directory)) is None:
            return None
        if directory in self._ended:
            return self._ended[directory]
        seen = glance(run, directory, now)
        # this process measures only where the supervisor does not
        usage = {} if seen.system else watches.usage.look(run)
        view = view_of(
            run,
            now=now,
            usage=usage,
            last_lines=seen.last_lines,
            system=seen.system,
            rates=seen.rates,
            progress=None if run.state is RunState.FINISHED else seen.progress,
            failure=FailureWatch(directory).look(run) if self._failures else None,
            stall=watches.stalls.look(run) if not run.state.terminal else None,
            slow=seen.slow,
            mistakes=watches.mistakes.look(run),
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


def shows_ranks(view: RunView, views: Sequence[RunView]) -> bool:
    """Return whether a table of these runs lists the ranks of this one: only of live ones, or of one run."""
    return view.live or len(views) == 1


def rank_cells(rank: RankView, view: RunView, language: str) -> dict[str, str]:
    """Return the cells of a rank, by column, and the ``mark`` of its state."""
    part = _part(view, rank)
    return {
        "rank": str(rank.rank),
        "mark": {"": rank.state, "held": "stalled", "slow": "slow"}.get(part, "pending"),
        "state": _held_text(view, rank, part, language) or _rank_state_text(rank, language),
        "device": rank.device,
        "pid": str(rank.pid or ""),
        "memory": memory_text(rank),
        "use": use_text(rank),
        "rate": rate_text(rank.rate),
        "samples": rate_text(view.samples.get(rank.rank) if isinstance(view, StatusView) else None),
        "elapsed": duration(rank.elapsed),
        "last-line": rank.last_line.strip(),
    }


def run_state_text(view: RunView, language: str) -> str:
    """Return ``Running``; ``Stalled`` for a hang; ``Idle`` for a session without a cell."""
    if view.idle:
        return say("panel.session-idle", language).capitalize()
    return say("panel.stalled", language) if view.hangs else state_word(RunState(view.state), language)


def remarks(view: RunView, language: str) -> str:
    """Return what there is to say of a run: ``62 % · epoch 3/4 · 0:51 left``."""
    stall = stall_sentence(view.stall, view.elapsed, language) if view.hangs and view.stall else ""
    slow = slow_text(view.slow, language) if view.slow is not None and view.live else ""
    reason = view.reason_zh if language == "zh" else view.reason
    warnings = [warning.sentence(language) for warning in view.warnings]
    resumed = say("panel.goes-on-from", language, run=view.resumed) if view.resumed else ""
    session = say("panel.session", language) if isinstance(view, StatusView) and view.session else ""
    texts = (session, stall, progress_text(view, language), slow, reason, resumed, view.about, *warnings)
    return " · ".join(filter(None, texts))


def _part(view: RunView, rank: RankView) -> str:
    """Return the part of a running rank in a stall, as ``held_words`` has it, or "slow"; empty for others."""
    if rank.state != "running":
        return ""
    if view.slow is not None and view.slow.rank == rank.rank and view.live:
        return "slow"
    part = held_words(view.stall).get(rank.rank, ("", ""))[0] if view.hangs and view.stall else ""
    return part if part in _PARTS else ""


_PARTS = {"held": "held-up", "waits": "waiting", "loads": "waiting"}


def _held_text(view: RunView, rank: RankView, part: str, language: str) -> str:
    """Return ``Held up, time.sleep`` or ``Waiting, all_reduce``; empty for a rank without such a part."""
    if part == "slow":
        return say("panel.slowest", language).capitalize()
    if not part or view.stall is None:
        return ""
    call = held_words(view.stall)[rank.rank][1]
    return ", ".join(filter(None, (say(f"panel.{_PARTS[part]}", language), call)))


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
_HEADS = ("rank", "state", "device", "memory", "use", "rate", "samples", "elapsed", "pid", "last-line")
_COLUMNS = ("run", "rank", "state", "device", "pid", *_HEADS[3:7], "elapsed", "last-line")
_IF_KNOWN = ("use", "rate", "samples")
_OF_RANKS = ("rank", "device", "pid", "memory", *_IF_KNOWN)


Row = Mapping[str, Any]
"""The cells of a table, by column; ``mark`` is that of the state, ``run`` a heading."""


def status_text(views: Sequence[RunView], language: str, others: Sequence[Row] = ()) -> str:
    """Return a line for each run, and for each of its ranks (``shows_ranks``), then the ``others``."""
    if not views:
        none = say("panel.no-runs", language)
        return none if not others else f"{none}\n{_text(others, language)}"
    rows: list[Row] = []
    for view in views:
        about = {"elapsed": duration(view.elapsed), "last-line": remarks(view, language)}
        rows.append({"run": view.label, "state": run_state_text(view, language), **about})
        for rank in view.ranks if shows_ranks(view, views) else ():
            cells = rank_cells(rank, view, language)
            rows.append(cells | {"last-line": cells["last-line"][:_LINE]})
    return _text([*rows, *others], language)


def _text(rows: Sequence[Row], language: str) -> str:
    # leave out empty columns
    optional = _IF_KNOWN if any("rank" in row for row in rows) else (*_OF_RANKS, "elapsed")
    kept = [column for column in _COLUMNS if column not in optional or any(row.get(column) for row in rows)]
    titles = [say("panel." + column, language) for column in kept]
    return text_table([titles, *([row.get(column, "") for column in kept] for row in rows)])


def status_html(
    views: Sequence[RunView], language: str, now: float, others: Sequence[Row] = (), beside: str = ""
) -> str:
    """Return a table with a heading for each run and a line for each of its ranks (``shows_ranks``), then the
    ``others``. A run links to its cell, from the folder ``beside`` of the notebook that shows the table."""
    none = "" if views else f"<p>{html.escape(say('panel.no-runs', language))}</p>"
    if none and not others:
        return none
    samples = any(isinstance(view, StatusView) and view.samples for view in views)
    heads = [head for head in _HEADS if samples or head != "samples"]
    titles = heads if others or any(shows_ranks(view, views) for view in views) else ()
    head = "".join(f"<th>{html.escape(say('panel.' + column, language))}</th>" for column in titles)
    body = "".join(_run(view, language, heads, beside, ranks=shows_ranks(view, views)) for view in views)
    rest = "".join(_row(row, heads, language) for row in others)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    foot = html.escape(say("panel.as-of", language, time=moment))
    return (
        f'{page_sheet("status")}<div class="nbdist-status">{none}<table><thead><tr>{head}</tr></thead>'
        f'{body}<tbody>{rest}</tbody></table><div class="n-muted">{foot}</div></div>'
    )


def _run(view: RunView, language: str, heads: Sequence[str], beside: str, *, ranks: bool) -> str:
    shown = _that_matter(view) if ranks else []
    cells = (rank_cells(rank, view, language) for rank in shown)
    rows = "".join(_row(row, heads, language) for row in cells)
    if ranks and len(shown) < len(view.ranks):
        rows += _others(view, shown, language, len(heads))
    return f"<tbody>{_heading(view, language, len(heads), beside)}{rows}</tbody>"


def _heading(view: RunView, language: str, columns: int, beside: str) -> str:
    about = (ranks_text(len(view.ranks), language), duration(view.elapsed), remarks(view, language))
    bar = ""
    if view.progress is not None and view.live:
        share = 100 * min(1.0, max(0.0, view.progress.fraction))
        bar = f'<span class="n-bar"><span style="width:{share:.0f}%"></span></span> '
    name = f"<code>{html.escape(view.label)}</code>"
    if isinstance(view, StatusView) and beside and view.notebook and re.fullmatch(r"[\w-]+", view.cell_id):
        path = quote(os.path.relpath(view.notebook, beside))
        name = f'<a href="{html.escape(path)}#cell-id={view.cell_id}">{name}</a>'
    return (
        f'<tr class="n-run"><th colspan="{columns}">{mark("stalled" if view.hangs else view.state)} '
        f"{html.escape(run_state_text(view, language))} {name} "
        f'{bar}<span class="n-muted">{html.escape(" · ".join(filter(None, about)))}</span></th></tr>'
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


def _that_matter(view: RunView) -> list[RankView]:
    """Return all ranks; of many, first those that failed, then the lowest."""
    if len(view.ranks) <= _RANKS:
        return list(view.ranks)
    weighed = sorted(view.ranks, key=lambda rank: (rank.state not in ("failed", "lost"), rank.rank))
    return sorted(weighed[: _RANKS // 2], key=lambda rank: rank.rank)


def _others(view: RunView, shown: Sequence[RankView], language: str, columns: int) -> str:
    """Return a line that counts the other ranks by state."""
    left = Counter(rank.state for rank in view.ranks)
    left.subtract(rank.state for rank in shown)
    counts = "  ".join(
        f"{state_mark(state)} {count} {state_word(RankState(state), language)}"
        for state, count in left.most_common()
        if count
    )
    return f'<tr><td>…</td><td colspan="{columns - 1}">{html.escape(counts)}</td></tr>'
