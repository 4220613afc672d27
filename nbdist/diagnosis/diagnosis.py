"""The diagnosis of a run that failed: everything that is to be shown of it, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.diagnosis.exits import rank_names
from nbdist.diagnosis.failure import OF_DISKS, Failure, Group, Hint, end_of_log, first_failure
from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.text import Both, both, say

_SHOWN_LINE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """``failure`` is the first one; ``notes`` are facts beside it."""

    failure: Failure
    notes: tuple[Both, ...] = ()

    @property
    def hint(self) -> Hint | None:
        """Cause and fix, where the error is known."""
        return self.failure.hint

    @property
    def groups(self) -> tuple[Group, ...]:
        """The other ranks, by what they said and how they ended."""
        return self.failure.groups

    @property
    def early_exits(self) -> tuple[int, ...]:
        """Ranks that ended well while another one still needed them."""
        return self.failure.early_exits


def diagnose(run: Run, directory: RunDirectory) -> Diagnosis | None:
    """Why the run failed; None when no rank has failed."""
    failure = first_failure(run, directory)
    if failure is None:
        return None
    return Diagnosis(failure=failure, notes=tuple(_notes(failure, run, directory)))


def _notes(failure: Failure, run: Run, directory: RunDirectory) -> list[Both]:
    notes = [_last_line(rank, run, directory) for rank in failure.absent]
    if failure.full and (failure.hint is None or failure.hint.signature not in OF_DISKS):
        notes.append(_full(failure))
    for rank in failure.early_exits:
        early = run.ranks[rank]
        before = failure.time - (early.finished or early.exited or failure.time)
        code = "diagnosis.early-exit" if before >= 0.1 else "diagnosis.early-exit-now"
        said = [say(code, one, rank=rank_names([rank], one), seconds=before) for one in ("en", "zh")]
        notes.append(Both(*said))
    return notes


def _full(failure: Failure) -> Both:
    return both("diagnosis.disk-full", disk=failure.full, rank=failure.rank)


def _last_line(rank: int, run: Run, directory: RunDirectory) -> Both:
    lines = [line for line in end_of_log(rank, run, directory) if line.strip()]
    last = lines[-1][:_SHOWN_LINE] if lines else ""
    if not last:
        return both("diagnosis.absent-silent", rank=rank)
    return both("diagnosis.absent-last", rank=rank, line=last)
