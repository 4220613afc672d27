"""Names that every process makes for itself: of the time, of its number, of a temporary folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.statements import around, head, holds, own_nodes
from nbdist.store.reports import Call
from nbdist.text import Both, both

_OF_PROCESS = re.compile(
    r"\b(?:strftime|isoformat|uuid[14]|mkdtemp|mktemp|token_hex)\(|\{[^}]*\b(?:now|time|getpid)\("
)
_MOMENT = re.compile(r"(?:\w+\.)*(?:now|utcnow|today|time|time_ns|monotonic|perf_counter|getpid)\([^()]*\)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def own_names(file: str, sources: Sources) -> ast.stmt | None:
    """The first statement of a file that sets something which differs from process to process: the time, a
    pid, a temporary folder. Not what one rank alone makes, and gives to the others."""
    tree = parsed(sources.text(file)) or ast.Module([], [])
    sets = [one for one in ast.walk(tree) if isinstance(one, ast.Assign)]
    moments = {
        ast.unparse(target)
        for one in sets
        for target in one.targets
        if _MOMENT.fullmatch(ast.unparse(one.value))
    }
    found = [
        one
        for one in sets
        if (_OF_PROCESS.search(ast.unparse(one.value)) or _is_written(one.value, moments))
        and not _is_given_to_all(one, file, sources)
    ]
    return min(found, key=lambda node: node.lineno, default=None)


def told_names(files: Iterable[str], sources: Sources) -> Both:
    """The line that makes names which differ by rank, in the first of these files that has one."""
    found = next((node for file in files if (node := own_names(file, sources)) is not None), None)
    if found is None:
        return Both("", "")
    return both("diagnosis.own-names", line=found.lineno, source=head(found))


def _is_written(value: ast.expr, names: set[str]) -> bool:
    """Whether one of these is written into a text as it is: not the time since then."""
    parts = (one for one in ast.walk(value) if isinstance(one, ast.FormattedValue))
    return any(ast.unparse(part.value) in names for part in parts)


def _is_given_to_all(node: ast.Assign, file: str, sources: Sources) -> bool:
    """Whether the function of a statement (or the module) broadcasts, and the statement sets that, or is in
    an ``if`` for some ranks."""
    here = Call(file=file, line=node.lineno, function="")
    tree = parsed(sources.text(file)) or ast.Module([], [])
    functions = [one for one in ast.walk(tree) if isinstance(one, _FUNCTIONS) and holds(one, node.lineno)]
    function = functions[-1] if functions else tree
    nodes = [one for each in function.body for one in own_nodes(each)]
    calls = [one for one in nodes if isinstance(one, ast.Call) and "broadcast" in ast.unparse(one.func)]
    if not calls:
        return False
    given = {name for call in calls for one in call.args for name in _names(one)}
    # names = [name]
    for one in nodes:
        if isinstance(one, ast.Assign) and given & set(_names(one.targets[0])):
            given |= set(_names(one.value))
    ifs = [one for one, _ in around(here, sources) if isinstance(one, ast.If)]
    set_here = {name for target in node.targets for name in _names(target)}
    return bool(given & set_here) or any(asks_for_rank(one.test, here, sources) for one in ifs)


def _names(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))
