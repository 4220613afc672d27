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
    """Of an error of NCCL in a send(), where the function has its recv() further down."""
    place = failure.place
    said = failure.complaint.root.message if failure.complaint is not None else ""
    if place is None or _NO_ADDRESS not in said:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    statement = node_at(here, failure.sources)
    calls = [one for one in ast.walk(statement or ast.Pass()) if isinstance(one, ast.Call)]
    received = calls_of_function("recv", place.file, failure.sources)
    later = any(one.function == place.function and one.line > place.line for one in received)
    if "send" not in map(method, calls) or not later:
        return None
    return hint("nccl-both-send")
