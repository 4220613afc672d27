"""What the names in a failing line stood for: kinds, shapes and lengths, and small numbers as they are.

Nothing of the program runs for it, no property and no ``__repr__``, and no text of its is kept.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType
    from typing import Any

_MOST, _LONGEST = 6, 80
_LIBRARIES = re.compile(r"/(?:site|dist)-packages/|^<")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(__file__) + os.sep
_NOT_VALUES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    type,
    BaseException,
)
_ARRAYS = frozenset({"torch", "paddle", "numpy", "jaxlib"})
_MEMBERS = ("_parameters", "_buffers", "_modules", "_sub_layers")
"""Where a module of torch or a layer of paddle keeps what its attributes seem to be."""

_MISSING = object()


def operands(trace: TracebackType | None) -> list[tuple[str, int, str, str]]:
    """File and line of the innermost frame that is no library's, and each name there with what it was."""
    found = None
    while trace is not None:
        if not _is_library(trace.tb_frame.f_code.co_filename):
            found = trace
        trace = trace.tb_next
    if found is None:
        return []
    file, line = found.tb_frame.f_code.co_filename, found.tb_lineno
    told: dict[str, str] = {}
    for node in _operands(file, line, found.tb_frame):
        value = _value(node, found.tb_frame)
        if what := "" if value is _MISSING else _described(value):
            told.setdefault(ast.unparse(node)[:_LONGEST], what[:_LONGEST])
    return [(file, line, name, what) for name, what in [*told.items()][:_MOST]]


def _is_library(file: str) -> bool:
    return bool(_LIBRARIES.search(file)) or file.startswith((_STANDARD, _OURS))


def _operands(file: str, line: int, frame: FrameType) -> Iterator[ast.expr]:
    """The names, attributes and items that a line reads, in its order, each as far as it has a value."""
    tree = ast.parse("".join(linecache.getlines(file, frame.f_globals)))
    statement = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            statement = node  # from the outside in
    if statement is None:
        return
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        is_one = isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.expr) and is_one and _value(node, frame) is not _MISSING:
            yield node
        else:
            # what a loop or a function goes on to is not in its line
            waiting[:0] = [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt)]


def _value(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, _MISSING))
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, frame), _value(node.slice, frame))
    return _MISSING


def _attribute(of: Any, name: str) -> Any:
    try:
        own = object.__getattribute__(of, "__dict__")
    except AttributeError:
        return _MISSING
    for members in (own, *(own.get(each) for each in _MEMBERS)):
        if isinstance(members, (dict, types.MappingProxyType)) and name in members:
            return members[name]
    return _MISSING


def _item(of: Any, key: Any) -> Any:
    if (type(of) is dict and type(key) in (str, int)) and key in of:
        return of[key]
    if type(of) in (list, tuple) and type(key) is int and -len(of) <= key < len(of):
        return of[key]
    return _MISSING


def _described(value: Any) -> str:
    """Empty for functions, classes and modules: their names say it."""
    kind = type(value)
    if value is None or kind in (bool, float) or (kind is int and abs(value) < 10**9):
        return repr(value)
    if kind is str:
        return f"str of {len(value)} characters"
    if kind is dict:
        keys = ", ".join(repr(key) for key in value if type(key) in (str, int))
        return f"dict of {len(value)}" + (f" ({keys})" if keys else "")
    if kind in (list, tuple, set, frozenset, bytes):
        return f"{kind.__name__} of {len(value)}"
    if isinstance(value, _NOT_VALUES):
        return ""
    if kind.__module__.partition(".")[0] in _ARRAYS and hasattr(value, "shape") and hasattr(value, "dtype"):
        return _array(value)
    weight = _attribute(value, "weight")
    if weight is not _MISSING and hasattr(weight, "shape"):
        return f"{kind.__name__} with weight {_shape(weight)}"
    return kind.__qualname__


def _array(value: Any) -> str:
    kind = str(value.dtype).rpartition(".")[2]
    # torch's device, paddle's place
    device = str(getattr(value, "device", "") or getattr(value, "place", ""))
    where = re.search(r"(?:cuda|gpu|xpu|npu|meta)(?::\d+)?", device)
    return f"{type(value).__name__} {_shape(value)} {kind}" + (f" on {where[0]}" if where else "")


def _shape(value: Any) -> str:
    return str(tuple(int(size) for size in value.shape))
