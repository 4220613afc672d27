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
    from nbdist.verbs.runs import Listed

_PERIOD = 1.0
_RANKS = 128  # whose rows take the page a second's time
_LIMIT = 3600.0
_KEEP_PERIOD = 60.0  # seconds between two changes of the kept table, if no run's state changes


def show_monitor(shell: InteractiveShell, listed: Listed) -> Monitor | None:
    """Show the runs; return the monitor where widgets are drawn. Raises NotPrivate."""
    overviews = Overviews(listed)
    if draws_widgets(shell):
        return Monitor(shell, overviews)
    display(overviews.look().bundle(config.language(), _folder(shell)), raw=True)
    return None


def _folder(shell: InteractiveShell) -> str:
    return os.path.dirname(str(place_of(shell)["notebook"]))


class Monitor:
    """A monitor in a widget, whose thread looks each second unless the page says that it is not seen, for an
    hour at most. The notebook keeps the still table, which the widget replaces in the page."""

    def __init__(self, shell: InteractiveShell, overviews: Overviews) -> None:
        # the widget stack is slow to import, and for panels alone
        from nbdist.panel.widget import MonitorWidget

        self._look, self._overview = overviews.look, overviews.look()
        self._language, self._folder = config.language(), _folder(shell)
        self._seen, self._ended = threading.Event(), threading.Event()
        self._widget = MonitorWidget(kernel_id=kernel_id(shell), receive=self._receive)
        self._placed = self._widget.placed = widgets_reach_outputs(shell)
        output = display(self._bundle(), raw=True, display_id=True)
        assert output is not None, "display with an id gives a handle"
        self._output = output
        self._seen.set()
        threading.Thread(target=self._follow, name="nbdist status", daemon=True).start()

    def end(self) -> None:
        """Leave the still table."""
        self._ended.set()
        self._seen.set()
        self._output.update(self._overview.bundle(config.language(), self._folder), raw=True)
        self._widget.close()

    def _bundle(self) -> dict[str, Any]:
        bundle: dict[str, Any] = {**self._overview.bundle(config.language(), self._folder)}
        self._kept, self._kept_at = self._states(), time.monotonic()
        if self._placed:
            page = f'<div data-nbdist-panel="{self._widget.panel_id}">{bundle["text/html"]}</div>'
            return bundle | {"text/html": page}
        return (self._widget._repr_mimebundle_() or ({}, {}))[0] | bundle

    def _states(self) -> list[tuple[str, str]]:
        return [(view.run_id, view.state) for view in self._overview.views]

    def _follow(self) -> None:
        end = time.monotonic() + _LIMIT
        while (left := end - time.monotonic()) > 0 and self._seen.wait(left) and not self._ended.is_set():
            # whatever happens to the home, the table stays
            with contextlib.suppress(NotPrivate, OSError):
                self._overview = self._look()
            self._widget.send({"kind": "overview", **self._overview.to_dict(self._language)})
            age = time.monotonic() - self._kept_at
            if self._placed and (age > _KEEP_PERIOD or (age > _PERIOD and self._kept != self._states())):
                # the page then draws in the new output at once
                self._widget.send({"kind": "moving"})
                self._output.update(self._bundle(), raw=True)
            ranks = sum(len(view.ranks) for view in self._overview.views if view.live)
            self._ended.wait(_PERIOD * max(1.0, ranks / _RANKS))
        if not self._ended.is_set():
            self.end()

    def _receive(self, content: object) -> None:
        match content:
            case {"kind": "seen", "seen": bool(seen), "language": language}:
                self._language = "zh" if language == "zh" else "en"
                (self._seen.set if seen else self._seen.clear)()
            case {"kind": "stop", "run": str(run_id)}:
                # a deleted run is stopped already
                with contextlib.suppress(OSError, UnknownRun):
                    runner.attach(run_id).request_stop(Reason("stopped-from-panel"))
