"""Failures made by an ``if`` for some ranks: a value, message or file differs from the others'."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.rank_failure import Failure
from nbdist.model import RankState, Run
from nbdist.programs.branches import (
    around,
    asks_for_rank,
    calls_of_function,
    exchanges,
    functions_of,
    head,
    is_quiet,
    lines_in_words,
    method,
    node_at,
    own_nodes,
)
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call

_WRITERS = (
    *("save", "dump", "to_csv", "to_parquet", "save_pretrained", "save_checkpoint", "savez", "savetxt"),
    *("savez_compressed", "save_file", "save_inference_model", "write_text", "write_bytes", "open"),
)
_MISSING = re.compile(r"^FileNotFoundError: .*: '(?P<path>[^']+)'")
_SHORTEST = 5  # characters of a path's end that identify a string of the program as part of it
_OWN_TO_A_RANK = re.compile(r"\d\d[-_:.hT]?\d\d[-_:.mT]?\d\d|[0-9a-f]{8}-?[0-9a-f]{4}|/tmp\w{8}(?:/|$)")
"""Times, random names and temporary folders in a path: the other ranks write another file."""

_FILLS = frozenset({"broadcast_object_list", "recv_object_list"})
"""Calls that fill a list with another rank's values."""

_MEETS = re.compile(
    r"[^#]*(?<!cuda\.)\b\w*(?:barrier|everyone|wait_for|synchroni[sz]e|all_reduce|all_gather|broadcast)\w*\("
)
"""A call, seen into or not, in which the ranks may wait for each other."""

_OF_KIND = re.compile(r"^(?:TypeError|AttributeError): ")
_TOGETHER = re.compile(r"^(?:\w+\.)*\w*trainer\w*\.(?:fit|test|validate|predict|evaluate|train)$")
"""Calls that all ranks must make together."""

_ALONE = re.compile(r"\bdevices\s*=\s*1\b")
_NO_ADDRESS = "is neither AF_INET"
"""NCCL's message where it found no address, since the other side does not receive."""

_UNSET = re.compile(
    r"^NameError: name '(?P<name>\w+)' is not defined|"
    r"^UnboundLocalError: (?:cannot access )?local variable '(?P<local>\w+)'"
)


def hint_from_missing_file(failure: Failure, run: Run) -> Hint | None:
    """Return the line in which rank 0 alone writes a file that this rank did not find."""
    missing = _MISSING.match(failure.said)
    writer = run.ranks[0]
    has_failed = writer.state is RankState.FAILED or (writer.errored is not None and writer.freed is None)
    if missing is None or failure.rank == 0 or has_failed or _OWN_TO_A_RANK.search(missing["path"]):
        return None
    for call in _writing(missing["path"], run.spec.program, failure):
        callers = calls_of_function(call.function, call.file, failure.sources)
        for_some = any(_is_for_some_ranks(step, failure.sources) for step in (call, *callers))
        if for_some and not may_meet(failure, call):
            values = {"path": missing["path"], "line": call.line, "late": (failure.rank,)}
            return hint("file-not-made-yet", **values)
    return None


def may_meet(failure: Failure, since: Call | None = None, *, below: bool = False) -> bool:
    """Return whether the ranks may meet above the failing line, ``since`` a call, or ``below`` it."""
    if (at := failure.place) is None:
        return False
    lines = failure.sources.lines(at.file)
    begin = since.line if since is not None and since.file == at.file else 0
    return any(map(_MEETS.match, lines[at.line :] if below else lines[begin : at.line - 1]))


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
    """Return whether a statement has the path: by one of these names, or as a string that ends it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if len(node.value) >= _SHORTEST and path.endswith(node.value):
                return True
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names:
            return True
    return False


def hint_from_sends(failure: Failure) -> Hint | None:
    """Return that both sides send first, for NCCL's error in a send() above its recv()."""
    here = failure.own_call
    if here is None or _NO_ADDRESS not in failure.said:
        return None
    statement = node_at(here, failure.sources)
    calls = [node for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.Call)]
    order = sorted(
        (call.line, name)
        for name in ("send", "recv")
        for call in calls_of_function(name, here.file, failure.sources)
        if call.function == here.function
    )
    names = [name for _, name in order]
    # in turns, each recv() after its send(): no side receives first
    if "send" not in map(method, calls) or not names or names != ["send", "recv"] * (len(names) // 2):
        return None
    return hint("nccl-both-send")


def hint_from_mixed_values(failure: Failure) -> Hint | None:
    """Return the ``if`` that put some ranks in another collective, which mixed their data."""
    here = failure.own_call
    if here is None or failure.frames[-1] != failure.place or not _OF_KIND.match(failure.said):
        return None
    statement = node_at(here, failure.sources)
    read = {node.id for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.Name)}
    for function in functions_of(here, failure.sources)[-1:]:
        nodes = list(_nodes(function))
        calls = [
            node
            for node in nodes
            if isinstance(node, ast.Call) and method(node) in _FILLS and node.lineno < here.line and node.args
        ]
        calls = [call for call in calls if isinstance(call.args[0], ast.Name) and call.args[0].id in read]
        if not calls or _ALONE.search(failure.sources.text(here.file)):
            return None
        last = max(calls, key=lambda call: call.lineno)
        for node in (test for test in nodes if isinstance(test, ast.If) and test.lineno < last.lineno):
            if asks_for_rank(node.test, here, failure.sources) and _is_for_all(node):
                values = {"name": ast.unparse(last.args[0]), "call": method(last), "line": last.lineno}
                return hint("value-of-other-collective", **values, at=node.lineno, test=head(node))
    return None


def _is_for_all(node: ast.If) -> bool:
    """Return whether the body alone makes a call that all ranks must make."""
    calls = [part for child in node.body for part in own_nodes(child) if isinstance(part, ast.Call)]
    return not node.orelse and (
        exchanges(node) or any(_TOGETHER.match(ast.unparse(call.func)) for call in calls)
    )


def hint_from_model(failure: Failure) -> Hint | None:
    """Return the last ``if`` in which some ranks do more with the model than to print or save it."""
    here = failure.own_call
    if here is None:
        return None
    statement = node_at(here, failure.sources)
    read = set(_given_to_calls(statement)) if statement is not None else set()
    nodes = (node for scope in functions_of(here, failure.sources) for node in _nodes(scope))
    ifs = [node for node in nodes if isinstance(node, ast.If) and node.lineno < here.line]
    for node in sorted(ifs, key=lambda test: test.lineno, reverse=True):
        # a print may call the model
        body = (child for child in node.body if not _only_prints(child))
        given = {name for child in body for name in _given_to_calls(child)}
        shared = {name for name in read if any(f"{other}.".startswith(f"{name}.") for other in given)}
        if shared and asks_for_rank(node.test, here, failure.sources):
            values = {"line": node.lineno, "test": head(node), "names": ", ".join(sorted(shared))}
            return hint("ddp-models-differ-by-rank", **values)
    return None


def hint_from_unset_name(failure: Failure) -> Hint | None:
    """Return the ``if`` for some ranks in which alone the program sets the unset name."""
    here, unset = failure.own_call, _UNSET.match(failure.said)
    if here is None or unset is None:
        return None
    name = unset["name"] or unset["local"]
    mine = {id(step) for step, _ in around(here, failure.sources)}
    lines: list[int] = []
    tests: dict[int, ast.If] = {}
    for node in (node for scope in functions_of(here, failure.sources)[-1:] for node in _nodes(scope)):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)):
            continue
        setting = Call(file=here.file, line=node.lineno, function="")
        steps = [step for step, _ in around(setting, failure.sources) if id(step) not in mine]
        ifs = [step for step in steps if isinstance(step, ast.If)]
        if not any(asks_for_rank(step.test, here, failure.sources) for step in ifs):
            return None
        lines.append(node.lineno)
        tests |= {step.lineno: step for step in ifs}
    if not lines:
        return None
    return hint(
        "name-set-on-some-ranks",
        name=name,
        lines=", ".join(map(str, lines)),
        tests=lines_in_words([*tests.values()]),
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
    """Yield the names that a statement passes to calls, or whose methods it calls."""
    for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call)):
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for given in (*owner, *call.args):
            if isinstance(given, ast.Name | ast.Attribute):
                yield ast.unparse(given)
