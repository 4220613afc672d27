"""A call that some ranks make in one ``if`` and the others in another one, further below in the function.

That is right as it is: one rank goes first and lets the others in by its half. Where these have left the
function in between, by an error that was caught or by a ``return``, the first half waits for ever.
"""

from __future__ import annotations

import ast

from nbdist.diagnosis.conditions import asks_for_rank, holds_for
from nbdist.diagnosis.hangs.entries import Entry, Way, handlers_of, named
from nbdist.diagnosis.places import Sources
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    LOOPS,
    Step,
    around,
    calls_of_function,
    functions_of,
    holds,
    own_nodes,
)
from nbdist.store.reports import Call

_MOST = 3


def half_below(side: Side, here: Call, step: tuple[ast.If, str], sources: Sources) -> Call | None:
    """Where what ranks call in an ``if`` is called in another one for other ranks, further below."""
    node, part = step
    name, end = side.place.what.rpartition(".")[2], node.end_lineno or node.lineno
    for call in calls_of_function(name, here.file, sources):
        if call.function == here.function and call.line > end:
            ifs = [one for one in around(call, sources) if isinstance(one[0], ast.If)]
            # the same condition once more is for the same ranks
            if any(_is_for_others(one, (node, part), side, call, sources) for one in ifs):
                return call
    return None


def of_condition(one: Entry, step: tuple[ast.If, str], call: Call, sources: Sources) -> Hint | None:
    """Of ranks in the second half, where the first, above, asks for more than the rank, and was left out."""
    side, (own, _) = one.inside, step
    name = side.place.what.rpartition(".")[2]
    again = any(
        isinstance(node, LOOPS) and holds(node, one.there.line) for node, _ in around(one.here, sources)
    )
    for other in calls_of_function(name, call.file, sources):
        if other.function != call.function or other.line >= own.lineno:
            continue
        for node, part in around(other, sources):
            if not isinstance(node, ast.If) or not _is_for_others((node, part), step, side, other, sources):
                continue
            asked = [each for each in _conjuncts(node.test) if not asks_for_rank(each, other, sources)]
            mine = set(map(ast.unparse, _conjuncts(own.test)))
            more = [each for each in map(ast.unparse, asked) if each not in mine]
            # or they may be yet to come there
            is_past = one.is_behind or again or (call is one.here and one.there.line > other.line)
            if part == "body" and more and is_past:
                return hint(
                    "hang-half-condition",
                    inside=side.ranks,
                    outside=one.outside.ranks,
                    call=side.call,
                    line=call.line,
                    half=other.line,
                    more=" and ".join(more),
                    own=own.lineno,
                )
    return None


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    return list(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def has_other_half(side: Side, here: Call, step: tuple[ast.If, str], sources: Sources) -> bool:
    """Whether the function calls what these ranks are in for the other ranks, too, above or below."""
    name = side.place.what.rpartition(".")[2]
    for call in calls_of_function(name, here.file, sources):
        if call.function == here.function and not holds(step[0], call.line):
            ifs = [one for one in around(call, sources) if isinstance(one[0], ast.If)]
            if any(_is_for_others(one, step, side, call, sources) for one in ifs):
                return True
    return False


def _is_for_others(step: Step, first: Step, side: Side, call: Call, sources: Sources) -> bool:
    (node, part), (other, its_part) = step, first
    if not isinstance(node, ast.If) or not isinstance(other, ast.If):
        return False
    if not asks_for_rank(node.test, call, sources):
        return False
    if ast.unparse(node.test) == ast.unparse(other.test):
        return part != its_part
    mine = [each for each in _conjuncts(node.test) if asks_for_rank(each, call, sources)]
    theirs = set(map(ast.unparse, _conjuncts(other.test))) if part == its_part == "body" else set()
    # beside something else, too, the same number is for the same ranks
    if theirs.intersection(map(ast.unparse, mine)):
        return False
    if part == "body" and any(all(holds_for(each, rank, {}) for each in mine) for rank in side.ranks):
        return False
    return not any(holds_for(node.test, rank, {}) is (part == "body") for rank in side.ranks)


def of_half(one: Entry, node: ast.If, call: Call, half: Call, sources: Sources) -> Hint | None:
    """Of ranks in the first half, where the others are past the function that has both: what may have let
    these leave it before theirs; None where nothing is known."""
    if not one.is_behind:
        return None
    end = node.end_lineno or node.lineno
    within = [each for function in functions_of(call, sources) for each in function.body]
    ways: list[Way] = [
        inner
        for each in within
        for inner in own_nodes(each)
        if isinstance(inner, ast.If)
        and end < inner.lineno < half.line
        and isinstance(inner.body[-1], ast.Return)
        # those that wait leave there, when they are let in
        and not asks_for_rank(inner.test, call, sources)
    ]
    ways += handlers_of(one, sources)
    if not 0 < len(ways) <= _MOST:
        return None
    return hint(
        "hang-half-left",
        inside=one.inside.ranks,
        outside=one.outside.ranks,
        call=one.inside.call,
        line=call.line,
        half=half.line,
        tests=named(ways, (one.inside, one.outside), sources),
    )
