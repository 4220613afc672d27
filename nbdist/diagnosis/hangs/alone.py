"""What some ranks alone come to, and what can leave out a call: ifs, returns and loops around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from nbdist.diagnosis.conditions import asks_for_rank, spelt_out
from nbdist.diagnosis.hangs.entries import (
    MOST,
    Way,
    line_of,
)
from nbdist.diagnosis.hangs.halves import has_other_half
from nbdist.diagnosis.places import Sources
from nbdist.diagnosis.sides import Side
from nbdist.diagnosis.statements import (
    LOOPS,
    around,
    calls_too,
    caught_in_calls,
    counters,
    exits_of,
    head,
    rank_decorators,
    returns_before,
    stops_of,
    ways_out,
)
from nbdist.store.reports import Call
from nbdist.text import both

# not `local_rank != -1`, which holds on every rank
_PICKS = re.compile(r"== \d|^not \w|main|master|chief|primary|(?:global|process)_zero")

_PICKS_OTHERS = re.compile(r"!= \d|> \d|^not \w|^[\w.]*rank(?:\(\))?$")


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
        # what the others call in an if of their own of this function is no reason: whoever called it is
        inside = [node for node in inside if not has_other_half(side, call, (node, "body"), sources)]
        picked = [("into", node) for node in inside if _PICKS.search(spelt_out(node.test, call, sources))]
        passed = returns_before(call, sources)
        picked += [
            ("past", node) for node in passed if _PICKS_OTHERS.search(spelt_out(node.test, call, sources))
        ]
        asked = [(way, node) for way, node in picked if asks_for_rank(node.test, call, sources)]
        found = [(way, head(node), line_of(node, call, sources)) for way, node in asked]
        for only in rank_decorators(call, sources):
            found.append(("into-function", f"@{ast.unparse(only)}", line_of(only, call, sources)))
        for way, test, line in found:
            went, mend = both(f"diagnosis.went-{way}", test=test), both(f"diagnosis.instead-of-{way}")
            if "new_group" in sources.text(call.file):
                mend = both("diagnosis.or-group", said=mend)
            return {"went": went, "line": line, "call": side.call, "mend": mend}
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
                *stops_of(loop, call.file, sources),
            ]
            for loop in loops
        )
        ways = [*returns_before(call, sources), *next(filter(None, left), [])]
        if ways:
            return ways if len(ways) <= MOST else []
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
                return found if len(found) <= MOST else []
    return []


def _is_of_rank(node: ast.If, call: Call, sources: Sources) -> bool:
    here = replace(call, line=node.body[0].lineno)
    ifs = (step for step, _ in around(here, sources) if isinstance(step, ast.If))
    return any(asks_for_rank(one.test, call, sources) for one in ifs)
