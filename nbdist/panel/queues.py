"""When a view and the charts of a run are sent to a page: not at every look, and not unchanged. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nbdist.panel.charts import Chart, ChartKey, Charts
from nbdist.panel.protocol import for_the_strip
from nbdist.panel.view import RunView

_CHARTS_PERIOD = 2.0
_CHARTS_BYTES = 200_000
_MANY_RANKS = 16  # above, a view is so large that it is sent once a second
_VIEW_PERIOD = 1.0


class ViewQueue:
    """When a view is sent: when it says something new, and where ranks are many not at every look."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._sent: RunView | None = None

    def take(self, view: RunView, now: float, *, again: bool) -> RunView | None:
        """The view as it is to be sent now; None for not now."""
        last = self._sent
        if not again and last is not None and len(view.ranks) > _MANY_RANKS:
            urgent = (view.state, view.failure, view.stall) != (last.state, last.failure, last.stall)
            if not urgent and now - self._sent_at < _VIEW_PERIOD:
                return None
        shown = for_the_strip(view)
        # the page has a clock of its own
        still = replace(shown, elapsed=0.0, ranks=tuple(replace(rank, elapsed=0.0) for rank in shown.ranks))
        if not again and still == last:
            return None
        self._sent_at, self._sent = now, still
        return shown


class ChartQueue:
    """When a chart is sent: when it has changed, but no oftener than it pays to look at it.

    There may be more than one message should hold; those that were not sent for longest come first.
    """

    def __init__(self, charts: Charts) -> None:
        self._charts = charts
        self._looked = -_CHARTS_PERIOD
        self._sent: dict[ChartKey, tuple[int, int]] = {}
        self._count = 0

    def take(self, now: float, *, again: bool, at_once: bool = False) -> Sequence[Chart]:
        """The charts that are to be sent now; ``again`` takes in those that did not change. ``at_once`` does
        not wait until the last look was long enough ago."""
        if not (again or at_once) and now - self._looked < _CHARTS_PERIOD:
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
