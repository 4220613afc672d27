"""Values that one rank alone has right, by a collective or an if for its rank, and that all decide by."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.hangs.entries import Way
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head, is_collective, own_nodes
from nbdist.store.reports import Call
from nbdist.text import both

_REDUCE = re.compile(r"(?:\w+\.)*(?:dist|distributed)\.reduce")


def with_one_sided(found: Hint, ways: Sequence[Way], file: str, sources: Sources) -> Hint:
    """The hint with what makes the value that a condition asks for right on one rank alone: a ``reduce()``,
    or an if for its rank that sets it."""
    for way in (one for one in ways if isinstance(one, ast.If)):
        if (call := _reduced(way, file, sources)) is not None:
            return replace(
                found,
                cause=both("diagnosis.reduced-to-one", said=found.cause, line=call.lineno),
                fix=both("diagnosis.reduce-to-all", said=found.fix, line=call.lineno),
            )
        if (own := _set_by_rank(way, file, sources)) is not None:
            name, line, test = own
            values = {"name": name, "line": line, "test": head(test)}
            return replace(
                found,
                cause=both("diagnosis.set-by-rank", said=found.cause, **values),
                fix=both("diagnosis.set-on-all", **values),
            )
    return found


def _set_by_rank(way: ast.If, file: str, sources: Sources) -> tuple[str, int, ast.If] | None:
    """What a condition asks for that only an if for some ranks changes, where no rank is given it later."""
    nodes = list(ast.walk(parsed(sources.text(file)) or ast.Module([], [])))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.Module)]
    here = [one for one in functions if any(way is inner for each in one.body for inner in own_nodes(each))]
    for function in here[-1:]:
        own = [node for each in function.body for node in own_nodes(each)]
        at = Call(file=file, line=way.lineno, function=getattr(function, "name", "<module>"))
        ifs = [node for node in own if isinstance(node, ast.If) and asks_for_rank(node.test, at, sources)]
        if way in ifs:
            return None
        within = {id(inner): one for one in ifs for each in one.body for inner in own_nodes(each)}
        for name in sorted(_names(way.test)):
            sets = [
                node for node in own if isinstance(node, ast.Assign | ast.AugAssign) and name in _set(node)
            ]
            alone = [node for node in sets if id(node) in within]
            # it had a value before the loop
            begun = [node for node in sets if id(node) not in within]
            if alone and all(node.lineno < alone[0].lineno for node in begun) and not _is_sent(name, own):
                return name, alone[0].lineno, within[id(alone[0])]
    return None


def _set(node: ast.Assign | ast.AugAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {
        name for one in targets if not isinstance(one, ast.Subscript | ast.Attribute) for name in _names(one)
    }


def _is_sent(name: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether a collective is given the value, or anything made of it by that name."""
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return any(is_collective(ast.unparse(one.func)) and name in _names(one) for one in calls)


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
