"""The causes of hangs: a call that holds one rank, or the place where ranks parted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

from nbdist.diagnosis.hangs.branches_taken import of_groups, of_parting
from nbdist.diagnosis.hangs.divergence import History, of_histories
from nbdist.diagnosis.hangs.held import of_held, of_threads
from nbdist.diagnosis.known import Hint, Role, hint, match
from nbdist.diagnosis.positions import Side, by_ranks, ranks_of
from nbdist.programs.branches import (
    calls_of_function,
    functions_of,
    given_group,
    head,
    holds,
    is_collective,
    is_default,
    own_nodes,
    port_by_rank,
    returns_before,
    root_by_rank,
)
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call, Collective, RankAnswer

_BATON = "file_baton.py"
_WORLD = "0"  # torch's name for the group of all ranks
_WITHOUT_REASON = frozenset({"hang-apart", "hang-parted"})  # hints that ranks parted, without the place
_OF_RANKS = frozenset({"hang-rank-branch", "hang-rank-return"})
_SHAPED = re.compile(r"\w+ \([^)]*\) \w+|(?:list|tuple) of \d+")


def why(
    sides: Sequence[Side],
    sources: Sources,
    raised: Mapping[int, str],
    histories: Mapping[int, History] = MappingProxyType({}),
) -> Hint | None:
    """Explain why these ranks will not meet; ``raised``: by rank, a thread's or process's last error."""
    # StopIteration in a loader: it ended, and begins anew
    failing = (s for s in sides if not (s.place.loads and s.handled.startswith("StopIteration")))
    handling = [side for side in failing if side.handled and not _is_of_others(side.handled)]
    if handling and len(handling) < len(sides):
        first = handling[0]
        return hint("hang-exception", who=first.ranks, error=first.handled, call=first.call)
    waiting = [side for side in sides if side.place.waits]
    # ranks that wait for a build wait for the rank that builds
    held = sorted(
        (side for side in sides if not side.place.waits),
        key=lambda side: (side.place.within == _BATON, len(side.ranks)),
    )
    return (
        _of_making(sides, waiting, sources)
        or of_threads(held, raised)
        or (of_held(held[0], waiting, sources) if held else _of_waiting(waiting, sources, histories))
    )


def _of_waiting(sides: Sequence[Side], sources: Sources, histories: Mapping[int, History]) -> Hint | None:
    if {side.direction for side in sides} >= {"send", "recv"}:
        return _unmet(sides)
    return (
        _of_messages(sides, sources)
        or _of_root(sides, sources)
        or of_histories(histories, sources)
        or of_parting(sides, sources)
    )


def _of_making(sides: Sequence[Side], waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """Explain why some ranks wait in new_group, unless others are on their way to it."""
    making = [side for side in waiting if side.place.what in ("new_group", "new_subgroups")]
    if not making:
        return None
    if (left := of_groups(making, sources)) is not None:
        return left
    on_the_way = any(_is_before(side, making[0]) for side in sides if not side.place.waits)
    if len(sides) > 1 and (len(making) == len(sides) or on_the_way):
        return None
    # an if for some ranks may stand in a caller
    parted = of_parting(waiting, sources) if len(waiting) == len(sides) > 1 else None
    if parted is not None and parted.signature in _OF_RANKS:
        return parted
    ranks = ranks_of(making)
    return hint("hang-groups", who=ranks, call=making[0].call)


def _is_before(side: Side, other: Side) -> bool:
    """Return whether ranks are in an earlier line of the function in which others wait."""
    if not side.way or not other.way:
        return False
    here = other.way[-1]
    same = (call for call in side.way if (call.file, call.function) == (here.file, here.function))
    return any(call.line < here.line for call in same)


def _is_of_others(error: str) -> bool:
    """Return whether an error only reports that another rank is gone or absent."""
    known = match(error)
    return known is not None and known[0].role in (Role.GONE, Role.WAITED)


def crossed(answers: Sequence[RankAnswer]) -> Hint | None:
    """Find two ranks that wait for each other in different process groups."""
    waits = {answer.rank: _awaited(answer) for answer in answers}
    for rank, other in combinations(waits, 2):
        (group, members), (theirs, of_theirs) = waits[rank], waits[other]
        # with unknown members, two ranks are both in each group
        known = members and of_theirs
        meet = other in members and rank in of_theirs if known else len(answers) == 2
        if group and theirs and group != theirs and meet:
            return hint("hang-crossed", who=(rank,), others=(other,))
    return _crossed_in_a_ring(waits)


def first_of(sides: Sequence[Side], cause: Hint | None, answers: Sequence[RankAnswer]) -> Hint | None:
    """Choose the hint for calls of one name: crossed groups in one line, a known parting in several."""
    lines = {side.way[-1:] for side in sides}
    if cause is not None and len(lines) > 1 and cause.signature not in _WITHOUT_REASON:
        return cause
    return crossed(answers) or cause or unlike(sides[0], answers)


def _crossed_in_a_ring(waits: Mapping[int, tuple[str, tuple[int, ...]]]) -> Hint | None:
    """Find a ring of ranks that each wait for a member of their group which waits in another one."""
    for first in waits:
        ring, at = [first], first
        while (after := _missing(at, waits)) is not None and after not in ring:
            ring.append(after)
            at = after
        if after == first and len(ring) > 2:
            mine = waits[first][0]
            who = tuple(sorted(rank for rank in ring if waits[rank][0] == mine))
            others = tuple(sorted(set(ring) - set(who)))
            return hint("hang-crossed", who=who, others=others)
    return None


def _missing(rank: int, waits: Mapping[int, tuple[str, tuple[int, ...]]]) -> int | None:
    """Return a member of a rank's awaited group that waits in another group."""
    group, members = waits[rank]
    away = (member for member in members if member in waits and waits[member][0] not in ("", group))
    return next(away, None)


def ungrouped(
    sides: Sequence[Side],
    answers: Sequence[RankAnswer],
    sources: Sources,
    histories: Mapping[int, History] = MappingProxyType({}),
) -> Hint | None:
    """Find ranks that wait in a collective of more ranks although they have their own group: the function
    passes that group to another call. Not where others made that call before."""
    if not _all_wait(sides):
        return None
    for side in (side for side in sides if side.way and len(side.ranks) > 1):
        theirs = [answer for answer in answers if answer.rank in side.ranks]
        has_own = all(side.ranks in _known_groups([answer]) for answer in theirs)
        others = histories.keys() - set(side.ranks)
        if not has_own or any(_has_made(side.way[-1], histories[rank]) for rank in others):
            continue
        line, at, group = side.way[-1].line, "", ""
        if (left := _group_left_out(side.way[-1], sources)) is not None:
            at, group = str(left[0]), left[1]
        elif _is_only_group(side.ranks, answers) and (of := _group_of_callers(side.way, sources)) is not None:
            at, group = sources.short(of[0].file, of[1]), of[2]
        if group:
            return hint("hang-ungrouped", who=side.ranks, call=side.call, line=line, at=at, group=group)
    return None


def _group_left_out(call: Call, sources: Sources) -> tuple[int, str] | None:
    """Find another collective of the function that has a ``group=``: its line and group."""
    calls = _collectives_by(call, sources)
    here = [node for node in calls if holds(node, call.line)]
    if not here or any("group" in ast.unparse(node) for node in here):
        return None
    return next(iter(_groups_given(calls)), None)


def _group_of_callers(way: Sequence[Call], sources: Sources) -> tuple[Call, int, str] | None:
    """Find the only ``group=`` in the innermost caller that has any, with the call there."""
    here = [node for node in _collectives_by(way[-1], sources) if holds(node, way[-1].line)]
    if not here or any("group" in ast.unparse(node) for node in here):
        return None
    for call in reversed(way[:-1]):
        if given := _groups_given(_collectives_by(call, sources)):
            return (call, *given[0]) if len({group for _, group in given}) == 1 else None
    return None


def _collectives_by(call: Call, sources: Sources) -> list[ast.Call]:
    return [
        node
        for function in functions_of(call, sources)
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.Call) and is_collective(ast.unparse(node.func))
    ]


def _groups_given(calls: Sequence[ast.Call]) -> list[tuple[int, str]]:
    given = ((node.lineno, keyword) for node in calls for keyword in node.keywords if keyword.arg == "group")
    return [(line, ast.unparse(keyword.value)) for line, keyword in given]


def _known_groups(answers: Sequence[RankAnswer]) -> set[tuple[int, ...]]:
    """Return the known process groups by their members."""
    return {call.members for answer in answers for call in answer.collectives.values() if call.members}


def _is_only_group(ranks: Sequence[int], answers: Sequence[RankAnswer]) -> bool:
    """Return whether all known groups include some of these ranks: the others may be in none of its kind."""
    return all(set(group) & set(ranks) for group in _known_groups(answers))


def _has_made(call: Call, history: History) -> bool:
    """Return whether a rank remembers a collective of this line."""
    lines = ((step.file, step.line) for calls in history.values() for issued in calls for step in issued.way)
    return (call.file, call.line) in lines


def no_member(sides: Sequence[Side], answers: Sequence[RankAnswer], sources: Sources) -> Hint | None:
    """Find ranks that passed None for a group without them, which means all ranks."""
    for side in (side for side in sides if _all_wait(sides) and side.way):
        call = side.way[-1]
        group = given_group(call, sources)
        if side.had(call.file, call.line).get(group) != "None" or is_default(group, call, sources):
            continue
        others = sorted(group for group in _known_groups(answers) if not set(side.ranks) & set(group))
        if others:
            values = {"call": side.call, "line": call.line, "group": group}
            return hint("hang-no-member", who=side.ranks, others=others[0], **values)
    return None


def _all_wait(sides: Sequence[Side]) -> bool:
    """Return whether nothing else keeps ranks away: all wait, and none handles an error."""
    return all(side.place.waits and not side.handled for side in sides)


def unlike(side: Side, answers: Sequence[RankAnswer]) -> Hint | None:
    """Find a value with another shape on some ranks in the line of a collective that all are in."""
    if not is_collective(side.place.what):
        return None
    line = (side.way[-1].file, side.way[-1].line) if side.way else None
    had: dict[str, dict[str, list[int]]] = {}
    for answer in answers:
        for value in (value for value in answer.values if (value.file, value.line) == line):
            if (shaped := _SHAPED.match(value.what)) is not None:
                had.setdefault(value.name, {}).setdefault(shaped[0], []).append(answer.rank)
    for name, shapes in ((name, shapes) for name, shapes in had.items() if len(shapes) > 1):
        by_shape = by_ranks((ranks, what) for what, ranks in shapes.items())
        return hint("hang-unlike", call=side.call, line=side.way[-1].line, name=name, shapes=by_shape)
    return None


def concerned(sides: Sequence[Side], answers: Sequence[RankAnswer]) -> list[Side]:
    """Return the process group whose wait began first: its waiting members, and those that do not wait."""
    waits = {answer.rank: _awaited(answer) for answer in answers}
    first = [call for _, _, call in pending(answers) if call.members]
    for call in sorted(first, key=lambda call: call.begun):
        here = {rank for rank, (group, members) in waits.items() if group and members == call.members}
        if set(call.members) - here:
            return [
                replace(side, ranks=ranks)
                for side in sides
                if (ranks := tuple(rank for rank in side.ranks if rank in call.members))
            ]
    return list(sides)


def pending(answers: Sequence[RankAnswer]) -> Iterator[tuple[int, str, Collective]]:
    """Yield the collectives that ranks wait in, each with the rank and the group."""
    for answer in answers:
        yield from ((answer.rank, group, call) for group, call in answer.collectives.items() if not call.over)


def awaited(answer: RankAnswer) -> tuple[str, Collective | None]:
    """Return the process group and the collective in which a rank waits; None for none."""
    begun = [(group, call) for _, group, call in pending([answer])]
    return min(begun, key=lambda pair: pair[1].begun, default=("", None))


def _awaited(answer: RankAnswer) -> tuple[str, tuple[int, ...]]:
    """Return the process group in which a rank waits, and its members; empty for none."""
    group, call = awaited(answer)
    return group, call.members if call is not None else ()


def all_joining(
    sides: Sequence[Side], world_size: int, sources: Sources, histories: Mapping[int, History]
) -> Hint | None:
    """Find that all ranks wait in init_process_group, which waits for more than there are; or, some of them
    behind it, that they made the group again, and read what the one before left in the store."""
    ranks = ranks_of(sides)
    joining = ranks_of(side for side in sides if side.place.what.endswith("init_process_group"))
    last = {rank: [*histories.get(rank, {}).get(_WORLD, ())][-1:] for rank in ranks}
    made = {sum(call.made for call in last[rank]) + (rank in joining) for rank in ranks}
    # the lines are the same: all are in one group, and some not yet, or in its first call
    in_first = all(call.number == 1 for calls in last.values() for call in calls)
    alike = joining or (in_first and len({side.way[-1:] for side in sides}) == 1)
    if len(made) == 1 and max(made) > 1 and alike and _all_wait(sides) and len(ranks) > 1:
        return hint("hang-made-again", who=ranks)
    if len(ranks) < world_size or joining != ranks:
        return None
    chosen = (port_by_rank(side.way[-1].file, sources) for side in sides if side.way)
    if (port := next(filter(None, chosen), None)) is not None:
        return hint("hang-port-by-rank", who=ranks, line=port.lineno, port=head(port))
    return hint("hang-joining", who=ranks, count=world_size)


def fewest(sides: Sequence[Side]) -> tuple[int, ...]:
    """Return the ranks that wait elsewhere than most; none where neither place has more."""
    counts: dict[object, list[int]] = {}
    for side in sides:
        counts.setdefault((side.place.line, side.place.file), []).extend(side.ranks)
    ordered = sorted(counts.values(), key=len)
    return tuple(sorted(ordered[0])) if len(ordered) > 1 and len(ordered[0]) < len(ordered[1]) else ()


def _of_root(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Find a collective whose root differs between ranks."""
    for side in (side for side in sides if side.way):
        call = side.way[-1]
        if (root := root_by_rank(call, sources)) is not None:
            given = side.had(call.file, call.line).get(root.partition("=")[2], "")
            # a parameter of that name may be equal on all
            if given.isdecimal() and int(given) not in side.ranks:
                continue
            return hint("hang-root", call=sides[0].call, root=root, line=call.line)
    return None


def _unmet(sides: Sequence[Side]) -> Hint | None:
    """Find ranks that all send or receive, so that no message is still to come."""
    if not all(side.direction for side in sides):
        return None
    sending = ranks_of(side for side in sides if side.direction == "send")
    receiving = ranks_of(side for side in sides if side.direction == "recv")
    return hint("hang-unmet", who=sending, others=receiving)


def _is_refuted(name: str, here: Call, sources: Sources) -> bool:
    """Return whether the function has sent above a line where none sends, or has begun to receive."""
    names = ("send", "isend", "send_object_list") if name == "hang-receive" else ("irecv",)
    calls = (call for called in names for call in calls_of_function(called, here.file, sources))
    return any(call.function == here.function and call.line < here.line for call in calls)


def _of_messages(sides: Sequence[Side], sources: Sources) -> Hint | None:
    mine = [side for side in sides if side.direction]
    others = [side for side in sides if not side.direction]
    ranks = ranks_of(mine)
    if mine and not others and len(ranks) > 1:
        name = "hang-receive" if mine[0].direction == "recv" else "hang-send"
        refuted = any(_is_refuted(name, here, sources) for side in mine for here in side.way)
        return None if refuted else hint(name, who=ranks, call=mine[0].call)
    if not mine or not others:
        return None
    other = others[0]
    if is_collective(other.place.what) and other.way:
        for way in returns_before(other.way[-1], sources):
            at = {"test": head(way), "line": way.lineno, "call": other.call}
            return hint("hang-return", inside=other.ranks, outside=mine[0].ranks, **at)
    return hint("hang-half", who=ranks, call=mine[0].call, others=other.ranks, other=other.call)
