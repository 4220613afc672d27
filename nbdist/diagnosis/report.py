"""A failure as text for a person: headline, traceback in lines of the cell, the others in one line."""

from __future__ import annotations

import os

from nbdist.diagnosis.exits import describe_exit
from nbdist.diagnosis.failure import Failure
from nbdist.store import ErrorFrame


def failure_headline(failure: Failure) -> str:
    """``rank 1 failed first: ZeroDivisionError at line 9 of the cell``, or of ``train.py``."""
    if failure.report is not None:
        kind = failure.report.type.rpartition(".")[2]
        program = failure.script or "the cell"
        where = f" at line {failure.line} of {program}" if failure.line is not None else ""
        return f"rank {failure.rank} failed first: {kind}{where}"
    how = describe_exit(failure.code, oom=failure.oom) if failure.code is not None else "it has not exited"
    return f"rank {failure.rank} failed first: {how}"


def failure_report(failure: Failure) -> str:
    """The headline, then the traceback (library frames folded) or the end of the log."""
    lines = [failure_headline(failure), ""]
    if failure.report is not None:
        lines += traceback_lines(failure)
        kind, message = failure.report.type, failure.report.message
        lines.append(f"{kind}: {message}" if message else kind)
    elif failure.tail:
        lines.append(f"the last lines of rank {failure.rank}:")
        lines += [f"    {line}" for line in failure.tail]
    if failure.others:
        ranks = ", ".join(map(str, failure.others))
        plural = "s" if len(failure.others) > 1 else ""
        lines += ["", f"rank{plural} {ranks} failed after it"]
    return "\n".join(lines)


def traceback_lines(failure: Failure) -> list[str]:
    """The traceback with the cell's frames whole and runs of others in one line each."""
    lines: list[str] = []
    hidden: list[ErrorFrame] = []
    for frame in failure.frames:
        if frame.file == failure.cell:
            lines += _folded(hidden)
            hidden = []
            lines.append(f"  {failure.script or 'cell'} line {frame.line}, in {frame.function}")
            if frame.source:
                lines.append(f"    {frame.source}")
        else:
            hidden.append(frame)
    return lines + _folded(hidden)


def _folded(frames: list[ErrorFrame]) -> list[str]:
    if not frames:
        return []
    last = frames[-1]
    more = f"{len(frames) - 1} more, " if len(frames) > 1 else ""
    lines = [f"  ({more}{_short(last.file)} line {last.line}, in {last.function})"]
    if last.source:
        lines.append(f"    {last.source}")
    return lines


def _short(path: str) -> str:
    """The end of a path that still says which package: torch/nn/functional.py."""
    _, found, inside = path.rpartition(f"{os.sep}site-packages{os.sep}")
    if found:
        return inside
    return os.sep.join(path.split(os.sep)[-2:])
