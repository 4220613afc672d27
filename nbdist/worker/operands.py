"""Describes the values of the names in a line, and in the ifs and loops around it: types, shapes, lengths,
small numbers, and the share of nan in an array. It calls no code of the program, neither a property nor a
``__repr__``, and keeps none of its texts.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import types
from collections import UserDict
from collections.abc import Iterator, Sequence
from itertools import islice
from types import FrameType, TracebackType
from typing import Any

from nbdist.worker.main_thread import steps_of

Described = tuple[str, int, str, str]
"""File, line, a name there, and the description of its value."""

_MOST, _MOST_CONDITIONS, _LONGEST = 6, 60, 80
_LIBRARIES = re.compile(r"/(?:site|dist)-packages/|^<|\.p(?:yx|xd|xi)$")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_NOT_VALUES = (*_FUNCTIONS, types.ModuleType, type, BaseException)
_FUNCTIONS_OF_NUMPY = frozenset({"_ArrayFunctionDispatcher", "ufunc"})
_INTEGERS, _FLOATS, _MOST_VALUES = frozenset({"int64", "int32"}), frozenset({"float32", "float64"}), 10_000
_MOST_ELEMENTS, _MOST_ITEMS = 1_000_000, 1_000
_LOCAL_ARRAYS = ("Tensor", "Parameter", "ndarray", "EagerParamBase")
"""Arrays of this process alone: reading another one may wait for other ranks."""

_PLAIN = (bool, int, float, str, type(None))
_COLLECTIONS = (list, tuple, set, frozenset, bytes, bytearray)
_ARRAY_PACKAGES = frozenset({"torch", "paddle", "numpy", "jaxlib"})
_MEMBERS = ("_parameters", "_buffers", "_modules", "_sub_layers")
"""The dicts in which a module of torch or a layer of paddle keeps some of its attributes."""

_WRAPPED = re.compile(r"\.(module|_layers)(?=[.\[])")
"""The attribute of DistributedDataParallel and DataParallel that is the program's model."""

_OF_REDUCER = re.compile(
    r"Parameter (?:indices which did not receive grad for rank \d+:|at index) (?P<places>\d+(?: \d+)*)"
)
"""DistributedDataParallel's words about parameters, unless TORCH_DISTRIBUTED_DEBUG is set."""

_MOST_LAYERS = 10_000  # layers of a model to search for the one that failed
_MOST_LISTED = 3
_FEW = 5
_OF_FUNCTION = 1  # inspect.CO_OPTIMIZED
_OURS_ALONE = 3  # references to a dict: of its frame, of a name here, and of the call that counts them
_READ = (ast.Name, ast.Attribute, ast.Subscript)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MISSING = object()


def operands(trace: TracebackType | None) -> list[Described]:
    """Return the names in the innermost own line, the failed call's first; last a model's failed layer."""
    frames = _from_own_line(trace)
    if not frames:
        return []
    frame, line = frames[0]
    failed = _failed_node(trace, frame)
    first = _named(failed, line, frame) if failed is not None else []
    names = list(dict.fromkeys([*first, *_in_line(frame, line)]))
    return [*names[:_MOST], *_layer(frames)]


def _from_own_line(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the innermost frame outside of libraries, and those within it."""
    frames = frames_of(trace)
    own = [at for at, (frame, _) in enumerate(frames) if not is_library(frame.f_code.co_filename)]
    return frames[own[-1] :] if own else []


def _failed_node(trace: TracebackType | None, frame: FrameType) -> ast.AST | None:
    """Return the very expression that raised; None where ``executing`` is not installed or cannot tell."""
    try:
        from executing import Source  # IPython installs it, which a rank's Python may lack
    except ImportError:
        return None
    step = next((step for step in steps_of(trace) if step.tb_frame is frame), None)
    return None if step is None else Source.executing(step).node


def _layer(frames: list[tuple[FrameType, int]]) -> Iterator[Described]:
    """Yield ``self.net[3]: Linear with weight (10, 784) float32, got Tensor (32, 2352) float32``. A model has
    no name in the line where a library calls it (``trainer.train()``): use its class's."""
    (at, line), *below = frames
    inner = [(frame, frame.f_locals.get("self")) for frame, _ in below]
    layers = [(frame, layer) for frame, layer in inner if _children(layer) is not None]
    if not layers or layers[0][1] is layers[-1][1]:
        return
    outer, (frame, layer) = layers[0][1], layers[-1]
    path = next((path for path, inner_layer in _layers_of(outer) if inner_layer is layer), "")
    names = (node for node in ast.walk(_tree(at)) if isinstance(node, _READ) and node.lineno == line)
    name = next((ast.unparse(node) for node in names if _value_of(node, at) is outer), "")
    if not name and (wrapped := _WRAPPED.match(path)) is not None:
        outer, path = (_children(outer) or {})[wrapped[1]], path[wrapped.end() :]
    name = name or type(outer).__name__
    if path:
        given = frame.f_locals.get(frame.f_code.co_varnames[1]) if frame.f_code.co_argcount > 1 else None
        got = f", got {_array(given)}" if is_array(given) else ""
        yield at.f_code.co_filename, line, f"{name}{path}"[:_LONGEST], f"{described(layer)}{got}"


def _layers_of(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layers within a model with their paths: ``.encoder.layers[3]``."""
    waiting = [("", model)]
    for _ in range(_MOST_LAYERS):
        if not waiting:
            return
        path, layer = waiting.pop(0)
        yield path, layer
        for name, child in (_children(layer) or {}).items():
            waiting.append((f"{path}[{name}]" if name.isdecimal() else f"{path}.{name}", child))


def _children(of: Any) -> dict[str, Any] | None:
    """Return the layers within a module of torch or a layer of paddle; None for another object."""
    for name in ("_modules", "_sub_layers"):
        if isinstance(layers := _attribute(of, name), dict):
            return layers
    return None


def layers_of_reducer(error: BaseException, trace: TracebackType | None) -> list[Described]:
    """Return the layers in an error of DistributedDataParallel, which has only numbers of parameters."""
    complaint, frames = _OF_REDUCER.search(str(error)), _from_own_line(trace)
    if complaint is None or not frames:
        return []
    frame, line = frames[0]
    known: list[Any] = [outer.f_locals.get("self") for outer, _ in frames_of(trace)]
    # backward() runs after the model's call
    known += [*frame.f_locals.values(), *frame.f_globals.values()]
    models = {id(value): value for value in known if hasattr(type(value), "_build_params_for_reducer")}
    if len(models) != 1:
        return []
    (model,) = models.values()
    named = [
        name
        for name, parameter in model.module.named_parameters()
        if parameter.requires_grad and name not in model.parameters_to_ignore
    ]
    places = set(map(int, complaint["places"].split()))
    numbered = (name for at, name in enumerate(named) if at in places)
    layers = list(dict.fromkeys(name.rpartition(".")[0] or name for name in numbered))
    what = "without gradient" if "not receive" in complaint[0] else "gradient twice"
    more = f" and {len(layers) - _MOST_LISTED} more" if len(layers) > _MOST_LISTED else ""
    listed = ", ".join(layers[:_MOST_LISTED]) + more
    return [(frame.f_code.co_filename, line, what, listed)] if layers else []


def conditions_of(trace: TracebackType | None) -> list[Described]:
    """Return the names in the ifs and loops of the functions of a traceback."""
    names = [name for frame, line in reversed(frames_of(trace)) for name in _conditions(frame, line)]
    return names[:_MOST_CONDITIONS]


def not_finite(trace: TracebackType | None) -> list[Described]:
    """Return the variables of these functions that are arrays with nan or infinity in them."""
    return [
        (frame.f_code.co_filename, line, name, what)
        for frame, line in reversed(frames_of(trace))
        if not is_library(frame.f_code.co_filename)
        for name, value in list(frame.f_locals.items())
        if (what := _array(value) if is_array(value) else "").endswith((" nan", " inf"))
    ][:_MOST_CONDITIONS]


def conditions(frame: FrameType | None) -> list[Described]:
    """Return the same for a thread's functions, and the names in its innermost line of the user's."""
    names: list[Described] = []
    while frame is not None and len(names) < _MOST_CONDITIONS:
        if not is_library(frame.f_code.co_filename):
            names += [] if names else _in_line(frame, frame.f_lineno)[:_MOST]
            names += _conditions(frame, frame.f_lineno)
            _let_go(frame)
        frame = frame.f_back
    return names[:_MOST_CONDITIONS]


def _let_go(frame: FrameType) -> None:
    """Clear the dict of ``f_locals``, which until Python 3.12 keeps objects that the program drops."""
    if sys.version_info < (3, 13) and frame.f_code.co_flags & _OF_FUNCTION:
        names = frame.f_locals
        # unless the program has it from locals()
        if sys.getrefcount(names) <= _OURS_ALONE:
            names.clear()


def frames_of(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    frames: list[tuple[FrameType, int]] = []
    before: tuple[object, ...] = ()
    for step in steps_of(trace):
        frame, code = step.tb_frame, step.tb_frame.f_code
        function = (code.co_filename, code.co_firstlineno, code.co_name)
        # paddle's eval_frame leaves an empty frame of each function, at its first line
        if before == function and frames[-1][1] == code.co_firstlineno:
            frames.pop()
        before = function
        frames.append((frame, step.tb_lineno))
    return frames


def is_library(file: str) -> bool:
    return bool(_LIBRARIES.search(file)) or file.startswith((_STANDARD, _OURS))


def _tree(frame: FrameType) -> ast.Module:
    return ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))


def _around(line: int, kinds: Any, within: ast.AST) -> list[Any]:
    """Return the nodes of these kinds around a line, from the outside in."""
    nodes = [node for node in ast.walk(within) if isinstance(node, kinds)]
    return [node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]


def _in_line(frame: FrameType, line: int) -> list[Described]:
    """Return the names that the innermost statement at a line reads, in its order."""
    statements = _around(line, ast.stmt, _tree(frame))
    return _named(statements[-1], line, frame) if statements else []


def _conditions(frame: FrameType, line: int) -> list[Described]:
    if is_library(frame.f_code.co_filename):
        return []
    tree = _tree(frame)
    functions = _around(line, (ast.FunctionDef, ast.AsyncFunctionDef), tree)
    scopes = [tree, *(function for function in functions if function.name == frame.f_code.co_name)]
    names: list[Described] = []
    waiting = list(ast.iter_child_nodes(scopes[-1]))
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If | ast.While):
            names += _named(node.test, node.lineno, frame)
        elif isinstance(node, ast.For | ast.AsyncFor):
            names += _named(node.iter, node.lineno, frame)
        if not isinstance(node, (*_SCOPES, ast.expr)):
            waiting += ast.iter_child_nodes(node)
    return names


def _named(node: ast.AST, line: int, frame: FrameType) -> list[Described]:
    names: dict[str, str] = {}
    for operand in _read_in(node, frame):
        if what := described(_value_of(operand, frame)):
            names.setdefault(ast.unparse(operand)[:_LONGEST], what[:_LONGEST])
    return [(frame.f_code.co_filename, line, name, what) for name, what in names.items()]


def _read_in(within: ast.AST, frame: FrameType) -> Iterator[ast.expr]:
    """Yield the names, attributes and items that are read, each as long as it has a value."""
    waiting: list[ast.AST] = [within]
    while waiting:
        node = waiting.pop(0)
        is_read = isinstance(node, _READ) and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.expr) and is_read and _value_of(node, frame) is not _MISSING:
            yield node
        else:
            # not the body of a loop or a function
            waiting[:0] = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt)]


def _value_of(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, _MISSING))
    if isinstance(node, ast.Attribute):
        return _attribute(_value_of(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value_of(node.value, frame), _value_of(node.slice, frame))
    return _MISSING


def _attribute(of: Any, name: str) -> Any:
    own = _members(of)
    for members in (own, *(own.get(kind) for kind in _MEMBERS)):
        if isinstance(members, dict) and name in members:
            return members[name]
    return _MISSING


def _members(of: Any) -> dict[str, Any]:
    """Return an object's own attributes, empty for none, without ``vars()``, which may import a module."""
    if issubclass(type(of), type):
        return dict(vars(type)["__dict__"].__get__(of))
    try:
        own = object.__getattribute__(of, "__dict__")
    except AttributeError:
        return {}
    return own if issubclass(type(own), dict) else {}


def _item(of: Any, key: Any) -> Any:
    if (type(of) is dict and type(key) in (str, int)) and key in of:
        return of[key]
    if type(of) in (list, tuple) and type(key) is int and -len(of) <= key < len(of):
        return of[key]
    # ModuleList, ModuleDict, Sequential
    layers = _children(of) if type(of).__module__.partition(".")[0] in _ARRAY_PACKAGES else None
    return layers.get(str(key), _MISSING) if layers and type(key) in (str, int) else _MISSING


def described(value: Any) -> str:
    """Return the description of a value; empty for functions, classes and modules, whose names suffice."""
    kind = type(value)
    if value is _MISSING:
        return ""
    if value is None or kind in (bool, float) or (kind is int and abs(value) < 10**9):
        return repr(value)
    if kind is str:
        return f"str of {len(value)} characters"
    items = _attribute(value, "data") if issubclass(kind, UserDict) else value
    if type(items) is dict or kind in _COLLECTIONS:
        return _collection(kind, items)
    # isinstance() would call the value's __class__
    if issubclass(kind, _NOT_VALUES) or kind.__name__ in _FUNCTIONS_OF_NUMPY:
        return ""
    if is_array(value):
        return _array(value)
    weight = _attribute(value, "weight")
    if weight is not _MISSING and hasattr(weight, "shape"):
        return f"{kind.__name__} with weight {_shape(weight)} {_dtype(weight)}".rstrip() + _where(weight)
    return kind.__qualname__ + _devices(value)


def _collection(kind: type, items: Any) -> str:
    if kind is tuple and 0 < len(items) <= _FEW and all(type(item) in (int, float) for item in items):
        return repr(items)
    inside = ""
    if type(items) is dict:
        several = islice(items.items(), _MOST_ITEMS)
        inside = ", ".join(f"{key!r}{_sized(item)}" for key, item in several if type(key) in (str, int))
    elif kind in (list, tuple) and items and type(items[0]) not in _PLAIN:
        inside = f"{type(items[0]).__name__}{_sized(items[0])}{_unlike(items)}"
    return f"{kind.__name__} of {len(items)}" + (f" ({inside})" if inside else "")


def is_array(value: Any) -> bool:
    family = type(value).__module__.partition(".")[0]
    return family in _ARRAY_PACKAGES and hasattr(value, "shape") and hasattr(value, "dtype")


def _sized(value: Any) -> str:
    """Return the shape of an array in a dict or a list."""
    return f" {_shape(value)}" if is_array(value) else ""


def _unlike(values: Sequence[Any]) -> str:
    """Return the first array of a list that cannot be stacked: its shape is not the first one's."""
    sizes = enumerate(map(_sized, values[:_MOST_ITEMS]))
    first = _sized(values[0])
    return next((f", at {at}:{size}" for at, size in sizes if first and size not in (first, "")), "")


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", "")).rpartition(".")[2]


def _where(value: Any) -> str:
    """Return `` on cuda:0``; empty for an array in the memory of the CPU."""
    # torch's device, paddle's place
    device = str(getattr(value, "device", "") or getattr(value, "place", ""))
    where = re.search(r"(?:cuda|gpu|xpu|npu|mps|meta)(?::\d+)?", device)
    return f" on {where[0]}" if where else ""


def _devices(model: Any) -> str:
    """Return the same for the parameters of a model, such as `` on cuda:0 and cpu``."""
    if _children(model) is None:
        return ""
    groups = (_attribute(layer, "_parameters") for _, layer in _layers_of(model))
    parameters = [value for group in groups if isinstance(group, dict) for value in group.values()]
    places = dict.fromkeys(_where(value) or " on cpu" for value in parameters if value is not None)
    # as for a tensor
    return "" if list(places) == [" on cpu"] else " and".join(places).replace(" and on ", " and ")


def _array(value: Any) -> str:
    kind, where = _dtype(value), _where(value)
    text = f"{type(value).__name__} {_shape(value)} {kind}{where}"
    if where:
        return text
    # no look at values in a device's memory
    return text + (_range(value) if kind in _INTEGERS else _nans(value) if kind in _FLOATS else "")


def _range(value: Any) -> str:
    """Return the least and the largest of integers, which may be indices."""
    size = _size(value)
    if type(value).__module__.partition(".")[0] not in ("torch", "numpy") or not 1 < size <= _MOST_VALUES:
        return ""
    return f", {int(value.min())} to {int(value.max())}"


def _nans(value: Any) -> str:
    """Return ``, 25% nan``."""
    if type(value).__name__ not in _LOCAL_ARRAYS or not 0 < _size(value) <= _MOST_ELEMENTS:
        return ""
    try:
        numbers = value if type(value).__name__ == "ndarray" else value.detach().numpy()
    except (RuntimeError, TypeError, ValueError):  # sparse, or of a transformation of functions
        return ""
    nans, infinite = int((numbers != numbers).sum()), int((abs(numbers) == float("inf")).sum())
    if not nans and not infinite:
        return ""
    part = 100 * (nans or infinite) / _size(value)
    return f", {f'{part:.0f}%' if part >= 1 else 'some'} {'nan' if nans else 'inf'}"


def _size(value: Any) -> int:
    return int(value.numel() if callable(value.size) else value.size)


def _shape(value: Any) -> str:
    return str(tuple(int(size) for size in value.shape))
