"""Which runs, ranks and lines are meant: what the magics and the command line have in common."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence

from nbdist.errors import UnknownRun, UsageMistake
from nbdist.model import Reason
from nbdist.runner.handle import RunHandle, attach, request_stop_of, runs

_LATEST = 10
_STOP_LIMIT = 15.0


def chosen_runs(names: Sequence[str]) -> list[RunHandle]:
    """The runs with these names; the latest ten where none is named. Raises UnknownRun."""
    return [attach(name) for name in names] or runs()[:_LATEST]


def live_runs() -> list[RunHandle]:
    """Every run that goes on, the newest first."""
    return [handle for handle in runs() if _goes_on(handle)]


def live_run(name: str | None = None) -> RunHandle:
    """The run with this name, or the latest, where it goes on. Raises UsageMistake when it has ended."""
    if name is not None:
        handle = attach(name)
        if handle.run.state.terminal:
            raise UsageMistake(f"{handle.run.label} has already ended: {handle.status}")
        return handle
    live = live_runs()
    if not live:
        raise UsageMistake("no run is going on: %dist_status lists them")
    return live[0]


def stop_runs(handles: Sequence[RunHandle], reason: Reason) -> None:
    """Ask all of them to end, then wait for each; one may still go on after that."""
    for handle in handles:
        request_stop_of(handle, reason)
    for handle in handles:
        handle.wait(_STOP_LIMIT)


def _goes_on(handle: RunHandle) -> bool:
    try:
        return not handle.run.state.terminal
    except UnknownRun:
        return False  # it is being made, or removed


def rank_numbers(handle: RunHandle, rank: int | None) -> Sequence[int]:
    """``rank`` alone, or every rank of this machine. Raises UsageMistake when its log is not here."""
    if rank is None:
        return [spec.rank for spec in handle.run.spec.here]
    handle.check_log(rank)
    return [rank]


def log_pattern(text: str | None) -> re.Pattern[str]:
    """The pattern behind ``--grep``; without one, what every line matches. Raises UsageMistake."""
    try:
        return re.compile(text or "")
    except re.error as error:
        raise UsageMistake(f"--grep {text}: {error}: write a regular expression") from None


def line_count(text: str) -> int:
    """The number behind ``--tail``. Raises UsageMistake."""
    if not text.isdecimal():
        raise UsageMistake(f"--tail {text}: write a number of lines, for example  --tail 20")
    return int(text)


def matching_lines(handle: RunHandle, rank: int, pattern: re.Pattern[str], tail: int | None) -> Iterable[str]:
    """The lines of a rank's log that match; of them the last ``tail``, or all."""
    found = (line for line in handle.log_lines(rank) if pattern.search(line))
    return found if tail is None else deque(found, maxlen=tail)
