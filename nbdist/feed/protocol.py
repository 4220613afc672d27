"""What goes from the kernel to the page, as JSON and bytes. Pure.

``labextension/src/protocol.ts`` is the other side of it, ``tests/fixtures/protocol`` what both read.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbdist.feed.charts import Chart
from nbdist.feed.rank_log import LogDelta, PlainLines
from nbdist.feed.view import RunView

_LAST_LINES = 64  # ranks; above, lines would be most of a message, and the page has the log
_PARTIAL = 2_000  # characters of a line that is still growing


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Lines of one rank as they travel: ``count`` lines in ``text``, UTF-8, with newlines between them.
    ``times`` says how many of them were written by when, in seconds since the run was created."""

    rank: int
    first: int
    count: int
    text: bytes
    times: tuple[tuple[int, float], ...]
    partial: str = ""
    skipped: int = 0

    @classmethod
    def of(cls, delta: LogDelta) -> LogChunk:
        return cls(
            rank=delta.rank,
            first=delta.first,
            count=len(delta.lines),
            text=delta.lines.text
            if isinstance(delta.lines, PlainLines)
            else "\n".join(delta.lines).encode("utf-8", "replace"),
            times=delta.times,
            partial=delta.partial[:_PARTIAL],
            skipped=delta.skipped,
        )

    @property
    def lines(self) -> list[str]:
        return self.text.decode().split("\n") if self.count else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What is new. ``view`` and ``cell`` are None when they are not sent again; lines written until
    ``complete_until`` have come from every rank, None says that all there are have come.

    ``reading`` is another number where the lines are numbered anew: those that came before it count no
    more."""

    view: RunView | None = None
    chunks: Sequence[LogChunk] = ()
    complete_until: float | None = None
    charts: Sequence[Chart] = ()
    cell: str | None = None
    reading: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardAnswer:
    """Where VisualDL shows the run, or why it does not."""

    url: str = ""
    problem: str = ""


def encode(message: Update | BoardAnswer) -> tuple[dict[str, Any], list[bytes]]:
    """The content of a custom message, and the buffers that go with it."""
    if isinstance(message, BoardAnswer):
        return {"kind": "board", "url": message.url, "problem": message.problem}, []
    content = {
        "kind": "update",
        "view": None if message.view is None else message.view.to_dict(),
        "deltas": [_head(chunk) for chunk in message.chunks],
        "complete_until": message.complete_until,
        "charts": [_title(chart) for chart in message.charts],
        "cell": message.cell,
        "reading": message.reading,
    }
    return content, [
        *(chunk.text for chunk in message.chunks),
        *(_values(chart) for chart in message.charts),
    ]


def decode(content: Mapping[str, Any], buffers: Sequence[bytes]) -> Update | BoardAnswer:
    """What ``encode`` was given. Raises KeyError, TypeError or ValueError for anything else."""
    if content["kind"] == "board":
        return BoardAnswer(url=content["url"], problem=content["problem"])
    if content["kind"] != "update":
        raise ValueError(f"no kind of message: {content['kind']!r}")
    heads, titles = content["deltas"], content["charts"]
    if len(buffers) != len(heads) + len(titles):
        raise ValueError(f"{len(buffers)} buffers for {len(heads)} deltas and {len(titles)} charts")
    return Update(
        view=None if content["view"] is None else RunView.from_dict(content["view"]),
        chunks=tuple(_chunk(head, bytes(text)) for head, text in zip(heads, buffers, strict=False)),
        complete_until=content["complete_until"],
        charts=tuple(
            _chart(title, bytes(data)) for title, data in zip(titles, buffers[len(heads) :], strict=True)
        ),
        cell=content["cell"],
        reading=content.get("reading", 0),
    )


def for_the_strip(view: RunView) -> RunView:
    """The view as it is sent: in a run of many ranks without their last lines."""
    if len(view.ranks) <= _LAST_LINES:
        return view
    return replace(view, ranks=tuple(replace(rank, last_line="") for rank in view.ranks))


def _head(chunk: LogChunk) -> dict[str, Any]:
    return {
        "rank": chunk.rank,
        "first": chunk.first,
        "count": chunk.count,
        "times": chunk.times,
        "partial": chunk.partial,
        "skipped": chunk.skipped,
    }


def _chunk(head: Mapping[str, Any], text: bytes) -> LogChunk:
    chunk = LogChunk(**(dict(head) | {"times": tuple((n, t) for n, t in head["times"]), "text": text}))
    if len(chunk.lines) != chunk.count or sum(count for count, _ in chunk.times) != chunk.count:
        raise ValueError(f"not {chunk.count} lines with as many times: rank {chunk.rank}")
    return chunk


def _title(chart: Chart) -> dict[str, Any]:
    return {
        "tag": chart.tag,
        "kind": chart.kind,
        "group": chart.group,
        "unit": chart.unit,
        "ranks": chart.ranks,
        "columns": len(chart.columns),
        "rows": chart.rows,
        "last": [value if math.isfinite(value) else None for value in chart.last],
        "highest": chart.highest,
    }


def _values(chart: Chart) -> bytes:
    return b"".join(_little_endian(column).tobytes() for column in chart.columns)


def _chart(title: Mapping[str, Any], data: bytes) -> Chart:
    values = array("f")
    values.frombytes(data)
    rows, columns = title["rows"], title["columns"]
    if len(values) != rows * columns:
        raise ValueError(f"not {columns} columns of {rows} rows: {title['tag']}")
    values = _little_endian(values)
    return Chart(
        tag=title["tag"],
        kind=title["kind"],
        group=title["group"],
        unit=title["unit"],
        ranks=tuple(title["ranks"]),
        columns=tuple(values[at * rows : (at + 1) * rows] for at in range(columns)),
        last=tuple(math.nan if value is None else value for value in title["last"]),
        highest=None if title["highest"] is None else (title["highest"][0], title["highest"][1]),
    )


def _little_endian(values: array[float]) -> array[float]:
    if sys.byteorder == "little":
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped
