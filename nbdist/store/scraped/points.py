"""The points of a log as they are used: with those that were recorded, or all that a log holds now."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from nbdist.store.log_times import LogTimes
from nbdist.store.metrics import MetricPoint
from nbdist.store.paths import RankDirectory
from nbdist.store.scraped.log import ScrapedMetrics
from nbdist.store.scraped.names import tag_of


def merge_points(
    recorded: Iterable[MetricPoint], printed: Iterable[MetricPoint], *, tags: Collection[str] = ()
) -> list[MetricPoint]:
    """Both by time, without the printed values of a tag that ``nbdist.log`` recorded.

    ``tags`` are those that were recorded in points which are not among ``recorded`` any more.
    """
    points = list(recorded)
    own = {tag_of(tag) for point in points for tag in point.values} | {tag_of(tag) for tag in tags}
    for point in printed:
        if values := {tag: value for tag, value in point.values.items() if tag not in own}:
            points.append(replace(point, values=values) if len(values) < len(point.values) else point)
    return sorted(points, key=lambda point: point.time)


def printed_points(files: RankDirectory, room: int) -> Iterator[MetricPoint]:
    """The points in about the last ``room`` bytes of a rank's log, as it is now."""
    log = ScrapedMetrics(files.log, LogTimes(files.log_times), clock=lambda: math.inf)
    log.skip_to_tail(room)
    while points := log.read():
        yield from points
    # what is left as it is counts at a second look, and there will be none later
    yield from log.read()
