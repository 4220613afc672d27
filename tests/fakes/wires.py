"""A page's end of the messages, and a widget without a front end: what was sent through it, and what a page
would send back."""

from __future__ import annotations

import json
import math
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nbdist.feed.charts import Chart
from nbdist.feed.protocol import BoardAnswer, Media, Message, ReportAnswer, Update
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.view import RunView
from nbdist.model.decoding import build


def decode(content: Mapping[str, Any], buffers: Sequence[bytes]) -> Message:
    """Return the argument of ``encode``. Raises KeyError, TypeError or ValueError for any other text."""
    if content["kind"] == "board":
        return BoardAnswer(url=content["url"], problem=content["problem"])
    if content["kind"] == "report":
        return ReportAnswer(text=content["text"])
    if content["kind"] != "update":
        raise ValueError(f"no kind of message: {content['kind']!r}")
    heads, titles, names = content["deltas"], content["charts"], content.get("media", ())
    if len(buffers) != len(heads) + len(titles) + len(names):
        raise ValueError(f"{len(buffers)} buffers for {len(heads)} deltas and {len(titles)} charts")
    charts, files = buffers[len(heads) :][: len(titles)], buffers[len(heads) + len(titles) :]
    return Update(
        view=None if content["view"] is None else build(RunView, content["view"]),
        chunks=tuple(_chunk(head, bytes(text)) for head, text in zip(heads, buffers, strict=False)),
        complete_until=content["complete_until"],
        charts=tuple(_chart(title, bytes(data)) for title, data in zip(titles, charts, strict=True)),
        left_out=content.get("left_out"),
        cell=content["cell"],
        media=tuple(Media(name=name, data=bytes(data)) for name, data in zip(names, files, strict=True)),
    )


def _chunk(head: Mapping[str, Any], text: bytes) -> LogDelta:
    times, edges = tuple((n, t) for n, t in head["times"]), tuple(head.get("edges", ()))
    chunk = LogDelta(**(dict(head) | {"times": times, "edges": edges, "text": text}))
    if len(chunk.lines) != chunk.count or sum(count for count, _ in chunk.times) != chunk.count:
        raise ValueError(f"not {chunk.count} lines with as many times: rank {chunk.rank}")
    return chunk


def _chart(title: Mapping[str, Any], data: bytes) -> Chart:
    values = array("f")
    values.frombytes(data)
    rows, columns = title["rows"], title["columns"]
    if len(values) != rows * columns:
        raise ValueError(f"not {columns} columns of {rows} rows: {title['tag']}")
    if sys.byteorder != "little":
        values.byteswap()
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


def split_frame(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the header and the buffers of a frame. Raises ValueError or KeyError for other bytes."""
    (size,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + size])
    at, buffers = 4 + size, []
    for length in header["buffers"]:
        buffers.append(data[at : at + length])
        at += length
    if at != len(data):
        raise ValueError(f"a frame of {len(data)} bytes says that it has {at}")
    return header, buffers


def lines_of(updates: Iterable[Update], rank: int) -> dict[int, str]:
    """Return a page's lines of a rank, by address."""
    return {
        address: line
        for update in updates
        for chunk in update.chunks
        if chunk.rank == rank
        for address, line in zip(chunk.all_edges(), chunk.lines, strict=False)
    }


class Wire:
    """The decoded messages to a page; ``asks`` is that page."""

    panel_id = "p1"
    placed = closed = False

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.sizes: list[int] = []
        self.heard: Callable[[], object] = lambda: None
        self._callback: Callable[[Any, Any, Any], None] = lambda *_: None

    @property
    def updates(self) -> list[Update]:
        return [message for message in self.sent if isinstance(message, Update)]

    def lines(self, rank: int) -> dict[int, str]:
        return lines_of(self.updates, rank)

    def asks(self, content: object) -> None:
        self._callback(self, content, [])

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent.append(decode(content, buffers or []))
        self.sizes.append(sum(map(len, buffers or [])))
        self.heard()

    def on_msg(self, callback: Callable[[Any, Any, Any], None]) -> None:
        self._callback = callback

    def close(self) -> None:
        self.closed = True

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "Panel()"}, {}
