"""The known causes why a run stands still, the surest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nbdist.diagnosis.hangs.branches_taken import of_groups
from nbdist.diagnosis.hangs.deadlocks import all_joining, awaited, no_member, ungrouped, why
from nbdist.diagnosis.hangs.divergence import History, came_to, of_sizes_at
from nbdist.diagnosis.hangs.evidence import MESSAGE, missing_in, pending
from nbdist.diagnosis.hangs.leaving import why_left
from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import Side
from nbdist.model import Run
from nbdist.programs.branches import given_group, is_collective
from nbdist.programs.sources import Sources
from nbdist.store.reports import RankAnswer

_EXCHANGES = frozenset({"backward", "forward", "SyncBatchNorm", "DistributedDataParallel", "DDP"})
"""Calls that a model makes of itself on all ranks."""


def cause_of(
    sides: Sequence[Side],
    everyone: Sequence[Side],
    answers: Sequence[RankAnswer],
    run: Run,
    ended: Sequence[int],
    raised: Mapping[int, str],
    histories: Mapping[int, History],
    sources: Sources,
) -> Hint | None:
    """Explain why a run stands still. ``sides`` are the ranks of the process group in which some wait,
    ``everyone`` is all that answered, ``ended`` those that had done their program; ``raised`` is by rank the
    error with which a thread or a process of its has ended, ``histories`` what the ranks have called."""
    return (
        all_joining(sides, run.spec.world_size, sources)
        or no_member(sides, answers, sources)
        or ungrouped(sides, answers, sources, histories)
        or ungrouped(everyone, answers, sources, histories)
        or _of_sizes(answers, histories, sources)
        or (None if ended else _of_groups(sides, answers, sources))
        or why(_as_one(sides, answers), sources, raised, histories)
        or _why_left(sides, answers, run, ended, histories, sources)
    )


def _of_sizes(
    answers: Sequence[RankAnswer], histories: Mapping[int, History], sources: Sources
) -> Hint | None:
    """Compare the sizes in the collective of NCCL that a rank waits in."""
    found = (of_sizes_at(rank, group, one, histories, sources) for rank, group, one in pending(answers))
    return next(filter(None, found), None)


def _of_groups(sides: Sequence[Side], answers: Sequence[RankAnswer], sources: Sources) -> Hint | None:
    """Explain why ranks wait in one line, in a collective which none of them has begun."""
    begun = any(not one.over for answer in answers for one in answer.collectives.values())
    lines = {side.way[-1:] for side in sides}
    ranks = [rank for side in sides for rank in side.ranks]
    in_line = len(lines) == 1 and len(ranks) > 1 and all(side.place.waits for side in sides)
    given = all(side.way and given_group(side.way[-1], sources) for side in sides)
    return of_groups(sides, sources) if in_line and given and not begun else None


def _as_one(sides: Sequence[Side], answers: Sequence[RankAnswer]) -> Sequence[Side]:
    """Join ranks whose devices are all in one collective: what their programs do since, such as to print a
    loss on one of them, has not parted them."""
    if len(sides) < 2 or not any(side.place.on_device for side in sides):
        return sides
    ranks = [rank for side in sides for rank in side.ranks]
    waited = [awaited(answer) for answer in answers if answer.rank in ranks]
    first = waited[0][1] if waited else None
    if first is None or not first.name or not all(side.place.waits for side in sides):
        return sides
    alike = all(
        one is not None and (group, one.number, one.name) == (waited[0][0], first.number, first.name)
        for group, one in waited
    )
    return [replace(sides[0], ranks=tuple(sorted(ranks)))] if alike else sides


def _why_left(
    sides: Sequence[Side],
    answers: Sequence[RankAnswer],
    run: Run,
    ended: Sequence[int],
    histories: Mapping[int, History],
    sources: Sources,
) -> Hint | None:
    """Explain why some ranks have ended, where all others of their process group wait for them."""
    # a key of the store, or a message, may be awaited of one rank alone
    if not sides or not all(side.place.waits and _is_for_all(side) for side in sides):
        return None
    # of a rank that did not answer it is not known whether it waits
    if any(answer.problem not in ("", "ended") for answer in answers):
        return None
    found = []
    for side in sides:
        group, one = awaited(next(answer for answer in answers if answer.rank == side.ranks[0]))
        # NCCL makes a group in its first collective, which is not begun then: which one it is, is not known
        of_some = bool(side.way) and one is None and bool(given_group(side.way[-1], sources))
        early = missing_in(group, one, ended, histories) if one is not None else tuple(ended)
        if not early or of_some:
            continue
        # others have come there, too, and called less before; or it is meant for a part of the ranks
        came = any(came_to(side.way, histories[rank], sources) for rank in early if rank in histories)
        for_some = one is not None and 0 < len(one.members) < run.spec.world_size
        alone = not came and not for_some
        found.append(why_left(side, early, run.spec.program, sources, alone=alone))
    return next((one for one in found if one.signature == "left-alone"), found[0] if found else None)


def _is_for_all(side: Side) -> bool:
    """Return whether these ranks wait in what each rank of their group has to call."""
    what = side.place.what
    if side.direction or MESSAGE.search(side.name):
        return False
    return bool(side.name) or is_collective(what) or what in _EXCHANGES or bool(side.place.through)
