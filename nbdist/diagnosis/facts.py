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
_INFINITE_ON_PURPOSE = re.compile(r"mask|bias|best|lowest|highest|min|max", re.IGNORECASE)
_SETS_INFINITE = re.compile(
    r"""float\(['"][+-]?(?:inf|nan)|\b(?:math|np|numpy|torch|paddle)\.(?:inf|nan)\b"""
)

_Function = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place that set ``name``, as the failing line has it."""

    name: str
    file: str
    line: int
    source: str


def origins(failure: Failure) -> list[Origin]:
    """Return where the names in the failing line were set, as far as the traceback does not show it."""
    own = list(failure.own_frames)
    if not own:
        return []
    shown = {(frame.file, frame.line) for frame in own}
    places = (origin_of(name, own, failure, what) for name, what in _names(own[-1], failure))
    known = {(origin.file, origin.line): origin for origin in places if origin is not None}
    return [origin for at, origin in known.items() if at not in shown][:_MOST]


def first_not_finite(failure: Failure) -> Origin | None:
    """Return the variable that was nan or infinite first, where something in the failing line is not finite:
    the earliest in the outermost function that has one."""
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
        places = (origin_of(name, own[:depth], failure) for name in names if not _is_meant(name))
        known = [
            origin for origin in places if origin is not None and not _SETS_INFINITE.search(origin.source)
        ]
        if known:
            return min(known, key=lambda origin: origin.line)
    return None


def _is_meant(name: str) -> bool:
    """Return whether infinity is meant: in masks, and in the best so far."""
    return _INFINITE_ON_PURPOSE.search(name) is not None


def _names(at: ErrorFrame, failure: Failure) -> list[tuple[str, str]]:
    """Return what the line reads, and what it was: arrays and plain values first."""
    operands = failure.report.operands if failure.report is not None else ()
    mine = [operand for operand in operands if (operand.file, operand.line) == (at.file, at.line)]
    mine.sort(key=lambda name: name.what[:1].isupper() and not name.what.startswith(("Tensor", "None")))
    return [(operand.name, operand.what) for operand in mine]


def origin_of(name: str, frames: Sequence[ErrorFrame], failure: Failure, what: str = "") -> Origin | None:
    """Return where a name of the innermost of these frames was set; for a parameter, what the caller gave.

    Of several lines that may have set it, the one that sets ``what`` it was counts."""
    at = frames[-1]
    call = Call(file=at.file, line=at.line, function=at.function)
    root = _expression(name)
    if root is None:
        return None
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


def _expression(name: str) -> ast.expr | None:
    """Return the expression of a name; None where the name was cut."""
    first = next(iter(parsed(name).body), None)
    return first.value if isinstance(first, ast.Expr) else None


def _first(node: ast.expr) -> ast.expr:
    """Return ``batch`` of ``batch['labels'].shape``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _bound(root: ast.expr, function: _Function, call: Call, failure: Failure, what: str) -> list[ast.stmt]:
    """Return the statements of a function that may have set a name last before a line: the last of them and,
    where that may not have been executed, those before it."""
    nodes = (node for child in function.body for node in own_nodes(child))
    before = [node for node in _setting(nodes, root, what) if node.lineno < call.line][::-1]
    certain = next((at for at, node in enumerate(before) if _is_certain(node, call, failure)), len(before))
    return before[: certain + 1]


def _is_certain(node: ast.stmt, call: Call, failure: Failure) -> bool:
    """Return whether a statement was executed before a line, which is in each of its ifs and tries, too."""
    mine = around(call, failure.sources)
    steps = around(Call(file=call.file, line=node.lineno, function=""), failure.sources)
    return not any(step not in mine and isinstance(step[0], _MAY_BE_SKIPPED) for step in steps)


def _is_given(node: ast.stmt, what: str) -> bool:
    """Return whether a statement sets a plain value, as it is written."""
    value = getattr(node, "value", None)
    return isinstance(node, ast.Assign | ast.AnnAssign) and value is not None and ast.unparse(value) == what


def _setting(nodes: Iterable[ast.AST], root: ast.expr, what: str) -> list[ast.stmt]:
    """Return what sets a name; what only adds to it does not count while it is 0."""
    sets = [node for node in nodes if isinstance(node, ast.stmt) and _sets(node, root)]
    at_first = [node for node in sets if not isinstance(node, ast.AugAssign)]
    return at_first if what in ("0", "0.0") and at_first else sets


def _sets(node: ast.stmt, root: ast.expr) -> bool:
    """Return whether a statement gives a value to this name or attribute, or to what it is an item of."""
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
    """Return the place of a statement; of a dict that is written out, the line of the item."""
    value = getattr(node, "value", None)
    if isinstance(root, ast.Subscript) and isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if key is not None and ast.unparse(key) == ast.unparse(root.slice):
                source = f"{ast.unparse(key)}: {head(item)}"
                return Origin(name=name, file=file, line=key.lineno, source=source)
    return Origin(name=name, file=file, line=node.lineno, source=head(node))


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _given(
    name: str,
    parameter: str,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    frames: Sequence[ErrorFrame],
    failure: Failure,
    what: str,
) -> Origin | None:
    """Return where the caller had a parameter from, or the default that it left."""
    if len(frames) < 2:
        return None
    caller = frames[-2]
    tree = failure.sources.tree(caller.file)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and holds(node, caller.line)]
    named = [call for call in calls if method(call) == function.name]
    if not named and function.name in _METHODS:
        made = function.name == "__init__"
        # checkpoint(block, x)  calls the block itself, with less
        passed = {frame.function for frame in _between(caller, frames[-1], failure)}
        objects = (call for call in calls if method(call) not in passed)
        named = [call for call in objects if call.args and _is_class(call.func) is made]
    if len(named) != 1:
        return None
    value = _argument(parameter, function, named[0])
    if value is None:
        return _default(name, parameter, function, frames[-1].file)
    if not _is_named(value):
        return Origin(name=name, file=caller.file, line=named[0].lineno, source=head(named[0]))
    origin = origin_of(ast.unparse(value), frames[:-1], failure, what)
    return origin and replace(origin, name=name)


def _between(caller: ErrorFrame, called: ErrorFrame, failure: Failure) -> Sequence[ErrorFrame]:
    """Return the frames of libraries between two of the program."""
    frames = list(failure.frames)
    if caller not in frames or called not in frames:
        return ()
    return frames[frames.index(caller) + 1 : frames.index(called)]


def _is_class(called: ast.expr) -> bool | None:
    """Return whether the name is a class's; None for a function of a module, ``F.cross_entropy``."""
    if isinstance(called, ast.Name | ast.Attribute):
        name = ast.unparse(called)
        if name.startswith(_MODULES):
            return None
        return name.rpartition(".")[2][:1].isupper()
    return False


def _is_named(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Attribute | ast.Subscript)


def _argument(
    parameter: str, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call
) -> ast.expr | None:
    """Return what a call gives for a parameter."""
    names = _parameters(function)
    at = names.index(parameter) - (names[0] in ("self", "cls"))
    if 0 <= at < len(call.args) and not any(isinstance(given, ast.Starred) for given in call.args[: at + 1]):
        return call.args[at]
    return next((word.value for word in call.keywords if word.arg == parameter), None)


def _default(
    name: str, parameter: str, function: ast.FunctionDef | ast.AsyncFunctionDef, file: str
) -> Origin | None:
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
