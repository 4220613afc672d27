"""Overviews for the monitor: runs, the machine, warm ranks."""

from __future__ import annotations

import time

from nbdist import runner
from nbdist.feed.machine import Machine
from nbdist.panel import Overview, StatusReader
from nbdist.verbs.runs import Listed

_LINES_PERIOD = 5.0


class Overviews:
    """Looks at what goes on. One thread at a time."""

    def __init__(self, listed: Listed) -> None:
        self._listed, self._reader, self._machine = listed, StatusReader(), Machine()
        self._lines: list[str] = []
        self._lines_due = 0.0

    def look(self) -> Overview:
        """Return what goes on now. Raises NotPrivate."""
        now, warm = time.time(), runner.warm_ranks.state(collect=False)
        views = self._reader.look(now, self._listed.directories())
        if now >= self._lines_due:
            self._lines_due = now + _LINES_PERIOD
            sweeps = map(runner.describe_sweep, runner.live_sweeps())
            idle = () if warm.ranks else runner.describe_warm(warm)
            self._lines = [*sweeps, *idle, *runner.describe_refused()]
        views.sort(key=lambda view: not view.live)
        return Overview(now=now, views=views, machine=self._machine.look(), warm=warm, lines=self._lines)
