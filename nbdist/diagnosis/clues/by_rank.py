"""What an ``if`` for some ranks has done, of something that has to be alike on all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import functions_of, head, is_quiet, node_at, own_nodes
from nbdist.store.reports import Call


def of_model(failure: Failure) -> Hint | None:
    """Of models that differ between the ranks: the last ``if`` before that line in which some ranks alone do
    more with the model than to print and to save it."""
    at = failure.place
    if at is None:
        return None
    here = Call(file=at.file, line=at.line, function=at.function)
    statement = node_at(here, failure.sources)
    read = set(_names(statement)) if statement is not None else set()
    nodes = (
        node
        for function in functions_of(here, failure.sources)
        for child in function.body
        for node in own_nodes(child)
    )
    ifs = [node for node in nodes if isinstance(node, ast.If) and node.lineno < at.line]
    for node in sorted(ifs, key=lambda one: one.lineno, reverse=True):
        # what is printed may well be counted in the model
        body = (child for child in node.body if not _is_quiet(child))
        given = {name for child in body for name in _names(child)}
        shared = {name for name in read if any(f"{one}.".startswith(f"{name}.") for one in given)}
        if shared and asks_for_rank(node.test, here, failure.sources):
            values = {"line": node.lineno, "test": head(node), "names": ", ".join(sorted(shared))}
            return hint("ddp-models-differ-by-rank", **values)
    return None


def _is_quiet(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and is_quiet(statement.value)
    )


def _names(node: ast.AST) -> Iterator[str]:
    """What a statement gives to calls, or calls a method of: not the functions themselves."""
    for call in (one for one in ast.walk(node) if isinstance(one, ast.Call)):
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for one in (*owner, *call.args):
            if isinstance(one, ast.Name | ast.Attribute):
                yield ast.unparse(one)
