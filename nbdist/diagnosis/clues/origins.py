"""Where what a failing line works with was set: a line of the program above it, or of a caller."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure, known_as
from nbdist.diagnosis.statements import LOOPS, around, functions_of, head, holds, own_nodes
from nbdist.store import ErrorFrame
from nbdist.store.reports import Call

_MOST = 3
_METHODS = ("__init__", "forward", "__call__")
"""What is called by the name of an object or of a class."""

ZEROS = ("0", "0.0")
"""What a sum or a count is before anything was added to it."""

_MODULES = ("F.", "nn.functional.", "torch.", "paddle.", "np.", "dist.")

_NOT_SET = "name-not-set-yet"
_MAY_NOT = (ast.If, ast.Try, ast.ExceptHandler)
"""What may have been left out."""

_Function = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """``name`` as the failing line has it, and the place that set it; ``later`` is a line of another function
    that sets it anew."""

    name: str
    file: str
    line: int
    source: str
    later: int = 0


def origins(failure: Failure) -> list[Origin]:
    """Of the names in the failing line, as far as they were set in lines that the traceback does not show."""
    own = list(failure.own_frames)
    if not own:
        return []
    shown = {(frame.file, frame.line) for frame in own}
    found = (origin_of(name, own, failure, what) for name, what in _names(own[-1], failure))
    known = {(one.file, one.line): one for one in found if one is not None}
    return [one for at, one in known.items() if at not in shown][:_MOST]


def _names(at: ErrorFrame, failure: Failure) -> list[tuple[str, str]]:
    """What the line reads, and what it was: arrays and plain values first, then modules and other objects."""
    operands = failure.report.operands if failure.report is not None else ()
    mine = [one for one in operands if (one.file, one.line) == (at.file, at.line)]
    mine.sort(key=lambda one: one.what[:1].isupper() and not one.what.startswith(("Tensor", "None")))
    return [(one.name, one.what) for one in mine]


def origin_of(name: str, frames: Sequence[ErrorFrame], failure: Failure, what: str = "") -> Origin | None:
    """Where a name of the innermost of these frames was set; of a parameter, what the caller gave for it.

    ``what`` it was then tells which of several lines has set it, where one of them sets that very value."""
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
            return _told(name, bound[0], root, at.file) if len(bound) == 1 else None
        if not isinstance(function, ast.Module) and given and first != "self":
            return _given(name, first, function, frames, failure, what)
    tree = parsed(failure.sources.text(at.file))
    if tree is None:
        return None
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and holds(node, at.line)]
    within: ast.AST = scopes[-1] if scopes and name.startswith("self.") else tree
    nodes = ast.walk(within) if within is not tree else own_nodes(tree)
    sets = _setting(nodes, root, what)
    if what == "None" and len(sets) > 1 and (at_first := [node for node in sets if _is_given(node, what)]):
        later = max(node.lineno for node in sets)
        found = _told(name, at_first[0], root, at.file)
        return replace(found, later=later) if later > found.line else found
    return _told(name, sets[-1], root, at.file) if sets else None


def _expression(name: str) -> ast.expr | None:
    """None of a name that was cut."""
    tree = parsed(name)
    first = tree.body[0] if tree is not None and tree.body else None
    return first.value if isinstance(first, ast.Expr) else None


def _first(node: ast.expr) -> ast.expr:
    """``batch`` of ``batch['labels'].shape``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _bound(root: ast.expr, function: _Function, call: Call, failure: Failure, what: str) -> list[ast.stmt]:
    """The statements of a function that may have set a name last before a line: the last of them, and, where
    it may not have been executed, those before it."""
    nodes = (node for child in function.body for node in own_nodes(child))
    before = [node for node in _setting(nodes, root, what) if node.lineno < call.line][::-1]
    certain = next((at for at, node in enumerate(before) if _is_certain(node, call, failure)), len(before))
    return before[: certain + 1]


def _is_certain(node: ast.stmt, call: Call, failure: Failure) -> bool:
    """Whether a statement was executed before a line: it is in no ``if`` and ``try`` that the line is not in,
    and in no loop where one may have had no round."""
    may_not = (*_MAY_NOT, *LOOPS) if known_as(failure) == _NOT_SET else _MAY_NOT
    mine = around(call, failure.sources)
    steps = around(Call(file=call.file, line=node.lineno, function=""), failure.sources)
    return not any(step not in mine and isinstance(step[0], may_not) for step in steps)


def _is_given(node: ast.stmt, what: str) -> bool:
    """Whether a statement sets a plain value, as it is written."""
    value = getattr(node, "value", None)
    return isinstance(node, ast.Assign | ast.AnnAssign) and value is not None and ast.unparse(value) == what


def _setting(nodes: Iterable[ast.AST], root: ast.expr, what: str) -> list[ast.stmt]:
    """What sets a name; of one that is 0 still, what only adds to it has added nothing."""
    sets = [node for node in nodes if isinstance(node, ast.stmt) and _sets(node, root)]
    at_first = [node for node in sets if not isinstance(node, ast.AugAssign)]
    return at_first if what in ZEROS and at_first else sets


def _sets(node: ast.stmt, root: ast.expr) -> bool:
    """Whether a statement gives a value to this name or attribute, or to what it is an item of."""
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
        given = [one.optional_vars for one in node.items if one.optional_vars is not None]
    else:
        given = []
    for one in given:
        yield from one.elts if isinstance(one, ast.Tuple | ast.List) else [one]


def _told(name: str, node: ast.stmt, root: ast.expr, file: str) -> Origin:
    """With the line of the item, where the statement is a dict that is written out."""
    value = getattr(node, "value", None)
    if isinstance(root, ast.Subscript) and isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if key is not None and ast.unparse(key) == ast.unparse(root.slice):
                source = f"{ast.unparse(key)}: {head(item)}"
                return Origin(name=name, file=file, line=key.lineno, source=source)
    return Origin(name=name, file=file, line=node.lineno, source=head(node))


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _given(
    name: str,
    parameter: str,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    frames: Sequence[ErrorFrame],
    failure: Failure,
    what: str,
) -> Origin | None:
    """Where the caller had a parameter from, or the default that it left."""
    if len(frames) < 2:
        return None
    caller = frames[-2]
    tree = parsed(failure.sources.text(caller.file)) or ast.Module([], [])
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and holds(node, caller.line)]
    named = [one for one in calls if ast.unparse(one.func).rpartition(".")[2] == function.name]
    if not named and function.name in _METHODS:
        made = function.name == "__init__"
        # checkpoint(block, x)  calls the block itself, with less
        passed = {frame.function for frame in _between(caller, frames[-1], failure)}
        objects = (one for one in calls if ast.unparse(one.func).rpartition(".")[2] not in passed)
        named = [one for one in objects if one.args and _is_class(one.func) is made]
    if len(named) != 1:
        return None
    value = _argument(parameter, function, named[0])
    if value is None:
        return _default(name, parameter, function, frames[-1].file)
    if not _is_named(value):
        return Origin(name=name, file=caller.file, line=named[0].lineno, source=head(named[0]))
    found = origin_of(ast.unparse(value), frames[:-1], failure, what)
    return found and replace(found, name=name)


def _between(caller: ErrorFrame, called: ErrorFrame, failure: Failure) -> Sequence[ErrorFrame]:
    """The frames of libraries between two of the program."""
    frames = list(failure.frames)
    if caller not in frames or called not in frames:
        return ()
    return frames[frames.index(caller) + 1 : frames.index(called)]


def _is_class(called: ast.expr) -> bool | None:
    """By its name; None of a function of a library's module, ``F.cross_entropy``."""
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
    """What a call gives for a parameter."""
    names = _parameters(function)
    at = names.index(parameter) - (names[0] in ("self", "cls"))
    if 0 <= at < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args[: at + 1]):
        return call.args[at]
    return next((one.value for one in call.keywords if one.arg == parameter), None)


def _default(
    name: str, parameter: str, function: ast.FunctionDef | ast.AsyncFunctionDef, file: str
) -> Origin | None:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = dict(zip([one.arg for one in positional][::-1], given.defaults[::-1], strict=False))
    defaults |= {
        one.arg: value
        for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if value is not None
    }
    value = defaults.get(parameter)
    if value is None:
        return None
    return Origin(name=name, file=file, line=value.lineno, source=f"{parameter}={ast.unparse(value)}")
