"""Ranks of which some have left a loop that others are in: what in it let them out."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from nbdist.diagnosis.conditions import asks_for_rank, is_of_all
from nbdist.diagnosis.hangs.batches import batches_of, shared_out, sized_by_rank
from nbdist.diagnosis.hangs.entries import (
    MOST,
    PLAIN,
    Entry,
    Way,
    decides_alike,
    drawn_rounds,
    handlers_of,
    line_of,
    named,
    of_caught,
)
from nbdist.diagnosis.hangs.limits import begun_elsewhere, is_limit, leads_away
from nbdist.diagnosis.hangs.one_sided import with_one_sided
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    LOOPS,
    around,
    caught_in_calls,
    counters,
    counts_to_its_end,
    does_more,
    exchanges,
    functions_of,
    head,
    holds,
    iterables,
    own_nodes,
    returns_before,
    stops_of,
    ways_out,
)
from nbdist.store.reports import Call

_MESSAGES = re.compile(r"\b(?:batch_isend_irecv|P2POp|isend|irecv)\(")
_OF_ENTRIES = re.compile(r"^sorted\(\w+\)$|^(?:sorted\()?[\w.]+\.(?:items|keys|values)\(\)\)?$")
_DIVIDES = frozenset({"split", "chunk", "unbind", "unfold", "tensor_split"})
"""What gives as many parts as a batch is long."""

_ALIKE = re.compile(
    r"^t?range\(|\b(?:\w*parameters|\w*modules|\w*layers|\w*blocks|\w*stages|state_dict|param_groups)\b"
    r"|\b(?:children|buffers)\("
)


def by_loop(entries: Sequence[Entry], common: Sequence[ast.stmt], sources: Sources) -> Hint | None:
    """A loop that one side has come past, in this function or, with the call of another, in that one. Of a
    loop that has as many rounds on both the other has rather come round, and left out what is behind it."""
    for one, other in (entries, entries[::-1]):
        here = [node for node, _ in one.steps if isinstance(node, LOOPS) and one.there.line > node.lineno]
        inner = [node for call in one.deeper for node, _ in around(call, sources) if isinstance(node, LOOPS)]
        loops = here + inner if here or one.is_behind else []
        if loops:
            if _awaits_message(one, sources):
                ranks = {"inside": one.inside.ranks, "outside": one.outside.ranks}
                return hint("hang-message-unmet", **ranks, line=one.inside.place.line)
            # epochs are as many on each rank, as a rule; batches may not be
            over_data = [loop for loop in loops if not _is_alike(loop)]
            # a rank that is past the epochs has most likely broken off
            broken = [loop for loop in here if _is_alike(loop) and any(map(_ends_loop, ways_out(loop)))]
            left = (broken or over_data or loops)[0]
            if not broken and _has_as_many(left, one):
                return by_round(entries, common, sources) or _loop(left, one, other, sources)
            return _loop(left, one, other, sources)
    return None


def _awaits_message(one: Entry, sources: Sources) -> bool:
    """Whether ranks wait for what  isend()  or  irecv()  gave, which stands in the same function."""
    at = one.inside.way[-1]
    if not one.inside.place.what.endswith(".wait"):
        return False
    return any(
        not isinstance(function, ast.Module) and _MESSAGES.search(ast.unparse(function))
        for function in functions_of(at, sources)
    )


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
    # in a function that those in the loop have called, the others may have returned before that call
    ways += [left for call in one.deeper for left in returns_before(call, sources)]
    around_both = (node for node, _ in around(one.there, sources) if isinstance(node, LOOPS))
    if any(holds(node, one.here.line) for node in around_both):
        after = one.outside.way[one.outside.way.index(one.there) + 1 :]
        ways += [left for call in after for left in returns_before(call, sources)]
        # those in the loop may have left that call out, and begun the next round
        asked = other.ifs(sources)
        ways += [node for node, _, call in asked if not decides_alike(node, other, call, sources)]
    ways += caught_in_calls(loop, one.here.file, sources)
    ways += stops_of(loop, one.here.file, sources)
    ways = [
        way for way in ways if not _counts_alike(way, loop, one, sources) and not is_limit(way, one, sources)
    ]
    used_up = [way for way in ways if isinstance(way, ast.ExceptHandler) and _is_end_of_data(way)]
    ways = [way for way in ways if way not in used_up]
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
    if not 0 < len(ways) <= MOST:
        if used_up and not ways:
            return hint("hang-loop-stream", **values, batches=batches_of(loop, one, sources))
        if isinstance(loop, ast.While):
            return hint("hang-while", **values)
        if (begun := begun_elsewhere(one, sources)) is not None:
            counts, call = begun
            return hint("hang-loop-begun", **values, test=head(counts), at=line_of(counts, call, sources))
        if _has_given_rounds(loop):
            return hint("hang-loop-range", **values, loop=head(loop))
        if (given := _given_by_rank(loop, one.here, sources)) is not None:
            at = line_of(given, one.here, sources)
            return hint("hang-loop-of-rank", **values, at=at, given=head(given))
        if (sized := sized_by_rank(one.inside.way, sources)) is not None:
            return hint("hang-loop-sizes", **values, **sized)
        if (shared := shared_out(one.inside.way, sources)) is not None:
            return hint("hang-loop-shared", **values, **shared)
        if isinstance(loop, ast.For) and _OF_ENTRIES.search(ast.unparse(loop.iter)):
            return hint("hang-loop-entries", **values, over=ast.unparse(loop.iter))
        if (varying := _within(loop, one, sources)) is not None:
            return hint("hang-loop-within", **values, at=line_of(*varying, sources), test=head(varying[0]))
        batches = batches_of(loop, one, sources)
        # no sampler shares out a stream
        name = "hang-loop-stream" if len(iterables(one.here.file, sources)) == 1 else "hang-loop"
        return hint(name, **values, batches=batches)
    if len(ways) == 1 and isinstance(ways[0], ast.ExceptHandler):
        return hint("hang-loop-caught", **values, test=head(ways[0]), at=ways[0].lineno)
    found = hint("hang-loop-left", **values, tests=named(ways, (one.inside, one.outside), sources))
    return with_one_sided(found, ways, one.here.file, sources)


def _is_end_of_data(handler: ast.ExceptHandler) -> bool:
    """``except StopIteration: break``"""
    return handler.type is not None and ast.unparse(handler.type) == "StopIteration"


def _within(loop: ast.stmt, one: Entry, sources: Sources) -> tuple[ast.stmt, Call] | None:
    """The loop that ranks are in within another one, where what it goes over is worked out for each round."""
    found = [
        (node, call)
        for call in (one.here, *one.deeper)
        for node, part in around(call, sources)
        if isinstance(node, LOOPS) and part == "body"
    ]
    nodes = [node for node, _ in found]
    after = found[nodes.index(loop) + 1 :] if loop in nodes else []
    return next((each for each in after if _is_worked_out(*each, sources)), None)


def _is_worked_out(loop: ast.stmt, call: Call, sources: Sources) -> bool:
    """Whether its rounds are not given, but by calls in ``while`` or ``range()``, by parts of a batch, by
    a generator of the program."""
    if isinstance(loop, ast.While):
        return any(isinstance(node, ast.Call | ast.Subscript) for node in ast.walk(loop.test))
    over = loop.iter if isinstance(loop, ast.For) else None
    while isinstance(over, ast.Call) and over.args and ast.unparse(over.func) in ("enumerate", "tqdm"):
        over = over.args[0]
    if not isinstance(over, ast.Call):
        return False
    name = ast.unparse(over.func).rpartition(".")[2]
    if name == "range":
        return any(isinstance(node, ast.Call | ast.Subscript) for one in over.args for node in ast.walk(one))
    tree = parsed(sources.text(call.file)) or ast.Module([], [])
    return name in _DIVIDES or any(
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and any(
            isinstance(inner, ast.Yield | ast.YieldFrom) for each in node.body for inner in own_nodes(each)
        )
        for node in ast.walk(tree)
    )


def _given_by_rank(loop: ast.stmt, here: Call, sources: Sources) -> ast.Assign | None:
    """The statement ``batches = read() if rank == 0 else []`` of what a loop goes over."""
    asked = ast.walk(loop.iter) if isinstance(loop, ast.For) else ()
    names = {node.id for node in asked if isinstance(node, ast.Name)}
    for node in ast.walk(parsed(sources.text(here.file)) or ast.Module([], [])):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
            sets = {ast.unparse(target) for target in node.targets}
            if sets & names and asks_for_rank(node.value.test, here, sources):
                return node
    return None


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


def by_round(entries: Sequence[Entry], common: Sequence[ast.stmt], sources: Sources) -> Hint | None:
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
        if not ways and (caught := of_caught(one, [], sources)) is not None:
            return caught
        ways += handlers_of(one, sources)
        if 0 < len(ways) <= MOST:
            ranks = {"inside": one.inside.ranks, "outside": one.outside.ranks}
            file, at = one.inside.place.file, one.inside.place.line
            line = f"{file}:{at}" if file else at
            values = {"call": one.inside.call, "line": line, "other": one.outside.call}
            tests = named(ways, (one.inside, one.outside), sources)
            return hint("hang-round", **ranks, **values, tests=tests)
    return None
