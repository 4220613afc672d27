"""The known causes why a run stands still, the surest first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nbdist.diagnosis.hangs.branches_taken import of_groups
from nbdist.diagnosis.hangs.deadlocks import all_joining, awaited, no_member, ungrouped, why
from nbdist.diagnosis.hangs.divergence import History, came_to, of_sizes_at
from nbdist.diagnosis.hangs.leaving import why_left
from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import Side
from nbdist.model import RankState, Run
from nbdist.programs.branches import given_group, is_collective
from nbdist.programs.sources import Sources
from nbdist.store.reports import Collective, RankAnswer, TakenStacks

_LONG, _LONG_ON_DEVICE = 10.0, 30.0
"""Seconds: longer than a step takes; and of what all ranks have called, and their devices come to later."""

MESSAGE = re.compile(r"send|recv|coalesced")
"""Messages, which have other names on both sides and numbers of their own; ``coalesced`` may be some."""

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


# Evidence that ranks wait for each other for ever, and do not just wait here and there as all do.


def ended_before(run: Run, taken: TakenStacks) -> tuple[int, ...]:
    """Return the ranks that had done their program when the stacks were taken. What ends in good order after
    that, at a time limit say, was there."""
    there = {answer.rank for answer in taken.ranks if answer.problem != "ended"}
    done = (rank.rank for rank in run.ranks if rank.state is RankState.SUCCEEDED)
    return tuple(rank for rank in done if rank not in there)


def waits_long(taken: TakenStacks) -> bool:
    """Return whether a rank has waited in one collective for longer than a step takes."""
    for _, group, one in pending(taken.ranks):
        # a program may be seconds ahead of its device: then no rank is missing
        long = _LONG_ON_DEVICE if one.on_device and _all_have_begun(group, one, taken.ranks) else _LONG
        if one.begun and taken.time - one.begun > long:
            return True
    return False


def are_unlike(taken: TakenStacks) -> bool:
    """Return whether ranks wait in different collectives of the same number."""
    names: dict[tuple[str, int], set[str]] = {}
    for _, group, one in pending(taken.ranks):
        if one.on_device and one.name and not MESSAGE.search(one.name):
            names.setdefault((group, one.number), set()).add(one.name)
    return any(len(found) > 1 for found in names.values())


def await_ended(taken: TakenStacks, ended: Sequence[int], histories: Mapping[int, History]) -> bool:
    """Return whether a rank has a collective under way to which one that has ended did not come."""
    return any(missing_in(group, one, ended, histories) for _, group, one in pending(taken.ranks))


def missing_in(
    group: str, one: Collective, ended: Sequence[int], histories: Mapping[int, History]
) -> tuple[int, ...]:
    """Return the members of the group that have ended and not called this collective, as far as they wrote
    down what they called; none of a message, which is for one rank alone."""
    if MESSAGE.search(one.name):
        return ()
    members = one.members or ended
    last = {
        rank: max((call.number for call in history.get(group, ())), default=0)
        for rank, history in histories.items()
    }
    return tuple(rank for rank in ended if rank in members and last.get(rank, 0) < one.number)


def pending(answers: Sequence[RankAnswer]) -> Iterator[tuple[int, str, Collective]]:
    """Yield the collectives that ranks wait in, each with the rank and the group."""
    for answer in answers:
        for group, one in answer.collectives.items():
            if not one.over:
                yield answer.rank, group, one


def _all_have_begun(group: str, one: Collective, answers: Sequence[RankAnswer]) -> bool:
    """Return whether each member of the group has called this collective."""
    by_rank = {answer.rank: answer.collectives.get(group) for answer in answers}
    theirs = [by_rank.get(member) for member in one.members]
    return bool(theirs) and all(its is not None and its.last >= one.number for its in theirs)
