"""Messages between ranks that met what they were not meant for."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import hint
from nbdist.diagnosis.rank_failure import Failure
from nbdist.programs.branches import (
    asks_for_rank,
    calls_of_function,
    exchanges,
    functions_of,
    head,
    method,
    node_at,
    own_nodes,
)
from nbdist.store.reports import Call

_FILLS = frozenset({"broadcast_object_list", "recv_object_list"})
"""Calls that put values which another rank has sent into a list."""

_OF_KIND = re.compile(r"^(?:TypeError|AttributeError): ")
_TOGETHER = re.compile(r"^(?:\w+\.)*\w*trainer\w*\.(?:fit|test|validate|predict|evaluate|train)$")
"""Calls that all ranks have to make together."""

_ALONE = re.compile(r"\bdevices\s*=\s*1\b")
_NO_ADDRESS = "is neither AF_INET"
"""NCCL's words where it found no address, since the other side does not receive."""


def hint_from_sends(failure: Failure) -> Hint | None:
    """Return that both sides send first, of an error of NCCL in a send() whose recv() stands further down."""
    place = failure.place
    if place is None or _NO_ADDRESS not in failure.said:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    statement = node_at(here, failure.sources)
    calls = [node for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.Call)]
    order = sorted(
        (call.line, name)
        for name in ("send", "recv")
        for call in calls_of_function(name, place.file, failure.sources)
        if call.function == place.function
    )
    names = [name for _, name in order]
    # in turns, each recv() after its send(): no side receives first
    if "send" not in map(method, calls) or not names or names != ["send", "recv"] * (len(names) // 2):
        return None
    return hint("nccl-both-send")


def hint_from_mixed_values(failure: Failure) -> Hint | None:
    """Return the ``if`` for some ranks above a collective that gave a value of another kind: these ranks were
    in another collective, and each side got what was meant for the other."""
    at = failure.place
    if at is None or failure.frames[-1] != at or not _OF_KIND.match(failure.said):
        return None
    here = Call(file=at.file, line=at.line, function=at.function)
    statement = node_at(here, failure.sources)
    read = {node.id for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.Name)}
    for function in functions_of(here, failure.sources)[-1:]:
        nodes = [node for each in function.body for node in own_nodes(each)]
        calls = [
            node
            for node in nodes
            if isinstance(node, ast.Call) and method(node) in _FILLS and node.lineno < at.line and node.args
        ]
        calls = [call for call in calls if isinstance(call.args[0], ast.Name) and call.args[0].id in read]
        if not calls or _ALONE.search(failure.sources.text(at.file)):
            return None
        last = max(calls, key=lambda call: call.lineno)
        for node in (test for test in nodes if isinstance(test, ast.If) and test.lineno < last.lineno):
            if asks_for_rank(node.test, here, failure.sources) and _is_for_all(node):
                values = {"name": ast.unparse(last.args[0]), "call": method(last), "line": last.lineno}
                return hint("value-of-other-collective", **values, at=node.lineno, test=head(node))
    return None


def _is_for_all(node: ast.If) -> bool:
    """Return whether the body alone makes a call that all ranks have to make."""
    calls = [part for child in node.body for part in own_nodes(child) if isinstance(part, ast.Call)]
    return not node.orelse and (
        exchanges(node) or any(_TOGETHER.match(ast.unparse(call.func)) for call in calls)
    )
