"""Writes down what a rank has called in each process group, as far as torch's Flight Recorder remembers: of
each collective the number and the name, the sizes and dtypes that it was given, and the lines that called it.

By it the diagnosis says at which collective the ranks parted. Recording is torch's, always on; a program that
runs pays nothing for this.
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
_DEPTH = 40  # of the frames that lead to a call, so many of the innermost
_WORKER = os.path.dirname(__file__)

_DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Bool": "bool"}
_DTYPES |= {"Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8"}


def write(directory: str) -> None:
    """Write the file; a rank without torch's recorder has none. Raises OSError."""
    if not (entries := _entries()):
        return
    put(os.path.join(directory, NAME), json.dumps(_told(entries)).encode())


def _entries() -> list[dict[str, Any]]:
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    dumps = [getattr(c10d, name, None) for name in ("_dump_nccl_trace", "_dump_fr_trace")]
    return next(filter(None, map(_dumped, filter(None, dumps))), [])


def _dumped(dump: Any) -> list[dict[str, Any]]:
    """torch asks ``hasattr(torch, "_inductor")`` for the frames, which imports 800 modules if none has."""
    told = vars(sys.modules["torch"])
    absent = "_inductor" not in told
    if absent:
        told["_inductor"] = None
    try:
        # by this process, of this process
        trace = pickle.loads(dump(includeCollectives=True, includeStackTraces=True, onlyActive=False))
    finally:
        if absent and told.get("_inductor", ...) is None:
            del told["_inductor"]
    entries: list[dict[str, Any]] = trace.get("entries", [])
    return entries


def _told(entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """``groups``: by process group the calls, each with the place in ``ways`` of the lines that led to it."""
    ways: dict[tuple[tuple[str, int, str], ...], int] = {}
    groups: dict[str, list[list[Any]]] = {}
    made: dict[str, Any] = {}
    for entry in entries:
        if entry["is_p2p"]:
            continue
        way = ways.setdefault(tuple(_way(entry.get("frames") or ())), len(ways))
        backend, _, name = str(entry["profiling_name"]).rpartition(":")
        call = [int(entry["collective_seq_id"]), f"{backend}:{NAMES.get(name, name)}", _given(entry), way]
        # by its name, which is the same on all of its ranks
        name, group = str(entry["process_group"][0]), entry.get("pg_id")
        calls = groups.setdefault(name, [])
        if calls and (call[0] < calls[-1][0] or group != made[name]):
            calls.clear()  # of a group that was destroyed: another one has its name
        made[name] = group
        calls.append(call)
    return {"ways": [*ways], "groups": {group: calls[-_MOST:] for group, calls in groups.items()}}


def _way(frames: Iterable[dict[str, Any]]) -> Iterator[tuple[str, int, str]]:
    """Yield a stack without the worker's part, outermost first."""
    own = [one for one in frames if not one["filename"].startswith(_WORKER)]
    for one in reversed(own[:_DEPTH]):
        yield one["filename"], int(one["line"]), str(one["name"])


def _given(entry: dict[str, Any]) -> str:
    """``float32 (4, 2)``; empty of a collective that is given nothing."""
    return ", ".join(
        f"{_DTYPES.get(dtype, dtype)} {tuple(size)}"
        for dtype, size in zip(entry["input_dtypes"], entry["input_sizes"], strict=False)
    )
