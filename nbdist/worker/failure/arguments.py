"""What functions and classes of libraries were given that does not fit their annotations: such a value may
fail many calls later, in words that say nothing of it.

Nothing of the program runs for it. Where an annotation cannot be resolved, or a value may pass for what it
names, it is passed over.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
import types

from nbdist.worker.failure.annotations import Names, fits, forget, function_of, text_of
from nbdist.worker.failure.looks import is_among, is_class, is_module, members, module_of, mro, name_of
from nbdist.worker.failure.operands import MISSING, attribute, described, frames_of, is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, TracebackType
    from typing import Any

    Given = tuple[str, int, str, str, int, str, str, str, bool]
    """File and line of the call (line 0: not known), what was called, the parameter, its place among the
    positional ones (-1: none), what it was given, its annotation (empty: not known), the names of all
    parameters, and whether it is surely what was given."""

    Function = ast.FunctionDef | ast.AsyncFunctionDef

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
_MOST, _MOST_OBJECTS, _LONGEST = 3, 8, 80

_NAMELESS = ("__init__", "forward", "__call__", "__new__")
"""Methods that are called by the name of the class or the object."""


_CONVERTS = frozenset(
    {
        *("asarray", "asanyarray", "array", "as_tensor", "asTensor", "tensor", "to_tensor", "from_numpy"),
        *("Path", "fspath", "device", "dtype", "str", "int", "float", "bool"),
    }
)
"""By which a function makes of a parameter what it needs."""

_GATHERS = frozenset({"DataFrame", "Series", "list", "tuple", "set", "dict", "OrderedDict", "iter"})
"""The same, which is nothing for a text or a number."""

_AROUND = ("For", "AsyncFor", "While", "Try", "TryStar")
_SETS = ("STORE_ATTR", "DELETE_ATTR")


def arguments(trace: TracebackType | None) -> list[Given]:
    """Of the calls of a traceback, innermost first, in which the program called a library, and of the objects
    of libraries that it went through."""
    try:
        return _arguments(trace)
    finally:
        forget()


def _arguments(trace: TracebackType | None) -> list[Given]:
    frames = frames_of(trace)
    found: dict[tuple[str, str], Given] = {}
    for at in range(len(frames) - 1, 0, -1):
        (own, line), (called, _) = frames[at - 1], frames[at]
        if of_library(own) or not of_library(called):
            continue
        for frame, now in frames[at:]:
            function = function_of(frame.f_code) if of_library(frame) else None
            if function is None or own.f_code.co_filename == frame.f_code.co_filename:
                break
            names = Names(frame.f_globals, frame.f_code.co_filename, function)
            for name, place, value, node in _parameters(function, frame, now, names):
                of, takes = called_of(frame), text_of(node, names)
                call = own.f_code.co_filename, line, of, name, place
                found.setdefault((of, name), (*call, said(value), takes, all_names(function), True))
            # what hands all on, as the __call__ of a layer, tells nothing of it
            if not frame.f_code.co_flags & 0x0C or function.args.args[1:]:
                break
    objects = {id(one): one for frame, _ in reversed(frames) if (one := object_of(frame)) is not None}
    for one in list(objects.values())[:_MOST_OBJECTS]:
        for told in _made(one):
            found.setdefault(told[2:4], told)
    return list(found.values())[:_MOST]


def of_library(frame: FrameType) -> bool:
    return is_library(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith(_OURS)


def called_of(frame: FrameType) -> str:
    """``DataLoader`` of its constructor, ``Model.fit``, ``linear``."""
    code = frame.f_code
    first = code.co_varnames[:1] if code.co_argcount else ()
    of = frame.f_locals.get(first[0]) if first in (("self",), ("cls",)) else None
    if of is None:
        # of a decorator's, the function that it has wrapped
        hands_on = not code.co_argcount and code.co_flags & 0x0C
        inner = [frame.f_locals.get(name) for name in code.co_freevars if hands_on]
        names = [one.__name__ for one in inner if type(one) is types.FunctionType]
        return names[0] if len(names) == 1 else code.co_name
    kind = name_of(of if is_class(of) else type(of))
    return kind if code.co_name in _NAMELESS else f"{kind}.{code.co_name}"


def _parameters(
    function: Function, frame: FrameType, now: int, names: Names
) -> Iterator[tuple[str, int, Any, ast.expr]]:
    """Name, place, value and annotation of what a function was given and does not fit, as far as it has not
    set it anew and does not ask for more than its annotation says."""
    # what has caught its error and kept it has gone on since
    now = max(now, frame.f_lineno or 0)
    for name, place, node, default in _annotated(function):
        value = frame.f_locals.get(name, MISSING)
        if value is MISSING or fits(node, value, names) is not False or is_set(function, name, now):
            continue
        names.look_around()
        lax = _is_default(default, value, node, names) or _is_asked_for(function, name, value, names)
        if not lax and fits(node, value, names) is False:
            yield name, place, value, node


def _annotated(function: Function) -> Iterator[tuple[str, int, ast.expr, ast.expr | None]]:
    """Name, place (without ``self``), annotation and default of the parameters that have an annotation."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    first = 1 if positional and positional[0].arg in ("self", "cls") else 0
    defaults = defaults_of(function)
    for at, one in enumerate([*positional, *given.kwonlyargs]):
        if one.annotation is not None:
            place = at - first if at < len(positional) else -1
            yield one.arg, place, one.annotation, defaults.get(one.arg)


def defaults_of(function: Function) -> dict[str, ast.expr]:
    given = function.args
    positional = [one.arg for one in (*given.posonlyargs, *given.args)]
    defaults = dict(zip(reversed(positional), reversed(given.defaults), strict=False))
    by_name = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return defaults | {one.arg: node for one, node in by_name if node is not None}


def all_names(function: Function) -> str:
    given = function.args
    return " ".join(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def is_set(function: Function, name: str, before: int = sys.maxsize) -> bool:
    """Whether a function may have set a parameter anew, or an item of it, before a line: above it, or in a
    loop or a try around it."""
    around = [
        (node.lineno, node.end_lineno or node.lineno)  # type: ignore[attr-defined]
        for node in ast.walk(function)
        if type(node).__name__ in _AROUND
    ]
    return any(
        line < before or any(first <= before <= last and first <= line <= last for first, last in around)
        for line in _set_in(function, name)
    )


def _set_in(function: Function, name: str) -> Iterator[int]:
    """The lines in which a name or an item of it is set."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Name, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            of = node.value if isinstance(node, ast.Subscript) else node
            if isinstance(of, ast.Name) and of.id == name:
                yield node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
            if node.name == name and node is not function:
                yield node.lineno
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)):
            if node.name == name:
                yield node.lineno
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and any(
            (one.asname or one.name).partition(".")[0] == name for one in node.names
        ):
            yield node.lineno


def _is_default(default: ast.expr | None, value: Any, node: ast.expr, names: Names) -> bool:
    """Whether a value may be the default, or like it, where the annotation leaves the default out: many a
    one does so of None."""
    if default is None:
        return False
    known = names.value(default)
    if known is not MISSING:
        return known is value or (type(known) is type(value) and fits(node, known, names) is not True)
    try:
        known = ast.literal_eval(default)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return True
    return type(known) is type(value) and (value is None or fits(node, known, names) is not True)


def _is_asked_for(function: Function, name: str, value: Any, names: Names) -> bool:
    """Whether a function takes more than its annotation says: it asks whether the parameter is None, or of
    such a class, or makes of it what it needs."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and _is_name(node.left, name):
            right = node.comparators[0]
            is_none = isinstance(right, ast.Constant) and right.value is None
            if value is None and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and is_none:
                return True
        elif isinstance(node, ast.Call) and node.args and _is_name(node.args[0], name):
            called = ast.unparse(node.func).rpartition(".")[2]
            gathers = called in _GATHERS and not is_among(type(value), (str, int, float, bool))
            if (called in _CONVERTS or gathers) and value is not None:
                return True
            if called == "isinstance" and len(node.args) > 1 and _may_be(value, node.args[1], names):
                return True
        elif value is None and any(_is_name(one, name) for one in _tested(node)):
            return True
    return False


def _tested(node: ast.AST) -> list[ast.expr]:
    """What is asked for its truth: ``x`` of ``x or 1`` and ``if not x:``."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values
    return [node.operand] if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else []


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _may_be(value: Any, node: ast.expr, names: Names) -> bool:
    """Whether a value is of a class that is asked for, or of one that is not known here."""
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(
        not is_class(kind) or is_among(kind, mro(type(value))) for one in kinds for kind in [names.value(one)]
    )


def object_of(frame: FrameType) -> Any:
    """What a method of a library was called of."""
    code = frame.f_code
    is_method = of_library(frame) and code.co_argcount and code.co_varnames[0] == "self"
    return frame.f_locals.get("self") if is_method else None


def _made(of: Any) -> Iterator[Given]:
    """What the constructor of an object was given, as far as it has kept it as it was."""
    for kind in mro(type(of)):
        make = members(kind).get("__init__")
        if make is None:
            continue
        code = getattr(unwrapped(make), "__code__", None)
        # what one of the program hands on has another place there
        function = function_of(code) if code is not None and is_library(code.co_filename) else None
        if code is None or function is None:
            return
        known = members(sys.modules.get(module_of(kind), builtins))
        names, keeps = Names(known, code.co_filename, function), _keeps(function)
        for name, place, node, default in _annotated(function):
            value = attribute(of, keeps[name]) if name in keeps else MISSING
            if value is MISSING or value is None or fits(node, value, names) is not False:
                continue
            names.look_around()
            lax = fits(node, value, names) is not False
            lax = (
                lax or _is_default(default, value, node, names) or _is_asked_for(function, name, value, names)
            )
            if not lax and not _is_set_later(type(of), keeps[name], code):
                told = name, place, said(value), text_of(node, names), all_names(function)
                for called in made_by(of, kind):
                    yield "", 0, called, *told, True
        if function.args.args[1:] or function.args.vararg is None:
            return


def made_by(of: Any, kind: type) -> list[str]:
    """The classes by which a program may have made an object with the constructor of one of its classes."""
    return list(dict.fromkeys([name_of(type(of)), name_of(kind)]))


def _is_set_later(kind: type, name: str, make: CodeType) -> bool:
    """Whether another method sets the attribute."""
    import dis  # few get here

    waiting: list[CodeType] = []
    for own in map(members, mro(kind)):
        for one in own.values():
            code = getattr(unwrapped(one), "__code__", None)
            waiting += [code] if code is not None and code is not make else []
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if type(one) is types.CodeType]
        if name in code.co_names and any(
            one.opname in _SETS and one.argval == name for one in dis.get_instructions(code)
        ):
            return True
    return False


def _keeps(function: Function) -> dict[str, str]:
    """By parameter, the attribute in which a constructor keeps it: ``self.feed_list = feed_list``."""
    sets: dict[str, list[tuple[str, int]]] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        given = node.value.id if isinstance(node.value, ast.Name) else "", node.lineno
        for target in node.targets:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                sets.setdefault(target.attr, []).append(given)
    return {
        every[0][0]: name
        for name, every in sets.items()
        if len(every) == 1 and every[0][0] and not is_set(function, *every[0])
    }


def unwrapped(function: Any) -> Any:
    """The function that a decorator has wrapped; None of what is no function."""
    for _ in range(5):
        if type(function) is not types.FunctionType:
            return None
        inner = vars(function).get("__wrapped__")
        if inner is None:
            break
        function = inner
    return function if type(function) is types.FunctionType else None


_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def said(value: Any) -> str:
    if is_class(value):
        return f"the class {name_of(value)}"
    if is_module(value):
        return f"the module {members(value).get('__name__', '')}".rstrip()
    name = value.__name__ if is_among(type(value), _NAMED) else ""
    return (described(value) or f"{name_of(type(value))} {name}".rstrip())[:_LONGEST]
