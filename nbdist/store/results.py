"""The results of ranks (``nbdist.result``), read back: their index, and single values. And the outputs of
ranks besides text (``worker.display``): records, and the files that they name.

A value is read only where directory and file are this user's alone; ``read_value`` alone loads a pickle (a
box is one), which executes its content. The rank wrote the whole index: a format selects a reader, and the
reader alone decides what may be executed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from nbdist.errors import NotPrivate, UsageMistake
from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_int, as_time, build, loads
from nbdist.store.journal import load_object, open_plain, read_whole
from nbdist.store.logs import LogStream, is_listed
from nbdist.store.paths import RankDirectory, RunDirectory, check_private
from nbdist.values import box, tensors

_INDEX = ".index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The index of one result. ``kind`` is value, number, array, tensor, state_dict or object; ``format``
    json, npy, safetensors, box or pickle. ``type`` is the value's class in the rank, ``bytes`` the size of
    its file, ``time`` in Unix seconds. A result with a ``problem`` could not be stored."""

    name: str
    time: float = 0.0
    kind: str = ""
    type: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    bytes: int = 0
    repr: str = ""
    format: str = ""
    framework: str = ""
    file: str = ""
    problem: str = ""


def read_index(files: RankDirectory) -> dict[str, Result]:
    """Return the results of a rank by their names, in the order of time."""
    names: list[str] = []
    if is_listed(files.results):
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(files.results) if name.endswith(_INDEX)]
    results = []
    for name in names:
        with contextlib.suppress(OSError, *MALFORMED):
            result = build(Result, load_object(files.results / name))
            # the value lies beside its index, and nowhere else
            if result.name == name.removesuffix(_INDEX) and os.path.basename(result.file) == result.file:
                results.append(result)
    return {result.name: result for result in sorted(results, key=lambda result: result.time)}


def read_value(files: RankDirectory, result: Result, *, pickles: bool = True) -> Any:
    """Return the value of a result. Raises UsageMistake for a pickle unless ``pickles`` may be executed,
    NotPrivate where another user could have written the file, FileNotFoundError where the rank has replaced
    the value, OSError or ValueError for a file that cannot be read, and whatever a pickle raises."""
    if result.format in _EXECUTE and not pickles:
        raise UsageMistake(
            f"result {result.name} ({result.type}) is a pickle, which can execute anything when it is "
            f"read: if you trust the program, type  run.results[{result.name!r}]"
        )
    for directory in (files.path, files.results):
        check_private(directory)
    path = files.results / result.file
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise NotPrivate(path, "can be written by others", "type  chmod go-w  and its name")
        return (_EXECUTE | _READ)[result.format](file, result)


def _read_json(file: BinaryIO, _: Result) -> Any:
    return loads(file.read(), exact=True)


def _read_array(file: BinaryIO, result: Result) -> Any:
    import numpy.lib.format

    array = numpy.lib.format.read_array(file, allow_pickle=False)
    return array[()] if result.kind == "number" else array


def _read_tensors(file: BinaryIO, result: Result) -> Any:
    values = tensors.read(file, result.framework)
    return values if result.kind == "state_dict" else next(iter(values.values()))


def _read_box(file: BinaryIO, result: Result) -> Any:
    return box.read(os.dup(file.fileno()))[result.name]


def _read_pickle(file: BinaryIO, _: Result) -> Any:
    return pickle.load(file)


Reader = Callable[[BinaryIO, Result], Any]
# these execute nothing, whatever the file holds
_READ: dict[str, Reader] = {"json": _read_json, "npy": _read_array, "safetensors": _read_tensors}
# these execute what the file says
_EXECUTE: dict[str, Reader] = {"box": _read_box, "pickle": _read_pickle}

# outputs besides text

_FILE = re.compile(r"[0-9a-f]{32}\.(?:png|jpg|svg|html)")
_LINE = re.compile(rb"\x1b\]nbdist;([0-9a-f]{32}\.(?:png|jpg|svg|html));\d+;\d+\x07")
# by the endings of the files' names
MIMES = {"png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml", "html": "text/html"}

_LARGEST = 8 << 20
_RECORDS = 16 << 20  # bytes of records that are read of a rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output. ``time`` in Unix seconds; ``at`` is the byte of the log at which its line begins, ``id``
    the program's name for it or empty; ``text`` stands for it."""

    rank: int
    time: float
    at: int
    file: str
    mime: str
    id: str
    text: str


def read_outputs(directory: RunDirectory, run: Run) -> list[Output]:
    """Return the outputs of the last attempt in the order of time, of each id the last."""
    outputs: dict[tuple[int, str], Output] = {}
    for rank in run.ranks:
        path = directory.rank(rank.rank, run.attempt).display
        for number, line in enumerate(LogStream(path).read(_RECORDS).splitlines()):
            if (output := _output(rank.rank, line)) is not None:
                key = f"id {output.id}" if output.id else str(number)
                outputs[rank.rank, key] = output
    return sorted(outputs.values(), key=lambda output: (output.time, output.rank))


def _output(rank: int, line: bytes) -> Output | None:
    """Return the output in a line; None for a line that is no record."""
    try:
        record = loads(line)
        output = Output(
            rank=rank,
            time=as_time(record["t"]),
            at=as_int(record["at"]),
            file=str(record["file"]),
            mime=str(record["mime"]),
            id=str(record.get("id", "")),
            text=str(record.get("text", "")),
        )
    except MALFORMED:
        return None
    return output if _FILE.fullmatch(output.file) else None


def read_media(directory: RunDirectory, rank: int, file: str, attempts: int) -> bytes:
    """Return the file of an output, from the latest attempt that has it; empty where none has it."""
    for attempt in range(attempts if _FILE.fullmatch(file) else 0, 0, -1):
        with contextlib.suppress(OSError):
            return read_whole(directory.rank(rank, attempt).media / file, _LARGEST)
    return b""


def named_in(text: bytes) -> list[str]:
    """Return the files that the lines of a log name."""
    # fast for the many lines that name none
    return [name.decode() for name in _LINE.findall(text)] if b"\x1b]nbdist;" in text else []
