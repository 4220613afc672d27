"""Where the batches of a loop come from, of which the ranks may have other numbers."""

from __future__ import annotations

import ast

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.hangs.entries import Entry
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.statements import LOOPS, around, head, iterables, own_nodes, seeded_by_rank
from nbdist.store.reports import Call
from nbdist.text import Both, both


def batches_of(loop: ast.stmt, one: Entry, sources: Sources) -> Both:
    """Which function or class of the program makes the batches of a loop: a function that leaves some out by
    what is in them; a class, and whether each rank draws other random numbers."""
    at = next(
        (call for call in one.deeper if any(node is loop for node, _ in around(call, sources))), one.here
    )
    if (left := _left_out(loop, at, sources)) is not None:
        made, test = left
        return both(
            "diagnosis.batches-left-out", name=made.name, line=made.lineno, at=test.lineno, test=head(test)
        )
    classes = iterables(one.here.file, sources)
    if len(classes) != 1:
        return Both("", "")
    seeds = seeded_by_rank(one.here.file, sources)
    drawn = (
        both("diagnosis.seeded", line=seeds.lineno, source=head(seeds)) if seeds is not None else Both("", "")
    )
    return both("diagnosis.batches-of", name=classes[0].name, line=classes[0].lineno, seeded=drawn)


def _left_out(loop: ast.stmt, at: Call, sources: Sources) -> tuple[ast.FunctionDef, ast.If] | None:
    """The generator that a loop goes over, or that this is given, and what lets it go on without a yield."""
    if not isinstance(loop, ast.For):
        return None
    calls = (node for node in ast.walk(loop.iter) if isinstance(node, ast.Call))
    names = {ast.unparse(call.func).rpartition(".")[2] for call in calls}
    for function in ast.walk(parsed(sources.text(at.file)) or ast.Module([], [])):
        if not isinstance(function, ast.FunctionDef) or function.name not in names:
            continue
        nodes = [node for each in function.body for node in own_nodes(each)]
        if not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
            continue
        loops = (node for node in nodes if isinstance(node, LOOPS))
        for test in (node for each in loops for node in own_nodes(each) if isinstance(node, ast.If)):
            here = Call(file=at.file, line=test.lineno, function=function.name)
            # a share for each rank is as large on all
            if isinstance(test.body[-1], ast.Continue) and not asks_for_rank(test.test, here, sources):
                return function, test
    return None
