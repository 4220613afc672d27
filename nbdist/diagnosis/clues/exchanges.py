"""What ranks exchange: sends that meet each other, which NCCL may notice before anyone waits, and values that
came from another collective."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    calls_of_function,
    exchanges,
    functions_of,
    head,
    method,
    node_at,
    own_nodes,
)
from nbdist.store.reports import Call

_GIVES = frozenset({"broadcast_object_list", "recv_object_list"})
"""What puts values that another rank has sent into a list."""

_OF_KIND = re.compile(r"^(?:TypeError|AttributeError): ")
_TOGETHER = re.compile(r"^(?:\w+\.)*\w*trainer\w*\.(?:fit|test|validate|predict|evaluate|train)$")
"""What ranks have to call together."""

_ALONE = re.compile(r"\bdevices\s*=\s*1\b")
_NO_ADDRESS = "is neither AF_INET"
"""What a side finds in the place of an address, where the other side is none that receives."""


def of_sends(failure: Failure) -> Hint | None:
    """Of an error of NCCL in a send(), where the function has its recv() further down, and no side of an if
    begins with one."""
    place = failure.place
    said = failure.complaint.root.message if failure.complaint is not None else ""
    if place is None or _NO_ADDRESS not in said:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    statement = node_at(here, failure.sources)
    calls = [one for one in ast.walk(statement or ast.Pass()) if isinstance(one, ast.Call)]
    order = sorted(
        (one.line, name)
        for name in ("send", "recv")
        for one in calls_of_function(name, place.file, failure.sources)
        if one.function == place.function
    )
    names = [name for _, name in order]
    # in turns, each recv() after its send(): no side receives first
    if "send" not in map(method, calls) or not names or names != ["send", "recv"] * (len(names) // 2):
        return None
    return hint("nccl-both-send")


def of_mixed(failure: Failure) -> Hint | None:
    """Of a value of another kind, which a collective gave: an if for some ranks, above that, has let these
    into another one, and each got what was meant for the other."""
    at = failure.place
    if at is None or failure.frames[-1] != at or not _OF_KIND.match(failure.said):
        return None
    here = Call(file=at.file, line=at.line, function=at.function)
    statement = node_at(here, failure.sources)
    read = {one.id for one in ast.walk(statement or ast.Pass()) if isinstance(one, ast.Name)}
    for function in functions_of(here, failure.sources)[-1:]:
        nodes = [node for each in function.body for node in own_nodes(each)]
        gave = [
            one
            for one in nodes
            if isinstance(one, ast.Call) and method(one) in _GIVES and one.lineno < at.line and one.args
        ]
        gave = [one for one in gave if isinstance(one.args[0], ast.Name) and one.args[0].id in read]
        if not gave or _ALONE.search(failure.sources.text(at.file)):
            return None
        last = max(gave, key=lambda one: one.lineno)
        for node in (one for one in nodes if isinstance(one, ast.If) and one.lineno < last.lineno):
            if asks_for_rank(node.test, here, failure.sources) and _is_for_all(node):
                values = {"name": ast.unparse(last.args[0]), "call": method(last), "line": last.lineno}
                return hint("value-of-other-collective", **values, at=node.lineno, test=head(node))
    return None


def _is_for_all(node: ast.If) -> bool:
    """Whether the body calls what all ranks have to call, and no other part does."""
    calls = [one for each in node.body for one in own_nodes(each) if isinstance(one, ast.Call)]
    return not node.orelse and (
        exchanges(node) or any(_TOGETHER.match(ast.unparse(one.func)) for one in calls)
    )
