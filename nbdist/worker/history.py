"""The collectives that a rank has called in each process group, as far as torch's Flight Recorder keeps them:
number and name, sizes and dtypes of the inputs, and the lines of the call.

The diagnosis finds the first collective that differs between ranks by it. torch always records, so that a
running program pays nothing for this.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from nbdist.worker.files import put
from nbdist.worker.main_thread import NAMES

NAME = "history"
"""The file in the rank's directory."""

_MOST = 300  # calls of a group: some steps of a large model
_DEPTH = 40  # innermost frames of a call
_WORKER = os.path.dirname(__file__)

_DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Bool": "bool"}
_DTYPES |= {"Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8"}


def write(directory: str) -> None:
    """Write the file, unless torch's recorder has no entries. Raises OSError."""
    if entries := _entries():
        put(os.path.join(directory, NAME), json.dumps(_by_group(entries)).encode())


def _entries() -> list[dict[str, Any]]:
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    dumps = [getattr(c10d, name, None) for name in ("_dump_nccl_trace", "_dump_fr_trace")]
    return next(filter(None, map(_dumped, filter(None, dumps))), [])


def _dumped(dump: Any) -> list[dict[str, Any]]:
    """Return a recorder's entries; its ``hasattr(torch, "_inductor")`` must not import 800 modules."""
    names = vars(sys.modules["torch"])
    absent = "_inductor" not in names
    if absent:
        names["_inductor"] = None
    try:
        # a pickle made here by this process
        trace = pickle.loads(dump(includeCollectives=True, includeStackTraces=True, onlyActive=False))
    finally:
        if absent and names.get("_inductor", ...) is None:
            del names["_inductor"]
    entries: list[dict[str, Any]] = trace.get("entries", [])
    return entries


def _by_group(entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the calls of each process group (``groups``), each with the index of its stack in ``ways`` and,
    from the second time on, how often the group was made."""
    ways: dict[tuple[tuple[str, int, str], ...], int] = {}
    groups: dict[str, list[list[Any]]] = {}
    made: dict[str, Any] = {}
    times: dict[str, int] = {}
    for entry in entries:
        if entry["is_p2p"]:
            continue
        way = ways.setdefault(tuple(_way(entry.get("frames") or ())), len(ways))
        backend, _, name = str(entry["profiling_name"]).rpartition(":")
        call = [int(entry["collective_seq_id"]), f"{backend}:{NAMES.get(name, name)}", _given(entry), way]
        # a group's name is the same on all of its ranks
        name, group = str(entry["process_group"][0]), entry.get("pg_id")
        calls = groups.setdefault(name, [])
        if calls and (call[0] < calls[-1][0] or group != made[name]):
            calls.clear()  # those of a destroyed group, whose name a new one has
            times[name] = times.get(name, 1) + 1
        made[name] = group
        calls.append([*call, times[name]] if name in times else call)
    return {"ways": [*ways], "groups": {group: calls[-_MOST:] for group, calls in groups.items()}}


def _way(frames: Iterable[dict[str, Any]]) -> Iterator[tuple[str, int, str]]:
    """Yield a stack without the worker's part, outermost first."""
    own = [frame for frame in frames if not frame["filename"].startswith(_WORKER)]
    for frame in reversed(own[:_DEPTH]):
        yield frame["filename"], int(frame["line"]), str(frame["name"])


def _given(entry: dict[str, Any]) -> str:
    """Return the inputs as ``float32 (4, 2)``; empty for a collective without any."""
    return ", ".join(
        f"{_DTYPES.get(dtype, dtype)} {tuple(size)}"
        for dtype, size in zip(entry["input_dtypes"], entry["input_sizes"], strict=False)
    )
