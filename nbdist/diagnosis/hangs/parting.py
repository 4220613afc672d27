"""Where the ways of two groups of ranks parted: an ``if``, a ``return`` or a loop of the program.

The way of a rank is the calls in the user's files that lead to where it is. The first two that differ are in
one function. What one of the two is in from there on, and the other is not, may have parted them: an ``if``
that asks for the rank comes first, then a loop that the other has left, then what the data decides. An ``if``
with the same values on both has not parted them, nor one whose other part calls the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.hangs.entries import (
    Entry,
    decides_alike,
    differences,
    draws_own,
    line_of,
    of_caught,
)
from nbdist.diagnosis.hangs.halves import half_below, of_condition, of_half
from nbdist.diagnosis.hangs.hooks import of_hooks, of_library
from nbdist.diagnosis.hangs.leaving import entered_alone
from nbdist.diagnosis.hangs.loops import by_loop, by_round
from nbdist.diagnosis.hangs.one_sided import with_one_sided
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    LOOPS,
    around,
    calls_of_function,
    functions_of,
    given_group,
    head,
    holds,
    own_nodes,
    rank_decorators,
    returns_before,
    ways_out,
)
from nbdist.store.reports import Call
from nbdist.text import Both, both

_DRAWN = re.compile(r"\b(?:random|rand|randint|randrange|uniform|bernoulli)\(")
"""In a condition: a random number."""

_OF_MODEL = re.compile(r"forward|backward|^model\b")
"""Calls of a wrapped model, in which all ranks exchange something."""


def of_parting(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that all wait for others; None where none could be asked."""
    if not sides:
        return None
    ordered = sorted(sides, key=lambda side: (len(side.ranks), side.ranks))
    for at, side in enumerate(ordered):
        for other in ordered[at + 1 :]:
            if (found := _parted(side, other, sources)) is not None:
                return found
    if (found := _by_deeper(ordered, sources) or of_hooks(ordered, sources)) is not None:
        return found
    calls = dict.fromkeys(f"{side.call} (line {side.place.line})" for side in sides)
    return hint("hang-apart", calls=", ".join(calls)) if len(calls) > 1 else None


def of_groups(sides: Sequence[Side], sources: Sources) -> Hint:
    """Of ranks that make a process group alone: with the ``if`` that lets others leave out one."""
    ranks = tuple(sorted(rank for side in sides for rank in side.ranks))
    file = sides[0].way[-1].file if sides[0].way else ""
    if (left := _group_of_some(file, sources)) is not None:
        test, at = left
        return hint("hang-group-left-out", who=ranks, test=head(test), line=test.lineno, at=at)
    return hint("hang-groups", who=ranks)


def of_uneven_groups(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that wait in the first collective of a group, which NCCL makes in it: some have made other
    groups before, and a group has its name by its number."""
    ranks = tuple(sorted(rank for side in sides for rank in side.ranks))
    for side in sides:
        if not side.way or not given_group(side.way[-1], sources):
            return None
    if not sides or (left := _group_of_some(sides[0].way[-1].file, sources)) is None:
        return None
    test, at = left
    values = {"call": sides[0].call, "test": head(test), "line": test.lineno, "at": at}
    return hint("hang-groups-uneven", who=ranks, **values)


def _group_of_some(file: str, sources: Sources) -> tuple[ast.If, int] | None:
    """An ``if`` that keeps ranks from a new_group, and the line of that one."""
    for call in calls_of_function("new_group", file, sources):
        if _is_of_members(call, sources):
            continue
        inside = [node for node, _ in around(call, sources)]
        ifs = [node for node in inside if isinstance(node, ast.If)]
        # of those that some ranks are no members of, they may go on to the next
        left = (way for loop in inside if isinstance(loop, LOOPS) for way in ways_out(loop))
        ifs += [way for way in left if isinstance(way, ast.If) and way.lineno < call.line]
        for node in (*returns_before(call, sources), *ifs):
            if asks_for_rank(node.test, call, sources):
                return node, call.line
    return None


def _is_of_members(call: Call, sources: Sources) -> bool:
    """Whether its members alone are to call this new_group."""
    nodes = ast.walk(parsed(sources.text(call.file)) or ast.Module([], []))
    calls = (node for node in nodes if isinstance(node, ast.Call) and holds(node, call.line))
    given = (one for node in calls for one in node.keywords if one.arg == "use_local_synchronization")
    return any(ast.unparse(one.value) != "False" for one in given)


def _parted(side: Side, other: Side, sources: Sources) -> Hint | None:
    ways = zip(side.way, other.way, strict=False)
    depth = next((at for at, (a, b) in enumerate(ways) if (a.file, a.line) != (b.file, b.line)), None)
    if depth is None:
        return None
    here, there = side.way[depth], other.way[depth]
    if (here.file, here.function) != (there.file, there.function):
        return None
    mine, theirs = around(here, sources), around(there, sources)
    common: list[ast.stmt] = []
    while mine and theirs and mine[0] == theirs[0]:
        common.append(mine.pop(0)[0])
        del theirs[0]
    entries = (
        Entry(inside=side, outside=other, here=here, there=there, steps=mine, deeper=side.way[depth + 1 :]),
        Entry(
            inside=other, outside=side, here=there, there=here, steps=theirs, deeper=other.way[depth + 1 :]
        ),
    )
    entries = (_without_ifs(entries[0]), _without_ifs(entries[1]))
    return (
        _by_rank(entries, sources)
        or _by_order(entries, sources)
        or by_loop(entries, common, sources)
        or _by_data(entries, sources)
        or by_round(entries, common, sources)
        or _by_library(entries, sources)
    )


def _without_ifs(one: Entry) -> Entry:
    """An if around a line that waits for what was called elsewhere has parted none."""
    if not one.inside.called_elsewhere:
        return one
    return replace(one, steps=[step for step in one.steps if isinstance(step[0], LOOPS)], deeper=())


def _by_rank(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for one, other in (entries, entries[::-1]):
        if (found := _beside(one, other, sources)) is not None:
            return found
    for one in entries:
        for node, part, call in one.ifs(sources):
            if call is one.here and (found := _of_rank_if((node, part), one, call, sources)) is not None:
                return found
    for one in entries:
        for call in one.deeper:
            for left in returns_before(call, sources):
                if asks_for_rank(left.test, call, sources):
                    line = line_of(left, call, sources)
                    found = _branch("hang-rank-return", left, "body", one, line, sources)
                    if _alone_gives_back(left, call, sources):
                        return replace(found, fix=both("diagnosis.give-back-too", said=found.fix))
                    return found
            for only in rank_decorators(call, sources):
                line = line_of(only, call, sources)
                return _told_of("hang-rank-branch", one, f"@{ast.unparse(only)}", line, sources)
        # both may have been in the if around the call, and parted in the function
        for node, part, call in one.ifs(sources):
            if (found := _of_rank_if((node, part), one, call, sources)) is not None:
                return found
    return None


def _beside(one: Entry, other: Entry, sources: Sources) -> Hint | None:
    """Of ranks that wait in an ``if`` for them alone and return there, where the others are below it in one
    function, before the call that lets these go on: what they are in, they have called alone."""
    name = one.inside.place.what.rpartition(".")[2]
    for node, part, call in one.ifs(sources):
        if call is not one.here or part != "body" or not isinstance(node.body[-1], ast.Return):
            continue
        is_below = one.there.line > (node.end_lineno or node.lineno)
        if not is_below or not asks_for_rank(node.test, call, sources):
            continue
        same = (
            each for each in calls_of_function(name, call.file, sources) if each.function == call.function
        )
        if other.deeper and any(each.line > one.there.line for each in same):
            return _branch("hang-rank-beside", node, part, other, line_of(node, call, sources), sources)
    return None


def _of_rank_if(step: tuple[ast.If, str], one: Entry, call: Call, sources: Sources) -> Hint | None:
    """Of ranks in an ``if`` for them alone. Where the others have one of their own below with the same call,
    it is known only by what they may have missed that."""
    if not asks_for_rank(step[0].test, call, sources) or decides_alike(step[0], one, call, sources):
        return None
    if (half := half_below(one.inside, call, step, sources)) is not None:
        return of_half(one, step[0], call, half, sources)
    if (found := of_condition(one, step, call, sources)) is not None:
        return found
    return _branch("hang-rank-branch", *step, one, line_of(step[0], call, sources), sources)


def _alone_gives_back(left: ast.If, call: Call, sources: Sources) -> bool:
    """Whether a function returns a value in an ``if``, and none below."""
    functions = functions_of(call, sources)
    nodes = [node for function in functions for each in function.body for node in own_nodes(each)]
    given = [node for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    within = [node for node in given if holds(left, node.lineno) and ast.unparse(node) != "return None"]
    return bool(within) and not any(node.lineno > (left.end_lineno or left.lineno) for node in given)


def _by_order(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    """Of ranks in the two parts of one ``if``, each of which calls what the other has called first."""
    one, other = entries
    if not one.steps or not other.steps or one.steps[0][0] is not other.steps[0][0]:
        return None
    node = one.steps[0][0]
    if not isinstance(node, ast.If) or not all(_does_as(each, node) for each in entries):
        return None
    at = line_of(node, one.here, sources)
    return hint("hang-order", who=one.inside.ranks, others=other.inside.ranks, test=head(node), line=at)


def _does_as(one: Entry, node: ast.If) -> bool:
    """Whether the other part of an ``if`` has the statement that these ranks are in, too."""
    parts = {"body": node.body, "orelse": node.orelse}
    mine = parts.pop(one.steps[0][1])
    theirs = {ast.unparse(each) for part in parts.values() for each in part}
    return any(holds(each, one.here.line) and ast.unparse(each) in theirs for each in mine)


def _by_data(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for one in entries:
        for node, part, call in one.ifs(sources):
            if (call is one.here or one.is_behind) and not decides_alike(node, one, call, sources):
                at, values = line_of(node, call, sources), differences(node, one, call, sources)
                if not values.en and (caught := of_caught(one, [node], sources)) is not None:
                    return caught
                asked = ast.unparse(node.test)
                is_drawn = _DRAWN.search(asked) and draws_own(asked, one.here.file, sources)
                name = "hang-branch-drawn" if is_drawn else "hang-branch"
                found = _branch(name, node, part, one, at, sources, values=values)
                return with_one_sided(found, [node], call.file, sources)
        if one.is_behind and (caught := of_caught(one, [], sources)) is not None:
            return caught
        for call in one.deeper if one.is_behind else ():
            for left in returns_before(call, sources):
                return _branch("hang-return", left, "body", one, line_of(left, call, sources), sources)
    return None


def _by_library(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    found = (of_library(one.inside, one.outside, one.here, sources) for one in entries if one.is_behind)
    return next(filter(None, found), None)


def _branch(
    name: str, node: ast.If, part: str, one: Entry, line: str, sources: Sources, **more: object
) -> Hint:
    test = head(node) if part == "body" else f"else of {head(node)}"
    return _told_of(name, one, test, line, sources, **more)


def _told_of(name: str, one: Entry, test: str, line: str, sources: Sources, **more: object) -> Hint:
    alone = Both("", "")
    if _OF_MODEL.search(one.inside.place.what) is not None:
        alone = both("diagnosis.unwrapped")
    elif "new_group" in sources.text(one.here.file) and "new_group" not in one.inside.place.what:
        alone = both("diagnosis.or-group", said=alone)
    elif one.inside.place.what.rpartition(".")[2] == "barrier" and 0 not in one.inside.ranks:
        alone = both("diagnosis.behind-rank-0")
    return hint(
        name,
        inside=one.inside.ranks,
        outside=one.outside.ranks,
        test=test,
        line=line,
        call=one.inside.call,
        unwrapped=alone,
        **more,
    )


def passed_by(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """The ``if`` for some ranks alone in which others wait, where these are already behind it."""
    for other in waiting:
        for here, there in zip(side.way, other.way, strict=False):
            if (here.file, here.function) != (there.file, there.function):
                break
            for node, part in around(there, sources):
                behind = here.line > (node.end_lineno or node.lineno)
                if isinstance(node, ast.If) and behind and asks_for_rank(node.test, there, sources):
                    if other.direction or half_below(other, there, (node, part), sources):
                        continue
                    steps = [(node, part)]
                    one = Entry(inside=other, outside=side, here=there, there=here, steps=steps, deeper=())
                    return _branch(
                        "hang-rank-branch", node, part, one, line_of(node, there, sources), sources
                    )
    return None


def _by_deeper(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks in one call of a library, one that it has called back, and that is alone in what it calls:
    others may be in another function that it calls back."""
    steps = zip(*(side.way for side in sides), strict=False)
    shared = next((depth for depth, calls in enumerate(steps) if len(set(calls)) > 1), None)
    shared = min(len(side.way) for side in sides) if shared is None else shared
    for side in (side for side in sides if len(side.way) > shared and not side.called_elsewhere):
        if (alone := entered_alone(replace(side, way=side.way[shared:]), sources)) is not None:
            return hint("met-another-call", late=side.ranks, **alone)
    return None
