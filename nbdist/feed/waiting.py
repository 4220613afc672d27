"""The moments of a run that one can wait for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nbdist.errors import UsageMistake
from nbdist.model import RankState, Run, RunState
from nbdist.store import MetricPoint, RankDirectory, RunDirectory
from nbdist.store.metrics import last_points
from nbdist.store.scraped.log import printed_points

_STEP = "step="
_NUMBER = re.compile(r"\d{1,18}")
_ROOM = 4096  # bytes at the end of a file that hold its last step


def _has_failed(run: Run, directory: RunDirectory) -> bool:
    """Return whether the run or a rank of any attempt has failed. KeyboardInterrupt in a run being stopped
    is no failure; an exception that left the program is one once it can be read."""
    if run.failures or run.state in (RunState.FAILED, RunState.LOST):
        return True
    failed = (
        rank.state is RankState.FAILED
        or (
            rank.errored is not None
            and not rank.state.terminal
            and directory.rank(rank.rank, run.attempt).error.exists()
        )
        for rank in run.ranks
    )
    return not run.stop_requested and any(failed)


_MOMENTS: Mapping[str, Callable[[Run, RunDirectory], bool]] = {
    "running": lambda run, _: run.state not in (RunState.PENDING, RunState.STARTING),
    "stalled": lambda run, _: run.stalled is not None,
    "failed": _has_failed,
    "finished": lambda run, _: run.state is RunState.FINISHED,
    "ended": lambda run, _: run.state.terminal,
}


def parse_moments(text: str, name: str = "--until ") -> tuple[str, ...]:
    """Parse ``failed,step=500``. Raises UsageMistake, which calls the option ``name``."""
    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if part not in _MOMENTS and not _NUMBER.fullmatch(part.removeprefix(_STEP)):
            known = ", ".join((*_MOMENTS, f"{_STEP}N"))
            raise UsageMistake(f"{name}{text} is none of {known}: write  {name}failed,stalled,step=500")
    return parts


class Awaited:
    """The moments of one run that somebody waits for."""

    def __init__(self, directory: RunDirectory, moments: Iterable[str]) -> None:
        self._directory = directory
        self._moments = tuple(moments)
        self._steps = _StepReader(directory)

    def came(self, run: Run) -> str:
        """Return the first of them that has come; empty for none."""
        return next((moment for moment in self._moments if self._has_come(moment, run)), "")

    def _has_come(self, moment: str, run: Run) -> bool:
        if moment in _MOMENTS:
            return _MOMENTS[moment](run, self._directory)
        step = self._steps.look(run)
        return step is not None and step >= int(moment.removeprefix(_STEP))


class _StepReader:
    """The step of the rank furthest behind, of those that record or print any; read when files change."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._seen: dict[Path, tuple[tuple[int, int], int | None]] = {}

    def look(self, run: Run) -> int | None:
        steps = [self._of(self._directory.rank(rank.rank, run.attempt), run) for rank in run.ranks]
        return min((step for step in steps if step is not None), default=None)

    def _of(self, files: RankDirectory, run: Run) -> int | None:
        step = self._read(files.metrics, lambda: _last_step(last_points(files.metrics, _ROOM)))
        if step is None and run.spec.scrape:
            step = self._read(files.log, lambda: _last_step(printed_points(files, _ROOM)))
        return step

    def _read(self, path: Path, read: Callable[[], int | None]) -> int | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        stamp = (status.st_size, status.st_mtime_ns)
        seen, step = self._seen.get(path, (None, None))
        if stamp != seen:
            # the end of a file may hold no step
            now = read()
            step = now if step is None or (now is not None and now > step) else step
            self._seen[path] = (stamp, step)
        return step


def _last_step(points: Iterable[MetricPoint]) -> int | None:
    return max((point.step for point in points if point.step is not None), default=None)
