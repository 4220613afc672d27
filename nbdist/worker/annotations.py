"""Whether a value is what an annotation of a library names, as far as that can be told.

Nothing of the program runs for it. Where an annotation cannot be resolved, or a value may pass for what it
names, the answer is None.
"""

from __future__ import annotations

import ast
import builtins
import enum
import re
import sys
import types
import typing

from nbdist.worker.operands import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import Any

    Function = ast.FunctionDef | ast.AsyncFunctionDef

_MOST_ITEMS, _LONGEST = 3, 80

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

_OF_ITEMS = ("list", "Sequence", "Iterable", "Collection")

_QUALIFIED = re.compile(r"\b(?:\w+\.)+(?=\w)")


_trees: dict[str, ast.Module] = {}


def _tree(file: str) -> ast.Module:
    if file not in _trees:
        try:
            with open(file, encoding="utf-8") as source:
                _trees[file] = ast.parse(source.read())
        except (OSError, SyntaxError, ValueError):
            _trees[file] = ast.Module([], [])
    return _trees[file]


def function_of(code: CodeType) -> Function | None:
    for node in ast.walk(_tree(code.co_filename)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            lines = [node.lineno, *(one.lineno for one in node.decorator_list)]
            if min(lines) == code.co_firstlineno:
                return node
    return None


def text_of(node: ast.expr, names: Names) -> str:
    """As it stands there; of the name of a union, what it is."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    of = names.value(node)
    if of is not MISSING and not isinstance(of, type):
        text = _QUALIFIED.sub("", str(of)) or text
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class Names:
    """What the names in the annotations of a file stand for, also those that it imports for type checkers."""

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
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for one in node.names:
                if (one.asname or one.name) != name:
                    continue
                if isinstance(node, ast.Import):
                    return sys.modules.get(one.name, MISSING)
                package = str(self._known.get("__package__") or "").split(".")
                above = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
                module = sys.modules.get(".".join(part for part in (above, node.module) if part))
                return vars(module).get(one.name, MISSING) if module is not None else MISSING
        return MISSING


def fits(node: ast.expr, value: Any, names: Names) -> bool | None:
    """Whether a value is what an annotation names; None where that cannot be told."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return value is None
        if isinstance(node.value, str):
            try:
                return fits(ast.parse(node.value, mode="eval").body, value, names)
            except SyntaxError:
                return None
        return None
    if isinstance(node, ast.BinOp):
        return _any(fits(one, value, names) for one in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        of = names.value(node.value)
        inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if of is typing.Optional:
            return _any([value is None, fits(inner[0], value, names)])
        if of is typing.Union:
            return _any(fits(one, value, names) for one in inner)
        if of is typing.Literal:
            literal = tuple(one.value for one in inner if isinstance(one, ast.Constant))
            return _is_literal(value, literal) if len(literal) == len(inner) else None
        if of is typing.Annotated:
            return fits(inner[0], value, names)
        whole = _is_one(of, value)
        items = (
            value[:_MOST_ITEMS] if whole and type(value) in (list, tuple) and _name(of) in _OF_ITEMS else ()
        )
        return False if any(fits(inner[0], one, names) is False for one in items) else whole
    return _is_one(names.value(node), value)


def _any(found: Iterable[bool | None]) -> bool | None:
    answers = list(found)
    return True if True in answers else None if None in answers else False


def _is_literal(value: Any, literal: tuple[Any, ...]) -> bool | None:
    return value in literal if type(value) in (str, int, bool, type(None)) else None


def _name(of: Any) -> str:
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
        return _is_literal(value, of.__args__)
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
