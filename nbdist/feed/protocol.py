"""Messages from the kernel to the page, as JSON and bytes. Pure.

``labextension/src/protocol/`` is the other side, ``tests/fixtures/protocol`` what both read."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbdist.feed.charts import Chart
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.view import RunView

_LAST_LINES = 64  # ranks; with more, lines would be most of a message, and the page has the log
_PARTIAL = 2_000  # characters of a line that is still growing
_TITLE = ("tag", "kind", "group", "unit", "ranks", "rows", "highest")
_HEAD = ("rank", "first", "count", "edges", "times", "partial", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A file of an output, under its name in the log."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """News of a run. ``view``, ``cell`` and ``left_out`` (metrics without a chart) are None where they are
    not sent again. All ranks' lines written until ``complete_until`` were sent; None: all lines."""

    view: RunView | None = None
    chunks: Sequence[LogDelta] = ()
    complete_until: float | None = None
    charts: Sequence[Chart] = ()
    left_out: int | None = None
    cell: str | None = None
    media: Sequence[Media] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardAnswer:
    """VisualDL's address of the run, or the problem."""

    url: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """The run as one text (``feed.report_text``); empty where it cannot be read."""

    text: str


Message = Update | BoardAnswer | ReportAnswer


def encode(message: Message) -> tuple[dict[str, Any], list[bytes]]:
    """Return a custom message's content and buffers."""
    if isinstance(message, BoardAnswer):
        return {"kind": "board", "url": message.url, "problem": message.problem}, []
    if isinstance(message, ReportAnswer):
        return {"kind": "report", "text": message.text}, []
    content: dict[str, Any] = {
        "kind": "update",
        "view": None if message.view is None else message.view.to_dict(),
        "deltas": [
            {name: getattr(chunk, name) for name in _HEAD} | {"partial": chunk.partial[:_PARTIAL]}
            for chunk in message.chunks
        ],
        "complete_until": message.complete_until,
        "charts": [_title(chart) for chart in message.charts],
        "left_out": message.left_out,
        "cell": message.cell,
    }
    if message.media:
        content["media"] = [media.name for media in message.media]
    return content, [
        *(chunk.text for chunk in message.chunks),
        *(_values(chart) for chart in message.charts),
        *(media.data for media in message.media),
    ]


def frame(header: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> bytes:
    """Return one binary frame: the header's length in four bytes, header, buffers."""
    text = json.dumps({**header, "buffers": [len(buffer) for buffer in buffers]}).encode()
    return b"".join((len(text).to_bytes(4, "little"), text, *buffers))


def for_the_strip(view: RunView) -> RunView:
    """Return the view as it is sent: without last lines where ranks are many."""
    if len(view.ranks) <= _LAST_LINES:
        return view
    return replace(view, ranks=tuple(replace(rank, last_line="") for rank in view.ranks))


def _title(chart: Chart) -> dict[str, Any]:
    last = [value if math.isfinite(value) else None for value in chart.last]
    return {name: getattr(chart, name) for name in _TITLE} | {"columns": len(chart.columns), "last": last}


def _values(chart: Chart) -> bytes:
    columns = [column[:] for column in chart.columns]
    for column in columns if sys.byteorder != "little" else ():
        column.byteswap()
    return b"".join(column.tobytes() for column in columns)
