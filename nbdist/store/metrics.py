"""What ranks recorded with ``nbdist.log``, read back."""

from __future__ import annotations

import json

from nbdist.model import Run
from nbdist.store.log_stream import LogStream
from nbdist.store.paths import RunDirectory

_TAIL = 65_536


def last_values(run: Run, directory: RunDirectory) -> dict[str, float]:
    """The last value of each metric, of the lowest rank that logged it."""
    values: dict[str, float] = {}
    for rank in run.ranks:
        stream = LogStream(directory.rank(rank.rank, run.attempt).metrics)
        stream.skip_to_tail(_TAIL)
        last: dict[str, float] = {}
        for line in stream.read(_TAIL).splitlines():
            last.update(_values(line))
        values |= {tag: value for tag, value in last.items() if tag not in values}
    return values


def _values(line: bytes) -> dict[str, float]:
    try:
        return {str(tag): float(value) for tag, value in json.loads(line)["v"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # a torn line
