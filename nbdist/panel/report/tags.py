"""The charts of a report, of more tags than a panel keeps, and the names of those that have no room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nbdist.panel.charts import TAGS, Chart, Charts
from nbdist.store import MetricPoint

MOST_TAGS = 200
"""What a page of charts may hold; each takes some 30 kB."""

_MOST_NAMES = 10_000


class TagCharts:
    """As ``Charts``, in parts of as many tags as one of these keeps."""

    def __init__(self, *, created: float, ranks: Sequence[int], most: int = MOST_TAGS) -> None:
        self._created, self._ranks = created, ranks
        self._most = most
        self._parts = [Charts(created=created, ranks=ranks)]
        self._part_of: dict[str, int] = {}
        self._dropped: dict[str, None] = {}

    @property
    def dropped(self) -> tuple[str, ...]:
        """The tags that are left out, as they first appeared."""
        return tuple(self._dropped)

    @property
    def count(self) -> int:
        """How many tags there are."""
        return len(self._part_of) + len(self._dropped)

    def take(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """What the rank logged next."""
        taken: dict[int, list[MetricPoint]] = {}
        for point in points:
            values: dict[int, dict[str, float]] = {}
            for tag, value in point.values.items():
                if (part := self._part(tag)) is not None:
                    values.setdefault(part, {})[tag] = value
            for part, some in values.items():
                taken.setdefault(part, []).append(replace(point, values=some))
        for part, some_points in taken.items():
            self._parts[part].take(rank, some_points)

    def take_system(self, rank: int, points: Iterable[MetricPoint]) -> None:
        """What the supervisor measured of the rank next."""
        self._parts[0].take_system(rank, points)

    def all(self) -> list[Chart]:
        """Every chart: the metrics as they first appeared, then what was used."""
        charts = [chart for part in self._parts for chart in part.all()]
        return sorted(charts, key=lambda chart: chart.group != "metric")

    def _part(self, tag: str) -> int | None:
        """In which part a tag is; None where there is no room for it."""
        if tag in self._part_of:
            return self._part_of[tag]
        if len(self._part_of) >= self._most:
            if len(self._dropped) < _MOST_NAMES:
                self._dropped[tag] = None
            return None
        part = self._part_of[tag] = len(self._part_of) // TAGS
        if part == len(self._parts):
            self._parts.append(Charts(created=self._created, ranks=self._ranks))
        return part
