"""The first failure of a run, from what its ranks wrote and how they ended; with its cause and fix."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from tempfile import gettempdir

from nbdist.diagnosis.exits import describe_exit, exit_kind, rank_names
from nbdist.diagnosis.places import Sources
from nbdist.model import Rank, RankState, Run
from nbdist.store import (
    ErrorFrame,
    ErrorReport,
    RunDirectory,
    read_error,
)
from nbdist.store.logs import last_lines
from nbdist.text import Both, both, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nbdist.diagnosis.complaints import Complaint
    from nbdist.diagnosis.deadlocks import Side
    from nbdist.diagnosis.signatures import Hint
    from nbdist.store.reports import Call


# paddle's native traces alone can have 20 KB
_TAIL = 65_536
_TAIL_LINES = 20
_SHOWN_LINE = 120
_SHOWN_LAST = 160
# seconds by which the supervisor may learn of a rank's end later than the peer that complains of it
_SEEN_LATE = 1.0
# nbdist sends none of these: a rank that ends by one ended by itself, even after it was told to
_OWN_SIGNALS = frozenset({-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL})
_AFTER_AN_ERROR = frozenset({1, -signal.SIGTERM, -signal.SIGKILL})
# what these say does not name who is missing, or where
_PLAIN_TIMEOUTS = frozenset(
    {"gloo-timeout", "paddle-gloo-timeout", "nccl-timeout", "nccl-heartbeat", "store-wait-timeout"}
)
# ranks that are in different collectives say this, too
_SIZES = "collective-sizes"
_UNLIKE = _PLAIN_TIMEOUTS | {_SIZES, "collective-mismatch"}
_MEETING = "gloo-connect"
_WITHOUT_A_WORD = "exit-without-error"
# with the last line of the rank
_AFTER_WORDS = {"exit-called": "exit-after-words", "arguments": "arguments-named"}
_HELD_UP = "hang-busy"
_OF_LOOPS = frozenset({"hang-loop", "hang-loop-left"})
_NONE, _NONE_OF_CALL = "none-on-other-ranks", "none-of-collective"
_OF_SHARED_MEMORY = frozenset(
    {"shared-memory-full", "loader-worker-shm", "paddle-loader-shm", "exit-bus-error"}
)
OF_DISKS = frozenset({"disk-full", "exit-disk-full"}) | _OF_SHARED_MEMORY
# as Python ends an OSError's message
_PATH = re.compile(r": '([^']+)'")


# what paddle's native code notes beside the program (severity, month and day, time), and says of a signal
_OF_NATIVE = re.compile(
    r"^(?:[IW]\d{4} \d\d:\d\d:|[-=]{10,}|FLAGS\(|C\+\+ Traceback|\d+ {3}\S+.*[(:]|No stack trace in paddle"
    r"|Error Message Summary|FatalError: .+ is detected by| +\[\w+Info: \*\*\*| +warnings\.warn\()"
)

SAME_ERROR = "the same error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Other ranks of which the same can be said: ``kind`` is what they said, ``exit`` how they ended."""

    ranks: tuple[int, ...]
    kind: str
    exit: str
    exit_zh: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed. ``others`` are the ranks that failed after it.

    ``report`` is the exception where one left the program, ``frames`` its frames; ``tail`` the last
    lines of the log where none did. ``complaint`` is the cause in what the rank said, ``hint`` what is
    known about it. ``sources`` tells the user's files from libraries. ``full`` is the disk that was full when
    it failed. ``early_exits`` are ranks that ended well before this one complained of them, ``absent`` those
    that did not come to what it waited in. ``groups`` is what is to be said of the others,
    ``notes`` are facts beside the failure.
    """

    rank: int
    code: int | None
    time: float
    report: ErrorReport | None
    tail: tuple[str, ...]
    others: tuple[int, ...]
    sources: Sources
    oom: bool = False
    memory: int = 0
    limit: int = 0
    full: str = ""
    complaint: Complaint | None = None
    hint: Hint | None = None
    early_exits: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    groups: tuple[Group, ...] = ()
    notes: tuple[Both, ...] = ()

    @property
    def frames(self) -> tuple[ErrorFrame, ...]:
        """Those of the cause, else those of the exception that left the program."""
        if self.complaint is not None and self.complaint.root.frames:
            return self.complaint.root.frames
        return self.report.frames if self.report is not None else ()

    @property
    def line(self) -> int | None:
        """The innermost line of the program in the cause's traceback, else in that of what left it."""
        frame = self._innermost(self.sources.is_program)
        return None if frame is None else frame.line

    @property
    def place(self) -> ErrorFrame | None:
        """The innermost frame in the program or in a module of the user's, of the same tracebacks."""
        return self._innermost(self.sources.is_own)

    def _innermost(self, wanted: Callable[[str], bool]) -> ErrorFrame | None:
        outer = self.report.frames if self.report is not None else ()
        for frames in (self.frames, outer):
            own = [frame for frame in frames if wanted(frame.file)]
            if own:
                return own[-1]
        return None

    @property
    def secondary(self) -> bool:
        """Whether its rank only told of another one."""
        return self.complaint is not None and self.complaint.secondary


def first_failure(run: Run, directory: RunDirectory) -> Failure | None:
    """The failure that the others followed from; None when no rank has failed.

    The earliest that is not what a rank says of another's death, by the time of its exception or,
    without one, of its exit.
    """
    # what failed on another machine has left its log and its traceback there
    here = [rank for rank in run.ranks if run.spec.is_here(rank.spec)]
    failures = [_failure(rank, run, directory) for rank in here if _failed(rank)]
    if failures and all(failure.secondary for failure in failures):
        # they complain of one that was on its way out when nbdist told it to end
        crashed = [rank for rank in run.ranks if _ended_by_itself(rank)]
        failures += [_failure(rank, run, directory) for rank in crashed]
    if not failures:
        return None
    if all(failure.secondary for failure in failures):
        failures += _gave_up_as_well(failures, run, directory)
    first = min(failures, key=lambda failure: (failure.secondary, failure.time))
    others = tuple(f.rank for f in failures if f is not first)
    first = replace(first, others=others)
    if first.secondary:
        early = tuple(rank.rank for rank in run.ranks if _ended_well_before(rank, first))
        first = replace(first, early_exits=early)
        first = replace(first, absent=_absent(first, run))
    hint = _apart(first, failures, run, directory) or _hint(first, run, directory)
    if hint is not None and run.spec.framework == "paddle":
        hint = hint.in_paddle()
    if hint is not None and hint.signature in OF_DISKS:
        hint = _with_disks(hint, first, run, directory)
    return replace(first, hint=hint, groups=_groups(first, failures, run))


def _gave_up_as_well(known: Sequence[Failure], run: Run, directory: RunDirectory) -> list[Failure]:
    """Of ranks that nbdist ended, those that had waited in vain themselves, a moment later."""
    raised = {rank.rank for rank in run.ranks if rank.state is RankState.ENDED and rank.errored is not None}
    others = (_failure(run.ranks[rank], run, directory) for rank in raised - {one.rank for one in known})
    return [one for one in others if one.complaint is not None and one.complaint.waited]


def diagnose(run: Run, directory: RunDirectory) -> Failure | None:
    """Why the run failed, with notes: everything that is to be shown of it; None when no rank has failed."""
    failure = first_failure(run, directory)
    return failure and replace(failure, notes=tuple(_notes(failure, run, directory)))


def _notes(failure: Failure, run: Run, directory: RunDirectory) -> list[Both]:
    notes = _operands(failure)
    notes += [_did_not_come(rank, run, directory) for rank in failure.absent]
    notes += [
        Both(
            *(
                say("diagnosis.absent-where", one, first=failure.rank, where=where.text(one))
                for one in ("en", "zh")
            )
        )
        for where, _ in _absent_places(failure, run, directory)
    ]
    if failure.full and (failure.hint is None or failure.hint.signature not in OF_DISKS):
        notes.append(both("diagnosis.disk-full", disk=failure.full, rank=failure.rank))
    for rank in failure.early_exits:
        early = run.ranks[rank]
        before = failure.time - (early.finished or early.exited or failure.time)
        code = "diagnosis.early-exit" if before >= 0.1 else "diagnosis.early-exit-now"
        line = _last_line(rank, run, directory)
        said = [
            say(code, one, rank=rank_names([rank], one), seconds=before, last=line.text(one))
            for one in ("en", "zh")
        ]
        notes.append(Both(*said))
    return notes


def _operands(failure: Failure) -> list[Both]:
    """What the names in the failing line stood for."""
    at, report = failure.place, failure.report
    if at is None or report is None:
        return []
    names = [one for one in report.operands if (one.file, one.line) == (at.file, at.line)]
    told = "; ".join(f"{one.name}: {one.what}" for one in names)
    return [both("diagnosis.operands", line=at.line, names=told)] if told else []


def _absent_places(failure: Failure, run: Run, directory: RunDirectory) -> list[tuple[Both, bool]]:
    """Where the ranks were that did not come, when the supervisor asked them, and whether they waited there
    for other ranks; those that waited come last."""
    from nbdist.diagnosis.stacks import clause, last_stacks  # it reads programs, and most failures need none

    report = last_stacks(run, directory)
    if report is None or not failure.absent:
        return []
    return [
        (Both(*(clause(group, report.script, language) for language in ("en", "zh"))), group.place.waits)
        for group in report.groups
        if set(group.ranks) & set(failure.absent) and not group.problem
    ]


def _did_not_come(rank: int, run: Run, directory: RunDirectory) -> Both:
    last = _last_line(rank, run, directory)
    if not last.en:
        return both("diagnosis.absent-silent", rank=rank)
    said = (say("diagnosis.absent-last", one, rank=rank, last=last.text(one)) for one in ("en", "zh"))
    return Both(*said)


def _last_line(rank: int, run: Run, directory: RunDirectory) -> Both:
    """``; its last line: …``; empty of a rank that printed nothing."""
    lines = [line for line in end_of_log(rank, run, directory) if line.strip() and not _OF_NATIVE.match(line)]
    return both("diagnosis.its-last-line", line=lines[-1][:_SHOWN_LAST]) if lines else Both("", "")


def _failed(rank: Rank) -> bool:
    errs = rank.errored is not None and rank.freed is None and not rank.state.terminal
    return rank.state is RankState.FAILED or errs


def _ended_by_itself(rank: Rank) -> bool:
    """Whether a rank that was told to end had a reason of its own: a crash, or an exit without a word."""
    if rank.state is not RankState.ENDED or rank.code is None:
        return False
    if rank.errored is not None or rank.freed is not None:
        return False
    return rank.code in _OWN_SIGNALS or rank.code > 0


def _failure(rank: Rank, run: Run, directory: RunDirectory) -> Failure:
    # the tables and their patterns, imported where they are needed: the kernel loads this package
    from nbdist.diagnosis.complaints import complaint_of

    report = read_error(directory.rank(rank.rank, run.attempt).error)
    tail = end_of_log(rank.rank, run, directory)
    sources = Sources.of(run, directory)
    return Failure(
        rank=rank.rank,
        code=rank.code,
        oom=rank.oom,
        memory=rank.memory,
        limit=rank.limit,
        full=", ".join(report.full) if report is not None and report.full else rank.full,
        time=report.time if report else rank.errored or rank.exited or 0.0,
        report=report,
        complaint=_with_source(complaint_of(report, tail, rank.code), sources),
        tail=tuple(tail[-_TAIL_LINES:]),
        others=(),
        sources=sources,
    )


def _with_source(complaint: Complaint | None, sources: Sources) -> Complaint | None:
    """The complaint with the source in the user's frames: a signal's stack has only numbers."""
    if complaint is None:
        return None
    frames = tuple(
        replace(frame, source=sources.line(frame.file, frame.line))
        if not frame.source and sources.is_own(frame.file)
        else frame
        for frame in complaint.root.frames
    )
    return replace(complaint, root=replace(complaint.root, frames=frames))


def end_of_log(rank: int, run: Run, directory: RunDirectory) -> list[str]:
    """The last lines that a rank wrote, as many as a cause may lie back."""
    return last_lines(directory.rank(rank, run.attempt).log, _TAIL)


def _ended_well_before(rank: Rank, first: Failure) -> bool:
    """Whether a rank ended well before ``first`` complained."""
    if rank.state is not RankState.SUCCEEDED or first.complaint is None:
        return False
    if rank.finished is None and first.complaint.gone:
        # its peer may see the closed connection before the supervisor sees the exit
        return True
    return (rank.finished or rank.exited or first.time) < first.time + _SEEN_LATE


def _absent(first: Failure, run: Run) -> tuple[int, ...]:
    """Ranks that did not come to what ``first`` waited in, as far as one can tell: the rest."""
    if first.complaint is None or not first.complaint.waited or first.early_exits:
        return ()
    gone = {first.rank, *first.others}
    return tuple(rank.rank for rank in run.ranks if rank.rank not in gone)


def _apart(first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory) -> Hint | None:
    """Why the ranks did not meet, of one that gave up, or that met another collective than its own: from
    where they all were in the program."""
    known = _known(first)
    if known not in _UNLIKE or first.early_exits:
        return None
    from nbdist.diagnosis.deadlocks import all_joining, why
    from nbdist.diagnosis.stacks import last_sides

    ways: dict[tuple[Call, ...], list[int]] = {}
    for failure in failures:
        # one that complained of no sizes may have come through there, and on to the next
        if _known(failure) in _UNLIKE if known == _SIZES else failure.secondary or failure.rank == first.rank:
            ways.setdefault(_calls(failure), []).append(failure.rank)
    sides = [_side(tuple(ranks), calls, first.sources) for calls, ranks in ways.items()]
    failed = {rank for ranks in ways.values() for rank in ranks}
    if known != _SIZES:
        sides += [side for side in last_sides(run, directory) if not failed & set(side.ranks)]
    hint = all_joining(sides, run.spec.world_size) or why(sides, first.sources, {})
    if hint is None and known == _SIZES:
        hint = _left_a_loop(sides, first, failures, run, directory)
    # whether it is only slow is not known: the time limit was the program's own
    return hint if hint is not None and hint.signature != _HELD_UP else None


def _left_a_loop(
    sides: Sequence[Side], first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory
) -> Hint | None:
    """Of ranks that met another collective than their own: the loop that some had left, and others not. Those
    may have gone on to the next call, and are in the loop all the same."""
    from nbdist.diagnosis.deadlocks import why

    told = {rank for side in sides for rank in side.ranks}
    ended = {rank.rank for rank in run.ranks if rank.state is RankState.ENDED} - {
        one.rank for one in failures
    }
    complained = [*failures, *(_failure(run.ranks[rank], run, directory) for rank in ended)]
    others = [one for one in complained if one.rank not in told and one.secondary]
    sides = [*sides, *(_side((one.rank,), _calls(one), first.sources) for one in others)]
    hint = why(sides, first.sources, {})
    return hint if hint is not None and hint.signature in _OF_LOOPS else None


def _alone(first: Failure) -> dict[str, str] | None:
    """What only this rank went into, of those that have not ended."""
    from nbdist.diagnosis.deadlocks import entered_alone

    return entered_alone(_side((first.rank,), _calls(first), first.sources), first.sources)


def _way_out(first: Failure) -> dict[str, str] | None:
    """What lets ranks leave out steps of the loop that this one is in."""
    from nbdist.diagnosis.deadlocks import way_out

    return way_out(_side((first.rank,), _calls(first), first.sources), first.sources)


def _calls(failure: Failure) -> tuple[Call, ...]:
    from nbdist.store.reports import Call

    return tuple(Call(file=one.file, line=one.line, function=one.function) for one in failure.frames)


def _side(ranks: tuple[int, ...], calls: tuple[Call, ...], sources: Sources) -> Side:
    """Ranks that waited for others in the last of these calls."""
    from nbdist.diagnosis.deadlocks import Side
    from nbdist.diagnosis.places import place_of

    return Side(
        ranks=ranks,
        way=tuple(call for call in calls if sources.is_own(call.file)),
        place=replace(place_of(calls[::-1], sources), waits=True),
    )


def _known(failure: Failure) -> str:
    """The name of the signature that knows what a rank said; empty for none."""
    signature = failure.complaint.signature if failure.complaint is not None else None
    return signature.name if signature is not None else ""


def _hint(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """What is known about the first failure: from all ranks together, from its words, or its exit."""
    from nbdist.diagnosis.checks.names import removed_name
    from nbdist.diagnosis.signatures import Hint, Source, match, named, suits, variant

    parts = {"late": [first.rank], "early": first.early_exits, "absent": first.absent}
    ranks, ranks_zh = (
        {name: rank_names(some, language) for name, some in parts.items()} for language in ("en", "zh")
    )
    complaint = first.complaint
    if first.early_exits:
        if any(run.ranks[rank].finished is None for rank in first.early_exits):
            known = "left-early"
        elif (alone := _alone(first)) is not None:
            return Hint.of(named("left-alone"), ranks | alone, ranks_zh | alone)
        elif (
            complaint is not None and complaint.signature is not None and complaint.signature.name == _MEETING
        ):
            known = "left-before-all-met"
        elif (out := _way_out(first)) is not None:
            return Hint.of(named("uneven-steps-left"), ranks | out, ranks_zh | out)
        else:
            known = "uneven-steps"
        return Hint.of(named(known), ranks, ranks_zh)
    if complaint is not None and (removed := removed_name(complaint.root.text)) is not None:
        return Hint.of(named("removed-name"), removed)
    if complaint is not None and complaint.signature is not None and complaint.found is not None:
        if first.absent and complaint.signature.name in _PLAIN_TIMEOUTS:
            places = _absent_places(first, run, directory)
            known = "rank-was-busy" if places and not places[0][1] else "rank-did-not-come"
            return Hint.of(named(known), ranks, ranks_zh)
        if complaint.signature.name == _SIZES and (alone := _alone(first)) is not None:
            return Hint.of(named("met-another-call"), ranks | alone, ranks_zh | alone)
        values = complaint.found.groupdict()
        after = _AFTER_WORDS.get(complaint.signature.name)
        if after is not None and (last := _last_line(first.rank, run, directory)).en:
            return Hint.of(named(after), values | {"last": last.en}, values | {"last": last.zh})
        return Hint.of(variant(complaint.signature, _program(first, run)), values)
    text = complaint.root.text if complaint is not None else ""
    if suits(_NONE_OF_CALL, text, program := _program(first, run)):
        return Hint.of(named(_NONE_OF_CALL), {})
    if suits(_NONE, text, program) and first.rank > 0 and _is_past(0, run, directory):
        return Hint.of(named(_NONE), ranks, ranks_zh)
    if first.code is None or (complaint is not None and complaint.root.text):
        return None
    found = match(exit_kind(first.code, oom=first.oom, limit=first.limit), Source.EXIT)
    if found is None:
        return None
    if found[0].name == _WITHOUT_A_WORD:
        if first.full:
            return Hint.of(named("exit-disk-full"), {"disk": first.full})
        if run.ranks[first.rank].errored is not None:
            return Hint.of(named("exit-report-lost"), {})
    return Hint.of(found[0], found[1].groupdict())


def _is_past(rank: int, run: Run, directory: RunDirectory) -> bool:
    """Whether a rank was done, or waited for others, when one had failed, and had not failed itself."""
    from nbdist.diagnosis.places import place_of
    from nbdist.diagnosis.stacks import last_sides

    if run.ranks[rank].state is RankState.SUCCEEDED:
        return True
    if run.ranks[rank].errored is not None:
        ended = _failure(run.ranks[rank], run, directory)
        waited = place_of(_calls(ended)[::-1], ended.sources).waits
        return waited and (ended.secondary or run.ranks[rank].freed is not None)
    return any(rank in side.ranks and side.place.waits for side in last_sides(run, directory))


def _program(first: Failure, run: Run) -> str:
    """The text of the program, and of the module in which it failed."""
    files = {run.spec.program} | ({first.place.file} if first.place is not None else set())
    return "\n".join(map(first.sources.text, files))


def _with_disks(hint: Hint, first: Failure, run: Run, directory: RunDirectory) -> Hint:
    """The hint with which disk is full, where the ranks ran here: of those that they may write to."""
    from nbdist.devices.usage import SHARED_MEMORY, disks
    from nbdist.diagnosis.signatures import Hint, named

    if hint.signature == "disk-full" and first.full == SHARED_MEMORY:
        hint = Hint.of(named("shared-memory-full"), {})
    if run.spec.engine or run.spec.nodes > 1 or run.supervisor_host != os.uname().nodename:
        return hint
    message = first.complaint.root.message if first.complaint is not None else ""
    own = [path for path in _PATH.findall(message) if os.path.isabs(path)]
    own += [first.full] if first.full else []
    own += [SHARED_MEMORY] if hint.signature in _OF_SHARED_MEMORY else [str(directory.path), run.spec.cwd]
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
        hint,
        cause=Both(f"{hint.cause.en}: {room.en}", f"{hint.cause.zh}：{room.zh}"),
        fix=Both(hint.fix.en + more.en, hint.fix.zh + more.zh),
    )


def _groups(first: Failure, failures: Sequence[Failure], run: Run) -> tuple[Group, ...]:
    """The other ranks, by what they said and how they ended."""
    said = {failure.rank: failure for failure in failures}
    groups: dict[tuple[str, str, str], list[int]] = {}
    for rank in run.ranks:
        if rank is run.ranks[first.rank] or (rank.code is None and rank.rank not in said):
            continue
        failure = said.get(rank.rank)
        if failure is None and rank.state is not RankState.ENDED:
            continue
        kind = _kind(failure, first) if failure is not None else ""
        ended = rank.state is RankState.ENDED
        how = how_zh = ""
        # after an exception, exit 1 says nothing new, nor does that nbdist did not wait for the exit
        if rank.code is not None and not (kind and rank.code in _AFTER_AN_ERROR):
            how, how_zh = (
                describe_exit(rank.code, oom=rank.oom, ended=ended, limit=rank.limit, language=language)
                for language in ("en", "zh")
            )
        groups.setdefault((kind, how, how_zh), []).append(rank.rank)
    return tuple(
        Group(ranks=tuple(ranks), kind=kind, exit=how, exit_zh=how_zh)
        for (kind, how, how_zh), ranks in groups.items()
    )


def _kind(failure: Failure, first: Failure) -> str:
    """What a rank said, in a few words, with the line where that is another one."""
    complaint = failure.complaint
    if complaint is None:
        return ""
    where = "" if failure.line in (None, first.line) else f" (line {failure.line})"
    if complaint.secondary and complaint.found is not None:
        return complaint.found[0].split("\n")[0][:_SHOWN_LINE] + where
    if not where and first.complaint is not None and complaint.root.text == first.complaint.root.text:
        return SAME_ERROR
    return complaint.root.text.split("\n")[0][:_SHOWN_LINE] + where
