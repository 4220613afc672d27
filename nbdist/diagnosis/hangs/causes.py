"""Why a run stands still: the causes that are known, the surest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.diagnosis.hangs.deadlocks import all_joining, no_member, ungrouped, why
from nbdist.diagnosis.hangs.histories import History, of_sizes_at
from nbdist.diagnosis.hangs.leaving import why_left
from nbdist.diagnosis.hangs.parting import of_uneven_groups
from nbdist.diagnosis.places import Sources
from nbdist.diagnosis.sides import Side
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import is_collective
from nbdist.model import RankState, Run
from nbdist.store.reports import RankAnswer

_EXCHANGES = frozenset({"backward", "forward", "SyncBatchNorm", "DistributedDataParallel", "DDP"})
"""What a model calls of itself on all ranks."""


def cause_of(
    sides: Sequence[Side],
    everyone: Sequence[Side],
    answers: Sequence[RankAnswer],
    run: Run,
    raised: Mapping[int, str],
    histories: Mapping[int, History],
    sources: Sources,
) -> Hint | None:
    """``sides`` are the ranks of the process group in which some wait, ``everyone`` is all that answered;
    ``raised`` is by rank the error with which a thread or a process of its has ended, ``histories`` what the
    ranks have called."""
    return (
        all_joining(sides, run.spec.world_size, sources)
        or no_member(sides, answers, sources)
        or ungrouped(sides, answers, sources, histories)
        or ungrouped(everyone, answers, sources, histories)
        or _of_sizes(answers, histories, sources)
        or _of_groups(sides, answers, sources)
        or why(sides, sources, raised, histories)
        or _why_left(sides, run, sources)
    )


def _of_sizes(
    answers: Sequence[RankAnswer], histories: Mapping[int, History], sources: Sources
) -> Hint | None:
    """Of other sizes in the collective of NCCL that a rank waits in."""
    pending = [
        (answer.rank, one.number) for answer in answers for one in answer.collectives.values() if not one.over
    ]
    found = (of_sizes_at(rank, number, histories, sources) for rank, number in pending)
    return next(filter(None, found), None)


def _of_groups(sides: Sequence[Side], answers: Sequence[RankAnswer], sources: Sources) -> Hint | None:
    """Of ranks that all wait in a collective which none of them has begun."""
    begun = any(not one.over for answer in answers for one in answer.collectives.values())
    all_wait = bool(sides) and all(side.place.waits for side in sides)
    return of_uneven_groups(sides, sources) if all_wait and not begun else None


def _why_left(sides: Sequence[Side], run: Run, sources: Sources) -> Hint | None:
    """Why some ranks have ended, where all others wait for them."""
    ended = tuple(rank.rank for rank in run.ranks if rank.state is RankState.SUCCEEDED)
    # a key of the store, or a message, may be awaited of one rank alone
    if not ended or not sides or not all(side.place.waits and _is_for_all(side) for side in sides):
        return None
    found = [why_left(side, ended, run.spec.program, sources) for side in sides]
    return next((one for one in found if one.signature == "left-alone"), found[0])


def _is_for_all(side: Side) -> bool:
    """Whether these ranks wait in what each rank of their group has to call."""
    what = side.place.what
    return bool(side.name) or is_collective(what) or what in _EXCHANGES or bool(side.place.through)
