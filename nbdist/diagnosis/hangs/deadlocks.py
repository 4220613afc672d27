"""Why ranks wait for each other for ever: what holds one of them, or where their ways parted."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

from nbdist.diagnosis.exits import rank_names
from nbdist.diagnosis.hangs.branches_taken import of_groups, of_parting
from nbdist.diagnosis.hangs.dead_threads import of_threads
from nbdist.diagnosis.hangs.held import of_held
from nbdist.diagnosis.hangs.histories import History, of_histories
from nbdist.diagnosis.hangs.process_groups import group_left_out, group_of_callers
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint, Role, match
from nbdist.diagnosis.statements import (
    LOOPS,
    around,
    calls_before,
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
from nbdist.store.reports import Call, Collective, RankAnswer
from nbdist.text import Both, both, say

_BATON = "file_baton.py"
_OF_RANKS = frozenset({"hang-rank-branch", "hang-rank-return"})
_WITHOUT_REASON = frozenset({"hang-apart", "hang-parted"})
"""Hints that say that ways have parted, and not where."""

_JOIN = re.compile(r"/torch/distributed/algorithms/join\.py$")
_SHAPED = re.compile(r"\w+ \([^)]*\) \w+|(?:list|tuple) of \d+")


def why(
    sides: Sequence[Side],
    sources: Sources,
    raised: Mapping[int, str],
    histories: Mapping[int, History] = MappingProxyType({}),
) -> Hint | None:
    """Why these ranks will not meet; None where that cannot be told. ``raised`` is by rank the error with
    which a thread or a process of its has ended, ``histories`` what the ranks have called."""
    handling = [
        side for side in sides if side.handled and not _is_of_others(side.handled) and not _begins_anew(side)
    ]
    if handling and len(handling) < len(sides):
        one = handling[0]
        return hint("hang-exception", who=one.ranks, error=one.handled, call=one.call)
    waiting = [side for side in sides if side.place.waits]
    making = [side for side in waiting if side.place.what in ("new_group", "new_subgroups")]
    if making:
        found = of_groups(making, sources)
        on_the_way = any(_is_before(side, making[0]) for side in sides if not side.place.waits)
        if found is not None:
            return found
        ranks = tuple(sorted(rank for side in making for rank in side.ranks))
        found = hint("hang-groups", who=ranks, call=making[0].call)
        if len(sides) == 1:
            return found
        if len(making) < len(sides) and not on_the_way:
            # an if for some ranks may be further out than where the group is made
            parted = of_parting(waiting, sources) if len(waiting) == len(sides) else None
            return parted if parted is not None and parted.signature in _OF_RANKS else found
    # what waits for a build waits for the rank that builds
    held = sorted(
        (side for side in sides if not side.place.waits),
        key=lambda side: (side.place.within == _BATON, len(side.ranks)),
    )
    if (ended := of_threads(held, raised, sources)) is not None:
        return ended
    if held:
        return of_held(held[0], waiting, sources)
    if {side.direction for side in waiting} >= {"send", "recv"}:
        return _unmet(sides)
    return (
        _of_uneven(waiting, sources)
        or _of_messages(waiting, sources)
        or _of_root(waiting, sources)
        or of_histories(histories, sources)
        or of_parting(waiting, sources)
    )


def _begins_anew(side: Side) -> bool:
    """Whether ranks are in a loader that has ended, and that they begin once more: no error."""
    return side.place.loads and side.handled.startswith("StopIteration")


def _is_before(side: Side, other: Side) -> bool:
    """Whether ranks are in an earlier line of the function in which others wait."""
    if not side.way or not other.way:
        return False
    here = other.way[-1]
    same = (call for call in side.way if (call.file, call.function) == (here.file, here.function))
    return any(call.line < here.line for call in same)


def _is_of_others(error: str) -> bool:
    """Whether an error only tells that another rank is gone or has not come."""
    known = match(error)
    return known is not None and known[0].role in (Role.GONE, Role.WAITED)


def crossed(answers: Sequence[RankAnswer]) -> Hint | None:
    """Of ranks that wait for one another, in different process groups."""
    waits = {answer.rank: _awaited(answer) for answer in answers}
    for one, other in combinations(waits, 2):
        (group, members), (theirs, of_theirs) = waits[one], waits[other]
        # of two ranks both are in each group that waits, where its members are not known
        known = members and of_theirs
        meet = other in members and one in of_theirs if known else len(answers) == 2
        if group and theirs and group != theirs and meet:
            return hint("hang-crossed", who=(one,), others=(other,))
    return _crossed_in_a_ring(waits)


def first_of(sides: Sequence[Side], found: Hint | None, answers: Sequence[RankAnswer]) -> Hint | None:
    """Of ranks in calls of one name: in one line the group has parted them, in several the way to these has,
    where that is known."""
    lines = {side.way[-1:] for side in sides}
    if found is not None and len(lines) > 1 and found.signature not in _WITHOUT_REASON:
        return found
    return crossed(answers) or found or unlike(sides[0], answers)


def _crossed_in_a_ring(waits: Mapping[int, tuple[str, tuple[int, ...]]]) -> Hint | None:
    """Of three ranks and more: each waits for a member of its group that waits in another one."""
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
    """A member of the group that a rank waits in, which waits in another group."""
    group, members = waits[rank]
    away = (one for one in members if one in waits and waits[one][0] not in ("", group))
    return next(away, None)


def ungrouped(
    sides: Sequence[Side],
    answers: Sequence[RankAnswer],
    sources: Sources,
    histories: Mapping[int, History] = MappingProxyType({}),
) -> Hint | None:
    """Of ranks that wait in a collective of more than themselves, and have a group of just themselves: the
    function names that group for another call. Where others have made that call before, it is meant for
    all."""
    if not _all_wait(sides):
        return None
    for side in (side for side in sides if side.way and len(side.ranks) > 1):
        theirs = [one for one in answers if one.rank in side.ranks]
        has_own = all(side.ranks in {one.members for one in answer.collectives.values()} for answer in theirs)
        if any(_has_made(side.way[-1], histories[rank]) for rank in histories.keys() - set(side.ranks)):
            continue
        if not has_own:
            continue
        line, at, group = side.way[-1].line, "", ""
        if (left := group_left_out(side.way[-1], sources)) is not None:
            at, group = str(left[0]), left[1]
        elif _is_only_group(side.ranks, answers) and (of := group_of_callers(side.way, sources)) is not None:
            file = "" if sources.is_program(of[0].file) else f"{sources.name(of[0].file)}:"
            at, group = f"{file}{of[1]}", of[2]
        if group:
            return hint("hang-ungrouped", who=side.ranks, call=side.call, line=line, at=at, group=group)
    return None


def _is_only_group(ranks: Sequence[int], answers: Sequence[RankAnswer]) -> bool:
    """Whether the other ranks have no group without these: then they are no members of one of its kind."""
    groups = {one.members for answer in answers for one in answer.collectives.values() if one.members}
    return all(set(group) & set(ranks) for group in groups)


def _has_made(call: Call, history: History) -> bool:
    """Whether a rank remembers a collective of this line."""
    lines = ((one.file, one.line) for calls in history.values() for issued in calls for one in issued.way)
    return (call.file, call.line) in lines


def no_member(sides: Sequence[Side], answers: Sequence[RankAnswer], sources: Sources) -> Hint | None:
    """Of ranks that gave None for a group of which they are no members, which means all ranks."""
    for side in (side for side in sides if _all_wait(sides) and side.way):
        call = side.way[-1]
        group = given_group(call, sources)
        if side.had(call.file, call.line).get(group) != "None" or is_default(group, call, sources):
            continue
        groups = {one.members for answer in answers for one in answer.collectives.values() if one.members}
        others = sorted(group for group in groups if not set(side.ranks) & set(group))
        if others:
            values = {"call": side.call, "line": call.line, "group": group}
            return hint("hang-no-member", who=side.ranks, others=others[0], **values)
    return None


def _all_wait(sides: Sequence[Side]) -> bool:
    """Whether nothing else keeps some ranks away: they wait for no rank, or handle an error."""
    return all(side.place.waits and not side.handled for side in sides)


def unlike(side: Side, answers: Sequence[RankAnswer]) -> Hint | None:
    """Of ranks that are all in one collective: what in its line has another shape on some."""
    if not is_collective(side.place.what):
        return None
    line = (side.way[-1].file, side.way[-1].line) if side.way else None
    had: dict[str, dict[str, list[int]]] = {}
    for answer in answers:
        for one in (one for one in answer.values if (one.file, one.line) == line):
            if (shaped := _SHAPED.match(one.what)) is not None:
                had.setdefault(one.name, {}).setdefault(shaped[0], []).append(answer.rank)
    for name, shapes in ((name, shapes) for name, shapes in had.items() if len(shapes) > 1):
        told = (
            say("diagnosis.and", language).join(
                f"{what} ({rank_names(ranks, language)})" for what, ranks in shapes.items()
            )
            for language in ("en", "zh")
        )
        return hint("hang-unlike", call=side.call, line=side.way[-1].line, name=name, shapes=Both(*told))
    return None


def concerned(sides: Sequence[Side], answers: Sequence[RankAnswer]) -> list[Side]:
    """The ranks that wait in one process group, and its members that do not: of the wait that began first."""
    waits = {answer.rank: _awaited(answer) for answer in answers}
    first = [one for answer in answers for one in answer.collectives.values() if not one.over and one.members]
    for one in sorted(first, key=lambda one: one.begun):
        here = {rank for rank, (group, members) in waits.items() if group and members == one.members}
        if set(one.members) - here:
            return [
                replace(side, ranks=ranks)
                for side in sides
                if (ranks := tuple(rank for rank in side.ranks if rank in one.members))
            ]
    return list(sides)


def awaited(answer: RankAnswer) -> tuple[str, Collective | None]:
    """The collective in which a rank waits, and its process group; None for none."""
    begun = [(group, one) for group, one in answer.collectives.items() if not one.over]
    return min(begun, key=lambda pair: pair[1].begun, default=("", None))


def _awaited(answer: RankAnswer) -> tuple[str, tuple[int, ...]]:
    """The process group in which a rank waits, and its members; empty for none."""
    group, one = awaited(answer)
    return group, one.members if one is not None else ()


def all_joining(sides: Sequence[Side], world_size: int, sources: Sources) -> Hint | None:
    """Of ranks that wait in init_process_group: where all of the run do, it waits for more than there are."""
    ranks = tuple(sorted(rank for side in sides for rank in side.ranks))
    if len(ranks) < world_size or any(
        side.place.what.rpartition(".")[2] != "init_process_group" for side in sides
    ):
        return None
    chosen = (port_by_rank(side.way[-1].file, sources) for side in sides if side.way)
    if (port := next(filter(None, chosen), None)) is not None:
        return hint("hang-port-by-rank", who=ranks, line=port.lineno, port=head(port))
    return hint("hang-joining", who=ranks, count=world_size)


def fewest(sides: Sequence[Side]) -> tuple[int, ...]:
    """Of ranks that all wait, those that are elsewhere than most; none where neither place has more."""
    counts: dict[object, list[int]] = {}
    for side in sides:
        counts.setdefault((side.place.line, side.place.file), []).extend(side.ranks)
    ordered = sorted(counts.values(), key=len)
    return tuple(sorted(ordered[0])) if len(ordered) > 1 and len(ordered[0]) < len(ordered[1]) else ()


def _of_root(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """A collective from or to one rank, which each rank takes for another one."""
    for side in (side for side in sides if side.way):
        call = side.way[-1]
        if (root := root_by_rank(call, sources)) is not None:
            given = side.had(call.file, call.line).get(root.partition("=")[2], "")
            # a parameter that is called so may be the same on all
            if given.isdecimal() and int(given) not in side.ranks:
                continue
            return hint("hang-root", call=sides[0].call, root=root, line=call.line)
    return None


def _of_uneven(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that have come to the end of torch's ``join()``, where they answer what the model exchanges on
    those that have batches still: a collective of the program's own in it is not answered."""
    for side in (side for side in sides if any(_JOIN.search(call.file) for call in side.calls)):
        for here in reversed(side.way):
            tree = parsed(sources.text(here.file)) or ast.Module([], [])
            for node in (node for node in ast.walk(tree) if isinstance(node, ast.With)):
                if not node.lineno <= here.line < node.body[0].lineno:
                    continue
                for other in (other for other in sides if is_collective(other.place.what)):
                    if any(
                        one.file == here.file and holds(node.body[0], one.line, node) for one in other.way
                    ):
                        values = {"join": ast.unparse(node.items[0].context_expr), "line": node.lineno}
                        return hint(
                            "hang-join-answers", who=side.ranks, others=other.ranks, call=other.call, **values
                        )
    return None


def _unmet(sides: Sequence[Side]) -> Hint | None:
    """Of ranks that send and ranks that receive: where all do, no message is still to come."""
    if not all(side.direction for side in sides):
        return None
    of = {
        way: tuple(sorted(rank for side in sides if side.direction == way for rank in side.ranks))
        for way in ("send", "recv")
    }
    return hint("hang-unmet", who=of["send"], others=of["recv"])


def _of_more_received(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that all receive, of which some have sent before: none of them is to begin, then."""
    sent = [(side, _sent_before(side, sources)) for side in sides]
    before = [(side, line) for side, line in sent if line is not None]
    others = tuple(sorted(rank for side, line in sent if line is None for rank in side.ranks))
    if not before:
        return None
    if not others:
        ranks = tuple(sorted(rank for side in sides for rank in side.ranks))
        return hint("hang-unmet-begun", who=ranks, begun="send", call=sides[0].call)
    who = tuple(sorted(rank for side, _ in before for rank in side.ranks))
    return hint("hang-received-more", who=who, others=others, line=before[0][1])


def _sent_before(side: Side, sources: Sources) -> str | None:
    """The line in which ranks that receive have sent, on the way to where they are; None where they may yet
    send in the same function, or go another way to do so."""
    for call in reversed(side.way):
        mine = {(id(node), part) for node, part in around(call, sources) if isinstance(node, ast.If)}
        sends = [
            one
            for name in ("send", "isend")
            for one in calls_of_function(name, call.file, sources)
            # of one class: others may have a method of that name
            if any(holds(function, one.line) for function in functions_of(call, sources))
        ]
        if any(one.line > call.line for one in sends):
            return None
        for one in reversed(sends):
            ifs = ((id(node), part) for node, part in around(one, sources) if isinstance(node, ast.If))
            if one.line < call.line and all(step in mine for step in ifs):
                return (
                    str(one.line) if sources.is_program(one.file) else f"{sources.name(one.file)}:{one.line}"
                )
    return None


def _of_messages(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that wait for messages from one to another."""
    directions = {side.direction for side in sides}
    ranks = tuple(sorted(rank for side in sides if side.direction for rank in side.ranks))
    if len(directions) == 1 and len(ranks) > 1:
        begun = "isend" if directions == {"recv"} else "irecv"
        mine = [side for side in sides if side.direction]
        if all(side.way and calls_before(side.way[-1], begun, sources) for side in mine):
            return hint("hang-unmet-begun", who=ranks, begun=begun, call=sides[0].call)
        if directions == {"recv"}:
            found = _of_rounds(mine, sources) or _of_more_received(mine, sources)
            return found or hint("hang-receive", who=ranks)
        return hint("hang-send", who=ranks)
    one = next((side for side in sides if side.direction), None)
    other = next((side for side in sides if not side.direction), None)
    if one is None or other is None:
        return None
    if is_collective(other.place.what) and other.way:
        for way in returns_before(other.way[-1], sources):
            if isinstance(way, ast.If):
                at = {"test": head(way), "line": way.lineno, "call": other.call}
                return hint("hang-return", inside=other.ranks, outside=one.ranks, **at)
    inner = one.way[-1] if one.way else None
    loops = [node for node, _ in around(inner, sources) if isinstance(node, LOOPS)] if inner else []
    past = not any(holds(loop, call.line) for loop in loops for call in other.way)
    loop = both("diagnosis.in-loop-of", line=loops[-1].lineno) if loops and past else Both("", "")
    return hint("hang-half", who=ranks, call=one.call, others=other.ranks, other=other.call, loop=loop)


def _of_rounds(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that all wait to receive, some in a loop that only receives, and one that is past a loop that
    only sends: what that had to send was received, and the others wait for more."""
    if len(sides) != 2:
        return None
    for one, other in (sides, sides[::-1]):
        inside = (node for call in reversed(one.way) for node, _ in reversed(around(call, sources)))
        gets = next(
            (node for node in inside if isinstance(node, LOOPS) and _messages(node) == {"recv"}), None
        )
        if gets is None or len(other.ranks) > 1:
            continue
        for call in reversed(other.way):
            body = (child for function in functions_of(call, sources) for child in function.body)
            nodes = (node for child in body for node in own_nodes(child))
            over = [node for node in nodes if isinstance(node, LOOPS) and (node.end_lineno or 0) < call.line]
            for node in reversed([node for node in over if _messages(node) == {"send"}]):
                values = {"line": gets.lineno, "at": node.lineno}
                return hint("hang-receive-rounds", who=one.ranks, others=other.ranks, **values)
    return None


def _messages(loop: ast.stmt) -> set[str]:
    """Whether a loop sends, or receives, or both: by the names of what it calls."""
    called = (ast.unparse(node.func) for node in own_nodes(loop) if isinstance(node, ast.Call))
    names = [name.rpartition(".")[2] for name in called]
    return {way for way in ("send", "recv") if any(way in name for name in names)}
