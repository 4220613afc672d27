"""What is known about the failure that came first: from all ranks together, from its words, or its exit."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from tempfile import gettempdir

from nbdist.devices.usage import SHARED_MEMORY, disks
from nbdist.diagnosis.attributes import of_attribute, of_constructor, of_self, of_special
from nbdist.diagnosis.checks.names import removed_name
from nbdist.diagnosis.clues import (
    of_best,
    of_broadcast,
    of_columns,
    of_empty,
    of_hook,
    of_ids,
    of_key,
    of_labels,
    of_names,
    of_nan,
    of_near,
    of_number,
    of_number_key,
    of_recursion,
    of_sample,
    of_text,
    of_value,
)
from nbdist.diagnosis.deadlocks import all_joining, why
from nbdist.diagnosis.entries import alone_in_loop
from nbdist.diagnosis.exits import exit_kind, rank_names
from nbdist.diagnosis.histories import History, histories_of, last_calls, of_histories, sent_before
from nbdist.diagnosis.hooks import is_in_loop_of_library, reduces_by_hook
from nbdist.diagnosis.log_tracebacks import ended_by, raised_in_logs
from nbdist.diagnosis.missing_files import of_ending, of_file, of_missing, of_never, of_writing
from nbdist.diagnosis.parting import entered_alone, exits_of_rank, is_in_loop, of_parting, ways_past
from nbdist.diagnosis.places import place_of
from nbdist.diagnosis.rank_failure import (
    Failure,
    absent_places,
    calls_of,
    failure_of,
    known_as,
    last_line,
    waiting_side,
)
from nbdist.diagnosis.samples import of_shapes
from nbdist.diagnosis.shapes import of_folded, of_rows, of_unlike
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint, Source, match, match_in, named, suits, variant
from nbdist.diagnosis.stacks import last_sides
from nbdist.diagnosis.statements import exits, head, told
from nbdist.diagnosis.training import of_replaced, of_squeezed, of_twice, of_used_up
from nbdist.diagnosis.unset import of_unset
from nbdist.model import RankState, Run
from nbdist.store import RunDirectory
from nbdist.store.reports import Call
from nbdist.text import Both, both

# what these say does not name who is missing, or where
_PLAIN_TIMEOUTS = frozenset(
    {"gloo-timeout", "paddle-gloo-timeout", "nccl-timeout", "nccl-heartbeat", "store-wait-timeout"}
)
# ranks that are in different collectives say this, too
# these tell the others the sizes of their objects first, one for each place of the list
_OF_LISTS = frozenset({"broadcast_object_list"})
_SIZES = "collective-sizes"
_CLIENTS = "store-clients-missing"
_JOINING = frozenset({"store-not-reached", _CLIENTS})
_UNLIKE = _PLAIN_TIMEOUTS | _JOINING | {_SIZES, "collective-mismatch"}
_FEW = 2
_OF_FILES = frozenset({"file-missing", "file-missing-there", "paddle-load-missing"})
_CUT_SHORT = frozenset({"json-not-there", "file-half-written", "safetensors-damaged", "checkpoint-corrupt"})
_NOT_FINITE = frozenset(
    {"not-finite", "not-probabilities-drawn", "missing-values", "infinite-values", "integer-of-nan"}
)
# nan is neither below 0 nor above 1, and so no probability
_OF_PROBABILITIES = frozenset({"not-probabilities", "labels-beyond-one", "paddle-not-probabilities"})
_NO_SUCH_NAME = frozenset({"module-attribute", "key-as-attribute", "option-not-defined"})
_OF_ROWS = {
    "argument-of-collective": of_number,
    "recursion": of_recursion,
    "backward-twice": of_twice,
    "paddle-backward-twice": of_twice,
    "scaler-no-gradients": of_replaced,
    "optimizer-empty": of_used_up,
    "shapes-differ": of_unlike,
    "number-is-text": of_text,
    "one-dimension-less": of_squeezed,
    "dimension-missing": of_squeezed,
    "number-without-dimensions": of_squeezed,
    "number-looped-over": of_squeezed,
    "indices-of-tensor": of_squeezed,
    "scalar-indexed": of_squeezed,
    "collate-sizes": of_shapes,
    "collate-rows": of_shapes,
    "paddle-collate-shapes": of_shapes,
}
"""What looks closer at the program for an error that a row knows."""

_NOT_THERE = "key-not-there"
_TOO_SHORT = "list-too-short"
_NO_SUCH_COLUMN = "columns-not-there"
_OF_CALLS = frozenset({"method-without-self", "argument-unknown", "class-without-init"})
_NEVER_SET = frozenset({"never-set", "compared-with-none"})
_NO_TENSOR = "none-for-tensor"
_NOT_SET = "name-not-set-yet"
_NO_SUCH_ID = "index-out-of-range"
_NO_SUCH_LABEL = "target-negative"
_MEETING = "gloo-connect"
_WITHOUT_A_WORD = "exit-without-error"
# with the last line of the rank
_AFTER_WORDS = {"exit-called": "exit-after-words", "arguments": "arguments-named"}
_HELD_UP = "hang-busy"
_OF_PARTING = frozenset(
    {"hang-loop", "hang-loop-begun", "hang-loop-left", "hang-loop-caught", "hang-return", "hang-branch"}
    | {"hang-loop-drawn", "hang-loop-range", "hang-branch-drawn", "hang-hooks-early"}
    | {"hang-hooks", "hang-hooks-of-rank", "hang-in-library", "hang-logged"}
)
_OTHER_SIZES = frozenset({"hang-sizes", "hang-sizes-left-out", "hang-dtypes"})
_EXCHANGES = "/torch/distributed/"
_NONE, _NONE_OF_CALL = "none-on-other-ranks", "none-of-collective"
_OF_SHARED_MEMORY = frozenset(
    {"shared-memory-full", "loader-worker-shm", "paddle-loader-shm", "exit-bus-error"}
)
OF_DISKS = frozenset({"disk-full", "exit-disk-full"}) | _OF_SHARED_MEMORY
# of a message that came, and of the one that was expected
_LENGTHS = re.compile(r"(?P<length>\d+) vs \d+")
# as Python ends an OSError's message
_PATH = re.compile(r": '([^']+)'")


def hint_of(first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory) -> Hint | None:
    """Cause and fix of the failure that came first, in the words of the framework and with the full disks."""
    found = _apart(first, failures, run, directory) or _hint(first, run, directory)
    if found is not None and run.spec.framework == "paddle":
        found = found.in_paddle()
    if found is not None and found.signature in OF_DISKS:
        found = _with_disks(found, first, run, directory)
    return found


def _apart(first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory) -> Hint | None:
    """Why the ranks did not meet, of one that gave up, or that met another collective than its own: from
    where they all were in the program."""
    known = known_as(first)
    if known not in _UNLIKE or first.early_exits:
        return None
    ways: dict[tuple[Call, ...], list[Failure]] = {}
    for failure in failures:
        # one that complained of no sizes may have come through there, and on to the next
        gave_up = failure.secondary or failure.rank == first.rank
        if known_as(failure) in _UNLIKE if known == _SIZES else gave_up:
            ways.setdefault(calls_of(failure), []).append(failure)
    sides = [waiting_side(*alike) for alike in ways.values()]
    failed = {rank for side in sides for rank in side.ranks}
    if known != _SIZES:
        sides += [side for side in last_sides(run, directory) if not failed & set(side.ranks)]
    absent = [rank for side in sides for rank in side.ranks if rank not in failed]
    raised = ended_by(raised_in_logs(absent, run, directory))
    histories = histories_of(run, directory)
    if known in _JOINING:
        return all_joining(sides, run.spec.world_size, first.sources)
    found = all_joining(sides, run.spec.world_size, first.sources) or why(
        sides, first.sources, raised, histories
    )
    if known == _SIZES:
        found = of_histories(histories, first.sources) or found
    if found is None and known == _SIZES:
        found = _met_earlier(first, histories) or _met_another(sides, first, failures, run, directory)
    # whether it is only slow is not known: the time limit was the program's own
    return found if found is not None and found.signature != _HELD_UP else None


def _met_earlier(first: Failure, histories: Mapping[int, History]) -> Hint | None:
    """Of a rank whose collective met one that another rank, which is in the same line by now, had called
    before that: the message that came is too long for that line."""
    met = _LENGTHS.search(first.complaint.root.message) if first.complaint is not None else None
    if met is None:
        return None
    side, others = waiting_side(first), {rank: one for rank, one in histories.items() if rank != first.rank}
    sent = sent_before(others, side.way, int(met["length"]), first.sources)
    found = of_parting([side, sent], first.sources) if sent is not None else None
    return found if found is not None and found.signature in _OF_PARTING else None


def _met_another(
    sides: Sequence[Side], first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory
) -> Hint | None:
    """Of a rank that met another collective than its own, with where the others were: these may have gone on
    to their next call."""
    told = {rank for side in sides for rank in side.ranks}
    ended = {rank.rank for rank in run.ranks if rank.state is RankState.ENDED} - {
        one.rank for one in failures
    }
    complained = [*failures, *(failure_of(run.ranks[rank], run, directory) for rank in ended)]
    others = [waiting_side(one) for one in complained if one.rank not in told and one.secondary]
    told |= {rank for side in others for rank in side.ranks}
    others += [side for side in last_sides(run, directory) if side.place.waits and not told & set(side.ranks)]
    found = why([*sides, *others], first.sources, {})
    if found is None or found.signature not in _OF_PARTING:
        return None
    cause = both("diagnosis.or-other-sizes", said=found.cause)
    return replace(found, cause=cause, fix=both("diagnosis.and-same-sizes", said=found.fix))


def _hint(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """What is known about the first failure: from all ranks together, from its words, or its exit."""
    parts = {"late": [first.rank], "early": first.early_exits, "absent": first.absent}
    ranks, ranks_zh = (
        {name: rank_names(some, language) for name, some in parts.items()} for language in ("en", "zh")
    )
    complaint = first.complaint
    if first.early_exits:
        if any(run.ranks[rank].finished is None for rank in first.early_exits):
            known = "left-early"
        elif (alone := entered_alone(waiting_side(first), first.sources)) is not None:
            return hint("left-alone", late=(first.rank,), early=first.early_exits, **alone)
        elif (
            complaint is not None and complaint.signature is not None and complaint.signature.name == _MEETING
        ):
            known = "left-before-all-met"
        elif (apart := _of_sizes(first, run, directory)) is not None:
            return apart
        elif not is_in_loop(waiting_side(first), first.sources) and not _is_in_library(first, run):
            return _left_before(first, run)
        elif left := exits_of_rank(waiting_side(first), first.sources):
            return hint("uneven-steps-exit", late=(first.rank,), early=first.early_exits, tests=told(left))
        elif ways := ways_past(waiting_side(first), first.sources):
            caught = all(isinstance(way, ast.ExceptHandler) for way in ways)
            name = "uneven-steps-caught" if caught else "uneven-steps-left"
            return hint(name, late=(first.rank,), early=first.early_exits, tests=told(ways))
        else:
            known = "uneven-steps"
        return Hint.of(named(known), ranks, ranks_zh)
    if complaint is not None and (removed := removed_name(complaint.root.text)) is not None:
        return Hint.of(named("removed-name"), removed)
    shaped = of_sample(first) or of_broadcast(first) or of_rows(first) or of_folded(first)
    if (clue := shaped or of_hook(first) or of_special(first) or of_self(first)) is not None:
        return clue
    if complaint is not None and complaint.signature is not None and complaint.found is not None:
        if first.absent and complaint.signature.name in _PLAIN_TIMEOUTS:
            places = absent_places(first, run, directory)
            known = "rank-was-busy" if places and not places[0][1] else "rank-did-not-come"
            return Hint.of(named(known), ranks, ranks_zh)
        if complaint.signature.name == _SIZES and (met := _alone(first, run, directory)) is not None:
            return met
        if complaint.signature.name == _CLIENTS and complaint.found["all"] != str(run.spec.world_size):
            return hint("hang-joining", who=tuple(range(run.spec.world_size)), count=run.spec.world_size)
        row = variant(complaint.signature, _program(first, run), complaint.found.groupdict())
        if row.name in _OF_FILES:
            path = complaint.found["path"]
            made = of_never(first, run, path) or of_ending(first, run, path) or of_file(first, run, path)
            made = made or of_missing(first, run, path)
            if made is not None:
                return made
        if (
            complaint.signature.name == _NOT_SET
            and (unset := of_unset(first, complaint.found["name"])) is not None
        ):
            return unset
        if complaint.signature.name == _TOO_SHORT and (empty := of_empty(first)) is not None:
            return empty
        if complaint.signature.name == _NO_SUCH_ID and (ids := of_ids(first)) is not None:
            return ids
        if (
            complaint.signature.name == _NO_SUCH_LABEL
            and (labels := of_labels(complaint.found["label"], first)) is not None
        ):
            return labels
        if row.name in _CUT_SHORT and (writing := of_writing(first, last_sides(run, directory))) is not None:
            return writing
        given_nan = complaint.signature.name in _OF_PROBABILITIES and _is_nan(first)
        if (given_nan or complaint.signature.name in _NOT_FINITE) and (nan := of_nan(first)) is not None:
            return nan
        if (
            complaint.signature.name == _NO_SUCH_COLUMN
            and (key := of_names(first) or of_key(first)) is not None
        ):
            return key
        if complaint.signature.name in _NO_SUCH_NAME and (near := of_near(first)) is not None:
            return near
        if complaint.signature.name in _OF_CALLS and (made := of_constructor(first)) is not None:
            return made
        if complaint.signature.name in _NEVER_SET and (value := of_value(first)) is not None:
            return value
        of_row = _OF_ROWS.get(complaint.signature.name)
        if of_row is not None and (told_more := of_row(first)) is not None:
            return told_more
        at = place_of(calls_of(first)[::-1], first.sources)
        lone = alone_in_loop(waiting_side(first), first.sources) if row.name == _SIZES else None
        if lone is not None:
            test = {"test": head(lone[0]), "at": lone[0].lineno}
            return hint("collective-alone-in-loop", line=first.line, call=lone[1], **test)
        if row.name == _SIZES and at.what in _OF_LISTS:
            return hint("collective-object-lists", call=at.what, line=first.line)
        # where native code has ended the process, its main thread may have slept
        may_wait = at.waits or at.what.rpartition(".")[2] in ("", "wait")
        if row.name == _SIZES and may_wait and _all_there(first, run, directory):
            return _of_waited(first)
        values = complaint.found.groupdict()
        after = _AFTER_WORDS.get(complaint.signature.name)
        if after is not None and (last := last_line(first.rank, run, directory)).en:
            return Hint.of(named(after), values | {"last": last.en}, values | {"last": last.zh})
        return Hint.of(row, values)
    if _others_wait(first, run, directory) and (met := _alone(first, run, directory)) is not None:
        return met
    text = complaint.root.text if complaint is not None else ""
    key = of_best(first) or of_number_key(first) or of_names(first) or of_key(first)
    if key is None or key.signature == _NOT_THERE:
        key = of_columns(first) or key
    if (key := key or of_attribute(first)) is not None:
        return key
    program = _program(first, run)
    if (of_program := match_in(text, program)) is not None:
        if of_program[0].name == _NO_TENSOR and (value := of_value(first)) is not None:
            return value
        return Hint.of(of_program[0], of_program[1].groupdict())
    if suits(_NONE_OF_CALL, text, program):
        return Hint.of(named(_NONE_OF_CALL), {})
    if suits(_NONE, text, program) and first.rank > 0 and _is_past(0, run, directory):
        return Hint.of(named(_NONE), ranks, ranks_zh)
    if first.code is None or (complaint is not None and complaint.root.text):
        return of_near(first) or of_value(first)
    found = match(exit_kind(first.code, oom=first.oom, limit=first.limit), Source.EXIT)
    if found is None:
        return None
    if found[0].name == _WITHOUT_A_WORD:
        if first.full:
            return Hint.of(named("exit-disk-full"), {"disk": first.full})
        if run.ranks[first.rank].errored is not None:
            return Hint.of(named("exit-report-lost"), {})
    return Hint.of(variant(found[0], program, found[1].groupdict()), found[1].groupdict())


def _is_nan(first: Failure) -> bool:
    """Whether something in the failing line has nan."""
    return any(one.what.endswith(" nan") for one in first.operands)


def _of_waited(first: Failure) -> Hint:
    """Of ranks that are in one line of the program: what it waits for may have been begun elsewhere."""
    side, place = waiting_side(first), first.place
    what = side.place.what.rpartition(".")[2]
    if what == "backward":
        # a wrapped model's gradients are of the same sizes on all ranks
        ways = ways_past(side, first.sources)
        tests = both("diagnosis.see-tests", tests=told(ways)) if ways else Both("", "")
        return hint("collective-sizes-steps", line=first.line, tests=tests)
    if what != "wait" or place is None:
        return hint("collective-sizes-here", line=first.line)
    by_hook = reduces_by_hook(place.file, first.sources)
    return hint("collective-sizes-hooked" if by_hook else "collective-sizes-begun", line=first.line)


def _of_sizes(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Of a rank whose peer is gone: where both gave other sizes to one collective, of which gloo tells the
    smaller one nothing, so that this one goes on to its end."""
    found = of_histories(histories_of(run, directory), first.sources)
    return found if found is not None and found.signature in _OTHER_SIZES else None


def _alone(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """What one rank alone has called: the first that failed, or another one, which may have come past it."""
    sides = [waiting_side(first)]
    if known_as(first) == _SIZES:
        others = histories_of(run, directory)
        others.pop(first.rank, None)
        sides += last_calls(others, first.sources)
    for side in sides:
        alone = entered_alone(side, first.sources)
        if alone is None:
            continue
        if side is sides[0] and not place_of(side.calls[::-1], first.sources).waits:
            # where it was in no collective itself, it has begun one that goes on beside it
            if not any("async_op=True" in first.sources.text(call.file) for call in side.way):
                continue
            alone["call"] = both("diagnosis.begun-there")
        return hint("met-another-call", late=side.ranks, **alone)
    return None


def _others_wait(first: Failure, run: Run, directory: RunDirectory) -> bool:
    """Whether a rank failed within a library's collective, for which others waited. What the collective was
    given may be wrong with another error."""
    kind = first.complaint.root.type if first.complaint is not None else ""
    within = kind == "RuntimeError" and any(_EXCHANGES in frame.file for frame in first.frames)
    sides = last_sides(run, directory) if within else ()
    return any(side.place.waits and first.rank not in side.ranks for side in sides)


def _left_before(first: Failure, run: Run) -> Hint:
    """Of ranks that ended before a call outside of all loops: with the lines that may have ended them."""
    lines = exits(run.spec.program, first.sources)
    told = both("diagnosis.may-end", lines=", ".join(map(str, lines))) if 0 < len(lines) <= _FEW else None
    return hint(
        "left-before-call",
        early=first.early_exits,
        late=(first.rank,),
        call=waiting_side(first).call,
        lines=told or Both("", ""),
    )


def _is_in_library(first: Failure, run: Run) -> bool:
    """Whether others may have had fewer batches in the loop of a library: no line of the program ends it."""
    side = waiting_side(first)
    return is_in_loop_of_library(side, first.sources) and not exits(run.spec.program, first.sources)


def _all_there(first: Failure, run: Run, directory: RunDirectory) -> bool:
    """Whether all ranks were in the line in which one has failed."""
    failed = {rank.rank for rank in run.ranks if rank.errored is not None}
    # one that has failed may have been asked while it wrote its report
    waited = (side for side in last_sides(run, directory) if not failed >= set(side.ranks))
    lines = {side.place.line for side in waited}
    for rank in failed:
        lines.add(failure_of(run.ranks[rank], run, directory).line)
    return lines == {first.line} and first.line is not None


def _is_past(rank: int, run: Run, directory: RunDirectory) -> bool:
    """Whether a rank was done, or waited for others, when one had failed, and had not failed itself."""

    if run.ranks[rank].state is RankState.SUCCEEDED:
        return True
    if run.ranks[rank].errored is not None:
        ended = failure_of(run.ranks[rank], run, directory)
        waited = place_of(calls_of(ended)[::-1], ended.sources).waits
        return waited and (ended.secondary or run.ranks[rank].freed is not None)
    return any(rank in side.ranks and side.place.waits for side in last_sides(run, directory))


def _program(first: Failure, run: Run) -> str:
    """The text of the program, and of the module in which it failed, with the paths of the libraries that it
    went through."""
    files = {run.spec.program} | ({first.place.file} if first.place is not None else set())
    libraries = [frame.file for frame in first.frames if not first.sources.is_own(frame.file)]
    return "\n".join([*map(first.sources.text, files), *libraries])


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
