"""Cause and fix of the failure that came first, where it has to do with several ranks.

The rungs, from the top:

1. the ranks never met: their stacks and histories show where they parted (``hint_from_parting``);
2. ranks ended while others waited for them (``hint_from_early_exit``);
3. the program uses a name that its framework has removed (``removed_name``);
4. an ``if`` for some ranks made a value, a message or a file differ (``other_ranks``);
5. a row of the tables has the error's words (``_from_table``);
6. a rank failed within a collective that others waited in (``hint_from_lone_call``);
7. a row has the exit of a rank that left no words (``_from_exit``).

Of every other failure nbdist shows facts (``failure``), and no hint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from tempfile import gettempdir

from nbdist.devices.usage import SHARED_MEMORY, disks
from nbdist.diagnosis.collective_waits import (
    hint_from_early_exit,
    hint_from_lone_call,
    hint_from_parting,
    hint_from_wait,
    is_past,
)
from nbdist.diagnosis.exits import exit_kind
from nbdist.diagnosis.gpu_memory import hint_from_gpu_memory
from nbdist.diagnosis.known import Hint, Signature, Source, hint, match, match_in, variant
from nbdist.diagnosis.other_ranks import (
    hint_from_missing_file,
    hint_from_mixed_values,
    hint_from_model,
    hint_from_sends,
    hint_from_unset_name,
    may_meet,
)
from nbdist.diagnosis.rank_failure import Failure, last_line
from nbdist.model import Run
from nbdist.programs.removed import removed_name
from nbdist.store import RunDirectory
from nbdist.text import Both, both

_GPU_FULL, _MODELS_DIFFER, _NO_GRADIENT = "cuda-out-of-memory", "ddp-models-differ", "ddp-unused-parameters"
_EXIT_CALLED, _WITHOUT_A_WORD = "exit-called", "exit-without-error"
_NONE_ON_OTHERS = "none-on-other-ranks"
_OF_SHARED_MEMORY = frozenset(
    {"shared-memory-full", "loader-worker-shm", "paddle-loader-shm", "exit-bus-error"}
)
OF_DISKS = frozenset({"disk-full", "exit-disk-full"}) | _OF_SHARED_MEMORY
# of a Python that could not flush its output: exit status and words (none for sys.stderr), with the error
_NOT_FLUSHED = 120
_LOST = re.compile(r"(?m)^Exception ignored (?:in: <(?!func|bou|gen|cor)|.*flush).*\n(?:(?:Tr| ).*\n)*(.+)")
# as Python ends an OSError's message
_PATH = re.compile(r": '([^']+)'")


def hint_of(first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory) -> Hint | None:
    """Return cause and fix in the words of the run's framework; None where no rung knows them."""
    known = hint_from_parting(first, failures, run, directory) or _hint(first, run, directory)
    fix = known.fix.en if known is not None and known.signature != "file-not-made-yet" else ""
    if "dist.barrier()" in fix and may_meet(first, below="last call" in fix):
        return None  # the program has what the fix asks for, which refutes the cause
    if known is not None and run.spec.framework == "paddle":
        known = known.in_paddle()
    if known is not None and known.signature in OF_DISKS:
        known = _with_disks(known, first, run, directory)
    return known


def _hint(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    if first.early_exits:
        return hint_from_early_exit(first, run, directory)
    if first.code == _NOT_FLUSHED and first.report is None and (lost := _from_flush(first, run)) is not None:
        return lost
    if (removed := removed_name(first.said)) is not None:
        return hint("removed-name", **removed)
    known = hint_from_mixed_values(first) or hint_from_missing_file(first, run) or hint_from_unset_name(first)
    if known is not None:
        return known
    if first.complaint is not None and first.complaint.signature is not None:
        return _from_table(first.complaint.signature, first, run, directory)
    if (known := hint_from_lone_call(first, run, directory)) is not None:
        return known
    if first.code is None or first.said:
        return _from_program(first, run, directory)
    return _from_exit(first.code, first, run)


def _from_table(row: Signature, first: Failure, run: Run, directory: RunDirectory) -> Hint:
    """Return the hint of a row, or a closer one from the other ranks or the program."""
    closer = hint_from_wait(first, run, directory)
    if closer is None and row.name == _GPU_FULL:
        closer = hint_from_gpu_memory(first, run)
    if closer is None and row.name == _MODELS_DIFFER:
        closer = hint_from_model(first)
    if closer is None and row.name == _NO_GRADIENT:
        layers = next((operand.what for operand in first.operands if operand.name == "without gradient"), "")
        closer = hint("ddp-unused-layers", layers=layers) if layers else None
    if closer is None and row.name == "nccl-internal-error":
        closer = hint_from_sends(first)
    if closer is None and row.name == _EXIT_CALLED and (last := last_line(first.rank, run, directory)).en:
        closer = hint("exit-after-words", **first.found | {"last": last})
    return closer or hint(variant(row, _program(first, run), first.found), **first.found)


def _from_program(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    known = match_in(first.said, _program(first, run))
    if known is None:
        return None
    if known[0].name == _NONE_ON_OTHERS and (first.rank == 0 or not is_past(0, run, directory)):
        return None
    return hint(known[0].name, late=(first.rank,), **known[1].groupdict())


def _from_exit(code: int, first: Failure, run: Run) -> Hint | None:
    known = match(exit_kind(code, oom=first.oom, limit=first.limit), Source.EXIT)
    if known is None:
        return None
    if known[0].name == _WITHOUT_A_WORD:
        if first.full:
            return hint("exit-disk-full", disk=first.full)
        if run.ranks[first.rank].errored is not None:
            return hint("exit-report-lost")
    values = known[1].groupdict()
    return hint(variant(known[0], _program(first, run), values), **values)


def _from_flush(first: Failure, run: Run) -> Hint | None:
    """Explain the status with which Python ends, unless the program may have ended with it itself."""
    lines = first.sources.lines(run.spec.program)
    words = _LOST.search("\n".join(first.tail))
    if words is None and any("_exit" in line for line in lines):
        return None
    set_at = [at for at, line in enumerate(lines, 1) if re.match(r"\s*sys\.stdout\s*=[^=]", line)]
    if words is not None and len(set_at) == 1 and re.match("AttributeError: .*'flush'", words[1]):
        return hint("exit-no-flush", line=set_at[0])
    stream = "sys.stdout" if words is not None else "sys.stdout or sys.stderr"
    return hint("exit-not-flushed", stream=stream, error=f": {words[1]}" if words is not None else "")


def _program(first: Failure, run: Run) -> str:
    """Return the text of the program and of the failing module, and the traceback's library paths."""
    files = {run.spec.program} | ({first.place.file} if first.place is not None else set())
    libraries = [frame.file for frame in first.frames if not first.sources.is_own(frame.file)]
    return "\n".join([*map(first.sources.text, files), *libraries])


def _with_disks(known: Hint, first: Failure, run: Run, directory: RunDirectory) -> Hint:
    """Add which disk is full to a hint, where the ranks ran on this machine."""
    if known.signature == "disk-full" and first.full == SHARED_MEMORY:
        known = hint("shared-memory-full")
    if run.spec.engine or run.spec.nodes > 1 or run.supervisor_host != os.uname().nodename:
        return known
    message = first.complaint.root.message if first.complaint is not None else ""
    paths = [path for path in _PATH.findall(message) if os.path.isabs(path)]
    paths += [first.full] if first.full else []
    paths += [SHARED_MEMORY] if known.signature in _OF_SHARED_MEMORY else [str(directory.path), run.spec.cwd]
    written_to = disks([*paths, str(directory.path), SHARED_MEMORY, gettempdir()])
    full = [disk for disk in written_to if disk.full]
    # there may be room again: then show the likeliest disk
    shown = full or written_to[:1]
    room = Both(
        ", ".join(f"{disk.mount} now has {disk.room()}" for disk in shown),
        "，".join(f"{disk.mount} 现在{disk.room('zh')}" for disk in shown),
    )
    holds_runs = any(disk.holds(directory.path) for disk in full)
    return replace(
        known,
        cause=Both(f"{known.cause.en}: {room.en}", f"{known.cause.zh}：{room.zh}"),
        fix=both("diagnosis.other-home") if holds_runs else known.fix,
    )
