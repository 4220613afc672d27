"""The known causes of a hang, the surest first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nbdist.diagnosis.hangs.branches_taken import of_groups
from nbdist.diagnosis.hangs.deadlocks import all_joining, awaited, no_member, pending, ungrouped, why
from nbdist.diagnosis.hangs.divergence import History, came_to, of_sizes_at
from nbdist.diagnosis.hangs.leaving import why_left
from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import Side
from nbdist.model import RankState, Run
from nbdist.programs.branches import given_group, is_collective
from nbdist.programs.sources import Sources
from nbdist.store.reports import Collective, RankAnswer, TakenStacks

_LONG, _LONG_ON_DEVICE = 10.0, 30.0
"""Seconds longer than a step, and for calls that all ranks made and their devices reach later."""

MESSAGE = re.compile(r"send|recv|coalesced")
"""Messages, with other names on both sides and numbers of their own; ``coalesced`` may be some."""

_EXCHANGES = frozenset({"backward", "forward", "SyncBatchNorm", "DistributedDataParallel", "DDP"})
"""Calls that a model makes by itself on all ranks."""


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
    """Explain why a run hangs. ``sides``: the process group in which some wait; ``everyone``: all that
    answered; ``ended``: ranks done with their program; ``raised``: by rank, the error that ended a thread or
    process."""
    return (
        all_joining(sides, run.spec.world_size, sources, histories)
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
    hints = (of_sizes_at(rank, group, call, histories, sources) for rank, group, call in pending(answers))
    return next(filter(None, hints), None)


def _of_groups(sides: Sequence[Side], answers: Sequence[RankAnswer], sources: Sources) -> Hint | None:
    """Explain why ranks wait in one line, in a collective that none of them has begun."""
    lines = {side.way[-1:] for side in sides}
    ranks = [rank for side in sides for rank in side.ranks]
    in_line = len(lines) == 1 and len(ranks) > 1 and all(side.place.waits for side in sides)
    given = all(side.way and given_group(side.way[-1], sources) for side in sides)
    return of_groups(sides, sources) if in_line and given and not any(pending(answers)) else None


def _as_one(sides: Sequence[Side], answers: Sequence[RankAnswer]) -> Sequence[Side]:
    """Join ranks whose devices are all in one collective: later lines of their programs did not part them."""
    if len(sides) < 2 or not any(side.place.on_device for side in sides):
        return sides
    ranks = [rank for side in sides for rank in side.ranks]
    waited = [awaited(answer) for answer in answers if answer.rank in ranks]
    first = waited[0][1] if waited else None
    if first is None or not first.name or not all(side.place.waits for side in sides):
        return sides
    alike = all(
        call is not None and (group, call.number, call.name) == (waited[0][0], first.number, first.name)
        for group, call in waited
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
    """Explain why some ranks ended while all others of their process group wait for them."""
    # one rank alone may wait for a store's key or a message
    if not sides or not all(side.place.waits and _is_for_all(side) for side in sides):
        return None
    # a rank without an answer may not wait
    if any(answer.problem not in ("", "ended") for answer in answers):
        return None
    hints = []
    for side in sides:
        group, call = awaited(next(answer for answer in answers if answer.rank == side.ranks[0]))
        # NCCL makes a group in its first collective, which has no number then
        of_some = bool(side.way) and call is None and bool(given_group(side.way[-1], sources))
        early = missing_in(group, call, ended, histories) if call is not None else tuple(ended)
        if not early or of_some:
            continue
        # others reached it after fewer calls, or it is for some ranks only
        came = any(came_to(side.way, histories[rank], sources) for rank in early if rank in histories)
        for_some = call is not None and 0 < len(call.members) < run.spec.world_size
        alone = not came and not for_some
        hints.append(why_left(side, early, run.spec.program, sources, alone=alone))
    return next((left for left in hints if left.signature == "left-alone"), hints[0] if hints else None)


def _is_for_all(side: Side) -> bool:
    """Return whether each rank of the group must make the call that these wait in."""
    what = side.place.what
    if MESSAGE.search(f"{side.name} {what}"):
        return False
    return bool(side.name) or is_collective(what) or what in _EXCHANGES or bool(side.place.through)


# Evidence that ranks wait for ever, not just now and then.


def ended_before(run: Run, taken: TakenStacks) -> tuple[int, ...]:
    """Return the ranks that ended before the stacks were taken, not later at a time limit."""
    answered = {answer.rank for answer in taken.ranks if answer.problem != "ended"}
    done = (rank.rank for rank in run.ranks if rank.state is RankState.FINISHED)
    return tuple(rank for rank in done if rank not in answered)


def waits_long(taken: TakenStacks) -> bool:
    """Return whether a rank has waited in one collective for longer than a step takes."""
    for _, group, call in pending(taken.ranks):
        # a program may be seconds ahead of its device: then no rank is missing
        long = _LONG_ON_DEVICE if call.on_device and _all_have_begun(group, call, taken.ranks) else _LONG
        if call.begun and taken.time - call.begun > long:
            return True
    return False


def are_unlike(taken: TakenStacks) -> bool:
    """Return whether ranks wait in different collectives of the same number."""
    names: dict[tuple[str, int], set[str]] = {}
    for _, group, call in pending(taken.ranks):
        if call.on_device and call.name and not MESSAGE.search(call.name):
            names.setdefault((group, call.number), set()).add(call.name)
    return any(len(kinds) > 1 for kinds in names.values())


def await_ended(taken: TakenStacks, ended: Sequence[int], histories: Mapping[int, History]) -> bool:
    """Return whether a rank waits in a collective that an ended rank missed."""
    return any(missing_in(group, call, ended, histories) for _, group, call in pending(taken.ranks))


def missing_in(
    group: str, call: Collective, ended: Sequence[int], histories: Mapping[int, History]
) -> tuple[int, ...]:
    """Return the group's ended members that never called this collective; none for a message."""
    if MESSAGE.search(call.name):
        return ()
    members = call.members or ended
    last = {
        rank: max((call.number for call in history.get(group, ())), default=0)
        for rank, history in histories.items()
    }
    return tuple(rank for rank in ended if rank in members and last.get(rank, 0) < call.number)


def _all_have_begun(group: str, call: Collective, answers: Sequence[RankAnswer]) -> bool:
    """Return whether each member of the group has called this collective."""
    by_rank = {answer.rank: answer.collectives.get(group) for answer in answers}
    theirs = [by_rank.get(member) for member in call.members]
    return bool(theirs) and all(its is not None and its.last >= call.number for its in theirs)
