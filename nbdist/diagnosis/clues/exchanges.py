"""Ranks that send to each other at the same time, which NCCL may notice before anyone waits."""

from __future__ import annotations

import ast

from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import calls_of_function, method, node_at
from nbdist.store.reports import Call

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
