"""The panel as one anywidget. Log lines go to the page as binary messages, never as widget state."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from nbdist.model import Run
from nbdist.panel.follow import LogDelta
from nbdist.panel.summary import initial_html
from nbdist.panel.view import RunView

_STATIC = Path(__file__).parent / "static"
_KEYFRAME_PERIOD = 4.0
_KEYFRAME_LINES = 400
_QUIET_PERIOD = 1.0


class PanelWidget(anywidget.AnyWidget):
    """What the page needs before the first message."""

    _esm = _STATIC / "panel.js"
    _css = _STATIC / "panel.css"
    panel_id = traitlets.Unicode().tag(sync=True)
    kernel_id = traitlets.Unicode().tag(sync=True)
    foreground = traitlets.Bool(True).tag(sync=True)


class WidgetSurface:
    """Sends what is new, at most once a look.

    A page that loads late, or a second view, has missed messages and cannot ask for them while the
    cell blocks the kernel. So the ends of the logs are sent again every few seconds (at first more
    often, while the page loads the widget); lines carry their number, and the page drops what it has.
    """

    def __init__(
        self,
        *,
        kernel_id: str,
        foreground: bool,
        stop: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.widget = PanelWidget(panel_id=secrets.token_hex(8), kernel_id=kernel_id, foreground=foreground)
        self.widget.on_msg(lambda _widget, content, _buffers: self._receive(content))
        self._stop = stop
        self._clock = clock
        self._started = clock()
        self._sent = 0.0
        self._keyframe_at = 0.0
        self._tails: dict[int, _Tail] = {}
        self._shown: tuple[object, ...] = ()

    def bundle(self, run: Run, language: str) -> dict[str, Any]:
        """The output of the cell while the run goes on, with what stands in where it is not drawn."""
        data, _metadata = self.widget._repr_mimebundle_() or ({}, {})
        return {**data, "text/html": initial_html(run, language)}

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        for delta in deltas:
            self._tails.setdefault(delta.rank, _Tail()).take(delta)
        now = self._clock()
        shown = (view.state, *((rank.state, rank.memory) for rank in view.ranks))
        keyframe = now >= self._keyframe_at
        if not (deltas or keyframe or shown != self._shown or now - self._sent > _QUIET_PERIOD):
            return
        if keyframe:
            early = now - self._started < _KEYFRAME_PERIOD
            self._keyframe_at = now + (_KEYFRAME_PERIOD / 8 if early else _KEYFRAME_PERIOD)
            deltas = [tail.delta(rank) for rank, tail in self._tails.items()]
        self._shown, self._sent = shown, now
        self.widget.send(
            {
                "kind": "update",
                "view": view.to_dict(),
                "deltas": [
                    {
                        "rank": delta.rank,
                        "first": delta.first,
                        "count": len(delta.lines),
                        "partial": delta.partial,
                        "skipped": delta.skipped,
                    }
                    for delta in deltas
                ],
            },
            buffers=["\n".join(delta.lines).encode("utf-8", "replace") for delta in deltas],
        )

    def close(self) -> None:
        """End the widget: the notebook keeps no trace of it."""
        self.widget.close()

    def _receive(self, content: object) -> None:
        # may run on any thread, so it does nothing but leave a request
        if isinstance(content, dict) and content.get("kind") == "stop":
            self._stop()


class _Tail:
    """The last lines of one rank, with their numbers."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEYFRAME_LINES)
        self._next = 0
        self._partial = ""

    def take(self, delta: LogDelta) -> None:
        self._lines.extend(delta.lines)
        self._next = delta.first + len(delta.lines)
        self._partial = delta.partial

    def delta(self, rank: int) -> LogDelta:
        return LogDelta(
            rank=rank,
            first=self._next - len(self._lines),
            lines=tuple(self._lines),
            partial=self._partial,
        )
