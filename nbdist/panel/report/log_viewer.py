"""The part of a report with the logs: what ``report.js`` unpacks, and the ends for where it does not run."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from nbdist.panel.report.logs import PackedLog
from nbdist.panel.style import rank_chip
from nbdist.text import say


def logs_html(logs: Sequence[PackedLog], label: str, language: str) -> Iterable[str]:
    yield f"<section><h2>{html.escape(say('report.logs', language))}</h2>"
    yield f'<div class="r-viewer">{"".join(_viewer(logs, label, language))}</div><div class="r-ends">'
    yield f'<p class="n-muted">{html.escape(say("report.no-script", language))}</p>'
    for log in logs:
        lines = html.escape(say("report.lines", language, count=log.lines))
        yield f"<h3>{rank_chip(str(log.rank))} {lines}</h3>"
        yield f'<pre class="r-end">{html.escape(log.end or say("report.no-output", language))}</pre>'
    yield "</div></section>"


def _viewer(logs: Sequence[PackedLog], label: str, language: str) -> Iterable[str]:
    yield '<div class="r-tabs" role="tablist">'
    for place, log in enumerate(logs):
        lines = html.escape(say("report.lines", language, count=log.lines))
        name = html.escape(f"{label}.{log.rank}.log")
        yield (
            f'<button type="button" role="tab" aria-selected="{str(place == 0).lower()}" data-file="{name}" '
            f'title="{lines}">{log.rank}<small></small></button>'
        )
    search, before, after, save = (
        html.escape(say("report." + key, language)) for key in ("search", "previous", "next", "download")
    )
    yield (
        '</div><div class="r-tabs r-tools">'
        f'<input type="search" placeholder="{search}" aria-label="{search}">'
        f'<span class="r-count" role="status"></span><button type="button" aria-label="{before}">↑</button>'
        f'<button type="button" aria-label="{after}">↓</button><button type="button">{save}</button></div>'
        '<div class="r-log" role="log" aria-live="off" tabindex="0"><div class="r-sizer"></div></div>'
    )
    yield from (f'<script type="text/plain" data-log="{log.rank}">{log.packed}</script>' for log in logs)
