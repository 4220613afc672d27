"""``%dist_status`` in a notebook: a monitor that is up to date while it is seen."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from nbdist import config, runner
from nbdist.errors import NotPrivate, UnknownRun
from nbdist.magics.presentation import draws_widgets, kernel_id, place_of, widgets_reach_outputs
from nbdist.model import Reason
from nbdist.verbs.overviews import Overviews

if TYPE_CHECKING:
    from nbdist.panel import Overview
    from nbdist.verbs.runs import Listed

_PERIOD = 1.0
_RANKS = 128  # whose rows take the page a second's time
_LEASE = 25.0  # seconds for which a page that says it is seen counts as seen; it says so every ten
_LIMIT = 3600.0
_KEEP_PERIOD = 60.0  # seconds between two changes of what the notebook keeps, if no run's state changes


class Monitor:
    """The latest monitor of the notebook. An earlier one leaves its still table."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._live: _LiveMonitor | None = None

    def show(self, listed: Listed) -> None:
        """Show the runs; where widgets are drawn, live. Raises NotPrivate."""
        overviews, live = Overviews(listed), self._live
        overview = overviews.look()
        if live is not None:
            live.end()
        if draws_widgets(self._shell):
            self._live = _LiveMonitor(self._shell, overviews, overview)
        else:
            display(overview.bundle(config.language(), _folder(self._shell)), raw=True)


def _folder(shell: InteractiveShell) -> str:
    """Return the folder of the notebook, to which links are relative; empty where it is unknown."""
    return os.path.dirname(str(place_of(shell)["notebook"]))


class _LiveMonitor:
    """A monitor in a widget, whose thread looks each second while the page says that it is seen, for an hour
    at most. The notebook keeps the still table, which the widget replaces in the page."""

    def __init__(self, shell: InteractiveShell, overviews: Overviews, overview: Overview) -> None:
        # the widget stack is slow to import, and for panels alone
        from nbdist.panel.widget import MonitorWidget

        self._shell, self._overviews, self._overview = shell, overviews, overview
        self._folder = _folder(shell)
        self._changed = threading.Condition()
        self._ended = self._executing = False
        self._seen, self._seen_until = True, time.monotonic() + _LEASE
        self._thread: threading.Thread | None = None
        self._widget = MonitorWidget(kernel_id=kernel_id(shell), receive=self._receive)
        self._placed = self._widget.placed = widgets_reach_outputs(shell)
        self._kept, self._kept_at = overview.states, time.monotonic()
        output = display(self._bundle(), raw=True, display_id=True)
        assert output is not None, "display with an id gives a handle"
        self._output = output
        shell.events.register("pre_run_cell", self._begin_cell)
        shell.events.register("post_run_cell", self._end_cell)
        self._start()

    def end(self) -> None:
        """Leave the still table."""
        with self._changed:
            if self._ended:
                return
            self._ended = True
            self._changed.notify_all()
        for event, act in (("pre_run_cell", self._begin_cell), ("post_run_cell", self._end_cell)):
            with contextlib.suppress(ValueError):
                self._shell.events.unregister(event, act)
        self._output.update(self._overview.bundle(config.language(), self._folder), raw=True)
        self._widget.close()

    def _bundle(self) -> dict[str, Any]:
        bundle: dict[str, Any] = dict(self._overview.bundle(config.language(), self._folder))
        if self._placed:
            page = f'<div data-nbdist-panel="{self._widget.panel_id}">{bundle["text/html"]}</div>'
            return {**bundle, "text/html": page}
        data, _ = self._widget._repr_mimebundle_() or ({}, {})
        return {**data, **bundle}

    def _start(self) -> None:
        with self._changed:
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._follow, name="nbdist status", daemon=True)
                self._thread.start()

    def _follow(self) -> None:
        end = time.monotonic() + _LIMIT
        while self._wait_until_seen(end):
            # whatever happens to the home, the table stays
            with contextlib.suppress(NotPrivate, OSError):
                self._overview = self._overviews.look()
            self._send()
            self._keep()
            ranks = sum(len(view.ranks) for view in self._overview.views if view.live)
            with self._changed:
                self._changed.wait_for(lambda: self._ended, _PERIOD * max(1.0, ranks / _RANKS))
        with self._changed:
            self._thread = None
            if self._ended:
                return
        self._send(paused=True)

    def _wait_until_seen(self, end: float) -> bool:
        """Wait until a page shows the monitor; return False once it has ended, or an hour is over."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._ended or self._is_seen(), max(0.0, end - time.monotonic())
            ) and not (self._ended or time.monotonic() >= end)

    def _is_seen(self) -> bool:
        # while a cell is executed, an older kernel does not receive what the page says
        return self._seen and (self._executing or time.monotonic() < self._seen_until)

    def _send(self, *, paused: bool = False) -> None:
        self._widget.send({"kind": "overview", "paused": paused, **self._overview.to_dict()})

    def _keep(self) -> None:
        """Write the table into the notebook, when a state has changed or the last one is old."""
        age = time.monotonic() - self._kept_at
        same = self._kept == self._overview.states
        if not self._placed or age < _PERIOD or (same and age < _KEEP_PERIOD):
            return
        self._kept, self._kept_at = self._overview.states, time.monotonic()
        # the page then draws in the new output at once
        self._widget.send({"kind": "moving"})
        self._output.update(self._bundle(), raw=True)

    def _begin_cell(self, *_: object) -> None:
        self._executing = True

    def _end_cell(self, *_: object) -> None:
        self._executing = False
        self._note_seen(self._seen)

    def _note_seen(self, seen: bool) -> None:
        with self._changed:
            self._seen, self._seen_until = seen, time.monotonic() + _LEASE
            self._changed.notify_all()

    def _receive(self, content: object) -> None:
        match content:
            case {"kind": "seen", "seen": bool(seen)}:
                self._note_seen(seen)
                if self._thread is None:
                    self._send(paused=True)
            case {"kind": "again"}:
                self._note_seen(True)
                self._start()
            case {"kind": "stop", "run": str(run_id)}:
                # a deleted run is stopped already
                with contextlib.suppress(OSError, UnknownRun):
                    runner.attach(run_id).request_stop(Reason("stopped-from-panel"))
