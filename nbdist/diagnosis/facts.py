"""The lines that set the values in a failing line: above it, or in a caller."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nbdist.diagnosis.rank_failure import Failure
from nbdist.programs.branches import around, functions_of, head, holds, method, own_nodes
from nbdist.programs.sources import parsed
from nbdist.store import ErrorFrame
from nbdist.store.reports import Call

_MOST = 3
_METHODS = ("__init__", "forward", "__call__")
"""Methods that are called by the name of an object or of a class."""

_MODULES = ("F.", "nn.functional.", "torch.", "paddle.", "np.", "dist.")

_MAY_BE_SKIPPED = (ast.If, ast.Try, ast.ExceptHandler)
_NOT_FINITE = re.compile(r" (?:nan|inf)$")
# masks, and the best value so far
_INFINITE_ON_PURPOSE = re.compile(r"mask|bias|best|lowest|highest|min|max", re.IGNORECASE)
_SETS_INFINITE = re.compile(
    r"""float\(['"][+-]?(?:inf|nan)|\b(?:math|np|numpy|torch|paddle)\.(?:inf|nan)\b"""
)

_Def = ast.FunctionDef | ast.AsyncFunctionDef
_Function = ast.Module | _Def


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The line that set ``name`` to its value in the failing line."""

    name: str
    file: str
    line: int
    source: str


def origins(failure: Failure) -> list[Origin]:
    """Return the lines that set the names of the failing line, but for lines in the traceback."""
    own = list(failure.own_frames)
    if not own:
        return []
    shown = {(frame.file, frame.line) for frame in own}
    places = (origin_of(name, own, failure, what) for name, what in _names(own[-1], failure))
    known = {(origin.file, origin.line): origin for origin in places if origin is not None}
    return [origin for at, origin in known.items() if at not in shown][:_MOST]


def first_not_finite(failure: Failure) -> Origin | None:
    """Return the earliest nan or infinite variable of the outermost function that has one."""
    if not any(_NOT_FINITE.search(operand.what) for operand in failure.operands):
        return None
    values = failure.report.values if failure.report is not None else ()
    own = list(failure.own_frames)
    for depth, frame in enumerate(own, 1):
        names = [
            value.name
            for value in values
            if (value.file, value.line) == (frame.file, frame.line) and _NOT_FINITE.search(value.what)
        ]
        places = (
            origin_of(name, own[:depth], failure) for name in names if not _INFINITE_ON_PURPOSE.search(name)
        )
        known = [
            origin for origin in places if origin is not None and not _SETS_INFINITE.search(origin.source)
        ]
        if known:
            return min(known, key=lambda origin: origin.line)
    return None


def _names(at: ErrorFrame, failure: Failure) -> list[tuple[str, str]]:
    """Return the names that the line reads with their values, arrays and plain values first."""
    operands = failure.report.operands if failure.report is not None else ()
    mine = [operand for operand in operands if (operand.file, operand.line) == (at.file, at.line)]
    mine.sort(key=lambda name: name.what[:1].isupper() and not name.what.startswith(("Tensor", "None")))
    return [(operand.name, operand.what) for operand in mine]


def origin_of(name: str, frames: Sequence[ErrorFrame], failure: Failure, what: str = "") -> Origin | None:
    """Return the line that set a name of the innermost frame; for a parameter, the caller's argument.

    Of several lines that may have set it, the one that sets ``what`` counts.
    """
    at = frames[-1]
    call = Call(file=at.file, line=at.line, function=at.function)
    statement = next(iter(parsed(name).body), None)
    if not isinstance(statement, ast.Expr):
        return None  # the name was cut
    root = statement.value
    for function in functions_of(call, failure.sources):
        first = ast.unparse(_first(root))
        given = not isinstance(function, ast.Module) and first in _parameters(function)
        if bound := _bound(root, function, call, failure, what):
            # a variable of the function has no other value
            alone = isinstance(root, ast.Name) and not given
            if len(bound) > 1 or not (alone or _is_certain(bound[0], call, failure)):
                bound = [node for node in bound if _is_given(node, what)]
            return _set_at(name, bound[0], root, at.file) if len(bound) == 1 else None
        if not isinstance(function, ast.Module) and given and first != "self":
            return _given(name, first, function, frames, failure, what)
    tree = failure.sources.tree(at.file)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and holds(node, at.line)]
    within: ast.AST = scopes[-1] if scopes and name.startswith("self.") else tree
    nodes = ast.walk(within) if within is not tree else own_nodes(tree)
    sets = _setting(nodes, root, what)
    return _set_at(name, sets[-1], root, at.file) if sets else None


def _first(node: ast.expr) -> ast.expr:
    """Return ``batch`` of ``batch['labels'].shape``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _bound(root: ast.expr, function: _Function, call: Call, failure: Failure, what: str) -> list[ast.stmt]:
    """Return the statements that may have set a name before a line, up to the last sure one."""
    nodes = (node for child in function.body for node in own_nodes(child))
    before = [node for node in _setting(nodes, root, what) if node.lineno < call.line][::-1]
    certain = next((at for at, node in enumerate(before) if _is_certain(node, call, failure)), len(before))
    return before[: certain + 1]


def _is_certain(node: ast.stmt, call: Call, failure: Failure) -> bool:
    """Return whether a statement ran before a line: every if and try around it holds that line, too."""
    mine = around(call, failure.sources)
    steps = around(Call(file=call.file, line=node.lineno, function=""), failure.sources)
    return not any(step not in mine and isinstance(step[0], _MAY_BE_SKIPPED) for step in steps)


def _is_given(node: ast.stmt, what: str) -> bool:
    """Return whether a statement sets exactly this plain value."""
    value = getattr(node, "value", None)
    return isinstance(node, ast.Assign | ast.AnnAssign) and value is not None and ast.unparse(value) == what


def _setting(nodes: Iterable[ast.AST], root: ast.expr, what: str) -> list[ast.stmt]:
    """Return the statements that set a name; while it is 0, those that only add to it do not count."""
    sets = [node for node in nodes if isinstance(node, ast.stmt) and _sets(node, root)]
    at_first = [node for node in sets if not isinstance(node, ast.AugAssign)]
    return at_first if what in ("0", "0.0") and at_first else sets


def _sets(node: ast.stmt, root: ast.expr) -> bool:
    """Return whether a statement sets this name or attribute, or the object that it is an item of."""
    targets = set(map(ast.unparse, _targets(node)))
    part: ast.expr | None = root
    while part is not None and not (isinstance(part, ast.Name) and part.id == "self"):
        if ast.unparse(part) in targets:
            return True
        part = part.value if isinstance(part, ast.Attribute | ast.Subscript) else None
    return False


def _targets(node: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        given = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        given = [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        given = [item.optional_vars for item in node.items if item.optional_vars is not None]
    else:
        given = []
    for target in given:
        yield from target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _set_at(name: str, node: ast.stmt, root: ast.expr, file: str) -> Origin:
    """Return the place of a statement; of a dict display, the line of the item."""
    value = getattr(node, "value", None)
    if isinstance(root, ast.Subscript) and isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if key is not None and ast.unparse(key) == ast.unparse(root.slice):
                source = f"{ast.unparse(key)}: {head(item)}"
                return Origin(name=name, file=file, line=key.lineno, source=source)
    return Origin(name=name, file=file, line=node.lineno, source=head(node))


def _parameters(function: _Def) -> list[str]:
    given = function.args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _given(
    name: str, parameter: str, function: _Def, frames: Sequence[ErrorFrame], failure: Failure, what: str
) -> Origin | None:
    if len(frames) < 2:
        return None
    caller = frames[-2]
    tree = failure.sources.tree(caller.file)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and holds(node, caller.line)]
    named = [call for call in calls if method(call) == function.name]
    if not named and function.name in _METHODS:
        made = function.name == "__init__"
        # checkpoint(block, x)  calls the block itself with fewer arguments
        passed = {frame.function for frame in _between(caller, frames[-1], failure)}
        objects = (call for call in calls if method(call) not in passed)
        named = [call for call in objects if call.args and _is_class(call.func) is made]
    if len(named) != 1:
        return None
    value = _argument(parameter, function, named[0])
    if value is None:
        return _default(name, parameter, function, frames[-1].file)
    if not isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
        return Origin(name=name, file=caller.file, line=named[0].lineno, source=head(named[0]))
    origin = origin_of(ast.unparse(value), frames[:-1], failure, what)
    return origin and replace(origin, name=name)


def _between(caller: ErrorFrame, called: ErrorFrame, failure: Failure) -> Sequence[ErrorFrame]:
    frames = list(failure.frames)
    if caller not in frames or called not in frames:
        return ()
    return frames[frames.index(caller) + 1 : frames.index(called)]


def _is_class(called: ast.expr) -> bool | None:
    """Return whether the name is a class's; None for a function of a module, ``F.cross_entropy``."""
    if not isinstance(called, ast.Name | ast.Attribute):
        return False
    name = ast.unparse(called)
    return None if name.startswith(_MODULES) else name.rpartition(".")[2][:1].isupper()


def _argument(parameter: str, function: _Def, call: ast.Call) -> ast.expr | None:
    names = _parameters(function)
    at = names.index(parameter) - (names[0] in ("self", "cls"))
    if 0 <= at < len(call.args) and not any(isinstance(given, ast.Starred) for given in call.args[: at + 1]):
        return call.args[at]
    return next((word.value for word in call.keywords if word.arg == parameter), None)


def _default(name: str, parameter: str, function: _Def, file: str) -> Origin | None:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = dict(zip([argument.arg for argument in positional][::-1], given.defaults[::-1], strict=False))
    defaults |= {
        argument.arg: value
        for argument, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if value is not None
    }
    value = defaults.get(parameter)
    if value is None:
        return None
    return Origin(name=name, file=file, line=value.lineno, source=f"{parameter}={ast.unparse(value)}")
