"""Where a library has the name that an error misses in one of its modules, objects or functions.

Only modules that are loaded are looked at, and no attribute is asked for by which code would run.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types

from nbdist.worker.failure.looks import (
    family_of,
    is_a,
    is_among,
    is_class,
    is_module,
    members,
    module_of,
    mro,
    name_of,
    of_class,
)
from nbdist.worker.failure.operands import MISSING, attribute, frames_of, is_library, statement_of, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType
    from typing import Any

_ATTRIBUTE = re.compile(r"'(?P<kind>[\w.]+)' (?:object )?has no attribute '(?P<name>\w+)'")
_IMPORT = re.compile(r"^cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")
_KEYWORD = re.compile(r"^(?P<called>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")
_CALL = re.compile(
    r"^(?P<called>[\w.<>]+)\(\) (?:missing \d+ required|takes (?:from )?\d+|got multiple values)"
)
_NAMELESS = ("__init__", "forward", "__call__", "<locals>")
_FRAMEWORKS = ("torch", "paddle")
_OF_C = ("libpaddle",)
"""Parts of modules that no program imports from."""

_OF_TENSORS = ("", ".nn.functional", ".linalg", ".fft", ".special", ".incubate")
_MOST_MODULES, _MOST_MEMBERS, _MOST_NAMES, _MOST_OTHERS, _SHORT, _ALIKE = 5_000, 100, 40, 3, 3, 0.75
_OBJECT = vars(AttributeError)["obj"]
_PYTHON = sys.stdlib_module_names - {"builtins"}
_VALUES = (type, types.FunctionType, types.BuiltinFunctionType)


def elsewhere(error: BaseException, trace: TracebackType | None) -> str:
    """``paddle.nn.functional.softmax`` of what ``paddle`` lacks, ``.module.encode`` of what is within an
    object, ``DiskSaver`` of an argument that another class of the module takes; else empty."""
    frames = frames_of(trace)
    said = str(error)[:500]
    if isinstance(error, ImportError) and (found := _IMPORT.match(said)) is not None:
        own = not _is_of_library(sys.modules.get(found["module"]))
        return "" if own else _in_modules(found["name"], found["module"])
    if isinstance(error, AttributeError) and (found := _ATTRIBUTE.search(said)) is not None and frames:
        of = _OBJECT.__get__(error)
        of = _named(found["kind"], *frames[-1]) if of is None else of
        return _of_attribute(found["name"], of) if of is not None else ""
    if isinstance(error, TypeError) and (found := _KEYWORD.match(said)) is not None and frames:
        called = _called(found["called"], *frames[-1])
        return _of_keyword(found["name"], called) if called is not None else ""
    return ""


def takes(error: BaseException, trace: TracebackType | None) -> str:
    """The parameters of the library's function that was called wrongly: ``x, axis=-1, name=None``."""
    frames = frames_of(trace)
    said = str(error)[:500] if isinstance(error, TypeError) else ""
    found = _KEYWORD.match(said) or _CALL.match(said)
    called = _called(found["called"], *frames[-1]) if found is not None and frames else None
    names = _parameters(called) if called is not None else []
    if not names:
        return ""
    shown = [
        one.name if one.default is one.empty or not _is_short(one.default) else f"{one.name}={one.default!r}"
        for one in names[:_MOST_NAMES]
    ]
    return ", ".join(shown) + (", …" if len(names) > len(shown) else "")


def _is_short(value: Any) -> bool:
    return type(value) in (int, float, bool, str, type(None)) and len(repr(value)) < 20


def _of_attribute(name: str, of: Any) -> str:
    if is_module(of):
        return _in_modules(name, str(members(of).get("__name__", ""))) if _is_of_library(of) else ""
    kind = of if is_class(of) else type(of)
    family = family_of(kind)
    names = set(map(name_of, mro(kind)))
    if family in _FRAMEWORKS and names & {"Tensor", "Value", "Variable"}:
        paths = (f"{family}{end}" for end in _OF_TENSORS)
        has = (path for path in paths if is_a(_attribute(sys.modules.get(path), name), *_VALUES))
        return next((f"{path}.{name}" for path in has), "")
    if not is_class(of) and (member := _in_members(name, of)):
        return member
    # a class by the name of an object of its library
    is_one = name[:1].isupper() and _is_of_library(sys.modules.get(module_of(kind)))
    return _in_modules(name, module_of(kind)) if is_one else ""


def _in_members(name: str, of: Any) -> str:
    """``.module.encode``: of what is within an object of a library, or of a layer in one of the program;
    empty where several have it, as any of them may be meant."""
    own = members(of)
    if name in own or of_class(type(of), name) is not None:
        return ""  # a property of its own that has failed
    file = str(members(sys.modules.get(module_of(type(of)))).get("__file__") or "")
    is_of_library = "-packages/" in file
    within = {name: one for each in (own, *_layers(own)) for name, one in each.items()}
    found = [
        member
        for member, one in list(within.items())[:_MOST_MEMBERS]
        if is_among(type(member), (str,)) and member.isidentifier()
        if (is_of_library and not is_a(one, type, types.ModuleType, *_PLAIN)) or _layers(members(one))
        if one is not of and _has(one, name)
    ]
    return f".{found[0]}.{name}" if len(found) == 1 else ""


def _layers(own: dict[str, Any]) -> list[dict[str, Any]]:
    """Where a layer keeps those within it; none of what is no layer."""
    return [dict(own[one]) for one in ("_modules", "_sub_layers") if is_a(own.get(one), dict)]


_PLAIN = (int, float, str, bytes, list, tuple, dict, set, type(None))


def _has(of: Any, name: str) -> bool:
    return of_class(type(of), name) is not None or attribute(of, name) is not MISSING


def _is_of_library(module: Any) -> bool:
    return is_module(module) and is_library(str(members(module).get("__file__") or ""))


def _in_modules(name: str, module: str) -> str:
    """The shortest path of a class or a function with this name in the modules of a library, else of torch
    and paddle for a class."""
    top = module.partition(".")[0]
    for package in (top, *_FRAMEWORKS) if name[:1].isupper() else (top,):
        within = [(path, one) for path, one in list(sys.modules.items()) if path.partition(".")[0] == package]
        found = [
            path
            for path, one in within[:_MOST_MODULES]
            if path != module
            and not any(part.startswith("_") or part in _OF_C for part in path.split("."))
            and is_a(value := _attribute(one, name), *_VALUES)
            and _is_of_library(one)
            # nor is it what a module has imported of Python: pandas.io.sql.datetime
            and (package in _PYTHON or _family(value) not in _PYTHON)
        ]
        if found:
            return f"{min(found, key=lambda path: (path.count('.'), len(path), path))}.{name}"
    return ""


def _family(value: Any) -> str:
    of = module_of(value) if is_class(value) else value.__module__
    return str(of or "").partition(".")[0]


def _attribute(module: Any, name: str) -> Any:
    return members(module).get(name) if is_module(module) else None


def _named(kind: str, frame: FrameType, line: int) -> Any:
    """The object of this class that a line works with."""
    values = (one for _, one in _values(frame, line))
    return next((one for one in values if name_of(type(one)) == kind.rpartition(".")[2]), None)


def _values(frame: FrameType, line: int) -> Iterator[tuple[ast.expr, Any]]:
    statement = statement_of(frame, line)
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, (ast.Name, ast.Attribute)) and (value := value_of(node, frame)) is not MISSING:
            yield node, value


def _called(said: str, frame: FrameType, line: int) -> Any:
    """The function or the class that an error names, ``Linear.forward``: of those that the line calls."""
    last = [part for part in said.split(".") if part not in _NAMELESS][-1:]
    statement = statement_of(frame, line)
    for node in ast.walk(statement) if statement is not None else ():
        value = _function(node.func, frame) if isinstance(node, ast.Call) else MISSING
        # what is no function may answer with code of its own
        one: Any = value if is_a(value, *_VALUES, types.MethodType) else None
        if one is not None and (one.__qualname__ == said or [one.__name__] == last):
            return one
    # of a class of the object:  super().__init__(*args, **kwargs)
    kinds = mro(type(frame.f_locals.get("self")))
    every = (one for kind in kinds for one in members(kind).values() if is_a(one, types.FunctionType))
    return next((one for one in every if one.__qualname__ == said), None)


def _function(node: ast.expr, frame: FrameType) -> Any:
    """What a call is of; of a method, the function in its class."""
    value = value_of(node, frame)
    if value is MISSING and isinstance(node, ast.Attribute):
        of = value_of(node.value, frame)
        value = of_class(of if is_class(of) else type(of), node.attr) if of is not MISSING else MISSING
    return value.__func__ if is_a(value, classmethod, staticmethod) else value


def _parameters(called: Any) -> list[inspect.Parameter]:
    of = module_of(called) if is_class(called) else called.__module__
    if not _is_of_library(sys.modules.get(str(of))):
        return []
    try:
        found = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return []
    named = [one for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return named[1:] if named and named[0].name in ("self", "cls") else named


def _of_keyword(name: str, called: Any) -> str:
    """The parameter that is nearest, ``eval_strategy=``, else what takes one of this name in the module."""
    from difflib import get_close_matches  # few errors miss a name

    names = [one.name for one in _parameters(called)]
    if not names:
        return ""
    short = [one for one in names if name == _initials(one) or one == _initials(name)]
    near = short or get_close_matches(name, names, n=1, cutoff=_ALIKE)
    if near:
        return f"{near[0]}="
    module = str(module_of(called) if is_class(called) else called.__module__)
    others = [
        one
        for one, value in members(sys.modules[module]).items()
        if is_a(value, type, types.FunctionType)
        and (len(name) > _SHORT and value.__module__ == module)
        and not one.startswith("_")
        and value is not called
        and any(given.name == name for given in _parameters(value))
    ]
    return ", ".join(others) if len(others) <= _MOST_OTHERS else ""


def _initials(name: str) -> str:
    """``lr`` of ``learning_rate``."""
    return "".join(part[:1] for part in name.split("_")) if "_" in name else ""
