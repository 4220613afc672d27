"""Why ranks wait for each other for ever: what holds one of them, or where their ways parted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.diagnosis.held import may_be_fed, of_held
from nbdist.diagnosis.parting import of_parting
from nbdist.diagnosis.places import Sources
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint, Role, match
from nbdist.store.reports import RankAnswer


def why(sides: Sequence[Side], sources: Sources, raised: Mapping[int, str]) -> Hint | None:
    """Why these ranks will not meet; None where that cannot be told. ``raised`` is by rank the error with
    which a thread or a process of its has ended."""
    handling = [side for side in sides if side.handled and not _is_of_others(side.handled)]
    if handling and len(handling) < len(sides):
        one = handling[0]
        name = "hang-exception" if one.place.waits else "hang-retries"
        return hint(name, who=one.ranks, error=one.handled, call=one.call)
    waiting = [side for side in sides if side.place.waits]
    held = sorted((side for side in sides if not side.place.waits), key=lambda side: len(side.ranks))
    for side in (side for side in held if may_be_fed(side)):
        for rank in (rank for rank in side.ranks if rank in raised):
            return _of_thread(rank, raised[rank])
    if held:
        return of_held(held[0], waiting, sources)
    if {side.direction for side in waiting} >= {"send", "recv"}:
        return _unmet(sides)
    return _of_messages(waiting) or of_parting(waiting, sources)


def _is_of_others(error: str) -> bool:
    """Whether an error only tells that another rank is gone or has not come."""
    known = match(error)
    return known is not None and known[0].role in (Role.GONE, Role.WAITED)


def _of_thread(rank: int, error: str) -> Hint:
    """With how to mend the error, where that is known."""
    found = hint("hang-thread", who=(rank,), error=error)
    known = match(error)
    return found if known is None else found.mended_by(Hint.of(known[0], known[1].groupdict()))


def crossed(answers: Sequence[RankAnswer]) -> Hint | None:
    """Of two ranks that wait in different process groups: of more ranks it is not known which are in one."""
    waits = [_awaited(answer) for answer in answers]
    if len(waits) != 2 or not all(waits) or waits[0] == waits[1]:
        return None
    return hint("hang-crossed", who=(answers[0].rank,), others=(answers[1].rank,))


def _awaited(answer: RankAnswer) -> str:
    """The process group in which a rank waits; empty for none."""
    begun = {one.begun: group for group, one in answer.collectives.items() if not one.over}
    return begun[min(begun)] if begun else ""


def all_joining(sides: Sequence[Side], world_size: int) -> Hint | None:
    """Of ranks that wait in init_process_group: where all of the run do, it waits for more than there are."""
    ranks = tuple(sorted(rank for side in sides for rank in side.ranks))
    if len(ranks) < world_size or any(side.place.what != "init_process_group" for side in sides):
        return None
    return hint("hang-joining", who=ranks, count=world_size)


def fewest(sides: Sequence[Side]) -> tuple[int, ...]:
    """Of ranks that all wait, those that are elsewhere than most; none where neither place has more."""
    counts: dict[object, list[int]] = {}
    for side in sides:
        counts.setdefault((side.place.line, side.place.file), []).extend(side.ranks)
    ordered = sorted(counts.values(), key=len)
    return tuple(sorted(ordered[0])) if len(ordered) > 1 and len(ordered[0]) < len(ordered[1]) else ()


def _unmet(sides: Sequence[Side]) -> Hint | None:
    """Of ranks that send and ranks that receive: where all do, no message is still to come."""
    if not all(side.direction for side in sides):
        return None
    of = {
        way: tuple(sorted(rank for side in sides if side.direction == way for rank in side.ranks))
        for way in ("send", "recv")
    }
    return hint("hang-unmet", who=of["send"], others=of["recv"])


def _of_messages(sides: Sequence[Side]) -> Hint | None:
    """Of ranks that wait for messages from one to another."""
    directions = {side.direction for side in sides}
    ranks = tuple(sorted(rank for side in sides if side.direction for rank in side.ranks))
    if len(directions) == 1 and len(ranks) > 1:
        return hint("hang-receive" if directions == {"recv"} else "hang-send", who=ranks)
    one = next((side for side in sides if side.direction), None)
    other = next((side for side in sides if not side.direction), None)
    if one is None or other is None:
        return None
    return hint("hang-half", who=ranks, call=one.call, others=other.ranks, other=other.call)
