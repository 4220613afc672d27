"""The metrics that a rank only prints, read from its log as points: same values as ``nbdist.log``'s."""

from nbdist.store.scraped.line import lines_with_cues, read_line
from nbdist.store.scraped.log import (
    ScrapedMetrics,
    last_values,
    merge_points,
    numbers_of,
    printed_points,
    read_numbers,
    sampled_prints,
)
from nbdist.store.scraped.names import tag_of

__all__ = [
    "ScrapedMetrics",
    "last_values",
    "lines_with_cues",
    "merge_points",
    "numbers_of",
    "printed_points",
    "read_line",
    "read_numbers",
    "sampled_prints",
    "tag_of",
]
