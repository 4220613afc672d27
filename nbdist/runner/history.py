"""``run.history()``: every point of a run's metrics, as the charts have them, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdist.errors import UsageMistake
from nbdist.model import Run
from nbdist.store import LogStream, MetricPoint, MetricsReader, RankDirectory, RunDirectory
from nbdist.store.scraped.log import merge_points, printed_points

if TYPE_CHECKING:
    import pandas

COLUMNS = ("rank", "step", "tag", "value", "time")


def read_history(run: Run, directory: RunDirectory, tags: tuple[str, ...]) -> pandas.DataFrame:
    """A row for each point of these tags (none: of all), rank by rank in the order in which they came. Raises
    UsageMistake without pandas."""
    try:
        import pandas
    except ImportError:
        raise UsageMistake(
            "run.history() makes a DataFrame, and pandas is not installed here:  %pip install pandas"
        ) from None
    rows: list[tuple[int, int, str, float, float]] = []
    for rank in run.ranks:
        counted: dict[str, int] = {}
        for point in _points(directory.rank(rank.rank, run.attempt), scrape=run.spec.scrape):
            for tag, value in point.values.items():
                # as in the charts: without a step each tag counts on from its last
                step = counted.get(tag, -1) + 1 if point.step is None else point.step
                counted[tag] = step
                if not tags or tag in tags:
                    rows.append((rank.rank, step, tag, value, point.time))
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    types = {"rank": "int64", "step": "int64", "tag": "str", "value": "float64", "time": "float64"}
    return pandas.DataFrame(dict(zip(COLUMNS, columns, strict=True))).astype(types)


def _points(files: RankDirectory, *, scrape: bool) -> list[MetricPoint]:
    """What a rank recorded, then what it printed and did not record."""
    reader = MetricsReader(files.metrics)
    recorded: list[MetricPoint] = []
    while points := reader.read():
        recorded += points
    if not scrape:
        return recorded
    tags = {tag for point in recorded for tag in point.values}
    return recorded + merge_points([], printed_points(files, LogStream(files.log).size), tags=tags)
