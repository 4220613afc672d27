"""A snapshot of a run, from the ends of its files: for readers that do not follow it from its start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist.diagnosis.stragglers import Paces
from nbdist.feed.ansi import strip_ansi
from nbdist.feed.progress import Progress, RankProgress, furthest_behind
from nbdist.feed.stalling import SlowView, slow_view
from nbdist.model import Rank, Run
from nbdist.store import LogLines, LogStream, MetricPoint, RunDirectory
from nbdist.store.metrics import last_points

_LOG_ROOM = 4096
_SYSTEM_ROOM = 4096
# bytes of metrics, of all ranks
_POINTS_ROOM = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What the files of the ranks say: the last line that has text, the last that was measured, steps a
    second; and how far the run is."""

    last_lines: Mapping[int, str]
    system: Mapping[int, MetricPoint]
    rates: Mapping[int, float | None]
    progress: Progress | None
    slow: SlowView | None = None


def glance(run: Run, directory: RunDirectory, now: float) -> Glance:
    """Look at the run at the moment ``now`` (Unix seconds)."""
    last_lines, system, rates, progresses, paces = {}, {}, {}, [], Paces()
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        lines = log_end(files.log, _LOG_ROOM)
        said = (text for line in reversed(lines) if (text := strip_ansi(line)).strip())
        last_lines[rank.rank] = next(said, "")
        progress = _progress(run, rank, directory, lines)
        progresses.append(progress.progress(now))
        if not rank.state.terminal:
            rates[rank.rank] = progress.rate(now)
            if measured := last_points(files.system, _SYSTEM_ROOM):
                system[rank.rank] = measured[-1]
                paces.take(rank.rank, measured)
    return Glance(
        last_lines=last_lines,
        system=system,
        rates=rates,
        progress=furthest_behind(progresses),
        slow=slow_view(paces, run, rates, now),
    )


def log_end(path: Path, room: int) -> list[str]:
    """The lines in about the last ``room`` bytes of a log."""
    stream = LogStream(path)
    stream.skip_to_tail(room)
    lines = LogLines()
    return [*lines.feed(stream.read(room)), *lines.close()]


def _progress(run: Run, rank: Rank, directory: RunDirectory, lines: list[str]) -> RankProgress:
    progress = RankProgress()
    files = directory.rank(rank.rank, run.attempt)
    room = max(_LOG_ROOM, _POINTS_ROOM // len(run.ranks))
    progress.logged(last_points(files.metrics, room))
    if lines:
        progress.printed(lines[:-1], lines[-1], _written(files.log))
    return progress


def _written(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
