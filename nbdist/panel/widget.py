"""The panel as one anywidget. Log lines go to the page as binary messages, never as widget state."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import anywidget
import traitlets

from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.charts import Charts
from nbdist.feed.protocol import BoardAnswer, Media, Message, ReportAnswer, Update, encode
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.send_queue import ChartQueue, LogQueue, MediaQueue, ViewQueue
from nbdist.feed.view import RunView

_STATIC = Path(__file__).parent / "static"
# seconds after which everything so far is sent again: a page loads the widget slowly
_EARLY = (0.5, 1.0, 2.0, 4.0)
_KEYFRAME_PERIOD = 5.0
_CELL_LIMIT = 65_536

log = logging.getLogger("nbdist.panel")


class PanelWidget(anywidget.AnyWidget):
    """The widget of a run, with the state that the page needs before the first message."""

    _esm = _STATIC / "panel.js"
    _css = _STATIC / "panel.css"
    panel_id = traitlets.Unicode().tag(sync=True)
    kernel_id = traitlets.Unicode().tag(sync=True)
    foreground = traitlets.Bool(True).tag(sync=True)
    # the panel is no output itself, and is drawn in the element with its id as data-nbdist-panel
    placed = traitlets.Bool(False).tag(sync=True)
    # asked for after its end: drawn whole
    opened = traitlets.Bool(False).tag(sync=True)
    # the first line of a cell that starts the run again
    line = traitlets.Unicode().tag(sync=True)

    def __init__(self, *, kernel_id: str, foreground: bool, line: str = "", opened: bool = False) -> None:
        about: dict[str, Any] = {"foreground": foreground, "line": line, "opened": opened}
        super().__init__(panel_id=secrets.token_hex(8), kernel_id=kernel_id, **about)


class SweepWidget(PanelWidget):
    """A sweep, whose state (``SweepTable.data``) is all that the page shows. ``stop`` requests its end."""

    sweep = traitlets.Dict().tag(sync=True)

    def __init__(self, *, kernel_id: str, foreground: bool, stop: Callable[[], object]) -> None:
        super().__init__(kernel_id=kernel_id, foreground=foreground)
        self._stop = stop
        self.on_msg(lambda _widget, content, _buffers: self._receive(content))

    def _receive(self, content: object) -> None:
        if isinstance(content, dict) and content.get("kind") == "stop":
            self._stop()


class MonitorWidget(PanelWidget):
    """A monitor. Its data comes in messages, which no notebook keeps; ``receive`` gets the page's."""

    monitor = traitlets.Bool(True).tag(sync=True)

    def __init__(self, *, kernel_id: str, receive: Callable[[object], object]) -> None:
        super().__init__(kernel_id=kernel_id, foreground=False)
        self.on_msg(lambda _widget, content, _buffers: receive(content))


class Wire(Protocol):
    """The part of a widget that its surface needs."""

    panel_id: Any
    placed: Any

    def send(self, content: Any, buffers: Any = None) -> None: ...
    def on_msg(self, callback: Callable[[Any, Any, Any], None]) -> None: ...
    def close(self) -> None: ...
    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None: ...


class WidgetSurface:
    """A run in a widget, which gets at most one message per look.

    A page that loads late, or a second view, has missed messages, and cannot request them while a cell blocks
    the kernel. So the surface sends the ends of the logs again every few seconds (everything, while the page
    loads); the page drops lines whose addresses it has. ``cell`` is the run's program.

    Requests of the page arrive on any thread. ``stop``, ``board`` (which may raise UsageMistake or
    LaunchError), ``report`` and ``media`` may block; ``pulled``, ``stacks`` and ``interrupt`` must not.
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
        stacks: Callable[[], object] = lambda: None,
        interrupt: Callable[[int], object] = lambda _: None,
        media: Callable[[int, str], bytes] = lambda _rank, _name: b"",
        report: Callable[[str], str] = lambda _language: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._widget = widget
        self._stop, self._board, self._pulled = stop, board, pulled
        self._stacks, self._interrupt, self._read_media = stacks, interrupt, media
        self._report = report
        self._cell = cell[:_CELL_LIMIT]
        self._clock = clock
        self._opened = clock()
        self._early = [self._opened + delay for delay in _EARLY]
        self._keyframe_at = self._early.pop(0)
        self._wanted = False
        self._opening_board = threading.Lock()
        self._view: RunView | None = None
        self._views = ViewQueue()
        self._placed = False
        self._notes: tuple[str, ...] = ()
        self.begin(charts)
        widget.on_msg(lambda _widget, content, _buffers: self._receive(content))

    room = 256 * 1024 * 1024
    """Bytes of logs that a page keeps, compressed; it never gets more at once."""

    def begin(self, charts: Charts) -> None:
        """Send the run from its start, for the first time or again."""
        self._charts = ChartQueue(charts)
        self._logs: LogQueue | None = None
        self._media = MediaQueue(self._read_media)
        self.skipped = False
        """True once parts of the logs were skipped."""

    def finish(self) -> None:
        """Send the rest of the charts, which are final."""
        while last := self._charts.take(self._clock(), again=False, at_once=True):
            left_out = self._charts.left_out
            self._send(Update(charts=last, left_out=left_out, complete_until=self._complete_until))

    def bundle(self, instead: Mapping[str, str]) -> dict[str, Any]:
        """Return the output of the cell: the widget, and ``instead`` for front ends that draw none."""
        data, _metadata = self._widget._repr_mimebundle_() or ({}, {})
        return {**data, **instead}

    def placed(self, instead: Mapping[str, str], notes: Sequence[str] = ()) -> dict[str, Any]:
        """Return ``instead`` as the cell's output, for the saved notebook; in the open page the panel, with
        ``notes``, replaces it."""
        self._notes = tuple(notes)
        # first of all: the page then draws the panel before anyone sees what it replaces
        self._widget.placed = self._placed = True
        self.repeat()
        page = f'<div data-nbdist-panel="{self._widget.panel_id}">{instead["text/html"]}</div>'
        return {**instead, "text/html": page}

    @property
    def waiting(self) -> bool:
        """Return whether ``repeat`` has lines or outputs to send."""
        logs = self._logs
        return logs is not None and (logs.waiting > 0 or logs.repeating or len(self._media) > 0)

    @property
    def budget(self) -> int | None:
        """Return the bytes of the logs for the next look; None before the first."""
        return None if self._logs is None else self._logs.budget

    @property
    def early(self) -> bool:
        """Return whether the page may still be loading."""
        return self._clock() <= self._opened + _EARLY[-1] + 1.0

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        self._view = view = replace(view, notes=self._notes)
        self.skipped |= any(delta.skipped for delta in deltas)
        self._logs = logs = self._logs or LogQueue(len(view.ranks))
        logs.take(deltas)
        now = self._clock()
        wanted, self._wanted = self._wanted, False
        again = wanted or now >= self._keyframe_at
        shown = self._views.take(view, now, again=again)
        charts = self._charts.take(now, again=again)
        if not (again or deltas or charts or shown is not None or self.waiting):
            return
        age = now - self._opened
        chunks = logs.again(age, whole=wanted or self.early) if again else logs.next(age)
        media = self._media.take(chunks, again=wanted or self.early)
        if again:
            self._keyframe_at = self._early.pop(0) if self._early else now + _KEYFRAME_PERIOD
        self._send(
            Update(
                view=shown,
                chunks=chunks,
                complete_until=logs.complete_until,
                charts=charts,
                left_out=self._charts.left_out,
                cell=self._cell if again else None,
                media=media,
            )
        )

    def repeat(self) -> None:
        """Send the backlog, and keyframes for a page that may have missed messages."""
        if self._view is not None:
            self.update(self._view, [])

    def close(self) -> None:
        """Close the widget: the notebook keeps no trace of it."""
        self._widget.close()

    def _send(self, message: Message) -> None:
        content, buffers = encode(message)
        self._widget.send(content, buffers=buffers)

    def _receive(self, content: object) -> None:
        """Serve a request of the page; slow ones on a thread."""
        match content:
            case {"kind": "stop"}:
                _beside("stop", self._stop)
            case {"kind": "pull", **more}:
                # a placed panel has got since what it requested while a cell blocked the kernel
                if not self._placed or more.get("placed"):
                    self._wanted = True
                    self._pulled()
            case {"kind": "stacks"}:
                self._stacks()
            case {"kind": "media", "rank": int(rank), "name": str(name)}:
                _beside("media", lambda: self._send_media(rank, name))
            case {"kind": "interrupt", "rank": int(rank)}:
                self._interrupt(rank)
            case {"kind": "report", **more}:
                language = "zh" if more.get("language") == "zh" else "en"
                _beside("report", lambda: self._send(ReportAnswer(text=self._report(language))))
            case {"kind": "board"} if self._opening_board.acquire(blocking=False):
                _beside("board", self._answer_board)

    def _send_media(self, rank: int, name: str) -> None:
        if data := self._read_media(rank, name):
            media = [Media(name=name, data=data)]
            self._send(Update(complete_until=self._complete_until, media=media))

    @property
    def _complete_until(self) -> float | None:
        return None if self._logs is None else self._logs.complete_until

    def _answer_board(self) -> None:
        try:
            answer = BoardAnswer(url=self._board())
        except (UsageMistake, LaunchError) as error:
            answer = BoardAnswer(problem=str(error))
        except Exception as error:
            log.exception("VisualDL did not open")
            answer = BoardAnswer(problem=f"VisualDL did not open: {error}")
        finally:
            self._opening_board.release()
        self._send(answer)


def _beside(name: str, work: Callable[[], object]) -> None:
    threading.Thread(target=work, name=f"nbdist panel {name}", daemon=True).start()
