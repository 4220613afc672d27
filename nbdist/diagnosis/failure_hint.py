"""What is known about the failure that came first: from all ranks together, from its words, or its exit."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from tempfile import gettempdir

from nbdist.devices.usage import SHARED_MEMORY, disks
from nbdist.diagnosis.checks.names import removed_name
from nbdist.diagnosis.clues.arguments import of_argument
from nbdist.diagnosis.clues.calls import of_binding, of_missing, of_overload
from nbdist.diagnosis.clues.closer import of_any, of_missing_name, of_row
from nbdist.diagnosis.clues.elsewhere import of_elsewhere
from nbdist.diagnosis.clues.kinds import of_kind
from nbdist.diagnosis.clues.memory import of_sharing
from nbdist.diagnosis.clues.missing_files import (
    of_file,
    of_folder,
    of_lock,
    of_model,
    of_path,
    of_writing,
    path_of_line,
)
from nbdist.diagnosis.clues.names import of_near
from nbdist.diagnosis.clues.shapes import of_features, of_no_rows, of_trained
from nbdist.diagnosis.clues.unset import of_never_set
from nbdist.diagnosis.clues.values import of_value
from nbdist.diagnosis.exits import exit_kind
from nbdist.diagnosis.meetings import apart, is_past, left, met, met_alone
from nbdist.diagnosis.rank_failure import (
    Failure,
    last_line,
)
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import (
    Hint,
    Signature,
    Source,
    match,
    match_in,
    named,
    suits,
    variant,
)
from nbdist.diagnosis.stacks import last_sides
from nbdist.model import Run
from nbdist.store import RunDirectory
from nbdist.text import Both, both

_OF_NAMES = frozenset({"argument-unknown", "import-name", "module-attribute"})
_OF_UNPACKING = frozenset({"loop-of-pairs", "fields-to-unpack", "more-to-unpack"})
# an operation deep in a layer names its own argument, and not the layer's
_OF_OPERATIONS = frozenset({"paddle-argument-text", "paddle-argument-float", "paddle-argument-kind"})
_OF_FILES = frozenset({"file-missing", "file-missing-there", "paddle-load-missing"})
# of paths to which a library adds an ending
_OF_STEMS = frozenset({"paddle-model-load"})
_OF_MODELS = frozenset({"paddle-jit-load-missing"})
_CUT_SHORT = frozenset({"json-not-there", "file-half-written", "safetensors-damaged", "checkpoint-corrupt"})
_GPU_FULL = "cuda-out-of-memory"
_LOCKED = "database-locked"
_NO_TENSOR = "none-for-tensor"
# which ranks have it tells more
_UNFIT_NONE = "argument-unfit-none"
_WITHOUT_A_WORD = "exit-without-error"
# with the last line of the rank
_AFTER_WORDS = {"exit-called": "exit-after-words", "arguments": "arguments-named"}
_NONE, _NONE_OF_CALL = "none-on-other-ranks", "none-of-collective"
_OF_SHARED_MEMORY = frozenset(
    {"shared-memory-full", "loader-worker-shm", "paddle-loader-shm", "exit-bus-error"}
)
OF_DISKS = frozenset({"disk-full", "exit-disk-full"}) | _OF_SHARED_MEMORY
# as Python ends an OSError's message
_PATH = re.compile(r": '([^']+)'")


def hint_of(first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory) -> Hint | None:
    """Cause and fix of the failure that came first, in the words of the framework and with the full disks."""
    found = apart(first, failures, run, directory) or _hint(first, run, directory)
    if found is not None and run.spec.framework == "paddle":
        found = found.in_paddle()
    if found is not None and found.signature in OF_DISKS:
        found = _with_disks(found, first, run, directory)
    return found


def _hint(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """What is known about the first failure: from all ranks together, from its words, or its exit."""
    complaint = first.complaint
    if first.early_exits:
        return left(first, run, directory)
    if complaint is not None and (removed := removed_name(complaint.root.text)) is not None:
        return Hint.of(named("removed-name"), removed)
    if (clue := of_any(first)) is not None:
        return clue
    if complaint is not None and complaint.signature is not None:
        return _of_known(complaint.signature, first, run, directory)
    return _of_unknown(first, run, directory)


def _of_known(known: Signature, first: Failure, run: Run, directory: RunDirectory) -> Hint:
    """Of an error that a row knows: what tells more of it, else what the row says."""
    row = variant(known, _program(first, run), first.found)
    if (found := met(first, run, directory)) is not None:
        return found
    if known.name == _GPU_FULL and (shared := of_sharing(first, run)) is not None:
        return shared
    if row is known and row.name in _OF_NAMES and (found := of_elsewhere(first)) is not None:
        return found
    if (found := of_row(known.name, first)) is not None:
        return found
    if row is known and (found := of_trained(first) or of_features(first)) is not None:
        return found
    # a library that takes something apart has not been written by the program
    lent = row.name in _OF_UNPACKING and not first.sources.is_own(first.frames[-1].file)
    of_inner = lent or row.name in _OF_OPERATIONS
    if (found := of_argument(first, "" if of_inner else row.name)) is not None:
        return found
    if row.name in _OF_FILES and (made := of_path(first, run, first.found["path"] or "")) is not None:
        return made
    if row.name in _OF_STEMS and (made := of_file(first, run, path_of_line(first))) is not None:
        return made
    if row.name in _OF_MODELS and (made := of_model(first, run, first.found["path"] or "")) is not None:
        return made
    if row.name in _OF_FILES and (near := of_folder(first, first.found["path"] or "")) is not None:
        return near
    if row.name == _LOCKED and (held := of_lock(first, last_sides(run, directory), run)) is not None:
        return held
    if row.name in _CUT_SHORT and (writing := of_writing(first, last_sides(run, directory))) is not None:
        return writing
    after = _AFTER_WORDS.get(known.name)
    if after is not None and (last := last_line(first.rank, run, directory)).en:
        return Hint.of(named(after), first.found | {"last": last.en}, first.found | {"last": last.zh})
    return Hint.of(row, first.found)


def _of_unknown(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Of an error that no row knows, or of an exit."""
    given = of_argument(first)
    found = met_alone(first, run, directory) or (None if given and given.signature == _UNFIT_NONE else given)
    found = found or of_missing_name(first) or of_elsewhere(first) or of_trained(first)
    if found is not None:
        return found
    text = first.said
    program = _program(first, run)
    if (of_program := match_in(text, program)) is not None:
        if of_program[0].name == _NO_TENSOR and (value := of_value(first)) is not None:
            return value
        return Hint.of(of_program[0], of_program[1].groupdict())
    if suits(_NONE_OF_CALL, text, program):
        return Hint.of(named(_NONE_OF_CALL), {})
    if suits(_NONE, text, program) and first.rank > 0 and is_past(0, run, directory):
        return hint(_NONE, late=(first.rank,))
    if first.code is None or text:
        told = of_near(first) or of_never_set(first) or of_overload(first) or of_binding(first)
        told = told or of_missing(first) or of_value(first) or given
        return told or of_kind(first) or of_no_rows(first)
    return _of_exit(first.code, program, first, run)


def _of_exit(code: int, program: str, first: Failure, run: Run) -> Hint | None:
    """Of a rank that has said nothing: by how it ended."""
    found = match(exit_kind(code, oom=first.oom, limit=first.limit), Source.EXIT)
    if found is None:
        return None
    if found[0].name == _WITHOUT_A_WORD:
        if first.full:
            return Hint.of(named("exit-disk-full"), {"disk": first.full})
        if run.ranks[first.rank].errored is not None:
            return Hint.of(named("exit-report-lost"), {})
    return Hint.of(variant(found[0], program, found[1].groupdict()), found[1].groupdict())


def _program(first: Failure, run: Run) -> str:
    """The text of the program, and of the module in which it failed, with the paths of the libraries that it
    went through, and whether one of these raised it."""
    files = {run.spec.program} | ({first.place.file} if first.place is not None else set())
    libraries = [frame.file for frame in first.frames if not first.sources.is_own(frame.file)]
    inside = [f"raised in {libraries[-1]}"] if libraries and libraries[-1] == first.frames[-1].file else []
    return "\n".join([*map(first.sources.text, files), *libraries, *inside])


def _with_disks(found: Hint, first: Failure, run: Run, directory: RunDirectory) -> Hint:
    """The hint with which disk is full, where the ranks ran here: of those that they may write to."""
    if found.signature == "disk-full" and first.full == SHARED_MEMORY:
        found = Hint.of(named("shared-memory-full"), {})
    if run.spec.engine or run.spec.nodes > 1 or run.supervisor_host != os.uname().nodename:
        return found
    message = first.complaint.root.message if first.complaint is not None else ""
    own = [path for path in _PATH.findall(message) if os.path.isabs(path)]
    own += [first.full] if first.full else []
    own += [SHARED_MEMORY] if found.signature in _OF_SHARED_MEMORY else [str(directory.path), run.spec.cwd]
    known = disks([*own, str(directory.path), SHARED_MEMORY, gettempdir()])
    full = [disk for disk in known if disk.full]
    # once there is room again: the one that is likeliest
    shown = full or known[:1]
    room = Both(
        "; ".join(f"{disk.mount} now has {disk.room()}" for disk in shown),
        "；".join(f"{disk.mount} 现在{disk.room('zh')}" for disk in shown),
    )
    # the runs lie on that disk, too
    more = both("diagnosis.other-home") if any(disk.holds(directory.path) for disk in full) else Both("", "")
    return replace(
        found,
        cause=Both(f"{found.cause.en}: {room.en}", f"{found.cause.zh}：{room.zh}"),
        fix=Both(found.fix.en + more.en, found.fix.zh + more.zh),
    )
