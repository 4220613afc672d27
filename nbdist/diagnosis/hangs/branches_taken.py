"""The place where the ways of two groups of ranks parted: an ``if``, a ``return`` or a loop of the program.

The way of a rank is the calls in the user's files that lead to where it is. The first two that differ are in
one function. What one of the two is in from there on, and the other is not, may have parted them: an ``if``
that asks for the rank comes first, then a loop that the other has left, then what the data decides. An ``if``
with the same values on both has not parted them, nor one whose other part calls the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nbdist.diagnosis.hangs.entries import Entry, decides_alike, differences, of_caught
from nbdist.diagnosis.hangs.leaving import entered_alone, has_other_half, is_in_loop_of_library
from nbdist.diagnosis.hangs.loops import by_loop, by_round
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.positions import Side, by_ranks, ranks_of
from nbdist.programs.branches import (
    LOOPS,
    around,
    asks_for_rank,
    calls_of_function,
    head,
    holds,
    rank_decorators,
    returns_before,
    ways_out,
)
from nbdist.programs.sources import WRAPPERS, Sources, as_written
from nbdist.store.reports import Call
from nbdist.text import Both, both

_OF_MODEL = re.compile(r"forward|backward|^model\b")
"""Calls of a wrapped model, in which all ranks exchange something."""


def of_parting(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Explain where ranks parted that all wait for others; None where none could be asked."""
    ordered = sorted(sides, key=lambda side: (len(side.ranks), side.ranks))
    for at, side in enumerate(ordered):
        for other in ordered[at + 1 :]:
            if (found := _parted(side, other, sources)) is not None:
                return found
    if (found := _by_deeper(ordered, sources) or of_library(ordered, sources)) is not None:
        return found
    calls = dict.fromkeys(f"{side.call} (line {side.place.line})" for side in sides)
    return hint("hang-apart", calls=", ".join(calls)) if len(calls) > 1 else None


def of_groups(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the ``if`` that keeps some ranks from a new_group, where others wait in one, or in a collective of
    a group that NCCL makes in it: a group has its name by its number."""
    who = {"who": ranks_of(sides), "call": sides[0].call}
    for call in calls_of_function("new_group", sides[0].way[-1].file, sources) if sides[0].way else ():
        if _is_of_members(call, sources):
            continue
        inside = [node for node, _ in around(call, sources)]
        ifs = [node for node in inside if isinstance(node, ast.If)]
        # of those that some ranks are no members of, they may go on to the next
        left = (way for loop in inside if isinstance(loop, LOOPS) for way in ways_out(loop))
        ifs += [way for way in left if isinstance(way, ast.If) and way.lineno < call.line]
        for node in (*returns_before(call, sources), *ifs):
            if asks_for_rank(node.test, call, sources):
                return hint("hang-group-left-out", **who, test=head(node), line=node.lineno, at=call.line)
    return None


def _is_of_members(call: Call, sources: Sources) -> bool:
    """Return whether its members alone are to call this new_group."""
    nodes = ast.walk(sources.tree(call.file))
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
    deeper, deeper_there = side.way[depth + 1 :], other.way[depth + 1 :]
    entries = [
        Entry(inside=side, outside=other, here=here, there=there, steps=mine, deeper=deeper),
        Entry(inside=other, outside=side, here=there, there=here, steps=theirs, deeper=deeper_there),
    ]
    entries = [_without_ifs(one) for one in entries]
    return (
        _by_rank(entries, sources)
        or _by_order(entries, sources)
        or by_loop(entries, common, sources)
        or _by_data(entries, sources)
        or by_round(entries, common, sources)
        or _by_library(entries, sources)
    )


def _without_ifs(one: Entry) -> Entry:
    """Drop the ifs around a line that waits for what was called elsewhere: they have parted no ranks."""
    if not one.inside.called_elsewhere:
        return one
    return replace(one, steps=[step for step in one.steps if isinstance(step[0], LOOPS)], deeper=())


def _ifs(one: Entry, sources: Sources) -> Iterator[tuple[ast.If, str, Call]]:
    """Find the ifs that the inside alone is in, but for those where the other ranks make the same call in
    an ``if`` of their own."""
    for node, part, call in one.ifs(sources):
        of_rank = asks_for_rank(node.test, call, sources)
        if not of_rank or not has_other_half(one.inside, call, (node, part), sources):
            yield node, part, call


def _by_rank(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for here in (True, False):
        for one in entries:
            if (found := _went_past(one, sources, here=here)) is not None:
                return found
            # both may have been in the if around the call, and parted in the function
            for node, part, call in _ifs(one, sources):
                of_rank = asks_for_rank(node.test, call, sources) and (call is one.here or not here)
                if of_rank and not decides_alike(node, one, call, sources):
                    return _branch(
                        "hang-rank-branch", node, part, one, sources.short(call.file, node.lineno), sources
                    )
    return None


def _went_past(one: Entry, sources: Sources, *, here: bool) -> Hint | None:
    """Find the return of the other ranks, or the decorator, that the inside alone has come past."""
    for call in (one.here,) if here else one.deeper:
        for left in returns_before(call, sources):
            others_in = not here or holds(left, one.there.line)
            if others_in and asks_for_rank(left.test, call, sources):
                return _branch(
                    "hang-rank-return", left, "body", one, sources.short(call.file, left.lineno), sources
                )
        for only in () if here else rank_decorators(call, sources):
            line = sources.short(call.file, only.lineno)
            return _told_of("hang-rank-branch", one, f"@{ast.unparse(only)}", line, sources)
    return None


def _by_order(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    """Find the ``if`` whose two parts make the same calls in another order."""
    one, other = entries
    if not one.steps or not other.steps or one.steps[0][0] is not other.steps[0][0]:
        return None
    node = one.steps[0][0]
    if not isinstance(node, ast.If) or not all(_does_as(each, node) for each in entries):
        return None
    at = sources.short(one.here.file, node.lineno)
    return hint("hang-order", who=one.inside.ranks, others=other.inside.ranks, test=head(node), line=at)


def _does_as(one: Entry, node: ast.If) -> bool:
    """Return whether the other part of an ``if`` has the statement that these ranks are in, too."""
    parts = {"body": node.body, "orelse": node.orelse}
    mine = parts.pop(one.steps[0][1])
    theirs = {ast.unparse(each) for part in parts.values() for each in part}
    return any(holds(each, one.here.line) and ast.unparse(each) in theirs for each in mine)


def _by_data(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for one in entries:
        for node, part, call in _ifs(one, sources):
            if (call is one.here or one.is_behind) and not decides_alike(node, one, call, sources):
                at, values = sources.short(call.file, node.lineno), differences(node, one, call, sources)
                if not values.en and (caught := of_caught(one, [node], sources)) is not None:
                    return caught
                return _branch("hang-branch", node, part, one, at, sources, values=values)
        if one.is_behind and (caught := of_caught(one, [], sources)) is not None:
            return caught
        for call in one.deeper if one.is_behind else ():
            for left in returns_before(call, sources):
                return _branch(
                    "hang-return", left, "body", one, sources.short(call.file, left.lineno), sources
                )
    return None


def _by_library(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    """Find the loop of a library that one side is in, and the other has come past."""
    for one in (one for one in entries if one.is_behind):
        calls = one.inside.calls
        after = calls[calls.index(one.here) + 1 :] if one.here in calls else ()
        if after and is_in_loop_of_library(replace(one.inside, calls=(one.here, after[0])), sources):
            ways = by_ranks([(one.inside.ranks, _function(after)), (one.outside.ranks, one.outside.call)])
            return _in_library(one.here, after[0], ways, sources)
    return None


def of_library(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the call of a library in whose code the ways part of ranks that all wait."""
    pairs = enumerate(zip(*(side.calls for side in sides), strict=False))
    parted = (at for at, calls in pairs if len({(call.file, call.function) for call in calls}) > 1)
    depth = next(parted, None)
    calls = sides[0].calls if sides else ()
    own = [at for at, call in enumerate(calls[:depth]) if sources.is_own(call.file)]
    if depth is None or not own or any(len({side.calls[at] for side in sides}) > 1 for at in own):
        return None
    ways = [_function(side.calls[depth:]) for side in sides]
    if len(set(ways)) < 2:
        return None
    told = by_ranks((side.ranks, way) for side, way in zip(sides, ways, strict=True))
    return _in_library(calls[own[-1]], calls[own[-1] + 1], told, sources)


def _in_library(own: Call, after: Call, ways: Both, sources: Sources) -> Hint:
    call = as_written(after.function, own.line, sources.text(own.file))
    return hint("hang-in-library", call=call, line=own.line, ways=ways)


def _function(calls: Sequence[Call]) -> str:
    return next((call.function for call in calls if call.function not in WRAPPERS), "?")


def _branch(
    name: str, node: ast.If, part: str, one: Entry, line: str, sources: Sources, **more: object
) -> Hint:
    test = head(node) if part == "body" else f"else of {head(node)}"
    return _told_of(name, one, test, line, sources, **more)


def _told_of(name: str, one: Entry, test: str, line: str, sources: Sources, **more: object) -> Hint:
    mend = Both("", "")
    if _OF_MODEL.search(one.inside.place.what) is not None:
        mend = both("diagnosis.unwrapped")
    elif "new_group" in sources.text(one.here.file) and "new_group" not in one.inside.place.what:
        mend = both("diagnosis.or-group", said=mend)
    ranks = {"inside": one.inside.ranks, "outside": one.outside.ranks}
    return hint(name, **ranks, test=test, line=line, call=one.inside.call, unwrapped=mend, **more)


def passed_by(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the ``if`` for some ranks alone in which others wait, where these are already behind it."""
    for other in waiting:
        for here, there in zip(side.way, other.way, strict=False):
            if (here.file, here.function) != (there.file, there.function):
                break
            one = Entry(inside=other, outside=side, here=there, there=here, steps=(), deeper=())
            for node, part in around(there, sources):
                behind = here.line > (node.end_lineno or node.lineno) and not other.direction
                if not isinstance(node, ast.If) or not behind or not asks_for_rank(node.test, there, sources):
                    continue
                if not has_other_half(other, there, (node, part), sources):
                    return _branch(
                        "hang-rank-branch", node, part, one, sources.short(there.file, node.lineno), sources
                    )
    return None


def _by_deeper(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the rank that is alone in what a library has called back, where the others may be in another
    function that it calls back."""
    steps = zip(*(side.way for side in sides), strict=False)
    shared = next((depth for depth, calls in enumerate(steps) if len(set(calls)) > 1), None)
    shared = min((len(side.way) for side in sides), default=0) if shared is None else shared
    for side in (side for side in sides if len(side.way) > shared and not side.called_elsewhere):
        if (alone := entered_alone(replace(side, way=side.way[shared:]), sources)) is not None:
            return hint("met-another-call", late=side.ranks, **alone)
    return None
