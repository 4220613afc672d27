"""The first failure of a run: which rank, and why. Secondary errors are told from the cause."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

from nbdist.model import Rank, RankState, Run
from nbdist.store import (
    ErrorFrame,
    ErrorReport,
    LogLines,
    LogStream,
    RunDirectory,
    read_error,
)

_TAIL = 16_384
_TAIL_LINES = 20

# What a rank says when another one has gone: true, and never the cause.
_SECONDARY = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe"
    r"|pair\.cc:\d+\] TIMEOUT self_rank|gloo::TimeoutException"
    r"|Socket Timeout|Timed out waiting \d+ms for (recv|send)"
    r"|DistNetworkError.*(recvValue|sendBytes)|[Ff]ailed to (recv, got|send, sent) 0 bytes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed. ``others`` are the ranks that failed after it.

    ``report`` is the exception where one left the program, ``frames`` its frames; ``tail`` the last
    lines of the log where none did. ``cell`` is the program's path, ``script`` its name where it is a
    file of the user's and no cell.
    """

    rank: int
    code: int | None
    time: float
    report: ErrorReport | None
    tail: tuple[str, ...]
    others: tuple[int, ...]
    cell: str
    script: str = ""
    oom: bool = False

    @property
    def frames(self) -> tuple[ErrorFrame, ...]:
        return self.report.frames if self.report is not None else ()

    @property
    def line(self) -> int | None:
        """The innermost line of the cell in the traceback."""
        lines = [frame.line for frame in self.frames if frame.file == self.cell]
        return lines[-1] if lines else None


def first_failure(run: Run, directory: RunDirectory) -> Failure | None:
    """The failure that the others followed from; None when no rank has failed.

    The earliest that is not what a rank says of another's death, by the time of its exception or,
    without one, of its exit.
    """
    failures = [
        _failure(rank, run, directory)
        for rank in run.ranks
        if rank.state is RankState.FAILED or (rank.errored and not rank.state.terminal)
    ]
    if not failures:
        return None
    first = min(failures, key=lambda failure: (_is_secondary(failure), failure.time))
    others = tuple(f.rank for f in failures if f is not first)
    return replace(first, others=others)


def _failure(rank: Rank, run: Run, directory: RunDirectory) -> Failure:
    files = directory.rank(rank.rank, run.attempt)
    report = read_error(files.error)
    stream = LogStream(files.log)
    stream.skip_to_tail(_TAIL)
    lines = LogLines()
    tail = [*lines.feed(stream.read(_TAIL)), *lines.close()]
    return Failure(
        rank=rank.rank,
        code=rank.code,
        oom=rank.oom,
        time=report.time if report else rank.errored or rank.exited or 0.0,
        report=report,
        tail=tuple(tail[-_TAIL_LINES:]),
        others=(),
        cell=run.spec.program,
        script="" if directory.is_cell(run.spec.program) else os.path.basename(run.spec.program),
    )


def _is_secondary(failure: Failure) -> bool:
    if failure.report is not None:
        return bool(_SECONDARY.search(f"{failure.report.type}: {failure.report.message}"))
    return bool(_SECONDARY.search("\n".join(failure.tail)))
