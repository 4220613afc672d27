"""What functions and classes of libraries were given that does not fit their annotations: such a value may fail
many calls later, in words that say nothing of it.

Nothing of the program runs for it. Where an annotation cannot be resolved, or a value may pass for what it
names, nothing is said.
"""

from __future__ import annotations

import ast
import builtins
import enum
import os
import re
import sys
import types
import typing

from nbdist.worker.operands import MISSING, attribute, described, frames_of, is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, TracebackType
    from typing import Any

    Given = tuple[str, int, str, str, int, str, str, str]
    """File and line of the call (line 0: not known), what was called, the parameter, its place among the
    positional ones (-1: none), what it was given, its annotation, and the names of all parameters."""

    Function = ast.FunctionDef | ast.AsyncFunctionDef

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MOST, _MOST_OBJECTS, _MOST_ITEMS, _LONGEST = 3, 8, 3, 80

_NUMBERS = ("bool", "int", "float")
_LISTS = ("list", "tuple")
_HELD = (*_LISTS, "set", "dict", "str", "bytes", "array", "tensor")
_PLAIN = frozenset({"none", "complex", "module", *_NUMBERS, *_HELD})
"""Kinds of values that pass for no object of a class."""

_FITS = {
    "int": ("int", "bool"),
    "float": _NUMBERS,
    "complex": (*_NUMBERS, "complex"),
    "bool": ("bool", "int"),
    "str": ("str",),
    "bytes": ("bytes",),
    "list": _LISTS,
    "tuple": _LISTS,
    "set": ("set",),
    "frozenset": ("set",),
    "dict": ("dict",),
    "Mapping": ("dict",),
    "MutableMapping": ("dict",),
    "OrderedDict": ("dict",),
    "Sequence": tuple(kind for kind in _HELD if kind not in ("set", "dict")),
    "Collection": _HELD,
    "Iterable": _HELD,
    "Callable": ("function", "class"),
    "Tensor": ("tensor",),
    "Variable": ("tensor",),
    "ndarray": ("array",),
}
"""By the name of a type, the kinds of values that fit."""

_QUALIFIED = re.compile(r"\b(?:\w+\.)+(?=\w)")

_NAMELESS = ("__init__", "forward", "__call__", "__new__")
"""Methods that are called by the name of the class or the object."""


def arguments(trace: TracebackType | None) -> list[Given]:
    """Of the calls of a traceback, innermost first, in which the program called a library, and of the objects
    of libraries that it went through."""
    frames = frames_of(trace)
    found: dict[tuple[str, str], Given] = {}
    for at in range(len(frames) - 1, 0, -1):
        (own, line), (called, _) = frames[at - 1], frames[at]
        if _is_library(own) or not _is_library(called):
            continue
        for frame, now in frames[at:]:
            function = _function(frame.f_code) if _is_library(frame) else None
            if function is None or own.f_code.co_filename == frame.f_code.co_filename:
                break
            for name, place, value, node in _parameters(function, frame, now):
                names = _Names(frame.f_globals, frame.f_code.co_filename)
                if _fits(node, value, names) is False:
                    of, takes = _called(frame), _annotation(node, names)
                    all_names = _all_names(function)
                    told = (own.f_code.co_filename, line, of, name, place, _said(value), takes, all_names)
                    found.setdefault((of, name), told)
            # what hands all on, as the __call__ of a layer, tells nothing of it
            if not frame.f_code.co_flags & 0x0C or function.args.args[1:]:
                break
    objects = {id(one): one for frame, _ in reversed(frames) if (one := _object(frame)) is not None}
    for one in list(objects.values())[:_MOST_OBJECTS]:
        for told in _made(one):
            found.setdefault(told[2:4], told)
    return list(found.values())[:_MOST]


def _is_library(frame: FrameType) -> bool:
    return is_library(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith(_OURS)


def _called(frame: FrameType) -> str:
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
        if value is not MISSING and not _is_set(function, name, now) and not _is_default(default, value):
            yield name, place, value, node


def _annotated(function: Function) -> Iterator[tuple[str, int, ast.expr, ast.expr | None]]:
    """Name, place (without ``self``), annotation and default of the parameters that have an annotation."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    first = 1 if positional and positional[0].arg in ("self", "cls") else 0
    places = [(one, at - first, default) for at, (one, default) in enumerate(zip(positional, defaults))]
    for one, place, default in [*places, *((one, -1, d) for one, d in zip(given.kwonlyargs, given.kw_defaults))]:
        if one.annotation is not None:
            yield one.arg, place, one.annotation, default


def _all_names(function: Function) -> str:
    given = function.args
    return " ".join(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def _is_set(function: Function, name: str, before: int = sys.maxsize) -> bool:
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


def _object(frame: FrameType) -> Any:
    """What a method of a library was called of."""
    code = frame.f_code
    is_method = _is_library(frame) and code.co_argcount and code.co_varnames[0] == "self"
    return frame.f_locals.get("self") if is_method else None


def _made(of: Any) -> Iterator[Given]:
    """What the constructor of an object was given, as far as it has kept it as it was."""
    for kind in type(of).__mro__:
        make = vars(kind).get("__init__")
        code = getattr(_unwrapped(make), "__code__", None)
        if code is None or not is_library(code.co_filename):
            continue
        function = _function(code)
        if function is None:
            return
        names = _Names(vars(sys.modules.get(kind.__module__, builtins)), code.co_filename)
        keeps = _keeps(function)
        for name, place, node, default in _annotated(function):
            value = attribute(of, keeps[name]) if name in keeps else MISSING
            if value is MISSING or _is_default(default, value):
                continue
            if _fits(node, value, names) is False:
                takes, all_names = _annotation(node, names), _all_names(function)
                yield "", 0, type(of).__name__, name, place, _said(value), takes, all_names


def _keeps(function: Function) -> dict[str, str]:
    """The attribute in which a constructor keeps what it was given, by parameter: ``self.feed_list = feed_list``."""
    sets: dict[str, list[str]] = {}
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                given = node.value.id if isinstance(node.value, ast.Name) else ""
                sets.setdefault(target.attr, []).append(given)
    return {
        given[0]: name
        for name, given in sets.items()
        if len(given) == 1 and given[0] and not _is_set(function, given[0])
    }


def _unwrapped(function: Any) -> Any:
    for _ in range(5):
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    return function


_trees: dict[str, ast.Module] = {}


def _tree(file: str) -> ast.Module:
    if file not in _trees:
        try:
            with open(file, encoding="utf-8") as source:
                _trees[file] = ast.parse(source.read())
        except (OSError, SyntaxError, ValueError):
            _trees[file] = ast.Module([], [])
    return _trees[file]


def _function(code: CodeType) -> Function | None:
    for node in ast.walk(_tree(code.co_filename)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            lines = [node.lineno, *(one.lineno for one in node.decorator_list)]
            if min(lines) == code.co_firstlineno:
                return node
    return None


def _annotation(node: ast.expr, names: _Names) -> str:
    """As it stands there; of the name of a union, what it is."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    of = names.value(node)
    if of is not MISSING and not isinstance(of, type):
        text = _QUALIFIED.sub("", str(of)) or text
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _said(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    return described(value) or f"{type(value).__name__} {getattr(value, '__name__', '')}".rstrip()


class _Names:
    """What the names in the annotations of a file stand for, those too that it imports for type checkers alone."""

    def __init__(self, known: dict[str, Any], file: str) -> None:
        self._known = known
        self._file = file

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            if node.id in self._known:
                return self._known[node.id]
            return vars(builtins).get(node.id, self._imported(node.id))
        if isinstance(node, ast.Attribute):
            of = self.value(node.value)
            return vars(of).get(node.attr, MISSING) if isinstance(of, types.ModuleType) else MISSING
        return MISSING

    def _imported(self, name: str) -> Any:
        for node in ast.walk(_tree(self._file)):
            for one in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
                if (one.asname or one.name) != name:
                    continue
                if isinstance(node, ast.Import):
                    return sys.modules.get(one.name, MISSING)
                package = str(self._known.get("__package__") or "").split(".")
                above = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
                module = sys.modules.get(".".join(part for part in (above, node.module) if part))
                return vars(module).get(one.name, MISSING) if module is not None else MISSING
        return MISSING


def _fits(node: ast.expr, value: Any, names: _Names) -> bool | None:
    """Whether a value is what an annotation names; None where that cannot be told."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return value is None
        if isinstance(node.value, str):
            try:
                return _fits(ast.parse(node.value, mode="eval").body, value, names)
            except SyntaxError:
                return None
        return None
    if isinstance(node, ast.BinOp):
        return _any(_fits(one, value, names) for one in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        of = names.value(node.value)
        inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if of is typing.Optional:
            return _any([value is None, _fits(inner[0], value, names)])
        if of is typing.Union:
            return _any(_fits(one, value, names) for one in inner)
        if of is typing.Literal:
            literal = [one.value for one in inner if isinstance(one, ast.Constant)]
            return value in literal if type(value) in (str, int, bool, type(None)) and len(literal) == len(inner) else None
        if of is typing.Annotated:
            return _fits(inner[0], value, names)
        whole = _is_one(of, value)
        if whole and type(value) in (list, tuple) and _kind_of(of) in ("list", "Sequence", "Iterable", "Collection"):
            if any(_fits(inner[0], one, names) is False for one in value[:_MOST_ITEMS]):
                return False
        return whole
    return _is_one(names.value(node), value)


def _any(found: Any) -> bool | None:
    answers = list(found)
    return True if True in answers else None if None in answers else False


def _kind_of(of: Any) -> str:
    of = getattr(of, "__origin__", of)
    return of.__name__ if isinstance(of, type) else ""


def _is_one(of: Any, value: Any) -> bool | None:
    """The same of what a name in an annotation stands for."""
    if of is typing.Any or of is object:
        return True
    if of is None:
        return value is None
    if isinstance(of, types.UnionType) or getattr(of, "__origin__", None) is typing.Union:
        return _any(_is_one(one, value) for one in of.__args__)
    if getattr(of, "__origin__", None) is typing.Literal:
        return value in of.__args__ if type(value) in (str, int, bool, type(None)) else None
    of = getattr(of, "__origin__", of)
    if not isinstance(of, type):
        return None
    if of is type(None):
        return value is None
    kind, mine = _kind(value), type(value).__mro__
    if of in mine:
        return True
    if of.__name__ in _FITS:
        if kind == "tensor" and of.__name__ in ("Tensor", "Variable"):
            return of.__module__.partition(".")[0] == type(value).__module__.partition(".")[0] or None
        if kind in _FITS[of.__name__]:
            return True
        if kind == "object":
            return False if _lacks(value, of.__name__) else None
        # a number of no dimension passes for one
        return None if kind in ("tensor", "array") and of in (int, float, bool) else False
    if of.__module__ in ("collections.abc", "typing") or getattr(of, "_is_protocol", False):
        return None
    if issubclass(of, (enum.Enum, *(str, int, float, dict, list, tuple))) or hasattr(of, "__total__"):
        return None
    if kind == "class":
        return False if of in value.__mro__ else None
    return False if kind in _PLAIN else None


_ASKS = {
    "Callable": ("__call__",),
    **dict.fromkeys(("Iterable", "Collection", "Sequence", "list", "tuple"), ("__iter__", "__getitem__")),
}


def _lacks(value: Any, name: str) -> bool:
    """Whether an object has none of the methods without which it cannot pass for what is named."""
    asked = _ASKS.get(name, ())
    return bool(asked) and not any(one in vars(kind) for kind in type(value).__mro__ for one in asked)


def _kind(value: Any) -> str:
    kind = type(value)
    if value is None:
        return "none"
    for one in (bool, int, float, complex, str, bytes, list, tuple, dict):
        if one in kind.__mro__:
            return one.__name__
    if set in kind.__mro__ or frozenset in kind.__mro__:
        return "set"
    names = {one.__name__ for one in kind.__mro__}
    family = kind.__module__.partition(".")[0]
    if family == "numpy" and "generic" in names:
        return "float" if "floating" in names else "int"
    if family == "numpy" and "ndarray" in names:
        return "array"
    if family in ("torch", "paddle") and names & {"Tensor", "Variable", "Value", "OpResult"}:
        return "tensor"
    if isinstance(value, type):
        return "class"
    if kind in (types.FunctionType, types.BuiltinFunctionType, types.MethodType):
        return "function"
    return "module" if kind is types.ModuleType else "object"
