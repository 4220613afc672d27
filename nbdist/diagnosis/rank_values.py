"""An ``if`` for some ranks that made different on them what all ranks need."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import hint
from nbdist.diagnosis.rank_failure import Failure
from nbdist.programs.branches import (
    around,
    asks_for_rank,
    functions_of,
    head,
    is_quiet,
    node_at,
    own_nodes,
    told,
)
from nbdist.store.reports import Call

_UNSET = re.compile(
    r"^NameError: name '(?P<name>\w+)' is not defined|"
    r"^UnboundLocalError: (?:cannot access )?local variable '(?P<local>\w+)'"
)


def hint_from_model(failure: Failure) -> Hint | None:
    """Return the last ``if`` before the failing line in which some ranks do more with the model than the
    others: print and save do not count."""
    place = failure.place
    if place is None:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    statement = node_at(here, failure.sources)
    read = set(_given_to_calls(statement)) if statement is not None else set()
    nodes = (
        node
        for function in functions_of(here, failure.sources)
        for child in function.body
        for node in own_nodes(child)
    )
    ifs = [node for node in nodes if isinstance(node, ast.If) and node.lineno < place.line]
    for node in sorted(ifs, key=lambda test: test.lineno, reverse=True):
        # what is printed may well be counted in the model
        body = (child for child in node.body if not _only_prints(child))
        given = {name for child in body for name in _given_to_calls(child)}
        shared = {name for name in read if any(f"{other}.".startswith(f"{name}.") for other in given)}
        if shared and asks_for_rank(node.test, here, failure.sources):
            values = {"line": node.lineno, "test": head(node), "names": ", ".join(sorted(shared))}
            return hint("ddp-models-differ-by-rank", **values)
    return None


def hint_from_unset_name(failure: Failure) -> Hint | None:
    """Return the ``if`` for some ranks in which alone the program sets the name that has no value here."""
    place, unset = failure.place, _UNSET.match(failure.said)
    if place is None or unset is None:
        return None
    name = unset["name"] or unset["local"]
    here = Call(file=place.file, line=place.line, function=place.function)
    mine = {id(step) for step, _ in around(here, failure.sources)}
    lines: list[int] = []
    tests: dict[int, ast.If] = {}
    for node in (node for scope in functions_of(here, failure.sources)[-1:] for node in _nodes(scope)):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)):
            continue
        setting = Call(file=place.file, line=node.lineno, function="")
        steps = [step for step, _ in around(setting, failure.sources) if id(step) not in mine]
        ifs = [step for step in steps if isinstance(step, ast.If)]
        if not any(asks_for_rank(step.test, here, failure.sources) for step in ifs):
            return None
        lines.append(node.lineno)
        tests |= {step.lineno: step for step in ifs}
    if not lines:
        return None
    return hint(
        "name-set-on-some-ranks", name=name, lines=", ".join(map(str, lines)), tests=told([*tests.values()])
    )


def _nodes(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    return (node for child in scope.body for node in own_nodes(child))


def _only_prints(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and is_quiet(statement.value)
    )


def _given_to_calls(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement gives to calls, or whose methods it calls."""
    for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call)):
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for given in (*owner, *call.args):
            if isinstance(given, ast.Name | ast.Attribute):
                yield ast.unparse(given)
