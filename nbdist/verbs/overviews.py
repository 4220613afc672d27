"""What goes on now, as the monitor shows it: runs, the machine, warm ranks."""

from __future__ import annotations

import time

from nbdist import runner
from nbdist.feed.machine import Machine
from nbdist.panel import Overview, StatusReader
from nbdist.verbs.runs import Listed

_LINES_PERIOD = 5.0


class Overviews:
    """Looks at what goes on: the runs, the machine, warm ranks. One thread at a time."""

    def __init__(self, listed: Listed, *, machine: Machine | None = None) -> None:
        self._listed = listed
        self._reader, self._machine = StatusReader(), machine or Machine()
        self._lines: list[str] = []
        self._lines_due = 0.0

    def look(self) -> Overview:
        """Return what goes on now. Raises NotPrivate."""
        now = time.time()
        views = self._reader.look(now, self._listed.directories())
        warm = runner.warm_ranks.state(collect=False)
        if now >= self._lines_due:
            self._lines_due = now + _LINES_PERIOD
            sweeps = map(runner.describe_sweep, runner.live_sweeps())
            idle = () if warm.ranks else runner.describe_warm(warm)
            self._lines = [*sweeps, *idle, *runner.describe_refused()]
        return Overview(
            now=now,
            views=sorted(views, key=lambda view: not view.live),
            machine=self._machine.look(),
            warm=warm,
            lines=self._lines,
        )
