"""What functions and classes of libraries were given that does not fit their annotations: such a value may
fail many calls later, in words that say nothing of it.

Nothing of the program runs for it. Where an annotation cannot be resolved, or a value may pass for what it
names, nothing is said.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
import types

from nbdist.worker.annotations import Names, fits, function_of, text_of
from nbdist.worker.operands import MISSING, attribute, described, frames_of, is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType
    from typing import Any

    Given = tuple[str, int, str, str, int, str, str, str, bool]
    """File and line of the call (line 0: not known), what was called, the parameter, its place among the
    positional ones (-1: none), what it was given, its annotation (empty: not known), the names of all
    parameters, and whether it is surely what was given."""

    Function = ast.FunctionDef | ast.AsyncFunctionDef

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MOST, _MOST_OBJECTS = 3, 8

_NAMELESS = ("__init__", "forward", "__call__", "__new__")
"""Methods that are called by the name of the class or the object."""


def arguments(trace: TracebackType | None) -> list[Given]:
    """Of the calls of a traceback, innermost first, in which the program called a library, and of the objects
    of libraries that it went through."""
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
            for name, place, value, node in _parameters(function, frame, now):
                names = Names(frame.f_globals, frame.f_code.co_filename)
                if fits(node, value, names) is False:
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
    of = frame.f_locals.get("self") if first == ("self",) else None
    if of is None:
        return code.co_name
    kind = type(of).__name__
    return kind if code.co_name in _NAMELESS else f"{kind}.{code.co_name}"


def _parameters(function: Function, frame: FrameType, now: int) -> Iterator[tuple[str, int, Any, ast.expr]]:
    """Name, place, value and annotation of what a function was given, as far as it has not set it anew."""
    for name, place, node, default in _annotated(function):
        value = frame.f_locals.get(name, MISSING)
        if value is not MISSING and not is_set(function, name, now) and not _is_default(default, value):
            yield name, place, value, node


def _annotated(function: Function) -> Iterator[tuple[str, int, ast.expr, ast.expr | None]]:
    """Name, place (without ``self``), annotation and default of the parameters that have an annotation."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    first = 1 if positional and positional[0].arg in ("self", "cls") else 0
    defaults = dict(zip(reversed([one.arg for one in positional]), reversed(given.defaults), strict=False))
    defaults |= {one.arg: node for one, node in zip(given.kwonlyargs, given.kw_defaults, strict=True) if node}
    for at, one in enumerate([*positional, *given.kwonlyargs]):
        if one.annotation is not None:
            place = at - first if at < len(positional) else -1
            yield one.arg, place, one.annotation, defaults.get(one.arg)


def all_names(function: Function) -> str:
    given = function.args
    return " ".join(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def is_set(function: Function, name: str, before: int = sys.maxsize) -> bool:
    """Whether a function sets a parameter anew, in the lines before one."""
    return any(
        isinstance(node, ast.Name)
        and (node.id == name and node.lineno < before)
        and not isinstance(node.ctx, ast.Load)
        for node in ast.walk(function)
    )


def _is_default(default: ast.expr | None, value: Any) -> bool:
    """Whether a value is None, and None is the default: many an annotation leaves that out."""
    return value is None and isinstance(default, ast.Constant) and default.value is None


def object_of(frame: FrameType) -> Any:
    """What a method of a library was called of."""
    code = frame.f_code
    is_method = of_library(frame) and code.co_argcount and code.co_varnames[0] == "self"
    return frame.f_locals.get("self") if is_method else None


def _made(of: Any) -> Iterator[Given]:
    """What the constructor of an object was given, as far as it has kept it as it was."""
    for kind in type(of).__mro__:
        make = vars(kind).get("__init__")
        code = getattr(unwrapped(make), "__code__", None)
        if code is None or not is_library(code.co_filename):
            continue
        function = function_of(code)
        if function is None:
            return
        names = Names(vars(sys.modules.get(kind.__module__, builtins)), code.co_filename)
        keeps = _keeps(function)
        for name, place, node, _ in _annotated(function):
            value = attribute(of, keeps[name]) if name in keeps else MISSING
            if value is MISSING or value is None:
                continue
            if fits(node, value, names) is False:
                told = name, place, said(value), text_of(node, names), all_names(function)
                for called in made_by(of, kind):
                    yield "", 0, called, *told, True


def made_by(of: Any, kind: type) -> list[str]:
    """The classes by which a program may have made an object with the constructor of one of its classes."""
    return list(dict.fromkeys([type(of).__name__, kind.__name__]))


def _keeps(function: Function) -> dict[str, str]:
    """By parameter, the attribute in which a constructor keeps it: ``self.feed_list = feed_list``."""
    sets: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        given = node.value.id if isinstance(node.value, ast.Name) else ""
        for target in node.targets:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                sets.setdefault(target.attr, []).append(given)
    return {
        every[0]: name
        for name, every in sets.items()
        if len(every) == 1 and every[0] and not is_set(function, every[0])
    }


def unwrapped(function: Any) -> Any:
    for _ in range(5):
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    return function


def said(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    return described(value) or f"{type(value).__name__} {getattr(value, '__name__', '')}".rstrip()
