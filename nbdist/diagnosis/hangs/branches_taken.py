"""The place where two groups of ranks parted: an ``if``, a ``return`` or a loop of the program.

A rank's way is its calls in the user's files. The first two that differ are in one function. A statement
around one of them but not the other may have parted them: an ``if`` on the rank comes first, then a loop that
the other has left, then conditions on data. An ``if`` with equal values on both has not parted them, nor one
whose other part makes the same call.
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
"""Calls of a wrapped model, in which all ranks exchange data."""


def of_parting(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Explain where ranks parted that all wait; None if unknown."""
    ordered = sorted(sides, key=lambda side: (len(side.ranks), side.ranks))
    for at, side in enumerate(ordered):
        for other in ordered[at + 1 :]:
            if (cause := _parted(side, other, sources)) is not None:
                return cause
    if (cause := _by_deeper(ordered, sources) or of_library(ordered, sources)) is not None:
        return cause
    calls = dict.fromkeys(f"{side.call} (line {side.place.line})" for side in sides)
    return hint("hang-apart", calls=", ".join(calls)) if len(calls) > 1 else None


def of_groups(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the ``if`` that keeps ranks from a new_group that others wait in, itself or in NCCL's first
    collective: groups are named by their number."""
    who = {"who": ranks_of(sides), "call": sides[0].call}
    for call in calls_of_function("new_group", sides[0].way[-1].file, sources) if sides[0].way else ():
        if _is_of_members(call, sources):
            continue
        inside = [node for node, _ in around(call, sources)]
        ifs = [node for node in inside if isinstance(node, ast.If)]
        # ranks may skip a group without them and continue with the next
        left = (way for loop in inside if isinstance(loop, LOOPS) for way in ways_out(loop))
        ifs += [way for way in left if isinstance(way, ast.If) and way.lineno < call.line]
        for node in (*returns_before(call, sources), *ifs):
            if asks_for_rank(node.test, call, sources):
                return hint("hang-group-left-out", **who, test=head(node), line=node.lineno, at=call.line)
    return None


def _is_of_members(call: Call, sources: Sources) -> bool:
    """Return whether only members must call this new_group."""
    nodes = ast.walk(sources.tree(call.file))
    calls = (node for node in nodes if isinstance(node, ast.Call) and holds(node, call.line))
    given = (
        keyword for node in calls for keyword in node.keywords if keyword.arg == "use_local_synchronization"
    )
    return any(ast.unparse(keyword.value) != "False" for keyword in given)


def _parted(side: Side, other: Side, sources: Sources) -> Hint | None:
    ways = zip(side.way, other.way, strict=False)
    depth = next((at for at, (a, b) in enumerate(ways) if (a.file, a.line) != (b.file, b.line)), None)
    if depth is None:
        return None
    here, elsewhere = side.way[depth], other.way[depth]
    if (here.file, here.function) != (elsewhere.file, elsewhere.function):
        return None
    mine, theirs = around(here, sources), around(elsewhere, sources)
    common: list[ast.stmt] = []
    while mine and theirs and mine[0] == theirs[0]:
        common.append(mine.pop(0)[0])
        del theirs[0]
    deeper, their_deeper = side.way[depth + 1 :], other.way[depth + 1 :]
    entries = [
        Entry(inside=side, outside=other, here=here, elsewhere=elsewhere, steps=mine, deeper=deeper),
        Entry(inside=other, outside=side, here=elsewhere, elsewhere=here, steps=theirs, deeper=their_deeper),
    ]
    entries = [_without_ifs(entry) for entry in entries]
    return (
        _by_rank(entries, sources)
        or _by_order(entries, sources)
        or by_loop(entries, common, sources)
        or _by_data(entries, sources)
        or by_round(entries, common, sources)
        or _by_library(entries, sources)
    )


def _without_ifs(entry: Entry) -> Entry:
    """Drop the ifs around a line that waits for an earlier call: they parted no ranks."""
    if not entry.inside.called_elsewhere:
        return entry
    return replace(entry, steps=[step for step in entry.steps if isinstance(step[0], LOOPS)], deeper=())


def _ifs(entry: Entry, sources: Sources) -> Iterator[tuple[ast.If, str, Call]]:
    """Yield the ifs around the inside alone, unless the other ranks make the same call in another ``if``."""
    for node, part, call in entry.ifs(sources):
        of_rank = asks_for_rank(node.test, call, sources)
        if not of_rank or not has_other_half(entry.inside, call, (node, part), sources):
            yield node, part, call


def _by_rank(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for here in (True, False):
        for entry in entries:
            if (cause := _went_past(entry, sources, here=here)) is not None:
                return cause
            # both may have been in the if around the call and parted in the function
            for node, part, call in _ifs(entry, sources):
                of_rank = asks_for_rank(node.test, call, sources) and (call is entry.here or not here)
                if of_rank and not decides_alike(node, entry, call, sources):
                    return _branch("hang-rank-branch", node, part, entry, call.file, sources)
    return None


def _went_past(entry: Entry, sources: Sources, *, here: bool) -> Hint | None:
    """Find the return of the other ranks, or the decorator, that the inside alone has passed."""
    for call in (entry.here,) if here else entry.deeper:
        for left in returns_before(call, sources):
            others_in = not here or holds(left, entry.elsewhere.line)
            if others_in and asks_for_rank(left.test, call, sources):
                return _branch("hang-rank-return", left, "body", entry, call.file, sources)
        for only in () if here else rank_decorators(call, sources):
            line = sources.short(call.file, only.lineno)
            return _told_of("hang-rank-branch", entry, f"@{ast.unparse(only)}", line, sources)
    return None


def _by_order(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    """Find the ``if`` whose two parts make the same calls in another order."""
    entry, other = entries
    if not entry.steps or not other.steps or entry.steps[0][0] is not other.steps[0][0]:
        return None
    node = entry.steps[0][0]
    if not isinstance(node, ast.If) or not all(_does_as(each, node) for each in entries):
        return None
    at = sources.short(entry.here.file, node.lineno)
    return hint("hang-order", who=entry.inside.ranks, others=other.inside.ranks, test=head(node), line=at)


def _does_as(entry: Entry, node: ast.If) -> bool:
    """Return whether the other part of an ``if`` contains these ranks' statement, too."""
    parts = {"body": node.body, "orelse": node.orelse}
    mine = parts.pop(entry.steps[0][1])
    theirs = {ast.unparse(each) for part in parts.values() for each in part}
    return any(holds(each, entry.here.line) and ast.unparse(each) in theirs for each in mine)


def _by_data(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for entry in entries:
        for node, part, call in _ifs(entry, sources):
            if (call is entry.here or entry.is_behind) and not decides_alike(node, entry, call, sources):
                values = differences(node, entry, call, sources)
                if not values.en and (caught := of_caught(entry, [node], sources)) is not None:
                    return caught
                return _branch("hang-branch", node, part, entry, call.file, sources, values=values)
        if entry.is_behind and (caught := of_caught(entry, [], sources)) is not None:
            return caught
        for call in entry.deeper if entry.is_behind else ():
            for left in returns_before(call, sources):
                return _branch("hang-return", left, "body", entry, call.file, sources)
    return None


def _by_library(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for entry in (entry for entry in entries if entry.is_behind):
        calls = entry.inside.calls
        after = calls[calls.index(entry.here) + 1 :] if entry.here in calls else ()
        if after and is_in_loop_of_library(replace(entry.inside, calls=(entry.here, after[0])), sources):
            ways = by_ranks(
                [(entry.inside.ranks, _function(after)), (entry.outside.ranks, entry.outside.call)]
            )
            return _in_library(entry.here, after[0], ways, sources)
    return None


def of_library(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the library call inside which the ways of waiting ranks part."""
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
    functions = by_ranks((side.ranks, way) for side, way in zip(sides, ways, strict=True))
    return _in_library(calls[own[-1]], calls[own[-1] + 1], functions, sources)


def _in_library(own: Call, after: Call, ways: Both, sources: Sources) -> Hint:
    call = as_written(after.function, own.line, sources.text(own.file))
    return hint("hang-in-library", call=call, line=own.line, ways=ways)


def _function(calls: Sequence[Call]) -> str:
    return next((call.function for call in calls if call.function not in WRAPPERS), "?")


def _branch(
    name: str, node: ast.If, part: str, entry: Entry, file: str, sources: Sources, **more: object
) -> Hint:
    test = head(node) if part == "body" else f"else of {head(node)}"
    return _told_of(name, entry, test, sources.short(file, node.lineno), sources, **more)


def _told_of(name: str, entry: Entry, test: str, line: str, sources: Sources, **more: object) -> Hint:
    mend = Both("", "")
    if _OF_MODEL.search(entry.inside.place.what) is not None:
        mend = both("diagnosis.unwrapped")
    elif "new_group" in sources.text(entry.here.file) and "new_group" not in entry.inside.place.what:
        mend = both("diagnosis.or-group", said=mend)
    ranks = {"inside": entry.inside.ranks, "outside": entry.outside.ranks}
    return hint(name, **ranks, test=test, line=line, call=entry.inside.call, unwrapped=mend, **more)


def passed_by(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the ``if`` for some ranks in which others wait while these are already behind it."""
    for other in waiting:
        for here, elsewhere in zip(side.way, other.way, strict=False):
            if (here.file, here.function) != (elsewhere.file, elsewhere.function):
                break
            entry = Entry(inside=other, outside=side, here=elsewhere, elsewhere=here, steps=(), deeper=())
            for node, part in around(elsewhere, sources):
                behind = here.line > (node.end_lineno or node.lineno) and not other.direction
                if (
                    not isinstance(node, ast.If)
                    or not behind
                    or not asks_for_rank(node.test, elsewhere, sources)
                ):
                    continue
                if not has_other_half(other, elsewhere, (node, part), sources):
                    return _branch("hang-rank-branch", node, part, entry, elsewhere.file, sources)
    return None


def _by_deeper(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Find the rank that is alone in a library's callback, while others may be in another one."""
    steps = zip(*(side.way for side in sides), strict=False)
    shared = next((depth for depth, calls in enumerate(steps) if len(set(calls)) > 1), None)
    shared = min((len(side.way) for side in sides), default=0) if shared is None else shared
    for side in (side for side in sides if len(side.way) > shared and not side.called_elsewhere):
        if (alone := entered_alone(replace(side, way=side.way[shared:]), sources)) is not None:
            return hint("met-another-call", late=side.ranks, **alone)
    return None
