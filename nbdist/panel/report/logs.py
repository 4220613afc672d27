"""The logs in a report: packed into the page, and what is left out of a very long one."""

from __future__ import annotations

import base64
import gzip
import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbdist.feed.ansi import colours_alone, printable
from nbdist.model import Run
from nbdist.panel.summary import rank_chip
from nbdist.store import LogLines, LogStream, RunDirectory
from nbdist.text import say

ROOM = 32 << 20
"""Bytes of the logs of one run; some tenth of that is what they take in the page."""

_END_LINES = 40
_LINE_ROOM = 2_000  # characters, where nothing can be folded
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedLog:
    """The log of one rank: ``packed`` is its text, gzipped, in base64; ``end`` its last lines as plain
    text, for paper and for pages without scripts. ``cut``: how many bytes are left out."""

    rank: int
    lines: int
    packed: str
    end: str
    cut: int


def packed_logs(
    run: Run,
    directory: RunDirectory,
    clean: Callable[[str], str],
    language: str,
    *,
    room: int = ROOM,
) -> list[PackedLog]:
    """The logs of all ranks, of the last attempt."""
    share = room // len(run.ranks)
    # what short logs leave is for the long ones
    sizes = {rank.rank: LogStream(directory.rank(rank.rank, run.attempt).log).size for rank in run.ranks}
    spare = room - sum(min(size, share) for size in sizes.values())
    longer = sum(size > share for size in sizes.values())
    limit = share + spare // longer if longer else share
    return [_packed(run, directory, rank.rank, limit, clean, language) for rank in run.ranks]


def _packed(
    run: Run, directory: RunDirectory, rank: int, limit: int, clean: Callable[[str], str], language: str
) -> PackedLog:
    stream = LogStream(directory.rank(rank, run.attempt).log)
    size = stream.size
    lines: list[str] = []
    cut = 0
    if size > limit:
        lines = _lines(stream, limit // 4)
        cut = stream.skip_to_tail(limit - limit // 4)
        said = {"size": f"{cut / 1e6:,.1f}", "label": run.label, "rank": rank}
        lines += ["", say("report.cut", language, **said), ""]
    lines += _lines(stream, size)
    text = clean("\n".join(lines))
    end = [printable(line)[:_LINE_ROOM] for line in text.rsplit("\n", _END_LINES)[-_END_LINES:]]
    return PackedLog(
        rank=rank,
        lines=len(lines),
        # without a time in it, the same log gives the same bytes
        packed=base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode(),
        end="\n".join(end),
        cut=cut,
    )


def _lines(stream: LogStream, limit: int) -> list[str]:
    """The lines in the next ``limit`` bytes, as a terminal would show them."""
    found, lines = LogLines(), []
    while limit > 0 and (data := stream.read(min(limit, _CHUNK))):
        limit -= len(data)
        lines += found.feed(data)
    return [colours_alone(line) for line in (*lines, *found.close())]


_NAMES = 5
_RANKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Of one run: how many tags it has and which of them there is no room for, its logs, how many files of
    records were too large, whether its program was, and how many bytes of its logs were not looked through
    for numbers that are only printed."""

    label: str
    tags: int = 0
    dropped: Sequence[str] = ()
    logs: Sequence[PackedLog] = ()
    records: int = 0
    program: bool = False
    unread: int = 0


def left_out_texts(all_of_them: Iterable[LeftOut], language: str) -> list[str]:
    """A sentence for each kind of thing that is not in the report; none where all is."""
    return [text for one in all_of_them for text in _texts(one, language)]


def _texts(one: LeftOut, language: str) -> Iterable[str]:
    if one.dropped:
        names = ", ".join(one.dropped[:_NAMES]) + (", …" if len(one.dropped) > _NAMES else "")
        yield say(
            "report.tags-out", language, label=one.label, count=len(one.dropped), all=one.tags, names=names
        )
    if cut := [log for log in one.logs if log.cut]:
        size = f"{sum(log.cut for log in cut) / 1e6:,.1f}"
        ranks = ", ".join(str(log.rank) for log in cut[:_RANKS]) + (", …" if len(cut) > _RANKS else "")
        yield say("report.logs-out", language, label=one.label, size=size, ranks=ranks, rank=cut[0].rank)
    if one.unread:
        yield say("report.prints-out", language, label=one.label, size=f"{one.unread / 1e6:,.1f}")
    if one.records:
        yield say("report.records-out", language, label=one.label, count=one.records)
    if one.program:
        yield say("report.program-out", language, label=one.label)


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
