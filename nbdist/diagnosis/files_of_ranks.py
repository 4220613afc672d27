"""A file that one rank writes and another one reads too early."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import hint
from nbdist.diagnosis.rank_failure import Failure
from nbdist.model import RankState, Run
from nbdist.programs.branches import around, asks_for_rank, calls_of_function, node_at
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call

_WRITERS = (
    *("save", "dump", "to_csv", "to_parquet", "save_pretrained", "save_checkpoint", "savez", "savetxt"),
    *("savez_compressed", "save_file", "save_inference_model", "write_text", "write_bytes", "open"),
)
_MISSING = re.compile(r"^FileNotFoundError: .*: '(?P<path>[^']+)'")
_SHORTEST = 5
"""Characters of the end of a path by which a text of the program is known as part of it."""

_OWN_TO_A_RANK = re.compile(r"\d\d[-_:.hT]?\d\d[-_:.mT]?\d\d|[0-9a-f]{8}-?[0-9a-f]{4}|/tmp\w{8}(?:/|$)")
"""A time, a random name or a temporary folder in a path: the other ranks write another file."""


def hint_from_missing_file(failure: Failure, run: Run) -> Hint | None:
    """Return the line in which rank 0 alone writes a file that this rank did not find."""
    missing = _MISSING.match(failure.said)
    writer = run.ranks[0]
    has_failed = writer.state is RankState.FAILED or (writer.errored is not None and writer.freed is None)
    if missing is None or failure.rank == 0 or has_failed or _OWN_TO_A_RANK.search(missing["path"]):
        return None
    for call in _writing(missing["path"], run.spec.program, failure):
        callers = calls_of_function(call.function, call.file, failure.sources)
        if any(_is_for_some_ranks(step, failure.sources) for step in (call, *callers)):
            values = {"path": missing["path"], "line": call.line, "late": (failure.rank,)}
            return hint("file-not-made-yet", **values)
    return None


def _writing(path: str, file: str, failure: Failure) -> Iterator[Call]:
    """Yield the calls of the program that write to a path."""
    length = f"str of {len(path)} characters"
    names = {operand.name for operand in failure.operands if operand.what == length}
    for name in _WRITERS:
        for call in calls_of_function(name, file, failure.sources):
            statement = node_at(call, failure.sources)
            if statement is None or (name == "open" and not _opens_to_write(statement)):
                continue
            if _mentions(statement, names, path):
                yield call


def _opens_to_write(statement: ast.stmt) -> bool:
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    modes = (given for call in calls for given in [*call.args[:2], *(word.value for word in call.keywords)])
    return any(
        isinstance(mode, ast.Constant) and re.fullmatch(r"[wxa][bt+]*", str(mode.value)) for mode in modes
    )


def _is_for_some_ranks(call: Call, sources: Sources) -> bool:
    ifs = (node for node, _ in around(call, sources) if isinstance(node, ast.If))
    return any(asks_for_rank(node.test, call, sources) for node in ifs)


def _mentions(statement: ast.stmt, names: set[str], path: str) -> bool:
    """Return whether a statement has the path: by one of these names, or by a text that it ends with."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if len(node.value) >= _SHORTEST and path.endswith(node.value):
                return True
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names:
            return True
    return False
