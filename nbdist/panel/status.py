"""``%dist_status``: runs and their ranks as a table, in text and in HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from nbdist.model import RankState, Run, RunState
from nbdist.panel.ansi import strip_ansi
from nbdist.panel.labels import state_word, word
from nbdist.panel.usage import UsageWatch
from nbdist.panel.view import RunView, bytes_text, duration, view_of
from nbdist.store import LogLines, LogStream, RunDirectory, look

_TAIL = 4096


def status_views(directories: Sequence[RunDirectory], now: float) -> list[RunView]:
    """How these runs stand at the moment ``now``; directories that cannot be read are left out."""
    return [
        view_of(run, now=now, usage=UsageWatch().look(run), last_lines=_last_lines(run, directory))
        for directory in directories
        if (run := look(directory)) is not None
    ]


def status_text(views: Sequence[RunView], language: str) -> str:
    """Every run with its ranks, one line each, in columns."""
    if not views:
        return word("no runs", language)
    rows = [[word(key, language) for key in _COLUMNS]]
    for view in views:
        rows += _rows(view, language)
    widths = [max(_width(row[i]) for row in rows) for i in range(len(_COLUMNS) - 1)]
    lines = []
    for row in rows:
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)


def status_html(views: Sequence[RunView], language: str) -> str:
    """The same as a table."""
    if not views:
        return f"<p>{html.escape(word('no runs', language))}</p>"
    head = "".join(f"<th>{html.escape(word(key, language))}</th>" for key in _COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for view in views
        for row in _rows(view, language)
    )
    return (
        "<style>.nbdist-status td, .nbdist-status th { text-align: left !important; "
        "font-variant-numeric: tabular-nums; white-space: pre; }</style>"
        f'<table class="nbdist-status"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _last_lines(run: Run, directory: RunDirectory) -> dict[int, str]:
    last = {}
    for rank in run.ranks:
        stream = LogStream(directory.rank(rank.rank, run.attempt).log)
        stream.skip_to_tail(_TAIL)
        lines = LogLines()
        found = [strip_ansi(line) for line in (*lines.feed(stream.read(_TAIL)), *lines.close())]
        last[rank.rank] = next((line for line in reversed(found) if line.strip()), "")
    return last


_COLUMNS = ("run", "rank", "state", "device", "pid", "memory", "age", "last line")


def _rows(view: RunView, language: str) -> list[list[str]]:
    rows = [
        [
            view.label,
            "",
            state_word(RunState(view.state), language),
            "",
            "",
            "",
            duration(view.elapsed),
            view.reason,
        ]
    ]
    for rank in view.ranks:
        state = state_word(RankState(rank.state), language)
        shown = f"{state}, {rank.exit}" if rank.state in ("failed", "ended") and rank.exit else state
        pid = str(rank.pid or "")
        memory = bytes_text(rank.memory if rank.gpu_memory is None else rank.gpu_memory)
        line = rank.last_line.strip()[:80]
        age = duration(rank.elapsed)
        rows.append(["", str(rank.rank), shown, rank.device, pid, memory, age, line])
    return rows


def _width(text: str) -> int:
    """Columns of a terminal: Chinese characters take two."""
    return sum(2 if "\u2e80" <= character <= "\uffef" else 1 for character in text)
