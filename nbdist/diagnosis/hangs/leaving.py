"""Ranks that ended while others wait for them: the others made a call alone, or have a step more.

With gloo the waiting ranks fail then. With NCCL they wait on: nothing notifies them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from nbdist.diagnosis.hangs.entries import MOST, Way
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.positions import Side
from nbdist.programs.branches import (
    LOOPS,
    Step,
    around,
    asks_for_rank,
    calls_of_function,
    calls_too,
    caught_in_calls,
    counters,
    exits,
    exits_of,
    head,
    holds,
    holds_for,
    is_collective,
    lines_in_words,
    names_in,
    own_nodes,
    rank_decorators,
    returns_before,
    spelt_out,
    ways_out,
)
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call
from nbdist.text import Both, both

# not `local_rank != -1`, which holds on every rank
_PICKS = re.compile(r"== \d|^not \w|main|master|chief|primary|(?:global|process)_zero")
_PICKS_OTHERS = re.compile(r"!= \d|> \d|^not \w|^[\w.]*rank(?:\(\))?$")
_EXCHANGES = re.compile(
    r"\b(?:dist|distributed|accelerator|fabric)\.\w+$|\b(?:all_reduce|all_gather|barrier)\w*$"
)
"""Calls that surely reach other ranks: not ``logits.gather``, nor ``plt.scatter``."""

_GROUPS = re.compile(r"\bnew_(?:sub)?group|[dD]evice_?[mM]esh|\bgroup=")
# library functions that loop and call the program back
_TRAINS = re.compile(r"fit|train|eval|predict|test|valid|learn")


def why_left(
    side: Side, early: tuple[int, ...], program: str, sources: Sources, *, alone: bool = True
) -> Hint:
    """Explain why ``early`` ended and ``side`` waits, in ``program``. ``alone``: ``side`` may be the only
    ranks in a line that is for all."""
    who: dict[str, object] = {"late": side.ranks, "early": early, "call": side.call}
    if side.place.on_device:
        # the device's collective may come from another line, outside this if
        return hint("uneven-steps", **who, tests=Both("", ""))
    if alone and (entered := entered_alone(side, sources)) is not None:
        return hint("left-alone", **who | entered)
    in_library = is_in_loop_of_library(side, sources) and not exits(program, sources)
    if alone and side.way and not in_library and not _loops(side, sources):
        lines = ", ".join(map(str, exits(program, sources)[:MOST]))
        seen = both("diagnosis.see-lines", lines=lines) if lines else Both("", "")
        return hint("left-before-call", **who, lines=seen)
    ways = [*ways_past(side, sources)] or _loops(side, sources)[:1]
    return hint(
        "uneven-steps", **who, tests=both("diagnosis.see-tests", tests=lines_in_words(ways)) if ways else ""
    )


def is_in_loop_of_library(side: Side, sources: Sources) -> bool:
    """Return whether ranks are in a library's loop over the batches, such as  trainer.fit() ."""
    return any(
        sources.is_own(call.file) and not sources.is_own(after.file) and _TRAINS.search(after.function)
        for call, after in pairwise(side.calls)
    )


def entered_alone(side: Side, sources: Sources) -> dict[str, object] | None:
    """Find the innermost ``if`` for some ranks around these, or with a return that these passed."""
    for call in reversed(side.way):
        entries = [
            (way, head(node), sources.short(call.file, node.lineno))
            for way, node in _picked(side, call, sources)
            if asks_for_rank(node.test, call, sources)
        ]
        for only in rank_decorators(call, sources):
            entries.append(("into-function", f"@{ast.unparse(only)}", sources.short(call.file, only.lineno)))
        for way, test, line in entries:
            went, mend = both(f"diagnosis.went-{way}", test=test), both(f"diagnosis.instead-of-{way}")
            if "new_group" in sources.text(call.file):
                mend = both("diagnosis.or-group", said=mend)
            return {"went": went, "line": line, "call": side.call, "mend": mend}
    return None


def _picked(side: Side, call: Call, sources: Sources) -> Iterator[tuple[str, ast.If]]:
    """Yield the ifs around a call, or the returns above it, that select some ranks."""
    called = side.place.what.rpartition(".")[2]
    for node, part in reversed(around(call, sources)):
        if not isinstance(node, ast.If) or part != "body" or calls_too(node, part, called):
            continue
        # the others may make the same call in another if of this function
        picks = _PICKS.search(spelt_out(node.test, call, sources))
        if picks and not has_other_half(side, call, (node, part), sources):
            yield "into", node
    for node in returns_before(call, sources):
        if _PICKS_OTHERS.search(spelt_out(node.test, call, sources)):
            yield "past", node


def _loops(side: Side, sources: Sources) -> list[ast.stmt]:
    steps = (node for call in reversed(side.way) for node, _ in reversed(around(call, sources)))
    return [node for node in steps if isinstance(node, LOOPS)]


def ways_past(side: Side, sources: Sources) -> list[Way]:
    """Find what can skip these ranks' call: returns before it, else exits of the innermost loop with any;
    none if there are too many to name."""
    for call in reversed(side.way):
        loops = [node for node, _ in reversed(around(call, sources)) if isinstance(node, LOOPS)]
        counts = counters(call, sources)
        left = (
            [
                *ways_out(loop),
                # a counter of rounds ends all ranks alike
                *(node for node in exits_of(loop) if not counts & names_in(node.test)),
                *caught_in_calls(loop, call.file, sources),
            ]
            for loop in loops
        )
        ways = [*returns_before(call, sources), *next(filter(None, left), [])]
        if ways:
            return ways if len(ways) <= MOST else []
    return []


def called_alone(side: Side, sources: Sources) -> tuple[ast.If, str] | None:
    """Find the one ``if`` on the rank in a loop around these that leads to a collective."""
    for here in reversed(side.way):
        by_name: dict[str, list[ast.If]] = {}
        loops = [node for node, _ in around(here, sources) if isinstance(node, LOOPS)]
        nodes = [node for loop in loops[:1] for node in own_nodes(loop) if isinstance(node, ast.If)]
        for node in (node for node in nodes if asks_for_rank(node.test, here, sources)):
            for name in exchanged(node, here.file, sources):
                by_name.setdefault(name, []).append(node)
        lone = next(((some[0], name) for name, some in by_name.items() if len(some) == 1), None)
        if lone is not None and not _GROUPS.search(sources.text(here.file)):
            return lone
    return None


def exchanged(node: ast.If, file: str, sources: Sources) -> set[str]:
    """Return the collectives that the body of an ``if`` calls, and its other part does not."""
    tree = sources.tree(file)
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
    defined = {function.name: function.body for function in functions}
    called = _calls(node.body)
    called += [inner for name in called for inner in _calls(defined.get(name.rpartition(".")[2], ()))]
    names = {name.rpartition(".")[2] for name in called if _EXCHANGES.search(name)}
    return {name for name in names if is_collective(name) and not calls_too(node, "body", name)}


def _calls(statements: Sequence[ast.stmt]) -> list[str]:
    nodes = (node for each in statements for node in own_nodes(each) if isinstance(node, ast.Call))
    return [ast.unparse(node.func) for node in nodes]


def has_other_half(side: Side, here: Call, step: Step, sources: Sources) -> bool:
    """Return whether the function makes these ranks' call for the other ranks, too, above or below."""
    name = side.place.what.rpartition(".")[2]
    for call in calls_of_function(name, here.file, sources):
        if call.function == here.function and not holds(step[0], call.line):
            ifs = (outer for outer in around(call, sources) if isinstance(outer[0], ast.If))
            if any(_is_for_others(outer, step, side, call, sources) for outer in ifs):
                return True
    return False


def _is_for_others(step: Step, first: Step, side: Side, call: Call, sources: Sources) -> bool:
    (node, part), (other, its_part) = step, first
    if (
        not isinstance(node, ast.If)
        or not isinstance(other, ast.If)
        or not asks_for_rank(node.test, call, sources)
    ):
        return False
    if ast.unparse(node.test) == ast.unparse(other.test):
        return part != its_part
    mine = [each for each in _conjuncts(node.test) if asks_for_rank(each, call, sources)]
    theirs = set(map(ast.unparse, _conjuncts(other.test))) if part == its_part == "body" else set()
    # the same test of the rank selects the same ranks, also within an and
    if theirs.intersection(map(ast.unparse, mine)):
        return False
    if part == "body" and any(all(holds_for(each, rank, {}) for each in mine) for rank in side.ranks):
        return False
    return not any(holds_for(node.test, rank, {}) is (part == "body") for rank in side.ranks)


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    return list(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
