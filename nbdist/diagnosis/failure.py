"""The first failure of a run, from its ranks' output and exits; with cause and fix."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nbdist.diagnosis.exits import describe_exit, ranks_in_words
from nbdist.diagnosis.positions import by_ranks, values_at
from nbdist.diagnosis.rank_failure import Failure, Group, absent_places, failure_of, last_line
from nbdist.model import Rank, RankState, Run
from nbdist.store import ErrorFrame, ErrorReport, RunDirectory, read_error
from nbdist.text import Both, both

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nbdist.diagnosis.facts import Origin
    from nbdist.diagnosis.tracebacks import Raised

_SHOWN_LINE = 120
# seconds by which the supervisor may learn of a rank's end later than the peer that complains of it
_SEEN_LATE = 1.0
# nbdist sends none of these: such a rank ended by itself, even after nbdist's signal
_OWN_SIGNALS = frozenset({-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL})
_OF_NBDIST = frozenset({-signal.SIGTERM, -signal.SIGKILL})
_AFTER_AN_ERROR = frozenset({1, -signal.SIGTERM, -signal.SIGKILL})

_READ_RANKS, _FEW_VALUES = 64, 4
# seconds by which the clock of another machine may be behind
_BEFORE = 1.0

Values = Mapping[int, Mapping[str, str]]
"""The values of names by rank; the rank that failed comes first."""

SAME_ERROR = "the same error"


def first_failure(run: Run, directory: RunDirectory) -> Failure | None:
    """Return the failure that the others followed from; None when no rank has failed.

    The earliest that is no complaint about another rank, by its exception's time or, without one, its exit's.
    """
    # a rank of another machine left its log and traceback there
    here = [rank for rank in run.ranks if run.spec.is_here(rank.spec)]
    failures = [failure_of(rank, run, directory) for rank in here if _failed(rank)]
    if failures and all(failure.secondary for failure in failures):
        # they complain of a rank that was leaving when nbdist ended it
        crashed = [rank for rank in run.ranks if _ended_by_itself(rank)]
        failures += [failure_of(rank, run, directory) for rank in crashed]
    if not failures:
        return None
    if all(failure.secondary for failure in failures):
        failures += _gave_up_as_well(failures, run, directory)
    first = min(failures, key=lambda failure: (failure.secondary, _cut_off(failure, run), failure.time))
    others = tuple(f.rank for f in failures if f is not first)
    first = replace(first, others=others)
    if first.secondary:
        early = tuple(rank.rank for rank in run.ranks if _ended_well_before(rank, first))
        first = replace(first, early_exits=early)
        first = replace(first, absent=_absent(first, run))
    # the tables and their patterns, imported where they are needed: the kernel loads this package
    from nbdist.diagnosis.failure_hint import hint_of

    hint = hint_of(first, failures, run, directory)
    if hint is not None and hint.signature in ("hang-joining", "hang-port-by-rank"):
        first = replace(first, absent=())  # they came, and waited there for more
    return replace(first, hint=hint, groups=_groups(first, failures, run))


def _gave_up_as_well(known: Sequence[Failure], run: Run, directory: RunDirectory) -> list[Failure]:
    """Return the ranks that nbdist ended just after they, too, had waited in vain."""
    raised = {rank.rank for rank in run.ranks if rank.state is RankState.STOPPED and rank.errored is not None}
    others = (
        failure_of(run.ranks[rank], run, directory) for rank in raised - {failure.rank for failure in known}
    )
    return [failure for failure in others if failure.complaint is not None and failure.complaint.waited]


def diagnose(run: Run, directory: RunDirectory) -> Failure | None:
    """Return the first failure with its notes; None when no rank has failed."""
    failure = first_failure(run, directory)
    if failure is None:
        return None
    values = _values_in_line(failure, run, directory)
    unlike, had = _unlike(values), _alike(values, failure.place.line if failure.place is not None else 0)
    notes = [*unlike, *had, *_notes(failure, run, directory)]
    return replace(failure, differing=tuple(unlike), notes=tuple(notes))


def _notes(failure: Failure, run: Run, directory: RunDirectory) -> list[Both]:
    from nbdist.diagnosis.facts import first_not_finite, origins  # it reads programs
    from nbdist.diagnosis.failure_hint import OF_DISKS
    from nbdist.diagnosis.tracebacks import members

    others = members(failure.report.text if failure.report is not None else "")[1:]
    notes = [_raised_note("sub-exception", raised, failure) for raised in others]
    if failure.complaint is not None and failure.complaint.child is not None:
        notes.append(_raised_note("child", failure.complaint.child, failure))
    notes += [_origin("origin", origin, failure) for origin in origins(failure)]
    if (first := first_not_finite(failure)) is not None:
        notes.append(_origin("not-finite", first, failure))
    for rank in failure.absent:
        last = last_line(rank, run, directory)
        notes.append(both(f"diagnosis.absent-{'last' if last.en else 'silent'}", rank=rank, last=last))
    notes += [
        both("diagnosis.absent-where", where=where) for where, _ in absent_places(failure, run, directory)
    ]
    if failure.full and (failure.hint is None or failure.hint.signature not in OF_DISKS):
        notes.append(both("diagnosis.disk-full", disk=failure.full, rank=failure.rank))
    for rank in failure.early_exits:
        early = run.ranks[rank]
        before = failure.time - (early.finished or early.exited or failure.time)
        code = "diagnosis.early-exit" if before >= 0.1 else "diagnosis.early-exit-now"
        line = last_line(rank, run, directory)
        who = ranks_in_words([rank])
        notes.append(both(code, rank=who, seconds=before, last=line))
    return notes


def _raised_note(code: str, raised: Raised, failure: Failure) -> Both:
    at = next((frame for frame in reversed(raised.frames) if failure.sources.is_own(frame.file)), None)
    line = failure.sources.short(at.file, at.line) if at is not None else ""
    error = raised.text.split("\n")[0][:_SHOWN_LINE]
    return both(f"diagnosis.{code}", error=error, line=line, by=raised.by)


def _origin(code: str, origin: Origin, failure: Failure) -> Both:
    file = failure.sources.name(origin.file)
    of_file = "" if file == failure.sources.script else "-file"
    return both(
        f"diagnosis.{code}{of_file}", name=origin.name, line=origin.line, source=origin.source, file=file
    )


def _failed(rank: Rank) -> bool:
    errs = rank.errored is not None and rank.freed is None and not rank.state.terminal
    return rank.state is RankState.FAILED or errs


def _cut_off(failure: Failure, run: Run) -> bool:
    """Return whether a peer's failure ended a rank while it wrote its own exception."""
    rank = run.ranks[failure.rank]
    return rank.errored is not None and failure.report is None and rank.code in _OF_NBDIST


def _ended_by_itself(rank: Rank) -> bool:
    """Return whether a rank that nbdist ended had crashed, or exited without a message, by itself."""
    if rank.state is not RankState.STOPPED or rank.code is None:
        return False
    if rank.errored is not None or rank.freed is not None:
        return False
    return rank.code in _OWN_SIGNALS or rank.code > 0


def _ended_well_before(rank: Rank, first: Failure) -> bool:
    """Return whether a rank ended well before ``first`` complained."""
    if rank.state is not RankState.FINISHED or first.complaint is None:
        return False
    if rank.finished is None and first.complaint.gone:
        # its peer may see the closed connection before the supervisor sees the exit
        return True
    return (rank.finished or rank.exited or first.time) < first.time + _SEEN_LATE


def _absent(first: Failure, run: Run) -> tuple[int, ...]:
    """Return the ranks missing where ``first`` waited: all others, by elimination."""
    if first.complaint is None or not first.complaint.waited or first.early_exits:
        return ()
    gone = {first.rank, *first.others}
    return tuple(rank.rank for rank in run.ranks if rank.rank not in gone)


def _groups(first: Failure, failures: Sequence[Failure], run: Run) -> tuple[Group, ...]:
    by_rank = {failure.rank: failure for failure in failures}
    groups: dict[tuple[str, str, str], list[int]] = {}
    for rank in run.ranks:
        if rank is run.ranks[first.rank] or (rank.code is None and rank.rank not in by_rank):
            continue
        failure = by_rank.get(rank.rank)
        if failure is None and rank.state is not RankState.STOPPED:
            continue
        kind = _kind(failure, first) if failure is not None else ""
        ended = rank.state is RankState.STOPPED or (failure is not None and _cut_off(failure, run))
        how = how_zh = ""
        # after an exception, neither exit 1 nor nbdist's signal adds anything
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
    """Return a rank's complaint in a few words, with its line where that differs."""
    complaint = failure.complaint
    if complaint is None:
        return ""
    where = "" if failure.line in (None, first.line) else f" (line {failure.line})"
    if complaint.secondary and complaint.found is not None:
        return complaint.found[0].split("\n")[0][:_SHOWN_LINE] + where
    if not where and first.complaint is not None and complaint.root.text == first.complaint.root.text:
        return SAME_ERROR
    return complaint.root.text.split("\n")[0][:_SHOWN_LINE] + where


# The values of names in the failing line, on the rank that failed and on others in that line.


def _values_in_line(failure: Failure, run: Run, directory: RunDirectory) -> Values:
    """Return the values in the failing line on ranks that failed there or last stood there."""
    from nbdist.diagnosis.stacks import last_values  # it reads programs; the kernel loads this package

    at = failure.place
    if at is None:
        return {}
    others = [rank.rank for rank in run.ranks if rank.rank != failure.rank][:_READ_RANKS]
    reports = {rank: read_error(directory.rank(rank, run.attempt).error) for rank in others}
    raised = {rank: named for rank, report in reports.items() if (named := _named(report, at))}
    after = 0.0 if run.stalled is not None else failure.time - _BEFORE
    standing = last_values(at.file, at.line, run, directory, after=after)
    standing.pop(failure.rank, None)
    return {failure.rank: _named(failure.report, at)} | standing | raised


def _named(report: ErrorReport | None, at: ErrorFrame) -> dict[str, str]:
    return values_at(report.operands if report is not None else (), at.file, at.line)


def _unlike(values: Values) -> list[Both]:
    """Return a line for each name whose value differs between ranks."""
    lines = []
    for name in _differing(values):
        on = _by_value(name, values)
        words = by_ranks((sorted(ranks), what) for what, ranks in [*on.items()][:_FEW_VALUES])
        lines.append(both("diagnosis.values-differ", name=name, values=words, more=len(on) > _FEW_VALUES))
    return lines


def _alike(values: Values, line: int) -> list[Both]:
    """Return the values of the other names, a line for each set of ranks that had them."""
    unlike = _differing(values)
    sets: dict[tuple[int, ...], dict[str, str]] = {}
    for rank, names in values.items():
        for name, what in names.items():
            ranks = tuple(other for other, others in values.items() if others.get(name) == what)
            if name not in unlike and rank == ranks[0]:
                sets.setdefault(ranks, {})[name] = what
    return [_had(line, ranks, names, values) for ranks, names in sets.items()]


def _had(line: int, ranks: tuple[int, ...], names: Mapping[str, str], values: Values) -> Both:
    text = ", ".join(f"{name} = {what}" for name, what in names.items())
    if ranks == tuple(values)[:1]:
        return both("diagnosis.operands", line=line, names=text)
    return both("diagnosis.operands-of", line=line, who=ranks_in_words(sorted(ranks)), names=text)


def _differing(values: Values) -> list[str]:
    """Return the names with several values, but for those that hold the rank's number."""
    names = dict.fromkeys(name for known in values.values() for name in known)
    return [name for name in names if len(_by_value(name, values)) > 1 and not _is_number(name, values)]


def _by_value(name: str, values: Values) -> dict[str, list[int]]:
    on: dict[str, list[int]] = {}
    for rank, known in values.items():
        if name in known:
            on.setdefault(known[name], []).append(rank)
    return on


def _is_number(name: str, values: Values) -> bool:
    return all(known.get(name, str(rank)) == str(rank) for rank, known in values.items())
