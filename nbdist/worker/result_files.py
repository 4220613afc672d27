"""``nbdist.result``: values that a rank stores for the notebook, each in a file that is whole or absent; and
``nbdist.params``: the values of a sweep's point.

    ranks/0/results/acc.4711-1.json    the value
    ranks/0/results/acc.index.json     its kind, type, shape, … and the name of that file

A new value replaces the index, and then the old value's file is removed: a rank that is killed at any moment
leaves either value whole.

The first format that keeps a value unchanged stores it: JSON, npy (arrays of numpy), safetensors (tensors of
torch and paddle, a dict of them, a module by its state_dict), whose readers execute nothing; else a box
(``values.box``), which is a pickle.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from contextlib import suppress

from nbdist.worker.error_report import type_name
from nbdist.worker.files import put, remove
from nbdist.worker.order import PARAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, BinaryIO


RETURNED = "_"
"""The name of the result of ``nbdist.run``'s function."""

CALL = "_call"
"""The name under which ``nbdist.run`` pushes its function and the arguments."""

LAST = "__last__"
"""The name of the printed value of a cell's last expression."""

INDEX = ".index.json"
"""The suffix of a result's index."""

_LONGEST_NAME = 150  # bytes: a file's name may have 255
_LONGEST_REPR = 200
_LONGEST_PROBLEM = 500
_EXACT = (type(None), bool, int, float, str)
_FRAMEWORKS = {"torch", "paddle"}

_numbers = itertools.count(1)


class Params(dict):  # type: ignore[type-arg]  # its values are of any type
    """A dict whose items are attributes, too: ``params.lr``, ``params["lr"]``, ``params.get("lr", 0.1)``,
    ``parser.set_defaults(**params)``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(str(error.args[0])) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __missing__(self, name: str) -> Any:
        known = f"the sweep has {', '.join(self)}" if self else "this run is not of a sweep"
        raise KeyError(f"nbdist.params has no {name}: {known}; nbdist.params.get({name!r}, …) has a default")


params = Params(json.loads(os.environ.get(PARAMS, "{}")))
"""The values of this run's point of a sweep; empty in any other run, and in a notebook."""


def result(**values: object) -> None:
    """Store values of this rank: ``nbdist.result(acc=acc, model=model)``.

    ``--pull acc,model`` puts those of rank 0 into the notebook, ``run.results`` reads them anywhere. The last
    value of a name counts. A model (of torch or paddle) is stored as its state_dict. For a value that cannot
    be stored the rank prints a line, and the program goes on. Outside a run this does nothing.
    """
    for name in values:
        if not name.isidentifier() or len(name.encode()) > _LONGEST_NAME:
            raise TypeError(f"nbdist.result(…): {name!r} cannot be the name of a variable")
    directory = os.environ.get("NBDIST_RANK_DIR")
    if directory is None:
        return
    for name, value in values.items():
        _store(os.path.join(directory, "results"), name, value)


def keep_last(value: object) -> None:
    """Store the printed value of the cell's last expression for the notebook."""
    result(**{LAST: printed(repr, value)})


def keep_variables(names: Sequence[str], namespace: Mapping[str, object]) -> None:
    """Store those variables of ``namespace`` that are no results yet."""
    directory = os.path.join(os.environ["NBDIST_RANK_DIR"], "results")
    for name in names:
        if name in namespace and not os.path.exists(os.path.join(directory, name + INDEX)):
            result(**{name: namespace[name]})


def printed(form: Callable[[object], str], value: object) -> str:
    """Return a value as ``form``, a kind of ``repr``, prints it, also where that raises."""
    try:
        return form(value)
    except Exception as error:  # noqa: BLE001 - a value need not be printed to be stored
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}: {error}>"


def _store(directory: str, name: str, value: object) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        about = _write_value(directory, name, value)
    except Exception as error:  # noqa: BLE001 - whatever pickling raises: training must not stop for it
        problem = f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM]
        print(f"nbdist: result {name} is not stored ({problem})", file=sys.stderr)
        about = {"problem": problem, "type": type_name(value)}
    try:
        _write_index(directory, name, about)
    except OSError as error:
        if "problem" not in about:
            remove(os.path.join(directory, about["file"]))
            print(f"nbdist: result {name} is not stored ({error.strerror})", file=sys.stderr)


def _write_index(directory: str, name: str, about: Mapping[str, object]) -> None:
    """Write the index of a value, and remove the value before. Raises OSError."""
    path = os.path.join(directory, name + INDEX)
    try:
        with open(path, "rb") as file:
            before = str(json.load(file).get("file", ""))
    except (OSError, ValueError, AttributeError, RecursionError):
        before = ""
    put(path, json.dumps({"name": name, "time": time.time(), **about}).encode())
    if before:
        with suppress(ValueError):
            remove(os.path.join(directory, before))


def _write_value(directory: str, name: str, value: object) -> dict[str, Any]:
    """Write the value into a new file; return its entry in the index. Raises whatever prevents it."""
    kind = type_name(value)
    if _FRAMEWORKS & sys.modules.keys():
        from nbdist.values.tensors import state_of  # of a module

        value = state_of(value)
    about, write = _as_json(value) or _as_array(value) or _as_tensors(value) or _as_pickle(name, value)
    file_name = f"{name}.{os.getpid()}-{next(_numbers)}.{about['format']}"
    path = os.path.join(directory, file_name)
    try:
        write(path)
        size = os.stat(path).st_size
    except BaseException:
        remove(path)
        raise
    about.setdefault("repr", _short_repr(value))
    return {"type": kind, "bytes": size, "file": file_name, **about}


if TYPE_CHECKING:
    Form = tuple[dict[str, Any], Callable[[str], object]]
    """The entry of a value in the index, and the function that writes it to a path."""


def _in_file(write: Callable[[BinaryIO], object]) -> Callable[[str], None]:
    def write_to(path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            write(file)

    return write_to


def _as_json(value: object) -> Form | None:
    """Return the form of a value that JSON keeps unchanged."""
    try:
        if not _is_exact(value):
            return None
        text = json.dumps(value)
    except (ValueError, RecursionError):  # an int of very many digits, a list in itself
        return None
    return {"kind": "value", "format": "json"}, _in_file(lambda file: file.write(text.encode()))


def _is_exact(value: object) -> bool:
    if type(value) is list:
        return all(map(_is_exact, value))
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(map(_is_exact, value.values()))
    return type(value) in _EXACT


def _as_array(value: object) -> Form | None:
    """Return the form of an array or number of numpy whose dtype its file can name."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return None
    array = numpy.asanyarray(value)
    # objects are pickles; dtypes of other libraries (bfloat16) would be read back as raw bytes
    if array.dtype.hasobject or (array.dtype.kind == "V" and array.dtype.names is None):
        return None
    kind = "array" if type(value) is numpy.ndarray else "number"
    about = {"kind": kind, "format": "npy", "shape": list(array.shape), "dtype": str(array.dtype)}
    return about, _in_file(lambda file: numpy.save(file, array, allow_pickle=False))


def _as_tensors(value: object) -> Form | None:
    """Return the form of a tensor, or of a dict of tensors of one framework."""
    if not _FRAMEWORKS & sys.modules.keys():
        return None
    from nbdist.values import tensors

    given: dict[Any, Any] = value if isinstance(value, dict) else {RETURNED: value}
    frameworks = {tensors.framework_of(tensor) for tensor in given.values()}
    framework = next(iter(frameworks), "")
    if not framework or len(frameworks) > 1 or any(type(key) is not str for key in given):
        return None
    about: dict[str, Any] = {"kind": "state_dict", "format": "safetensors", "framework": framework}
    if given is value:
        about |= {"repr": f"{len(given)} tensor{'s' if len(given) > 1 else ''}"}
    else:
        tensor = given[RETURNED]
        about |= {"kind": "tensor", "shape": list(tensor.shape), "dtype": tensors.dtype_of(tensor)}
    return about, _in_file(lambda file: tensors.write(file, given, framework))


def _as_pickle(name: str, value: object) -> Form:
    """Return any other value's form: a box with the program's own classes and functions, or without
    cloudpickle a plain pickle. Raises TypeError, and whatever pickling raises."""
    try:
        from nbdist.values import packing
    except ImportError:
        import pickle

        return {"kind": "object", "format": "pickle"}, _in_file(lambda file: pickle.dump(value, file, 5))
    from pathlib import Path

    try:
        packed = packing.pack({name: value})
    except packing.Unsendable as error:
        # its advice is for values that are pushed into a run
        raise TypeError(str(error).rpartition(": ")[0]) from None
    return {"kind": "object", "format": "box"}, lambda path: packed.write(Path(path))


def _short_repr(value: object) -> str:
    import reprlib

    short = reprlib.Repr()
    short.maxstring = short.maxother = _LONGEST_REPR
    return printed(short.repr, value)[:_LONGEST_REPR]
