"""A box: the values of some names in one file. Its format, and its reader.

```
 0  MAGIC · the begin of the index, its length (64 bits each)
    the pickles: one for each name, all by one pickler, so that two names of one object stay so
    the buffers of arrays and tensors, each aligned to ALIGNMENT
    the index, JSON: places, names, types and sizes
```

``contents`` reads the index without unpickling. ``read`` unpickles, and so runs whatever the writer chose:
only a rank reads the inputs of its own run, and only a user's own process the results that the user wants. A
reader needs the standard library and the imports of the values; ``packing`` writes.
"""

from __future__ import annotations

import json
import linecache
import mmap
import os
import pickle
import re
import struct
import weakref
from functools import partial
from glob import glob
from importlib import import_module
from types import FunctionType
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, BinaryIO

MAGIC = b"NBDBOX1\n"
HEADER = struct.Struct("<8sQQ")
ALIGNMENT = 64  # bytes: a cache line, and the widest vectors of today's processors

_AT_ONCE = 1 << 18


def write_evenly(file: BinaryIO, data: memoryview) -> None:
    """Write in small pieces, since large ones of page cache take time: 500 MB took 0.4 to 5.6 s in writes of
    64 MB, and 0.1 to 0.6 s in these."""
    for at in range(0, data.nbytes, _AT_ONCE):
        file.write(data[at : at + _AT_ONCE])


class BadBox(ValueError):
    """A file that is no box, or not a whole one."""


class Item(NamedTuple):
    """A name in a box. ``kind`` is class, function, module or data; ``size`` counts the bytes of its pickle
    and buffers, without those of the names before it. ``device`` is that of tensors, which are read as copies
    in memory. ``asked``: the user named it; other names come along. ``value`` is that of a number; ``digest``
    is of the bytes of other data, empty where they are many."""

    name: str
    kind: str
    type: str
    size: int
    device: str = ""
    asked: bool = True
    value: str = ""
    digest: str = ""


class Contents(NamedTuple):
    """The index: the place of the pickles, place and length of each buffer, the ``sources`` of sent code by
    file name, and the ``packages`` that reading imports, without the standard library."""

    items: tuple[Item, ...]
    pickles: int
    buffers: tuple[tuple[int, int], ...]
    sources: dict[str, str]
    packages: tuple[str, ...]

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, text: bytes) -> Contents:
        """Parse an index. Raises BadBox."""
        try:
            index = json.loads(text)
            return cls(
                items=tuple(Item(*item) for item in index["items"]),
                pickles=index["pickles"],
                buffers=tuple((at, size) for at, size in index["buffers"]),
                sources=index["sources"],
                packages=tuple(index["packages"]),
            )
        # as decoding.MALFORMED, without nbdist.model
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise BadBox(f"its index cannot be read: {error}") from None


def contents(path: str | os.PathLike[str]) -> Contents:
    """Read the index of a box without unpickling. Raises OSError and BadBox."""
    with open(path, "rb") as file:
        begin, length = _header(file.read(HEADER.size))
        file.seek(begin)
        return Contents.decode(file.read(length))


def read(path: str | os.PathLike[str] | int, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of a box by their names, with those that they use.

    Functions that were sent with their namespace get ``namespace``, or a new one, as their globals, with the
    names that they use. Arrays and tensors are the file's own pages, which all readers of a machine share
    until one writes to a page and gets a copy.

    ``path`` may be the descriptor of an open file, which is closed. Raises OSError and BadBox, and CannotRead
    where making a value raises.
    """
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    begin, length = _header(mapped[: HEADER.size])
    index = Contents.decode(mapped[begin : begin + length])
    view = memoryview(mapped)
    reader = _Reader(mapped, (view[at : at + size] for at, size in index.buffers), namespace)
    mapped.seek(index.pickles)
    values: dict[str, Any] = {}
    builtins = (namespace or {}).get("__builtins__")
    for item in index.items:
        try:
            values[item.name] = reader.load()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise CannotRead(f"{item.name} ({item.type}) cannot be made here: {problem}") from error
    if namespace is not None and builtins is not None:
        # making a function replaces it
        namespace["__builtins__"] = builtins
    return values


def bring(path: str, namespace: dict[str, Any]) -> None:
    """Put a box's values into ``namespace``, and their sources into linecache. Raises as ``read``."""
    for title, text in contents(path).sources.items():
        # without a time linecache does not look for a file of this name
        linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
    namespace.update(read(path, namespace))
    if complete_classes:
        find_classes(import_module("inspect"))  # cloudpickle has imported it


def find_classes(inspect: Any) -> None:
    """Let ``inspect`` find a class of ``__main__`` that was sent, or defined in a cell of a session."""
    if not isinstance(inspect.getfile, partial):
        inspect.getfile = partial(_getfile, inspect.getfile)


def _getfile(getfile: Callable[[Any], str], kind: Any) -> str:
    if isinstance(kind, type) and kind.__module__ == "__main__":
        cells = sorted(glob(os.path.join(os.environ.get("NBDIST_RUN_DIR", ""), "cells", "*.py")))
        return complete_classes.get(kind) or file_of(kind, cells) or getfile(kind)
    return getfile(kind)


def file_of(kind: type, cells: Sequence[str]) -> str:
    """Return the latest of the ``cells`` with the statement of a class, with its methods if possible."""
    files = {member.__code__.co_filename for member in vars(kind).values() if type(member) is FunctionType}
    statement = re.compile(rf"\s*class {re.escape(kind.__name__)}\b")
    cells = [cell for cell in reversed(cells) if any(map(statement.match, linecache.getlines(cell)))]
    return max(cells, key=files.__contains__, default="")


class CannotRead(Exception):
    """A value that cannot be made in this process."""


def _header(head: bytes) -> tuple[int, int]:
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise BadBox("it does not begin as one")
    _, begin, length = HEADER.unpack(head)
    return begin, length


class _Reader(pickle.Unpickler):
    def __init__(
        self, file: mmap.mmap, buffers: Iterator[memoryview], namespace: dict[str, Any] | None
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._namespace = {"__name__": "__main__"} if namespace is None else namespace

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == "same_namespace":
            return lambda: self._namespace
        return super().find_class(module, name)


# The functions that the pickles of ``packing`` call.


def same_namespace() -> dict[str, Any]:
    """Stand for the reader's namespace: its ``find_class`` replaces this function."""
    raise AssertionError


complete_classes: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
"""Classes that this process has whole, which a copy that returns must not overwrite, with their files."""


def complete_class(cls: type, state: Sequence[Any]) -> None:
    """Fill a class that was sent by value with its members, unless this process has it."""
    if cls not in complete_classes:
        fill, members, *code = state
        complete_classes[cls] = code[0].co_filename if code else ""
        fill(cls, members)


def cached_function(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Callable[..., Any]:
    """Return a function under ``functools.lru_cache``, with an empty cache."""
    from functools import lru_cache

    return lru_cache(maxsize, typed)(function)


def cached_property(function: Callable[[Any], Any], name: str) -> Any:
    """Return a property that computes its value once."""
    from functools import cached_property

    made = cached_property(function)
    # a class that is filled later does not call __set_name__
    made.attrname = name
    return made


def new_type(name: str, kind: Any) -> Any:
    """Return a type of ``typing.NewType``, of ``__main__``."""
    from typing import NewType

    made = NewType(name, kind)  # type: ignore[misc]  # its name is not known before
    made.__module__ = "__main__"
    return made


def typed_dict(name: str, fields: dict[str, Any], about: Mapping[str, Any]) -> Any:
    """Return a class of ``typing.TypedDict``, of ``__main__``."""
    from typing import TypedDict

    made: Any = TypedDict(name, fields)  # type: ignore[misc]  # as above
    for key, value in about.items():
        setattr(made, key, value)
    made.__module__ = "__main__"
    return made


def torch_storage(buffer: Any) -> Any:
    """Return a storage of tensors that shares its bytes with ``buffer``."""
    torch: Any = import_module("torch")
    if not len(buffer):
        return torch.UntypedStorage(0)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()


def torch_tensor(
    storage: Any,
    dtype: str,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    parameter: bool,
    gradient: bool,
) -> Any:
    """Return a tensor, or a Parameter, of these elements (not bytes) of a storage."""
    torch: Any = import_module("torch")
    tensor = torch.empty(0, dtype=getattr(torch, dtype)).set_(storage, offset, shape, strides)
    return torch.nn.Parameter(tensor, gradient) if parameter else tensor.requires_grad_(gradient)


def paddle_tensor(array: Any, dtype: str, gradient: bool, parameter: Mapping[str, Any] | None) -> Any:
    """Return a tensor in memory; a parameter of a Layer where its attributes are given."""
    paddle: Any = import_module("paddle")
    tensor = paddle.to_tensor(array, dtype=dtype, place=paddle.CPUPlace(), stop_gradient=not gradient)
    if parameter is None:
        return tensor
    made = paddle.base.framework.EagerParamBase.from_tensor(tensor, trainable=gradient, **parameter)
    # no later layer may reuse this name (``linear_0.w_0``): optimizers identify parameters by it
    layer, _, number = made.name.partition(".")[0].rpartition("_")
    ids = getattr(getattr(import_module("paddle.base.unique_name"), "generator", None), "ids", None)
    if ids is not None and number.isdigit():
        ids[layer] = max(ids[layer], int(number) + 1)
    return made
