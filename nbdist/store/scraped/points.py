"""The points of a log as they are used: all that it holds now, with those that were recorded, and both as the
numbers of a run."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from nbdist.model import Run
from nbdist.store.log_stream import LogStream
from nbdist.store.log_times import LogTimes
from nbdist.store.metrics import MetricPoint, Number, sampled_points, spread
from nbdist.store.paths import RankDirectory, RunDirectory
from nbdist.store.scraped.log import ScrapedMetrics
from nbdist.store.scraped.names import tag_of

_WHOLE = 4  # ranks of which all is read that is read of one
_PRINTED = 4 << 20  # bytes at the ends of all logs that are looked through for numbers


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


def sampled_prints(files: RankDirectory, room: int, pieces: int) -> Iterator[MetricPoint]:
    """The points in about the last half of ``room`` bytes of a rank's log, and before them those in so many
    pieces of all that stands before."""
    end = room // 2
    before = LogStream(files.log).size - end
    for number in range(pieces if before > end else 0):
        log = ScrapedMetrics(files.log, LogTimes(files.log_times))
        log.skip_to_tail(before - before * number // pieces + end)
        yield from log.read(end // pieces, most=end // pieces)
    yield from printed_points(files, end if before > end else room)


def read_numbers(run: Run, directory: RunDirectory) -> dict[str, list[list[Number]]]:
    """By tag, what each rank that has it recorded or printed, the lowest rank first: some of it where it is
    very much, the first and the last always."""
    found: dict[str, list[list[Number]]] = {}
    ranks = len(run.ranks)
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        own = numbers_of(sampled_points(files.metrics, max(1, ranks // _WHOLE)))
        if run.spec.scrape:
            # what a rank records it does not only print
            printed = printed_points(files, _PRINTED // ranks)
            own |= numbers_of(merge_points([], printed, tags=set(own)))
        for tag, numbers in own.items():
            found.setdefault(tag, []).append(numbers)
    return found


def last_values(run: Run, directory: RunDirectory) -> dict[str, float]:
    """The last value of each metric: the mean over the ranks (``spread``)."""
    found = read_numbers(run, directory)
    return {tag: spread(numbers[-1] for numbers in ranks)[0] for tag, ranks in found.items()}


def numbers_of(points: Iterable[MetricPoint]) -> dict[str, list[Number]]:
    """By tag, in the order of the points."""
    found: dict[str, list[Number]] = {}
    for point in points:
        for tag, value in point.values.items():
            found.setdefault(tag, []).append((point.step, value))
    return found
