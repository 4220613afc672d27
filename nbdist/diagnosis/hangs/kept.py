"""What a function has acquired and may leave without its release: every later acquire then waits for ever."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.diagnosis.places import Sources
from nbdist.diagnosis.statements import functions_of, own_nodes
from nbdist.store.reports import Call

Leaving = ast.Return | ast.Raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """``left`` leaves the function between the acquire and the release of ``owner``, which is in this
    ``line``."""

    owner: str
    left: Leaving
    line: int


def kept(way: Sequence[Call], sources: Sources) -> Kept | None:
    """Of the calls on a way, the innermost that acquires something for which that is so."""
    found = (_kept(call, sources) for call in reversed(way))
    return next((one for one in found if one is not None), None)


def _kept(call: Call, sources: Sources) -> Kept | None:
    for function in functions_of(call, sources):
        nodes = [node for each in function.body for node in own_nodes(each)]
        owner = next((one for one in map(_acquired, nodes) if one and one[1] == call.line), None)
        if owner is None:
            continue
        # what is released in a finally, or by a handler, is given back on those ways, too
        tries = [node for node in nodes if isinstance(node, ast.Try)]
        if any(_released(inner, owner[0]) for node in tries for inner in _ends(node)):
            return None
        lines = [node.lineno for node in nodes if isinstance(node, ast.Call) and _released(node, owner[0])]
        last = min((line for line in lines if line > call.line), default=0)
        between = [node for node in nodes if isinstance(node, Leaving) and call.line < node.lineno < last]
        # what a handler of the function catches does not leave it
        inside = {id(inner) for node in tries for each in node.body for inner in own_nodes(each)}
        leaves = [node for node in between if isinstance(node, ast.Return) or id(node) not in inside]
        if leaves:
            return Kept(owner=owner[0], left=leaves[0], line=last)
    return None


def _acquired(node: ast.AST) -> tuple[str, int] | None:
    """What a statement acquires however long it takes, and its line: one with a limit may not have got it."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None
    if node.value.args or node.value.keywords:
        return None
    owner, _, method = ast.unparse(node.value.func).rpartition(".")
    return (owner, node.lineno) if owner and method == "acquire" else None


def _ends(node: ast.Try) -> list[ast.AST]:
    parts = [*node.finalbody, *(each for handler in node.handlers for each in handler.body)]
    return [inner for each in parts for inner in own_nodes(each)]


def _released(node: ast.AST, owner: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == f"{owner}.release"
