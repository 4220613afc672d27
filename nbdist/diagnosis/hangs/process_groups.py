"""Which process group a function of a program gives to its collectives."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nbdist.programs.branches import functions_of, holds, is_collective, own_nodes
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call


def group_left_out(call: Call, sources: Sources) -> tuple[int, str] | None:
    """Find another collective in the function of one without ``group=`` that has it: its line, and what it
    was given."""
    found = _collectives_by(call, sources)
    here = [node for node in found if holds(node, call.line)]
    if not here or any("group" in ast.unparse(node) for node in here):
        return None
    return next(iter(_groups_given(found)), None)


def group_of_callers(way: Sequence[Call], sources: Sources) -> tuple[Call, int, str] | None:
    """Find one in the innermost function on the way to it that has such, with the call there. None where that
    has several groups."""
    here = [node for node in _collectives_by(way[-1], sources) if holds(node, way[-1].line)]
    if not here or any("group" in ast.unparse(node) for node in here):
        return None
    for call in reversed(way[:-1]):
        if given := _groups_given(_collectives_by(call, sources)):
            return (call, *given[0]) if len({group for _, group in given}) == 1 else None
    return None


def _collectives_by(call: Call, sources: Sources) -> list[ast.Call]:
    """Return the collectives that the function of a call makes itself."""
    return [
        node
        for function in functions_of(call, sources)
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.Call) and is_collective(ast.unparse(node.func))
    ]


def _groups_given(calls: Sequence[ast.Call]) -> list[tuple[int, str]]:
    given = ((node.lineno, one) for node in calls for one in node.keywords if one.arg == "group")
    return [(line, ast.unparse(one.value)) for line, one in given]
