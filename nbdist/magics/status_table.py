"""``%dist_status`` in a notebook: a table that is kept up to date without any widget."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from IPython.display import display

from nbdist import config, panel
from nbdist.store import RunDirectory

if TYPE_CHECKING:
    from nbdist.panel.view import RunView

_GRAIN = 5.0


class StatusTable:
    """The table that was asked for last; one at a time is kept up to date."""

    def __init__(self) -> None:
        self._superseded = threading.Event()

    def show(self, runs: Sequence[RunDirectory], *, live: bool) -> None:
        """Display how the runs stand. ``live`` replaces it when that changes, until all have ended, a
        newer table is shown, or an hour is over; the last one stays in the notebook."""
        language = config.language()
        reader = panel.StatusReader(runs)

        def look() -> list[RunView]:
            return reader.look(time.time())

        views = look()
        bundle = panel.status_bundle(views, language, time.time())
        self._superseded.set()
        if not live or not any(view.live for view in views):
            display(bundle, raw=True)
            return
        self._superseded = superseded = threading.Event()
        output = display(bundle, raw=True, display_id=True)
        assert output is not None, "display with an id gives a handle"

        def update(views: list[RunView]) -> None:
            output.update(panel.status_bundle(views, language, time.time()), raw=True)

        threading.Thread(
            target=panel.watch_status,
            args=(look, update, superseded.wait),
            kwargs={"shown": views, "grain": _GRAIN},
            name="nbdist status",
            daemon=True,
        ).start()
