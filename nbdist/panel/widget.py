"""The panel as one anywidget. Log lines go to the page as binary messages, never as widget state."""

from __future__ import annotations

import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import anywidget
import traitlets

from nbdist.errors import LaunchError, UsageMistake
from nbdist.panel.charts import Chart, ChartKey, Charts
from nbdist.panel.following import LogDelta
from nbdist.panel.protocol import BoardAnswer, LogChunk, Update, encode, for_the_strip
from nbdist.panel.tail import Tail
from nbdist.panel.view import RunView

_STATIC = Path(__file__).parent / "static"
# A page takes a while to load the widget: at first all that came so far is sent again, then the ends.
_EARLY = (0.5, 1.0, 2.0, 4.0)
_EARLY_BYTES = 4_000_000
_KEYFRAME_PERIOD = 5.0
_KEYFRAME_LINES = 400
_KEYFRAME_BYTES = 200_000
_CHARTS_PERIOD = 2.0
_CHARTS_BYTES = 200_000
_MANY_RANKS = 16  # above, a view is so large that it is sent once a second
_VIEW_PERIOD = 1.0
_CELL_LIMIT = 65_536

log = logging.getLogger("nbdist.panel")


class PanelWidget(anywidget.AnyWidget):
    """What the page needs before the first message."""

    _esm = _STATIC / "panel.js"
    _css = _STATIC / "panel.css"
    panel_id = traitlets.Unicode().tag(sync=True)
    kernel_id = traitlets.Unicode().tag(sync=True)
    foreground = traitlets.Bool(True).tag(sync=True)

    def __init__(self, *, kernel_id: str, foreground: bool) -> None:
        super().__init__(panel_id=secrets.token_hex(8), kernel_id=kernel_id, foreground=foreground)


class Wire(Protocol):
    """What a surface needs of its widget."""

    def send(self, content: Any, buffers: Any = None) -> None: ...
    def on_msg(self, callback: Callable[[Any, Any, Any], None]) -> None: ...
    def close(self) -> None: ...
    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None: ...


class WidgetSurface:
    """Sends what is new, at most once a look.

    A page that loads late, or a second view, has missed messages and cannot ask for them while the
    cell blocks the kernel. So the ends of the logs are sent again every few seconds (at first all that
    came so far, while the page loads the widget); lines carry their number, and the page drops what it
    has. ``charts`` are those that the run's points go into, ``cell`` is the program of the run.

    What the page asks for arrives on any thread, and is only noted there, or done on one of its own:
    ``stop`` and ``board`` (the URL of VisualDL; it may raise UsageMistake or LaunchError) may take
    their time, ``pulled`` must not.
    """

    def __init__(
        self,
        widget: Wire,
        *,
        stop: Callable[[], None],
        board: Callable[[], str],
        charts: Charts,
        cell: str = "",
        pulled: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._widget = widget
        self._stop, self._board, self._pulled = stop, board, pulled
        self._cell = cell[:_CELL_LIMIT]
        self._clock = clock
        self._opened = clock()
        self._early = [self._opened + delay for delay in _EARLY]
        self._keyframe_at = self._early.pop(0)
        self._wanted = False
        self._asking_board = threading.Lock()
        self._view: RunView | None = None
        self._views = _ViewQueue()
        self.begin(charts)
        widget.on_msg(lambda _widget, content, _buffers: self._receive(content))

    room = 256 * 1024 * 1024
    """Bytes of logs that a page keeps, compressed: it gets no more than that at once."""

    def begin(self, charts: Charts) -> None:
        """Be shown the run from its start, for the first time or again."""
        self.charts = charts
        self._charts = _ChartQueue(charts)
        self._tails: dict[int, Tail] = {}

    def bundle(self, instead: Mapping[str, str]) -> dict[str, Any]:
        """The output of the cell: the widget, with what stands ``instead`` of it where none is drawn."""
        data, _metadata = self._widget._repr_mimebundle_() or ({}, {})
        return {**data, **instead}

    @property
    def early(self) -> bool:
        """Whether the page may still be loading."""
        return self._clock() <= self._opened + _EARLY[-1] + 1.0

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        self._view = view
        for delta in deltas:
            if delta.rank not in self._tails:
                self._tails[delta.rank] = Tail(_EARLY_BYTES // len(view.ranks))
            self._tails[delta.rank].take(delta)
        now = self._clock()
        wanted, self._wanted = self._wanted, False
        again = wanted or now >= self._keyframe_at
        shown = self._views.take(view, now, again=again)
        charts = self._charts.take(now, again=again)
        if not (again or deltas or charts or shown is not None):
            return
        chunks = self._ends(whole=wanted or self.early) if again else self._news()
        for tail in self._tails.values():
            tail.sent()
        if again:
            self._keyframe_at = self._early.pop(0) if self._early else now + _KEYFRAME_PERIOD
        self._send(
            Update(
                view=shown,
                chunks=chunks,
                complete_until=self._complete_until(),
                charts=charts,
                cell=self._cell if again else None,
            )
        )

    def repeat(self) -> None:
        """Nothing is new; send again what is due to a page that may have missed it."""
        if self._view is not None:
            self.update(self._view, [])

    def close(self) -> None:
        """End the widget: the notebook keeps no trace of it."""
        self._widget.close()

    def _news(self) -> list[LogChunk]:
        return [chunk for tail in self._tails.values() for chunk in tail.news()]

    def _ends(self, *, whole: bool) -> list[LogChunk]:
        """What is new and what came before it: as much of it as one message should hold."""
        tails = self._tails.values()
        room = (_EARLY_BYTES if whole else _KEYFRAME_BYTES) - sum(tail.size for tail in tails)
        share = max(0, room) // max(1, len(tails))
        lines = sys.maxsize if whole else _KEYFRAME_LINES
        return [chunk for tail in tails for chunk in tail.end(share, lines)]

    def _complete_until(self) -> float | None:
        return min((tail.last_time for tail in self._tails.values() if tail.behind), default=None)

    def _send(self, message: Update | BoardAnswer) -> None:
        content, buffers = encode(message)
        self._widget.send(content, buffers=buffers)

    def _receive(self, content: object) -> None:
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "stop":
            threading.Thread(target=self._stop, name="nbdist panel stop", daemon=True).start()
        elif kind == "pull":
            self._wanted = True
            self._pulled()
        elif kind == "board" and self._asking_board.acquire(blocking=False):
            threading.Thread(target=self._answer_board, name="nbdist panel board", daemon=True).start()

    def _answer_board(self) -> None:
        try:
            answer = BoardAnswer(url=self._board())
        except (UsageMistake, LaunchError) as error:
            answer = BoardAnswer(problem=str(error))
        except Exception as error:
            log.exception("VisualDL did not open")
            answer = BoardAnswer(problem=f"VisualDL did not open: {error}")
        finally:
            self._asking_board.release()
        self._send(answer)


class _ViewQueue:
    """When a view is sent: when it says something new, and where ranks are many not at every look."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._sent: RunView | None = None

    def take(self, view: RunView, now: float, *, again: bool) -> RunView | None:
        """The view as it is to be sent now; None for not now."""
        last = self._sent
        if not again and last is not None and len(view.ranks) > _MANY_RANKS:
            urgent = (view.state, view.failure) != (last.state, last.failure)
            if not urgent and now - self._sent_at < _VIEW_PERIOD:
                return None
        shown = for_the_strip(view)
        # the page has a clock of its own
        still = replace(shown, elapsed=0.0, ranks=tuple(replace(rank, elapsed=0.0) for rank in shown.ranks))
        if not again and still == last:
            return None
        self._sent_at, self._sent = now, still
        return shown


class _ChartQueue:
    """When a chart is sent: when it has changed, but no oftener than it pays to look at it.

    There may be more than one message should hold; those that were not sent for longest come first.
    """

    def __init__(self, charts: Charts) -> None:
        self._charts = charts
        self._looked = -_CHARTS_PERIOD
        self._sent: dict[ChartKey, tuple[int, int]] = {}
        self._count = 0

    def take(self, now: float, *, again: bool) -> Sequence[Chart]:
        """The charts that are to be sent now; ``again`` takes in those that did not change."""
        if not again and now - self._looked < _CHARTS_PERIOD:
            return ()
        self._looked = now
        marks = self._charts.marks
        due = [key for key, mark in marks.items() if again or self._sent.get(key, (0, -1))[1] != mark]
        due.sort(key=lambda key: self._sent.get(key, (0, -1))[0])
        taken: list[Chart] = []
        room = _CHARTS_BYTES
        for key in due:
            if room <= 0:
                break
            chart = self._charts.chart(key)
            room -= 4 * chart.rows * len(chart.columns)
            self._count += 1
            self._sent[key] = (self._count, marks[key])
            taken.append(chart)
        return taken
