"""The last traceback in the log of a rank that goes on: of a thread or a process of it, or a caught one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.diagnosis.tracebacks import WATCHDOG, chains_in_log, root
from nbdist.model import Run
from nbdist.programs.sources import Sources
from nbdist.store import RunDirectory, read_error
from nbdist.store.logs import last_lines
from nbdist.store.reports import ErrorFrame

_EFFECTS = frozenset(
    {"KeyboardInterrupt", "BrokenPipeError", "EOFError", "ConnectionResetError", "SystemExit"}
)
"""Exceptions that threads and processes raise when their rank is ended."""

_FEW_RANKS, _LOG_ROOM, _SHOWN = 4, 32_768, 160
"""So many ranks' logs are searched for a traceback, so many bytes of each, and so many characters shown."""

_STARTERS = re.compile(r"/(?:threading|multiprocessing/\w+|concurrent/futures/\w+)\.py$|^<string>$")
"""Files in which the stack of a thread or a process begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback:
    """The last traceback in the log of a rank: its error in a line, and the innermost line of the user's, if
    any, with its ``file`` ("" for the program). ``ended``: a thread or a process has ended with it."""

    rank: int
    error: str
    line: int | None = None
    file: str = ""
    ended: bool = True

    @property
    def where(self) -> str:
        """``22``, or ``prefetch.py:22`` of a module beside the program; empty where that is not known."""
        return f"{self.file}:{self.line}" if self.file else str(self.line or "")


def raised_in_logs(ranks: Sequence[int], run: Run, directory: RunDirectory) -> tuple[Traceback, ...]:
    """Return the last traceback of a few of these ranks, but for what left their programs."""
    found = (_last_traceback(rank, run, directory) for rank in ranks[:_FEW_RANKS])
    return tuple(one for one in found if one is not None)


def gave_up(ranks: Sequence[int], run: Run, directory: RunDirectory) -> bool:
    """Return whether NCCL's watchdog has given up what one of these ranks waits in: it ends the process one
    minute later."""
    logs = (last_lines(directory.rank(rank, run.attempt).log, _LOG_ROOM) for rank in ranks[:_FEW_RANKS])
    return any(WATCHDOG in line for lines in logs for line in lines)


def ended_by(tracebacks: Sequence[Traceback]) -> dict[int, str]:
    """By rank the error with which a thread or a process of its has ended."""
    return {
        one.rank: f"{one.error} (line {one.where})" if one.where else one.error
        for one in tracebacks
        if one.ended
    }


def _last_traceback(rank: int, run: Run, directory: RunDirectory) -> Traceback | None:
    lines = last_lines(directory.rank(rank, run.attempt).log, _LOG_ROOM)
    if not any(line.endswith("Traceback (most recent call last):") for line in lines):
        return None
    left = read_error(directory.rank(rank, run.attempt).error)
    own_end = (left.type, left.message.partition("\n")[0]) if left is not None else None
    chains = [
        chain
        for chain in chains_in_log(lines)
        if chain[-1].type not in _EFFECTS
        and (chain[-1].type, chain[-1].message.partition("\n")[0]) != own_end
    ]
    if not chains:
        return None
    first, sources = root(chains[-1]), Sources.of(run, directory)
    own = [frame for frame in first.frames if sources.is_own(frame.file)]
    return Traceback(
        rank=rank,
        error=" ".join(first.text.split())[:_SHOWN],
        line=own[-1].line if own else None,
        file="" if not own or sources.is_program(own[-1].file) else sources.name(own[-1].file),
        ended=bool(first.frames) and _ends_another(first.frames[0], sources),
    )


def _ends_another(outermost: ErrorFrame, sources: Sources) -> bool:
    """Return whether a traceback that begins so is of a thread or a process, and not one that the program has
    caught and printed."""
    begins = rf"(?:target=|submit\(|map\(|apply_async\()\s*[\w.]*\b{re.escape(outermost.function)}\b"
    return (
        _STARTERS.search(outermost.file) is not None
        or (outermost.function == "<module>" and not sources.is_program(outermost.file))
        or outermost.function == "run"
        or re.search(begins, sources.text(outermost.file)) is not None
    )
