"""Where the numbers of a run stand: the files of its ranks, attempt by attempt, and what they become."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbdist.store import RunDirectory

SPREAD = ("mean", "min", "max")
"""Over the ranks; in the order of ``SpreadPoint``."""

_ATTEMPT = re.compile(r"attempt-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file of lines, of one rank in one attempt; ``system`` where the supervisor wrote them,
    ``printed`` where it is the log."""

    path: Path
    rank: int
    attempt: int
    system: bool = False
    printed: bool = False
    times: Path = Path()
    """The index of the log, where it is one."""

    @property
    def writer(self) -> str:
        return f"rank{self.rank}" + (f".attempt-{self.attempt}" if self.attempt > 1 else "")


def sources(run: RunDirectory, *, printed: bool) -> Iterator[Source]:
    """Every file of lines that there may be; logs with ``printed``."""
    ranks = run.path / "ranks"
    for rank in filter(str.isdigit, names(ranks)):
        attempts = [int(match[1]) for name in names(ranks / rank) if (match := _ATTEMPT.fullmatch(name))]
        for attempt in (1, *sorted(attempts)):
            files = run.rank(int(rank), attempt)
            yield Source(path=files.metrics, rank=int(rank), attempt=attempt)
            yield Source(path=files.system, rank=int(rank), attempt=attempt, system=True)
            if printed:
                yield Source(
                    path=files.log, rank=int(rank), attempt=attempt, printed=True, times=files.log_times
                )


def shown_first(run: RunDirectory) -> list[str]:
    """The directories of ``run.board`` that a page opens with: the whole, and rank 0.

    They need not be there yet. Of several attempts it is the last.
    """
    attempts = [int(match[1]) for name in names(run.rank(0).path) if (match := _ATTEMPT.fullmatch(name))]
    suffix = f".attempt-{max(attempts)}" if attempts else ""
    own = [
        name for name in names(run.board) if name.startswith(f"rank0{suffix}.") and ".attempt-" not in name
    ]
    return [f"rank0{suffix}", *(name + suffix for name in SPREAD), *own]


def names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
