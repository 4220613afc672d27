"""Evidence that ranks wait for each other for ever, and do not just wait here and there as all do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nbdist.diagnosis.hangs.divergence import History
from nbdist.model import RankState, Run
from nbdist.store.reports import Collective, RankAnswer, TakenStacks

_LONG, _LONG_ON_DEVICE = 10.0, 30.0
"""Seconds: longer than a step takes; and of what all ranks have called, and their devices come to later."""

MESSAGE = re.compile(r"send|recv|coalesced")
"""Messages, which have other names on both sides and numbers of their own; ``coalesced`` may be some."""


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
