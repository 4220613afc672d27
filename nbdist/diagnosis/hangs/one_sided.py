"""Values that a collective gives to one rank alone, and that all ranks decide by."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.hangs.entries import Way
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import own_nodes
from nbdist.store.reports import Call
from nbdist.text import both

_REDUCE = re.compile(r"(?:\w+\.)*(?:dist|distributed)\.reduce")


def with_reduce(found: Hint, ways: Sequence[Way], file: str, sources: Sources) -> Hint:
    """The hint with the ``reduce()`` by which what a condition asks for is right on one rank alone."""
    for way in ways:
        if isinstance(way, ast.If) and (call := _reduced(way, file, sources)) is not None:
            return replace(
                found,
                cause=both("diagnosis.reduced-to-one", said=found.cause, line=call.lineno),
                fix=both("diagnosis.reduce-to-all", said=found.fix, line=call.lineno),
            )
    return found


def _reduced(way: ast.If, file: str, sources: Sources) -> ast.Call | None:
    """The ``reduce()`` of what a condition asks for, in its function or in the one that has given that."""
    nodes = list(ast.walk(parsed(sources.text(file)) or ast.Module([], [])))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    here = [one for one in functions if any(way is inner for each in one.body for inner in own_nodes(each))]
    if not here or asks_for_rank(way.test, Call(file=file, line=way.lineno, function=here[-1].name), sources):
        return None
    asked = {node.id for node in ast.walk(way.test) if isinstance(node, ast.Name)}
    above = [
        node
        for each in here[-1].body
        for node in own_nodes(each)
        if isinstance(node, ast.Assign | ast.Expr) and node.lineno < way.lineno
    ]
    for node in above:
        value = node.value
        if not isinstance(value, ast.Call):
            continue
        if isinstance(node, ast.Expr) and _is_of_one(value) and _names(value.args[0]) & asked:
            return value if not _given_to_all(value, here[-1]) else None
        if isinstance(node, ast.Assign) and any(_names(target) & asked for target in node.targets):
            given = ast.unparse(value.func).rpartition(".")[2]
            for one in (one for one in functions if one.name == given):
                if (call := _given_back(one)) is not None:
                    return call
    return None


def _given_back(function: ast.FunctionDef) -> ast.Call | None:
    """The ``reduce()`` of a function whose result this returns: not where one rank alone returns it."""
    inside = [node for each in function.body for node in own_nodes(each)]
    calls = [node for node in inside if isinstance(node, ast.Call) and _is_of_one(node)]
    returned = set().union(*(_names(node) for node in function.body if isinstance(node, ast.Return)))
    return next(
        (call for call in calls if _names(call.args[0]) & returned and not _given_to_all(call, function)),
        None,
    )


def _given_to_all(call: ast.Call, function: ast.FunctionDef) -> bool:
    """Whether the rank that has the result broadcasts it."""
    return any(
        isinstance(node, ast.Call) and "broadcast" in ast.unparse(node.func) and node.lineno >= call.lineno
        for node in ast.walk(function)
    )


def _is_of_one(call: ast.Call) -> bool:
    return bool(call.args) and _REDUCE.fullmatch(ast.unparse(call.func)) is not None


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
