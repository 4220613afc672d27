"""Whether a value is what an annotation of a library names, as far as that can be told.

Nothing of the program runs for it. Where an annotation cannot be resolved, or a value may pass for what it
names, the answer is None.
"""

from __future__ import annotations

import abc
import ast
import builtins
import enum
import re
import sys
import types
import typing

from nbdist.worker.failure.functions import alone
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
from nbdist.worker.failure.operands import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
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
    **dict.fromkeys(("Number", "Complex", "Real", "Rational", "Integral"), (*_NUMBERS, "complex")),
}
"""By the name of a type, the kinds of values that fit."""

_OF_ITEMS = ("list", "Sequence", "Iterable", "Collection")

_QUALIFIED = re.compile(r"\b(?:\w+\.)+(?=\w)")


_IN_SHORT = frozenset(
    {
        *("device", "dtype", "Place", "CPUPlace", "CUDAPlace", "Path", "PurePath", "PosixPath", "PathLike"),
        *("Pattern", "Random", "RandomState", "Generator", "BitGenerator", "SeedSequence", "UUID"),
        *("Decimal", "Fraction", "Layout", "layout", "memory_format"),
    }
)
"""Classes in whose place a text, a number or a tuple is mostly taken, too: ``"cpu"`` for a device."""

_lines: dict[str, list[str]] = {}
_trees: dict[str, ast.Module] = {}
_functions: dict[tuple[str, str, int], Function | None] = {}
_scopes: dict[str, list[tuple[ast.AST, frozenset[str]]]] = {}
_imports: dict[str, dict[str, tuple[ast.Import | ast.ImportFrom, str]]] = {}
_DEFINES = ("def ", "async def ", "class ", "@")
_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def forget() -> None:
    """What was read of files: a session goes on after an error, and does not need it."""
    for one in (_lines, _trees, _functions, _scopes, _imports):
        one.clear()


def _lines_of(file: str) -> list[str]:
    if file not in _lines:
        try:
            with open(file, encoding="utf-8") as source:
                _lines[file] = source.readlines()
        except (OSError, ValueError):
            _lines[file] = []
    return _lines[file]


def _tree(file: str) -> ast.Module:
    if file not in _trees:
        try:
            _trees[file] = ast.parse("".join(_lines_of(file)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            _trees[file] = ast.Module([], [])
    return _trees[file]


def _head(file: str) -> ast.Module:
    """A file as far as its first function or class."""
    lines = _lines_of(file)
    end = next((at for at, line in enumerate(lines) if line.startswith(_DEFINES)), len(lines))
    try:
        return ast.parse("".join(lines[:end]))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _tree(file)  # that line is of a text


def function_of(code: CodeType) -> Function | None:
    key = code.co_filename, code.co_name, code.co_firstlineno
    if key not in _functions:
        _functions[key] = alone(_lines_of(code.co_filename), code) or _of_file(code)
    return _functions[key]


def _of_file(code: CodeType) -> Function | None:
    return next(
        (
            node
            for node in ast.walk(_tree(code.co_filename))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name
            if min([node.lineno, *(one.lineno for one in node.decorator_list)]) == code.co_firstlineno
        ),
        None,
    )


def text_of(node: ast.expr, names: Names) -> str:
    """As it stands there; of the name of a union, what it is."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    of = names.value(node)
    if not is_class(of) and module_of(type(of)) in _OF_TYPING:
        text = _QUALIFIED.sub("", str(of)) or text
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class Names:
    """What the names in the annotations of a function stand for, also those that its file imports for type
    checkers. What a class or a function around it has by a name is not known."""

    def __init__(self, known: dict[str, Any], file: str, function: Function) -> None:
        self._known = known
        self._file = file
        self._function = function
        self._inner = frozenset(one.name for one in getattr(function, "type_params", ()))

    def look_around(self) -> None:
        """Leave out what the classes and functions around have: for these the whole file is parsed."""
        self._inner |= _bound_around(self._file, self._function)

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            if node.id in self._inner:
                return MISSING
            if node.id in self._known:
                return self._known[node.id]
            return vars(builtins).get(node.id, self._imported(node.id))
        if isinstance(node, ast.Attribute):
            of = self.value(node.value)
            return members(of).get(node.attr, MISSING) if is_module(of) or is_class(of) else MISSING
        return MISSING

    def _imported(self, name: str) -> Any:
        if self._file not in _imports:
            # the first one of a name
            _imports[self._file] = {
                one.asname or one.name: (node, one.name)
                for node in reversed(list(ast.walk(_head(self._file))))
                if isinstance(node, (ast.Import, ast.ImportFrom))
                for one in node.names
            }
        node, of = _imports[self._file].get(name, (None, ""))
        if node is None:
            return MISSING
        if isinstance(node, ast.Import):
            return sys.modules.get(of, MISSING)
        package = str(self._known.get("__package__") or "").split(".")
        above = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
        module = sys.modules.get(".".join(part for part in (above, node.module) if part))
        return members(module).get(of, MISSING) if is_module(module) else MISSING


def _bound_around(file: str, function: Function) -> frozenset[str]:
    """The names that the classes and functions around a function bind."""
    if file not in _scopes:
        _scopes[file] = [
            (node, frozenset(_bound(node))) for node in ast.walk(_tree(file)) if isinstance(node, _SCOPES)
        ]
    around = (
        names
        for node, names in _scopes[file]
        if node.lineno < function.lineno <= (node.end_lineno or node.lineno)  # type: ignore[attr-defined]
    )
    return frozenset().union(*around)


def _bound(scope: ast.AST) -> Iterator[str]:
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _SCOPES):
            yield node.name
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.arg):
            yield node.arg
        elif type(node).__name__ == "TypeVar":
            yield node.name  # type: ignore[attr-defined]
        waiting += ast.iter_child_nodes(node)


def fits(node: ast.expr, value: Any, names: Names) -> bool | None:
    """Whether a value is what an annotation names; None where that cannot be told."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return value is None
        if isinstance(node.value, str):
            try:
                return fits(ast.parse(node.value, mode="eval").body, value, names)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
        return None
    if isinstance(node, ast.BinOp):
        if not isinstance(node.op, ast.BitOr):
            return None
        return _any(fits(one, value, names) for one in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        of = names.value(node.value)
        inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not inner:
            return None
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
            value[:_MOST_ITEMS]
            if whole and is_among(type(value), (list, tuple)) and _name(of) in _OF_ITEMS
            else ()
        )
        return False if any(fits(inner[0], one, names) is False for one in items) else whole
    return _is_one(names.value(node), value)


def _any(found: Iterable[bool | None]) -> bool | None:
    answers = list(found)
    return True if True in answers else None if None in answers else False


def _is_literal(value: Any, literal: tuple[Any, ...]) -> bool | None:
    plain = (str, int, bool, type(None))
    if not all(is_among(type(one), plain) for one in (value, *literal)):
        return None
    if value in literal:
        return True
    # many a function makes it small
    same = type(value) is str and value.lower() in (one.lower() for one in literal if type(one) is str)
    return None if same else False


_OF_TYPING = ("typing", "types", "collections.abc", "typing_extensions")


def _origin(of: Any) -> Any:
    """``list`` of ``list[int]``."""
    found = getattr(of, "__origin__", None) if module_of(type(of)) in _OF_TYPING else None
    return of if found is None else found


def _name(of: Any) -> str:
    of = _origin(of)
    return name_of(of) if is_class(of) else ""


def _is_one(of: Any, value: Any) -> bool | None:
    """The same of what a name in an annotation stands for."""
    if of is typing.Any or of is object:
        return True
    origin = _origin(of)
    if type(of) is types.UnionType or origin is typing.Union:
        return _any(_is_one(one, value) for one in of.__args__)
    if origin is typing.Literal:
        return _is_literal(value, of.__args__)
    if not is_class(origin):
        # also None, as a name may be whose import has failed
        return None
    return value is None if origin is type(None) else _is_of_class(origin, value)


def _is_of_class(of: type, value: Any) -> bool | None:
    kind, name, mine = _kind(value), name_of(of), mro(type(value))
    if is_among(of, mine):
        return True
    if _decides(of, kind):
        return None
    if name in _FITS:
        if kind == "tensor" and name in ("Tensor", "Variable"):
            return family_of(of) == family_of(type(value)) or None
        if kind in _FITS[name]:
            return True
        if kind == "object":
            return False if _lacks(value, name) else None
        # a number of no dimension passes for one, and numpy takes tensors
        is_number = is_among(of, (int, float, bool)) and kind in ("tensor", "array")
        return None if is_number or (name == "ndarray" and kind == "tensor") else False
    if module_of(of) in ("collections.abc", "typing") or of_class(of, "_is_protocol") is True:
        return None
    if issubclass(of, (enum.Enum, str, int, float, dict, list, tuple)) or "__total__" in members(of):
        return None
    if kind == "class":
        return False if is_among(of, mro(value)) else None
    if kind not in _PLAIN or (kind not in ("none", "module") and _passes(of, kind)):
        return None
    return False


def _decides(of: type, kind: str) -> bool:
    """Whether a class has a say of its own in what is one of it."""
    if is_a(of, abc.ABCMeta):
        # the classes that were registered, which need not inherit from it
        return name_of(of) not in _FITS and bool(_registered(of))
    asks = of_class(type(of), "__instancecheck__")
    if asks is None or asks is vars(type)["__instancecheck__"]:
        return False
    # torch.LongTensor, Parameter
    return kind == "tensor" or family_of(of) not in ("torch", "paddle")


def _registered(of: type) -> object:
    try:
        return abc._get_dump(of)[0]  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        return True


def _passes(of: type, kind: str) -> bool:
    """Whether values of a kind are often taken in the place of an object of a class: a path as a text, a list
    for a dataset."""
    if any(name_of(one) in _IN_SHORT for one in mro(of)):
        return True
    holds = any(of_class(of, name) is not None for name in ("__iter__", "__getitem__"))
    return holds and kind in ("list", "tuple", "dict")


_ASKS = {
    "Callable": ("__call__",),
    **dict.fromkeys(("Iterable", "Collection", "Sequence", "list", "tuple"), ("__iter__", "__getitem__")),
}


def _lacks(value: Any, name: str) -> bool:
    """Whether an object has none of the methods without which it cannot pass for what is named."""
    asked = _ASKS.get(name, ())
    return bool(asked) and all(of_class(type(value), one) is None for one in asked)


def _kind(value: Any) -> str:
    kind = type(value)
    if value is None:
        return "none"
    for one in (bool, int, float, complex, str, bytes, list, tuple, dict):
        if is_a(value, one):
            return one.__name__
    if is_a(value, set, frozenset):
        return "set"
    names = set(map(name_of, mro(kind)))
    family = family_of(kind)
    if family == "numpy" and "generic" in names:
        return "float" if "floating" in names else "int"
    if family == "numpy" and "ndarray" in names:
        return "array"
    if family in ("torch", "paddle") and names & {"Tensor", "Variable", "Value", "OpResult"}:
        return "tensor"
    if is_class(value):
        return "class"
    if is_among(kind, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "function"
    return "module" if kind is types.ModuleType else "object"
