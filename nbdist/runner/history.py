"""``run.history()``, ``nbdist.history()``: every point of metrics, as the charts have them, in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nbdist.errors import UsageMistake
from nbdist.model import Run
from nbdist.store import LogStream, MetricPoint, MetricsReader, RankDirectory, RunDirectory
from nbdist.store.scraped.log import merge_points, printed_points

if TYPE_CHECKING:
    import pandas

TYPES = {"run": "str", "rank": "int64", "step": "int64", "tag": "str", "value": "float64", "time": "float64"}


def read_history(run: Run, directory: RunDirectory, tags: tuple[str, ...]) -> pandas.DataFrame:
    """A row for each point of these tags (none: of all), rank by rank in the order in which they came. Raises
    UsageMistake without pandas."""
    return read_histories([(run, directory)], tags).drop(columns="run")


def read_histories(runs: Sequence[tuple[Run, RunDirectory]], tags: tuple[str, ...]) -> pandas.DataFrame:
    """The same of several runs, each with its label in the column ``run``."""
    try:
        import pandas
    except ImportError:
        raise UsageMistake(
            "run.history() makes a DataFrame, and pandas is not installed here:  %pip install pandas"
        ) from None
    rows = [(run.label, *row) for run, directory in runs for row in _rows(run, directory, tags)]
    columns = zip(*rows, strict=True) if rows else [()] * len(TYPES)
    return pandas.DataFrame(dict(zip(TYPES, columns, strict=True))).astype(TYPES)


def _rows(run: Run, directory: RunDirectory, tags: tuple[str, ...]) -> Iterator[tuple[object, ...]]:
    for rank in run.ranks:
        counted: dict[str, int] = {}
        for point in _points(directory.rank(rank.rank, run.attempt), scrape=run.spec.scrape):
            for tag, value in point.values.items():
                # as in the charts: without a step each tag counts on from its last
                step = counted.get(tag, -1) + 1 if point.step is None else point.step
                counted[tag] = step
                if not tags or tag in tags:
                    yield rank.rank, step, tag, value, point.time


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
