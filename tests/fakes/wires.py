"""A widget without a front end: what was sent through it, and what a page would send back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdist.feed.protocol import BoardAnswer, Update, decode


class Wire:
    """Keeps the messages, decoded; ``asks`` is the page."""

    panel_id = "p1"
    placed = False

    def __init__(self) -> None:
        self.sent: list[Update | BoardAnswer] = []
        self.sizes: list[int] = []
        self.closed = False
        self.heard: Callable[[], object] = lambda: None
        self._callback: Callable[[Any, Any, Any], None] = lambda *_: None

    @property
    def updates(self) -> list[Update]:
        return [message for message in self.sent if isinstance(message, Update)]

    def lines(self, rank: int) -> dict[int, str]:
        """What a page has of a rank, by number."""
        return {
            chunk.first + at: line
            for update in self.updates
            for chunk in update.chunks
            if chunk.rank == rank
            for at, line in enumerate(chunk.lines)
        }

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
