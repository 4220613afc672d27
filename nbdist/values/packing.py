"""Values of a namespace pickled into a box, and the values that are refused.

Definitions of ``__main__`` go by value (cloudpickle). ``pack`` makes the pickles, which refer to arrays and
tensors in memory; ``Packed.write`` copies these into the file. Import it only to pack: cloudpickle is slow.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import io
import linecache
import os
import pickle
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import _lru_cache_wrapper as lru_cache_wrapper
from functools import cache
from pathlib import Path
from typing import Any

import cloudpickle

from nbdist.tables import read_table
from nbdist.values import box
from nbdist.values.box import ALIGNMENT, HEADER, MAGIC, Contents, Item, write_evenly

_SMALL = 1024  # bytes below which a buffer stays in its pickle
_NUMBER = 200  # bytes of a number whose value is in the index
_HASHED = 1 << 28  # bytes of data whose digest takes a quarter of a second


class Unsendable(Exception):
    """A value that cannot go into a box; the message is one line, with advice."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class TooLarge(Exception):
    """Pickles that are too large; ``items`` are the names up to the one that made them so."""

    def __init__(self, items: list[Item]) -> None:
        super().__init__(", ".join(f"{item.name}: {item.size} bytes" for item in items))
        self.items = items


@dataclass(frozen=True, kw_only=True)
class Packed:
    """The content of a box to be written. ``size`` is about that of the file."""

    items: tuple[Item, ...]
    pickles: bytes
    buffers: tuple[memoryview, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)

    def write(self, path: Path) -> Contents:
        """Write the box whole or not at all, for this user alone. Raises OSError."""
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                contents = self._write(file)
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return contents

    def _write(self, file: io.BufferedWriter) -> Contents:
        file.write(HEADER.pack(MAGIC, 0, 0))
        file.write(self.pickles)
        places = []
        for buffer in self.buffers:
            file.write(bytes(-file.tell() % ALIGNMENT))
            places.append((file.tell(), buffer.nbytes))
            write_evenly(file, buffer)
        contents = Contents(
            items=self.items,
            pickles=HEADER.size,
            buffers=tuple(places),
            sources=dict(self.sources),
            packages=self.packages,
        )
        begin, index = file.tell(), contents.encode()
        file.write(index)
        file.seek(0)
        # last: a file that was not written to its end is no box
        file.flush()
        file.write(HEADER.pack(MAGIC, begin, len(index)))
        return contents


def pack(
    values: Mapping[str, object],
    *,
    namespace: dict[str, Any] | None = None,
    title: Callable[[str], str] = lambda filename: filename,
    most: int | None = None,
) -> Packed:
    """Pickle the values of these names. Raises Unsendable and TooLarge.

    ``namespace`` is the notebook's: its functions get the reader's namespace instead, with the names that
    they use. ``title`` returns the new file name of a function's code; where it differs, the box has the
    source, too. ``most`` limits the bytes of the pickles, without arrays and tensors.
    """
    return _Packer(namespace, title, most).pack(values)


def kind_of(value: object) -> str:
    """Return class, function, module or data."""
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    return "function" if isinstance(value, types.FunctionType) else "data"


class _Refused(Exception):
    def __init__(self, kind: type, what: str, instead: str) -> None:
        super().__init__(what)
        self.kind, self.what, self.instead = kind, what, instead


class _Full(Exception):
    pass


class _Sink(io.BytesIO):
    """The pickles. ``write`` raises _Full above ``most`` bytes; ``wanted`` includes the write that raised."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self._most = most
        self.wanted = 0

    def write(self, data: Any, /) -> int:
        self.wanted = self.tell() + len(data)
        if self._most is not None and self.wanted > self._most:
            raise _Full
        return super().write(data)


class _Namespace(dict[str, Any]):
    """A stand-in for the globals of a notebook's functions."""


@dataclass(frozen=True, slots=True)
class _Storage:
    """The bytes under one or several torch tensors."""

    storage: Any

    def __reduce__(self) -> tuple[object, ...]:
        torch: Any = sys.modules["torch"]
        held = self.storage if self.storage.device.type == "cpu" else self.storage.cpu()
        array = torch.empty(0, dtype=torch.uint8).set_(held).numpy()
        return box.torch_storage, (pickle.PickleBuffer(array),)


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    def __init__(
        self, namespace: dict[str, Any] | None, title: Callable[[str], str], most: int | None
    ) -> None:
        self._sink = _Sink(most)
        super().__init__(self._sink, protocol=5, buffer_callback=self._take)
        self._buffers: list[memoryview] = []
        self._namespace = namespace
        self._title = title
        self._storages: dict[int, _Storage] = {}
        self._sources: dict[str, str] = {}
        self._modules: set[str] = set()
        self._visited: set[str] = set()
        self._along: dict[str, object] = {}
        self._devices: set[str] = set()
        if namespace is not None:
            self.globals_ref[id(namespace)] = _Namespace(__name__="__main__")

    def pack(self, values: Mapping[str, object]) -> Packed:
        items: dict[str, Item] = {}
        users: dict[str, str] = {}
        for name, value in values.items():
            self._order(name, value, "", users)
        waiting = {name: values[name] if name in values else (self._namespace or {})[name] for name in users}
        while waiting:
            for name, value in waiting.items():
                user = "" if name in values else users.get(name, "")
                items[name] = self._item(name, value, list(items.values()), user, asked=name in values)
            waiting = {name: value for name, value in self._along.items() if name not in items}
        packages = {module.partition(".")[0] for module in self._modules} - sys.stdlib_module_names
        return Packed(
            items=tuple(items.values()),
            pickles=self._sink.getvalue(),
            buffers=tuple(self._buffers),
            sources=self._sources,
            packages=tuple(sorted(packages - {"", "__main__", "__mp_main__", "nbdist", "cloudpickle"})),
        )

    def _order(self, name: str, value: object, user: str, users: dict[str, str]) -> None:
        """Add a definition to ``users`` after the names that it uses, so that each has its own size."""
        space = self._namespace or {}
        if name in users or name in self._visited:
            return
        self._visited.add(name)
        for used in _globals_of(value, space):
            if used in space and not used.startswith("__"):
                self._order(used, space[used], name, users)
        users[name] = user

    def _item(self, name: str, value: object, before: list[Item], user: str, *, asked: bool) -> Item:
        begin, buffers = self._sink.tell(), len(self._buffers)
        self._devices.clear()
        problem = ""
        try:
            self.dump(value)
        except _Refused as refused:
            verb = "is" if refused.kind is type(value) else "holds"
            problem = f"{verb} {refused.what}, which cannot be sent: {refused.instead}"
        except (_Full, MemoryError):
            size = self._sink.wanted - begin + self._buffered(buffers)
            raise TooLarge([*before, Item(name, kind_of(value), type(value).__name__, size)]) from None
        except Exception as error:  # noqa: BLE001 - what an object's own code raises when it is pickled
            reason = " ".join(str(error).split()) or type(error).__name__
            problem = f"cannot be sent ({reason}): make it in the cell, of values that can"
        if problem:
            used = f", which {user} uses," if user else ""
            raise Unsendable(name, f"{name} ({type(value).__name__}){used} {problem}") from None
        size = self._sink.tell() - begin + self._buffered(buffers)
        device, kind = ", ".join(sorted(self._devices)), kind_of(value)
        number = str(value) if isinstance(value, (bool, int, float)) and size <= _NUMBER else ""
        # the bytes of a function differ between kernels
        digest = self._digest(begin, buffers) if kind == "data" and not number and size <= _HASHED else ""
        return Item(name, kind, type(value).__name__, size, device, asked, number, digest)

    def _buffered(self, begin: int) -> int:
        return sum(buffer.nbytes for buffer in self._buffers[begin:])

    def _digest(self, begin: int, buffers: int) -> str:
        digest = hashlib.blake2b(self._sink.getbuffer()[begin:], digest_size=4)
        for buffer in self._buffers[buffers:]:
            digest.update(buffer)
        return digest.hexdigest()

    def _take(self, buffer: pickle.PickleBuffer) -> bool:
        """Take a large buffer; return whether it stays in the pickle instead."""
        raw = buffer.raw()
        if raw.nbytes < _SMALL:
            return True
        self._buffers.append(raw)
        return False

    def reducer_override(self, obj: Any) -> Any:
        """Return the reduction of ``obj``. pickle calls it for all but plain values."""
        kind = type(obj)
        if refusal := _refusal(kind):  # type: ignore[arg-type]  # every class is hashable
            raise _Refused(kind, *refusal)
        self._modules.add(str(getattr(kind, "__module__", "")))
        if isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType)):
            self._modules.add(str(obj.__module__))
        elif isinstance(obj, types.ModuleType):
            self._modules.add(obj.__name__)
        own = _REDUCERS.get(f"{kind.__module__}.{kind.__qualname__}")
        reduced = NotImplemented if own is None else own(self, obj)
        if reduced is not NotImplemented:
            return reduced
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented or not isinstance(obj, (type, types.FunctionType)):
            return reduced
        return self._defined(obj, reduced)

    def _defined(self, obj: Any, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """Reduce a class or function by value; the reader's ``__main__`` gets it with the names it uses."""
        name: str = obj.__name__
        if self._namespace is not None and self._namespace.get(name) is obj:
            self._along[name] = obj
        if isinstance(obj, types.FunctionType):
            if obj.__globals__ is self._namespace:
                used = reduced[2][1]["__globals__"]
                self._along.update({name: value for name, value in used.items() if name[:2] != "__"})
            return reduced
        if typing.is_typeddict(obj):
            about = {key: getattr(obj, key) for key in _OF_TYPED_DICTS}
            return box.typed_dict, (name, obj.__annotations__, about)
        if len(reduced) == _WITH_SETTER:
            box.complete_classes.setdefault(obj, "")
            cells = [name for name in list(linecache.cache) if self._title(name) != name]
            file = box.file_of(obj, cells) or getattr(sys.modules.get(obj.__module__), "__file__", None)
            # code goes with its title and source; cloudpickle forgets the class around a class
            setter, members, code = reduced[-1], reduced[2], compile("", file or "", "exec")
            members[0]["__qualname__"] = obj.__qualname__
            make, arguments = reduced[:2]
            if vars(obj).get("__slots__") and isinstance(arguments[0], type):
                # cloudpickle sets them later, without effect
                start = {**arguments[3], "__slots__": obj.__slots__}
                arguments = (*arguments[:3], start, *arguments[4:])
            return (make, arguments, (setter, members, code), *reduced[3:-1], box.complete_class)
        return reduced

    def _code(self, code: types.CodeType) -> Any:
        title = self._title(code.co_filename)
        if title != code.co_filename:
            self._sources.setdefault(title, "".join(linecache.getlines(code.co_filename)))
        make, arguments = self.dispatch_table[types.CodeType](code)
        # cloudpickle 3.1.3 and newer have no file name there
        return make, (*arguments[:_FILE_NAME], title, *arguments[_FILE_NAME + 1 :])

    def _same_namespace(self, _: _Namespace) -> Any:
        return box.same_namespace, ()

    def _cached(self, function: Any) -> Any:
        """Reduce a function under ``functools.lru_cache``; pickle would send its name alone."""
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is None or self.reducer_override(wrapped) is NotImplemented:
            return NotImplemented
        about = function.cache_parameters()
        return box.cached_function, (wrapped, about["maxsize"], about["typed"])

    def _cached_property(self, member: functools.cached_property[Any]) -> Any:
        # before Python 3.12 it has a lock
        return box.cached_property, (member.func, member.attrname)

    def _new_type(self, kind: Any) -> Any:
        # pickle would send the name alone
        own = kind.__module__ == "__main__"
        return (box.new_type, (kind.__name__, kind.__supertype__)) if own else NotImplemented

    def _torch(self, tensor: Any) -> Any:
        """Reduce a plain tensor; torch sends the others, with copies."""
        torch: Any = sys.modules["torch"]
        plain = tensor.layout == torch.strided and tensor.device.type not in ("meta", "xla")
        if not plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or vars(tensor):
            return NotImplemented
        if tensor.device.type != "cpu":
            self._devices.add(str(tensor.device))
        storage = tensor.untyped_storage()
        # the kept _Storage keeps the storage, so that no other one gets its number
        held = self._storages.setdefault(storage._cdata, _Storage(storage))
        about = str(tensor.dtype).removeprefix("torch."), tensor.storage_offset()
        shape = tuple(tensor.shape), tensor.stride()
        parameter = type(tensor) is torch.nn.Parameter
        return box.torch_tensor, (held, *about, *shape, parameter, tensor.requires_grad)

    def _paddle(self, tensor: Any) -> Any:
        if not tensor.is_dense():
            return NotImplemented
        if not tensor.place.is_cpu_place():
            self._devices.add(str(tensor.place).removeprefix("Place(").removesuffix(")"))
        parameter = None
        if type(tensor).__name__ == "EagerParamBase":
            parameter = {name: getattr(tensor, name) for name in _OF_PARAMETERS}
        dtype = str(tensor.dtype).removeprefix("paddle.")
        return box.paddle_tensor, (tensor.numpy(), dtype, not tensor.stop_gradient, parameter)


_OF_TYPED_DICTS = ("__total__", "__required_keys__", "__optional_keys__")
_OF_PARAMETERS = ("name", "optimize_attr", "regularizer", "do_model_average", "need_clip", "is_distributed")
_WITH_SETTER = 6
"""The length of a class's reduction whose last part fills in the members (``object.__reduce__``)."""
_FILE_NAME = 10  # the index of ``co_filename`` in the arguments of ``types.CodeType``

_REDUCERS: dict[str, Callable[[_Packer, Any], Any]] = {
    "builtins.code": _Packer._code,
    f"{__name__}._Namespace": _Packer._same_namespace,
    "functools._lru_cache_wrapper": _Packer._cached,
    "functools.cached_property": _Packer._cached_property,
    "typing.NewType": _Packer._new_type,
    "torch.Tensor": _Packer._torch,
    "torch.nn.parameter.Parameter": _Packer._torch,
    "paddle.Tensor": _Packer._paddle,
    "paddle.base.framework.EagerParamBase": _Packer._paddle,
}


def _globals_of(value: Any, namespace: dict[str, Any]) -> Iterator[str]:
    """Yield the globals that a function of this namespace or a class's methods read, and the bases."""
    if isinstance(value, (staticmethod, classmethod)) or type(value) is lru_cache_wrapper:
        value = value.__wrapped__
    if isinstance(value, functools.cached_property):
        value = value.func
    if isinstance(value, functools.partial):
        name = getattr(value.func, "__name__", "")
        yield from [name] if namespace.get(name) is value.func else _globals_of(value.func, namespace)
        return
    if isinstance(value, types.FunctionType):
        if value.__globals__ is namespace:
            yield from _loads(value.__code__)
        return
    if isinstance(value, property):
        for function in (value.fget, value.fset, value.fdel):
            yield from _globals_of(function, namespace)
        return
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ != "__main__":
        return
    yield from (base.__name__ for base in kind.__mro__ if namespace.get(base.__name__) is base)
    for member in vars(kind).values():
        if not isinstance(member, type) and type(member).__module__ != "__main__":
            yield from _globals_of(member, namespace)


def _loads(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _loads(constant)


@cache
def _refusal(kind: type) -> tuple[str, str] | None:
    """Return the words for a type that is refused and the alternative; None for others."""
    names = (f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__)
    rows = read_table(__file__, "refused").values()
    row = next((row for name in names for row in rows if name in row["types"]), None)
    return None if row is None else (row["what"], row["instead"])
