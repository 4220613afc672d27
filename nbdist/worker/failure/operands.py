"""What names of the program stand for, in a line that fails and in the ifs and loops around it: kinds, shapes
and lengths, small numbers as they are, and how much of an array is nan.

Nothing of the program runs for it, no property and no ``__repr__``, and no text of its is kept.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import types
from collections import UserDict
from itertools import islice

from nbdist.worker.failure.functions import alone
from nbdist.worker.failure.looks import is_among, members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType, TracebackType
    from typing import Any

    Told = tuple[str, int, str, str]
    """File, line, a name there, and what it stood for."""

_MOST, _MOST_ASKED, _LONGEST = 6, 60, 80
_LIBRARIES = re.compile(r"/(?:site|dist)-packages/|^<|\.p(?:yx|xd|xi)$")
_COLLATES = re.compile(r"/(?:torch/utils/data/_utils|paddle/io/dataloader)/collate\.py$")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_NOT_VALUES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    type,
    BaseException,
)
_FUNCTIONS_OF_NUMPY = frozenset({"_ArrayFunctionDispatcher", "ufunc"})
_INTEGERS, _FLOATS, _MOST_VALUES = frozenset({"int64", "int32"}), frozenset({"float32", "float64"}), 10_000
_MOST_LOOKED_AT, _MOST_ITEMS = 1_000_000, 1_000
_OF_NUMBERS = ("Tensor", "Parameter", "ndarray", "EagerParamBase")
"""Arrays of this process alone: what is asked of others may wait for other ranks."""

_MEASURED = re.compile(r"\w*(?:Tensor|ndarray|Parameter|ParamBase) \(|(?:list|tuple) of|-?\d")

_PLAIN = (bool, int, float, str, type(None))
_ARRAYS = frozenset({"torch", "paddle", "numpy", "jaxlib"})
MEMBERS = ("_parameters", "_buffers", "_modules", "_sub_layers")
"""Where a module of torch or a layer of paddle keeps what its attributes seem to be."""

_WRAPPED = re.compile(r"\.(module|_layers)(?=[.\[])")
"""What is within DistributedDataParallel and DataParallel, whose own names say nothing."""

_MOST_LAYERS = 10_000
"""Of a model, so many are looked through for the one that failed."""

_FEW = 5
_OF_MEMORY = re.compile(r"out of memory|allocate memory|enough memory", re.IGNORECASE)

_OF_FUNCTION = 1
"""``inspect.CO_OPTIMIZED``."""

_OURS_ALONE = 3
"""References to a dict: of its frame, of a name here, and of the call that counts them."""

_READ = (ast.Name, ast.Attribute, ast.Subscript)
MISSING = object()


def operands(trace: TracebackType | None) -> list[Told]:
    """File and line of the innermost frame that is no library's, and each name there with what it was; last
    the layer that failed, where it is one within a model of that line, or the samples of a batch."""
    frames = frames_of(trace)
    own = [at for at, (frame, _) in enumerate(frames) if not is_library(frame.f_code.co_filename)]
    if not own:
        return _batch(frames)
    return [*_told(*frames[own[-1]])[:_MOST], *_layer(frames[own[-1] :]), *_batch(frames)]


def inside(trace: TracebackType | None) -> list[Told]:
    """The arrays, the numbers and what is None in the line of a library that raised."""
    frames = frames_of(trace)
    if not frames or not _is_of_others(frames[-1][0].f_code.co_filename):
        return []
    found = [one for one in _told(*frames[-1]) if one[3] == "None" or _MEASURED.match(one[3])]
    return found[:_MOST]


def _is_of_others(file: str) -> bool:
    return (is_library(file) and not file.startswith((_OURS, _STANDARD))) or "-packages/" in file


def _batch(frames: list[tuple[FrameType, int]]) -> list[Told]:
    """What a loader could not make a batch of: its error may not name the shapes, nor the sample."""
    for frame, line in reversed(frames):
        batch = frame.f_locals.get("batch") if _COLLATES.search(frame.f_code.co_filename) else None
        if type(batch) in (list, tuple) and batch and is_array(batch[0]):
            return [(frame.f_code.co_filename, line, "batch", described(batch))]
    return []


def _layer(frames: list[tuple[FrameType, int]]) -> Iterator[Told]:
    """``self.net[3]: Linear with weight (10, 784) float32, got Tensor (32, 2352) float32``. A model that a
    library calls (``trainer.train()``) has no name in the line, and is named by its class."""
    (at, line), *below = frames
    inner = [(frame, frame.f_locals.get("self")) for frame, _ in below]
    layers = [(frame, one) for frame, one in inner if _children(one) is not None]
    if not layers or layers[0][1] is layers[-1][1]:
        return
    outer, (frame, layer) = layers[0][1], layers[-1]
    path = next((path for path, one in _layers_of(outer) if one is layer), "")
    names = (node for node in ast.walk(_tree(at)) if isinstance(node, _READ) and node.lineno == line)
    name = next((ast.unparse(node) for node in names if value_of(node, at) is outer), "")
    if not name and (wrapped := _WRAPPED.match(path)) is not None:
        outer, path = (_children(outer) or {})[wrapped[1]], path[wrapped.end() :]
    name = name or type(outer).__name__
    if path:
        given = frame.f_locals.get(frame.f_code.co_varnames[1]) if frame.f_code.co_argcount > 1 else None
        got = f", got {_array(given)}" if is_array(given) else ""
        yield at.f_code.co_filename, line, f"{name}{path}"[:_LONGEST], f"{described(layer)}{got}"


def _layers_of(model: Any) -> Iterator[tuple[str, Any]]:
    """The layers within a model, each by the path that leads to it: ``.encoder.layers[3]``."""
    waiting = [("", model)]
    for _ in range(_MOST_LAYERS):
        if not waiting:
            return
        path, one = waiting.pop(0)
        yield path, one
        for name, child in (_children(one) or {}).items():
            waiting.append((f"{path}[{name}]" if name.isdecimal() else f"{path}.{name}", child))


def _children(of: Any) -> dict[str, Any] | None:
    """None of what is no module of torch and no layer of paddle."""
    for name in ("_modules", "_sub_layers"):
        if isinstance(found := attribute(of, name), dict):
            return found
    return None


def conditions_of(trace: TracebackType | None) -> list[Told]:
    """The same of what the ifs and the loops in the functions of a traceback ask for."""
    return [one for frame, line in reversed(frames_of(trace)) for one in _conditions(frame, line)][
        :_MOST_ASKED
    ]


def not_finite(trace: TracebackType | None) -> list[Told]:
    """The same of the variables of these functions that are arrays with nan or infinity in them."""
    return [
        (frame.f_code.co_filename, line, name, what)
        for frame, line in reversed(frames_of(trace))
        if not is_library(frame.f_code.co_filename)
        for name, value in list(frame.f_locals.items())
        if (what := _array(value) if is_array(value) else "").endswith(_MARKS)
    ][:_MOST_ASKED]


def kept(error: BaseException, trace: TracebackType | None) -> list[Told]:
    """The same, where memory ran out, of what these functions add to; and whether a tensor there has a graph,
    by which it holds on to all that it was computed from."""
    if _OF_MEMORY.search(str(error)) is None:
        return []
    return [
        (frame.f_code.co_filename, line, ast.unparse(node), f"{described(value)[:_LONGEST]}{_graph(value)}")
        for frame, line in reversed(frames_of(trace))
        if not is_library(frame.f_code.co_filename)
        for node in _added_to(_tree(frame))
        if _is_kept(value := value_of(node, frame))
    ][:_MOST_ASKED]


def _added_to(tree: ast.Module) -> Iterator[ast.expr]:
    """``total`` of ``total += loss`` and ``total = total + loss``, ``losses`` of ``losses.append(loss)``, and
    ``models`` of ``models[k] = model``."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            found[ast.unparse(node.target)] = node.target
        elif isinstance(node, ast.Attribute) and node.attr == "append":
            found[ast.unparse(node.value)] = node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            found[ast.unparse(node.targets[0].value)] = node.targets[0].value
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            found[ast.unparse(node.targets[0])] = node.targets[0]
    return iter(found.values())


def _is_kept(value: Any) -> bool:
    return type(value) in (int, float, list, dict) or is_array(value)


def _graph(value: Any) -> str:
    """Empty where it is not known."""
    last = value[-1] if type(value) is list and value else value
    if not is_array(last) or type(last).__name__ not in _OF_NUMBERS or type(last).__name__ == "ndarray":
        return ""
    has = getattr(last, "grad_fn", None) is not None or getattr(last, "stop_gradient", True) is False
    return "; with a graph" if has else "; without a graph"


def conditions(frame: FrameType | None) -> list[Told]:
    """The same of the functions that a thread is in, and of the innermost line that is no library's."""
    found: list[Told] = []
    while frame is not None and len(found) < _MOST_ASKED:
        if not is_library(frame.f_code.co_filename):
            found += [] if found else _told(frame, frame.f_lineno)[:_MOST]
            found += _conditions(frame, frame.f_lineno)
            _let_go(frame)
        frame = frame.f_back
    return found[:_MOST_ASKED]


def _let_go(frame: FrameType) -> None:
    """Until Python 3.12 a frame keeps what ``f_locals`` has given out, and so what the program drops."""
    if sys.version_info < (3, 13) and frame.f_code.co_flags & _OF_FUNCTION:
        names = frame.f_locals
        # or the program has it of locals()
        if sys.getrefcount(names) <= _OURS_ALONE:
            names.clear()


def frames_of(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    frames: list[tuple[FrameType, int]] = []
    while trace is not None:
        frame = trace.tb_frame
        # paddle's eval_frame leaves an empty frame of each function, at its first line
        if frames and frames[-1][1] == frame.f_code.co_firstlineno and _is_of(frames[-1][0], frame):
            frames.pop()
        frames.append((frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


def _is_of(one: FrameType, other: FrameType) -> bool:
    """Whether two frames are of one function."""
    codes = (one.f_code, other.f_code)
    return len({(code.co_filename, code.co_firstlineno, code.co_name) for code in codes}) == 1


def is_library(file: str) -> bool:
    return bool(_LIBRARIES.search(file)) or file.startswith((_STANDARD, _OURS))


def _tree(frame: FrameType) -> ast.Module:
    return ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))


def _told(frame: FrameType, line: int) -> list[Told]:
    """What the statement in a line reads, in its order."""
    statement = statement_of(frame, line)
    return [] if statement is None else _named(statement, line, frame)


def statement_of(frame: FrameType, line: int) -> ast.stmt | None:
    """The innermost statement that a line is of."""
    statement = None
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    for node in ast.walk(alone(lines, frame.f_code) or _tree(frame)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            statement = node  # from the outside in
    return statement


def _conditions(frame: FrameType, line: int) -> list[Told]:
    if is_library(frame.f_code.co_filename):
        return []
    scope: ast.AST = _tree(frame)
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == frame.f_code.co_name:
            scope = node if node.lineno <= line <= (node.end_lineno or node.lineno) else scope
    found: list[Told] = []
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If | ast.While):
            found += _named(node.test, node.lineno, frame)
        elif isinstance(node, ast.For | ast.AsyncFor):
            found += _named(node.iter, node.lineno, frame)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting += ast.iter_child_nodes(node)
    return found


def _named(node: ast.AST, line: int, frame: FrameType) -> list[Told]:
    told: dict[str, str] = {}
    for one in _operands(node, frame):
        value, name = value_of(one, frame), ast.unparse(one)
        what = "" if value is MISSING else described(value)
        if isinstance(value, type) and name.rpartition(".")[2][:1].islower():
            what = f"the class {value.__name__}"
        if what:
            told.setdefault(name[:_LONGEST], what[:_LONGEST])
    return [(frame.f_code.co_filename, line, name, what) for name, what in told.items()]


def _operands(within: ast.AST, frame: FrameType) -> Iterator[ast.expr]:
    """The names, attributes and items that are read, each as far as it has a value."""
    waiting: list[ast.AST] = [within]
    while waiting:
        node = waiting.pop(0)
        is_one = isinstance(node, _READ) and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.expr) and is_one and value_of(node, frame) is not MISSING:
            yield node
        else:
            # what a loop or a function goes on to is not in its line
            waiting[:0] = [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt)]


def value_of(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, MISSING))
    if isinstance(node, ast.Attribute):
        return attribute(value_of(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(value_of(node.value, frame), value_of(node.slice, frame))
    return MISSING


def attribute(of: Any, name: str) -> Any:
    own = members(of)
    for every in (own, *(own.get(each) for each in MEMBERS)):
        if isinstance(every, dict) and name in every:
            return every[name]
    return MISSING


def _item(of: Any, key: Any) -> Any:
    if (type(of) is dict and type(key) in (str, int)) and key in of:
        return of[key]
    if type(of) in (list, tuple) and type(key) is int and -len(of) <= key < len(of):
        return of[key]
    # a list, a dict or a sequence of layers
    layers = _children(of) if type(of).__module__.partition(".")[0] in _ARRAYS else None
    return layers.get(str(key), MISSING) if layers and type(key) in (str, int) else MISSING


def described(value: Any) -> str:
    """Empty for functions, classes and modules: their names say it."""
    kind = type(value)
    if value is None or kind in (bool, float) or (kind is int and abs(value) < 10**9):
        return repr(value)
    if kind is str:
        return f"str of {len(value)} characters"
    items = attribute(value, "data") if is_among(UserDict, kind.__mro__) else value
    if type(items) is dict:
        several = islice(items.items(), _MOST_ITEMS)
        keys = ", ".join(f"{key!r}{_sized(one)}" for key, one in several if type(key) in (str, int))
        return f"{kind.__name__} of {len(items)}" + (f" ({keys})" if keys else "")
    if kind is tuple and 0 < len(value) <= _FEW and all(type(one) in (int, float) for one in value):
        return repr(value)
    if kind in (list, tuple) and value and type(value[0]) not in _PLAIN:
        items = f"{type(value[0]).__name__}{_sized(value[0])}{_unlike(value)}"
        return f"{kind.__name__} of {len(value)} ({items})"
    if kind in (list, tuple, set, frozenset, bytes, bytearray):
        return f"{kind.__name__} of {len(value)}"
    # isinstance() would ask the value for its class
    if issubclass(kind, _NOT_VALUES) or kind.__name__ in _FUNCTIONS_OF_NUMPY:
        return ""
    if is_array(value):
        return _array(value)
    weight = attribute(value, "weight")
    if weight is not MISSING and hasattr(weight, "shape"):
        return f"{kind.__name__} with weight {_shape(weight)} {_dtype(weight)}".rstrip() + _where(weight)
    return kind.__qualname__ + _devices(value)


def is_array(value: Any) -> bool:
    family = type(value).__module__.partition(".")[0]
    return family in _ARRAYS and hasattr(value, "shape") and hasattr(value, "dtype")


def _sized(value: Any) -> str:
    """The shape of an array in a dict or a list."""
    return f" {_shape(value)}" if is_array(value) else ""


def _unlike(values: Sequence[Any]) -> str:
    """The first of the arrays in a list that has another shape than the one at its head: what stacks them
    fails by that one."""
    sizes = enumerate(map(_sized, values[:_MOST_ITEMS]))
    first = _sized(values[0])
    return next((f", at {at}:{size}" for at, size in sizes if first and size not in (first, "")), "")


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", "")).rpartition(".")[2]


def _where(value: Any) -> str:
    """`` on cuda:0``; empty of what is in the memory of the CPU."""
    # torch's device, paddle's place
    device = str(getattr(value, "device", "") or getattr(value, "place", ""))
    where = re.search(r"(?:cuda|gpu|xpu|npu|mps|meta)(?::\d+)?", device)
    return f" on {where[0]}" if where else ""


def _devices(model: Any) -> str:
    """The same of the parameters of a model: `` on cuda:0 and cpu`` where they are apart."""
    if _children(model) is None:
        return ""
    kept = (attribute(one, "_parameters") for _, one in _layers_of(model))
    parameters = [one for each in kept if isinstance(each, dict) for one in each.values()]
    places = dict.fromkeys(_where(one) or " on cpu" for one in parameters if one is not None)
    # nor is it told of a tensor that it is on the CPU
    return "" if list(places) == [" on cpu"] else " and".join(places).replace(" and on ", " and ")


def _array(value: Any) -> str:
    kind, where = _dtype(value), _where(value)
    said = f"{type(value).__name__} {_shape(value)} {kind}"
    if where:
        return said + where
    return said + (_range(value) if kind in _INTEGERS else _nans(value) if kind in _FLOATS else "")


def _range(value: Any) -> str:
    """Of numbers in the memory of the CPU that may be indices: the least and the largest."""
    size = _size(value)
    if type(value).__module__.partition(".")[0] not in ("torch", "numpy") or not 1 < size <= _MOST_VALUES:
        return ""
    return f", {int(value.min())} to {int(value.max())}"


_MARKS = (" nan", " inf")


def _nans(value: Any) -> str:
    """``, 25% nan`` of numbers in the memory of the CPU."""
    if type(value).__name__ not in _OF_NUMBERS or not 0 < _size(value) <= _MOST_LOOKED_AT:
        return ""
    try:
        numbers = value if type(value).__name__ == "ndarray" else value.detach().numpy()
    except (RuntimeError, TypeError, ValueError):  # sparse, or of a transformation of functions
        return ""
    nans, infinite = int((numbers != numbers).sum()), int((abs(numbers) == float("inf")).sum())
    if not nans and not infinite:
        return ""
    part = 100 * (nans or infinite) / _size(value)
    return f", {part:.0f}% {'nan' if nans else 'inf'}" if part >= 1 else f", some {'nan' if nans else 'inf'}"


def _size(value: Any) -> int:
    return int(value.numel() if callable(value.size) else value.size)


def _shape(value: Any) -> str:
    return str(tuple(int(size) for size in value.shape))
