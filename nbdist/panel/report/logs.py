"""The logs of a run, packed into the page; of a very long one its begin and its end."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from dataclasses import dataclass

from nbdist.model import Run
from nbdist.panel.ansi import colours_alone, printable
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
