"""The panel as one anywidget. Log lines go to the page as binary messages, never as widget state."""

from __future__ import annotations

import itertools
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
# A page takes a while to load the widget: at first all that came so far is sent again, then the ends.
_EARLY = (0.5, 1.0, 2.0, 4.0)
_EARLY_BYTES = 4_000_000
_KEYFRAME_PERIOD = 5.0
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
    cell blocks the kernel. So the ends of the logs are sent again every few seconds (at first all that
    came so far, while the page loads the widget); lines carry their number, and the page drops what it
    has.
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
        self._early = [self._started + delay for delay in _EARLY]
        self._keyframe_at = self._early.pop(0)
        self._tails: dict[int, _Tail] = {}
        self._shown: tuple[object, ...] = ()

    def bundle(self, run: Run, language: str) -> dict[str, Any]:
        """The output of the cell while the run goes on, with what stands in where it is not drawn."""
        data, _metadata = self.widget._repr_mimebundle_() or ({}, {})
        return {**data, "text/html": initial_html(run, language)}

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        for delta in deltas:
            tail = self._tails.setdefault(delta.rank, _Tail(_EARLY_BYTES // len(view.ranks)))
            tail.take(delta)
        now = self._clock()
        shown = (view.state, *((rank.state, rank.memory) for rank in view.ranks))
        keyframe = now >= self._keyframe_at
        if not (deltas or keyframe or shown != self._shown or now - self._sent > _QUIET_PERIOD):
            return
        if keyframe:
            limit = None if now <= self._started + _EARLY[-1] + 1.0 else _KEYFRAME_LINES
            self._keyframe_at = self._early.pop(0) if self._early else now + _KEYFRAME_PERIOD
            deltas = [tail.delta(rank, limit) for rank, tail in self._tails.items()]
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

    def __init__(self, room: int) -> None:
        self._lines: deque[str] = deque()
        self._room = room
        self._next = 0
        self._partial = ""

    def take(self, delta: LogDelta) -> None:
        self._lines.extend(delta.lines)
        self._room -= sum(map(len, delta.lines))
        while self._room < 0 and self._lines:
            self._room += len(self._lines.popleft())
        self._next = delta.first + len(delta.lines)
        self._partial = delta.partial

    def delta(self, rank: int, limit: int | None) -> LogDelta:
        """The last ``limit`` lines again, or all that is kept."""
        first = 0 if limit is None else max(0, len(self._lines) - limit)
        lines = tuple(itertools.islice(self._lines, first, None))
        return LogDelta(rank=rank, first=self._next - len(lines), lines=lines, partial=self._partial)
