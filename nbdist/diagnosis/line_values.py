"""The values of names in a failing line, on the rank that failed and on others in that line."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.diagnosis.exits import ranks_in_words
from nbdist.diagnosis.positions import values_at
from nbdist.diagnosis.rank_failure import Failure
from nbdist.model import Run
from nbdist.store import ErrorFrame, ErrorReport, RunDirectory, read_error
from nbdist.text import Both, both

_READ_RANKS, _FEW_VALUES = 64, 4
# seconds by which the clock of another machine may be behind
_BEFORE = 1.0

Values = Mapping[int, Mapping[str, str]]
"""The values of names by rank; the rank that failed comes first."""


def values_in_line(failure: Failure, run: Run, directory: RunDirectory) -> Values:
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


def differing(values: Values) -> list[Both]:
    """Return a line for each name whose value differs between ranks."""
    lines = []
    for name in _differing(values):
        on = _by_value(name, values)
        parts = [
            both("diagnosis.value-on", what=what, who=ranks_in_words(sorted(ranks)))
            for what, ranks in on.items()
        ]
        more = [Both("…", "…")] if len(parts) > _FEW_VALUES else []
        shown = [*parts[:_FEW_VALUES], *more]
        words = Both(", ".join(part.en for part in shown), "，".join(part.zh for part in shown))
        lines.append(both("diagnosis.values-differ", name=name, values=words))
    return lines


def equal(values: Values, line: int) -> list[Both]:
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
    text = "; ".join(f"{name}: {what}" for name, what in names.items())
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
