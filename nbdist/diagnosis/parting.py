"""Where the ways of two groups of ranks parted: an ``if``, a ``return`` or a loop of the program.

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

from nbdist.diagnosis.batches import batches_of
from nbdist.diagnosis.conditions import asks_for_rank, is_of_all, spelt_out
from nbdist.diagnosis.entries import (
    PLAIN,
    Entry,
    Way,
    decides_alike,
    differences,
    drawn_rounds,
    draws_own,
    handlers_of,
    named,
)
from nbdist.diagnosis.halves import half_below, of_half
from nbdist.diagnosis.hooks import of_hooks, of_library
from nbdist.diagnosis.limits import begun_elsewhere, is_limit, leads_away
from nbdist.diagnosis.one_sided import with_reduce
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    LOOPS,
    around,
    calls_of_function,
    calls_too,
    caught_in_calls,
    counters,
    counts_to_its_end,
    does_more,
    exchanges,
    exits_of,
    functions_of,
    head,
    holds,
    own_nodes,
    rank_decorators,
    returns_before,
    ways_out,
)
from nbdist.store.reports import Call
from nbdist.text import Both, both

# not `local_rank != -1`, which holds on every rank
_PICKS = re.compile(r"== \d|^not \w|main|master|chief|primary|(?:global|process)_zero")
_PICKS_OTHERS = re.compile(r"!= \d|> \d|^not \w|^[\w.]*rank(?:\(\))?$")
_ALIKE = re.compile(
    r"^t?range\(|\b(?:\w*parameters|\w*modules|\w*layers|\w*blocks|\w*stages|state_dict|param_groups)\b"
    r"|\b(?:children|buffers)\("
)

_DRAWN = re.compile(r"\b(?:random|rand|randint|randrange|uniform|bernoulli)\(")
"""In a condition: a random number."""

_OF_MODEL = re.compile(r"forward|backward|^model\b")
"""Calls of a wrapped model, in which all ranks exchange something."""

_MOST = 3
"""Of what may have let ranks out of a loop, so many are named."""


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
    for call in calls_of_function("new_group", file, sources):
        ifs = [node for node, _ in around(call, sources) if isinstance(node, ast.If)]
        for node in (*returns_before(call, sources), *ifs):
            if asks_for_rank(node.test, call, sources):
                return hint("hang-group-left-out", who=ranks, test=head(node), line=node.lineno, at=call.line)
    return hint("hang-groups", who=ranks)


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
    return (
        _by_rank(entries, sources)
        or _by_order(entries, sources)
        or _by_loop(entries, common, sources)
        or _by_data(entries, sources)
        or _by_round(entries, common, sources)
        or _by_library(entries, sources)
    )


def _by_rank(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for one in entries:
        for node, part, call in one.ifs(sources):
            if call is one.here and (found := _of_rank_if((node, part), one, call, sources)) is not None:
                return found
    for one in entries:
        for call in one.deeper:
            for left in returns_before(call, sources):
                if asks_for_rank(left.test, call, sources):
                    line = _line(left, call, sources)
                    found = _branch("hang-rank-return", left, "body", one, line, sources)
                    if _alone_gives_back(left, call, sources):
                        return replace(found, fix=both("diagnosis.give-back-too", said=found.fix))
                    return found
            for only in rank_decorators(call, sources):
                line = _line(only, call, sources)
                return _told_of("hang-rank-branch", one, f"@{ast.unparse(only)}", line, sources)
        # both may have been in the if around the call, and parted in the function
        for node, part, call in one.ifs(sources):
            if (found := _of_rank_if((node, part), one, call, sources)) is not None:
                return found
    return None


def _of_rank_if(step: tuple[ast.If, str], one: Entry, call: Call, sources: Sources) -> Hint | None:
    """Of ranks in an ``if`` for them alone. Where the others have one of their own below with the same call,
    it is known only by what they may have missed that."""
    if not asks_for_rank(step[0].test, call, sources) or decides_alike(step[0], one, call, sources):
        return None
    if (half := half_below(one.inside, call, step, sources)) is not None:
        return of_half(one, step[0], call, half, sources)
    return _branch("hang-rank-branch", *step, one, _line(step[0], call, sources), sources)


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
    at = _line(node, one.here, sources)
    return hint("hang-order", who=one.inside.ranks, others=other.inside.ranks, test=head(node), line=at)


def _does_as(one: Entry, node: ast.If) -> bool:
    """Whether the other part of an ``if`` has the statement that these ranks are in, too."""
    parts = {"body": node.body, "orelse": node.orelse}
    mine = parts.pop(one.steps[0][1])
    theirs = {ast.unparse(each) for part in parts.values() for each in part}
    return any(holds(each, one.here.line) and ast.unparse(each) in theirs for each in mine)


def _by_loop(entries: Sequence[Entry], common: Sequence[ast.stmt], sources: Sources) -> Hint | None:
    """A loop that one side has come past, in this function or, with the call of another, in that one. Of a
    loop that has as many rounds on both the other has rather come round, and left out what is behind it."""
    for one, other in (entries, entries[::-1]):
        here = [node for node, _ in one.steps if isinstance(node, LOOPS) and one.there.line > node.lineno]
        inner = [node for call in one.deeper for node, _ in around(call, sources) if isinstance(node, LOOPS)]
        loops = here + inner if here or one.is_behind else []
        if loops:
            # epochs are as many on each rank, as a rule; batches may not be
            over_data = [loop for loop in loops if not _is_alike(loop)]
            # a rank that is past the epochs has most likely broken off
            broken = [loop for loop in here if _is_alike(loop) and any(map(_ends_loop, ways_out(loop)))]
            left = (broken or over_data or loops)[0]
            if not broken and _has_as_many(left, one):
                return _by_round(entries, common, sources) or _loop(left, one, other, sources)
            return _loop(left, one, other, sources)
    return None


def _has_as_many(loop: ast.stmt, one: Entry) -> bool:
    """Whether a loop is over a range that is the same on both sides."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or not _is_alike(loop):
        return False
    if not ast.unparse(loop.iter.func).endswith("range"):
        return False
    asked = [node for given in loop.iter.args for node in ast.walk(given)]
    if any(isinstance(node, ast.Call) for node in asked):
        return False
    mine, theirs = (side.had(one.here.file, loop.lineno) for side in (one.inside, one.outside))
    plain = bool(mine) and mine == theirs and all(map(PLAIN.fullmatch, mine.values()))
    return plain or not any(isinstance(node, ast.Name | ast.Attribute) for node in asked)


def _has_given_rounds(loop: ast.stmt) -> bool:
    """Whether a loop is over a range whose bounds are no constants, by their kind or by their names."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return False
    asked = [node for given in loop.iter.args for node in ast.walk(given)]
    names = [node for node in asked if isinstance(node, ast.Name) and not node.id.isupper()]
    return ast.unparse(loop.iter.func) in ("range", "trange") and bool(names)


def _ends_loop(way: Way) -> bool:
    return isinstance(way.body[-1], ast.Break | ast.Return)


def _is_alike(loop: ast.stmt) -> bool:
    """Whether a loop has as many rounds on each rank, as a rule: over a range, or over what a model has, or
    by its own count."""
    if isinstance(loop, ast.While):
        return counts_to_its_end(loop)
    return isinstance(loop, ast.For) and _ALIKE.search(ast.unparse(loop.iter)) is not None


def _loop(loop: ast.stmt, one: Entry, other: Entry, sources: Sources) -> Hint:
    """With what may have let ranks out of it: ways out, of the loops within, too, the ifs around the call,
    and, where both may come round to the call of the ``other`` side, what returns before that, and the ifs
    around it."""
    ways: list[Way] = list(ways_out(loop))
    for call in one.deeper:
        ways += [
            way for node, _ in around(call, sources) if isinstance(node, LOOPS) for way in ways_out(node)
        ]
    around_both = (node for node, _ in around(one.there, sources) if isinstance(node, LOOPS))
    if any(holds(node, one.here.line) for node in around_both):
        after = one.outside.way[one.outside.way.index(one.there) + 1 :]
        ways += [left for call in after for left in returns_before(call, sources)]
        # those in the loop may have left that call out, and begun the next round
        asked = other.ifs(sources)
        ways += [node for node, _, call in asked if not decides_alike(node, other, call, sources)]
    ways += caught_in_calls(loop, one.here.file, sources)
    ways = [
        way for way in ways if not _counts_alike(way, loop, one, sources) and not is_limit(way, one, sources)
    ]
    ways = list(dict.fromkeys(_of_rank(way, one.here.file, sources) for way in ways))
    for node, _, call in one.ifs(sources):
        if node not in ways and not decides_alike(node, one, call, sources):
            ways.append(node)
    ways += [node for node in _alone_in(loop, one.here, sources) if node not in ways]
    values: dict[str, object] = {
        "inside": one.inside.ranks,
        "outside": one.outside.ranks,
        "line": loop.lineno,
    }
    if not ways and (drawn := drawn_rounds(loop, one.here.file, sources)) is not None:
        return hint("hang-loop-drawn", **values, drawn=head(drawn), at=drawn.lineno)
    if not 0 < len(ways) <= _MOST:
        if isinstance(loop, ast.While):
            return hint("hang-while", **values)
        if (begun := begun_elsewhere(one, sources)) is not None:
            counts, call = begun
            return hint("hang-loop-begun", **values, test=head(counts), at=_line(counts, call, sources))
        if _has_given_rounds(loop):
            return hint("hang-loop-range", **values, loop=head(loop))
        return hint("hang-loop", **values, batches=batches_of(loop, one, sources))
    if len(ways) == 1 and isinstance(ways[0], ast.ExceptHandler):
        return hint("hang-loop-caught", **values, test=head(ways[0]), at=ways[0].lineno)
    found = hint("hang-loop-left", **values, tests=named(ways, (one.inside, one.outside), sources))
    return with_reduce(found, ways, one.here.file, sources)


def _counts_alike(way: Way, loop: ast.stmt, one: Entry, sources: Sources) -> bool:
    """Whether a way out of a loop asks for nothing else than the number of the round, and for limits that
    both sides have alike and the loop does not set: ``if step >= args.max_steps``."""
    if not isinstance(way, ast.If):
        return False
    at = Call(file=one.here.file, line=way.lineno, function=one.here.function)
    names = {node.id for node in ast.walk(way.test) if isinstance(node, ast.Name)}
    sets = {
        node.id for node in own_nodes(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    rounds = counters(at, sources)
    return bool(names & rounds) and not (names - rounds) & sets and decides_alike(way, one, at, sources)


def _of_rank(way: Way, file: str, sources: Sources) -> Way:
    """The ``if`` for some ranks around a way out of a loop; itself where there is none."""
    tree = parsed(sources.text(file)) or ast.Module([], [])
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.If) and node is not way):
        within = any(way is inner for each in node.body for inner in own_nodes(each))
        here = Call(file=file, line=node.lineno, function="")
        if within and asks_for_rank(node.test, here, sources):
            return node
    return way


def _alone_in(loop: ast.stmt, here: Call, sources: Sources) -> list[ast.If]:
    """The ifs of a loop that call a collective, or in which some ranks do more than to print and to save."""
    ifs = [node for node in own_nodes(loop) if isinstance(node, ast.If) and not is_of_all(node.test)]
    of_rank = [node for node in ifs if asks_for_rank(node.test, here, sources)]
    return [
        node for node in ifs if exchanges(node) or (node in of_rank and does_more(node, here.file, sources))
    ]


def _by_data(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    for one in entries:
        for node, part, call in one.ifs(sources):
            if (call is one.here or one.is_behind) and not decides_alike(node, one, call, sources):
                at, values = _line(node, call, sources), differences(node, one, call, sources)
                if not values.en and (caught := _caught(one, [node], sources)) is not None:
                    return caught
                asked = ast.unparse(node.test)
                is_drawn = _DRAWN.search(asked) and draws_own(asked, one.here.file, sources)
                name = "hang-branch-drawn" if is_drawn else "hang-branch"
                found = _branch(name, node, part, one, at, sources, values=values)
                return with_reduce(found, [node], call.file, sources)
        if one.is_behind and (caught := _caught(one, [], sources)) is not None:
            return caught
        for call in one.deeper if one.is_behind else ():
            for left in returns_before(call, sources):
                return _branch("hang-return", left, "body", one, _line(left, call, sources), sources)
    return None


def _caught(one: Entry, ways: Sequence[Way], sources: Sources) -> Hint | None:
    """Of ranks that are in a ``try``, where others may have come out of it by an error."""
    handlers = handlers_of(one, sources)
    if not handlers:
        return None
    returns = [left for call in one.deeper if one.is_behind for left in returns_before(call, sources)]
    shown = list(dict.fromkeys([*handlers, *ways, *returns]))
    shown = shown if len(shown) <= _MOST else handlers[:_MOST]
    tests = named(shown, (one.inside, one.outside), sources)
    ranks = {"inside": one.inside.ranks, "outside": one.outside.ranks}
    return hint("hang-caught", **ranks, call=one.inside.call, tests=tests)


def _by_round(entries: Sequence[Entry], common: Sequence[ast.stmt], sources: Sources) -> Hint | None:
    """Of ranks that have come round to an earlier line: what let them leave out the rest."""
    for one in (one for one in entries if not one.is_behind):
        loops = [node for node in common if isinstance(node, LOOPS)]
        ways = [way for loop in loops[-1:] for way in ways_out(loop)]
        ways = [way for way in ways if not leads_away(way, loops, one, sources)]
        ways += returns_before(one.here, sources)
        ways = [_of_rank(way, one.here.file, sources) for way in ways if way.lineno < one.here.line]
        # those who came round may have left it out in a function, too
        for call in one.deeper:
            ways += returns_before(call, sources)
            ways += [node for node, _, at in one.ifs(sources) if at is call]
        if not ways and (caught := _caught(one, [], sources)) is not None:
            return caught
        ways += handlers_of(one, sources)
        if 0 < len(ways) <= _MOST:
            ranks = {"inside": one.inside.ranks, "outside": one.outside.ranks}
            file, at = one.inside.place.file, one.inside.place.line
            line = f"{file}:{at}" if file else at
            values = {"call": one.inside.call, "line": line, "other": one.outside.call}
            tests = named(ways, (one.inside, one.outside), sources)
            return hint("hang-round", **ranks, **values, tests=tests)
    return None


def _by_library(entries: Sequence[Entry], sources: Sources) -> Hint | None:
    found = (of_library(one.inside, one.outside, one.here, sources) for one in entries if one.is_behind)
    return next(filter(None, found), None)


def _line(node: ast.stmt | ast.expr, call: Call, sources: Sources) -> str:
    """``18``, or ``runtime.py:18`` of a module beside the program."""
    return str(node.lineno) if sources.is_program(call.file) else f"{sources.name(call.file)}:{node.lineno}"


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
                    return _branch("hang-rank-passed", node, part, one, _line(node, there, sources), sources)
    return None


def entered_alone(side: Side, sources: Sources) -> dict[str, object] | None:
    """What some ranks alone come to where these are: the innermost ``if`` that they are in, or have come past
    where it returns. ``went`` says which, with its ``test``; its ``line``, and the ``call`` made there."""
    called = side.place.what.rpartition(".")[2]
    for call in reversed(side.way):
        inside = [
            node
            for node, part in reversed(around(call, sources))
            if isinstance(node, ast.If) and part == "body" and not calls_too(node, part, called)
        ]
        picked = [("into", node) for node in inside if _PICKS.search(spelt_out(node.test, call, sources))]
        passed = returns_before(call, sources)
        picked += [
            ("past", node) for node in passed if _PICKS_OTHERS.search(spelt_out(node.test, call, sources))
        ]
        asked = [(way, node) for way, node in picked if asks_for_rank(node.test, call, sources)]
        found = [(way, head(node), _line(node, call, sources)) for way, node in asked]
        for only in rank_decorators(call, sources):
            found.append(("into-function", f"@{ast.unparse(only)}", _line(only, call, sources)))
        for way, test, line in found:
            went, mend = both(f"diagnosis.went-{way}", test=test), both(f"diagnosis.instead-of-{way}")
            if "new_group" in sources.text(call.file):
                mend = both("diagnosis.or-group", said=mend)
            return {"went": went, "line": line, "call": side.call, "mend": mend}
    return None


def _by_deeper(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks in one call of a library, one that it has called back, and that is alone in what it calls:
    others may be in another function that it calls back."""
    steps = zip(*(side.way for side in sides), strict=False)
    shared = next((depth for depth, calls in enumerate(steps) if len(set(calls)) > 1), None)
    shared = min(len(side.way) for side in sides) if shared is None else shared
    for side in (side for side in sides if len(side.way) > shared):
        if (alone := entered_alone(replace(side, way=side.way[shared:]), sources)) is not None:
            return hint("met-another-call", late=side.ranks, **alone)
    return None


def is_in_loop(side: Side, sources: Sources) -> bool:
    """Whether these ranks are in a loop of the program, or may be."""
    return not side.way or any(
        isinstance(node, LOOPS) for call in side.way for node, _ in around(call, sources)
    )


def ways_past(side: Side, sources: Sources) -> list[Way]:
    """What can leave out the call that these ranks are in: returns before it, else what leaves the innermost
    loop around it that has such; none where there is nothing, or too much to name."""
    for call in reversed(side.way):
        loops = [node for node, _ in reversed(around(call, sources)) if isinstance(node, LOOPS)]
        counts = counters(call, sources)
        left = (
            [
                *ways_out(loop),
                # what counts the rounds ends all ranks alike
                *(node for node in exits_of(loop) if not counts & set(_names(node.test))),
                *caught_in_calls(loop, call.file, sources),
            ]
            for loop in loops
        )
        ways = [*returns_before(call, sources), *next(filter(None, left), [])]
        if ways:
            return ways if len(ways) <= _MOST else []
    return []


def _names(test: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(test) if isinstance(node, ast.Name))


def exits_of_rank(side: Side, sources: Sources) -> list[ast.If]:
    """What ends the process of some ranks, as if all were well, in a loop that these ranks are in: an ``if``
    that asks for the rank, or is in one that does."""
    for call in reversed(side.way):
        for loop in (node for node, _ in reversed(around(call, sources)) if isinstance(node, LOOPS)):
            found = [node for node in exits_of(loop) if _is_of_rank(node, call, sources)]
            if found:
                return found if len(found) <= _MOST else []
    return []


def _is_of_rank(node: ast.If, call: Call, sources: Sources) -> bool:
    here = replace(call, line=node.body[0].lineno)
    ifs = (step for step, _ in around(here, sources) if isinstance(step, ast.If))
    return any(asks_for_rank(one.test, call, sources) for one in ifs)
