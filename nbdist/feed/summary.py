"""What is to be said of a finished run: read once from its directory; how its ranks ended, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from nbdist.diagnosis import Failure, diagnose, failure_report
from nbdist.diagnosis.exits import rank_ranges, signal_name
from nbdist.diagnosis.silent import MistakeReader
from nbdist.feed.ansi import harmless
from nbdist.feed.curves import Curve, read_curves
from nbdist.feed.given import NOTHING, Given, results_of
from nbdist.feed.labels import exit_text, ranks_text, state_mark, state_word
from nbdist.feed.measures import glance
from nbdist.feed.progress import Progress
from nbdist.feed.stalling import (
    SlowView,
    StallReader,
    StallView,
    ended_slow,
    freed_texts,
    hung_lines,
    slow_text,
)
from nbdist.model import Rank, RankState, Run, RunState
from nbdist.programs.sources import Sources
from nbdist.store import LogStream, RunDirectory
from nbdist.store.logs import last_lines
from nbdist.text import Both, reason_text, say

_LOGS = 8
_SHARES = re.compile(r"RANK|WORLD_SIZE|TRAINER|_rank\b|_world_size\b|process_index|init_p\w+_(?:group|env)")
_TAIL_BYTES = 16_384
_WHOLE = 20  # lines, of all logs together
_TAIL_LINES = 8
_AROUND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """One line of the user's file. ``failing`` is where the failure came from."""

    number: int
    text: str
    failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a log, which these ranks have in common; ``whole`` where there is nothing before it."""

    ranks: tuple[Rank, ...]
    lines: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A finished run. ``progress`` is how far it came where it did not succeed; ``code`` is around the line
    that failed; ``later`` says of each rank how many seconds after the first failure it ended; ``logs`` are
    those of the ranks that matter where they are short, else their ends. ``stall`` is where the ranks were,
    where a run was ended while it hung, ``slow`` the rank that held up the others towards the end, ``freed``
    those whose waits were ended with the run. ``alone``: no rank joined a process group, and the program asks
    for no rank's number. ``results`` are what the ranks gave out, ``mistakes`` of the program those that fail
    no rank."""

    run: Run
    curves: tuple[Curve, ...]
    progress: Progress | None
    failure: Failure | None
    code: tuple[CodeLine, ...]
    later: Mapping[int, float]
    logs: tuple[LogEnd, ...]
    stall: StallView | None = None
    slow: SlowView | None = None
    freed: tuple[Both, ...] = ()
    alone: bool = False
    results: Given = NOTHING
    mistakes: tuple[Both, ...] = ()


def facts_of(run: Run, directory: RunDirectory) -> Facts:
    """Read from the run's directory what its summary shows."""
    succeeded = run.state is RunState.SUCCEEDED
    failure = diagnose(run, directory)
    return Facts(
        run=run,
        curves=read_curves(run, directory),
        progress=None if succeeded else glance(run, directory, run.ended or 0.0).progress,
        failure=failure,
        code=code_lines(failure) if failure is not None else (),
        later=_later(failure, run) if failure is not None else {},
        logs=_logs(_that_matter(run, failure), run, directory),
        stall=None if succeeded else StallReader(directory).look(run),
        slow=ended_slow(run, directory),
        freed=freed_texts(run, directory),
        alone=succeeded and _alone(run, directory),
        results=results_of(run, directory),
        mistakes=MistakeReader(directory).look(run),
    )


def _alone(run: Run, directory: RunDirectory) -> bool:
    """Whether each rank may have done the whole work. A program that asks which rank it is shares it out;
    what the cells of a session did is the user's to say."""
    joined = any(rank.joined or rank.finished is None for rank in run.ranks)
    if run.spec.session is not None or len(run.ranks) == 1 or joined:
        return False
    lines = Sources.of(run, directory).lines(run.spec.program)
    return not any(_SHARES.search(line) for line in lines)


def _that_matter(run: Run, failure: Failure | None) -> list[Rank]:
    """At most eight ranks: the first failure, the others that did not succeed, the lowest; by number."""

    def weight(rank: Rank) -> tuple[bool, bool, bool, int]:
        first = failure is not None and rank.rank == failure.rank
        failed = rank.state in (RankState.FAILED, RankState.LOST)
        return not first, not failed, rank.state is not RankState.ENDED, rank.rank

    return sorted(sorted(run.ranks, key=weight)[:_LOGS], key=lambda rank: rank.rank)


def code_lines(failure: Failure) -> tuple[CodeLine, ...]:
    """The lines around the failure; of a file that was changed since, the line that failed alone."""
    frame = failure.place
    if frame is None:
        return ()
    at, source = frame.line, frame.source
    lines = failure.sources.lines(frame.file)
    if not 1 <= at <= len(lines) or (source and lines[at - 1].strip() != source.strip()):
        return (CodeLine(number=at, text=source, failing=True),) if source else ()
    begin, end = max(1, at - _AROUND), min(len(lines), at + _AROUND)
    while end > at and not lines[end - 1].strip():
        end -= 1
    while begin < at and not lines[begin - 1].strip():
        begin += 1
    near = enumerate(lines[begin - 1 : end], begin)
    return tuple(CodeLine(number=number, text=line, failing=number == at) for number, line in near)


def _later(failure: Failure, run: Run) -> dict[int, float]:
    return {
        rank.rank: max(0.0, rank.exited - failure.time)
        for rank in run.ranks
        if rank.rank != failure.rank and rank.state is not RankState.SUCCEEDED and rank.exited is not None
    }


def _logs(ranks: list[Rank], run: Run, directory: RunDirectory) -> tuple[LogEnd, ...]:
    ends = [_log(rank, directory.rank(rank.rank, run.attempt).log) for rank in ranks]
    logs = _alike(ends)
    if all(log.whole for log in logs) and sum(len(log.lines) for log in logs) <= _WHOLE:
        return logs
    return _alike([_end(log) for log in ends])


def _log(rank: Rank, path: Path) -> LogEnd:
    lines = tuple(last_lines(path, _TAIL_BYTES))
    return LogEnd(ranks=(rank,), lines=lines, whole=LogStream(path).size <= _TAIL_BYTES)


def _end(log: LogEnd) -> LogEnd:
    lines = log.lines[-_TAIL_LINES:]
    return replace(log, lines=lines, whole=log.whole and len(lines) == len(log.lines))


def _alike(logs: Sequence[LogEnd]) -> tuple[LogEnd, ...]:
    """One for the ranks that ended alike and wrote the same."""
    alike: dict[tuple[RankState, LogEnd], list[Rank]] = {}
    for log in logs:
        (rank,) = log.ranks
        alike.setdefault((rank.state, replace(log, ranks=())), []).append(rank)
    return tuple(replace(log, ranks=tuple(ranks)) for (_, log), ranks in alike.items())


_EACH = 8


def outcomes(facts: Facts, language: str) -> list[tuple[str, str, str]]:
    """Which ranks, the mark and the words of how they ended: each rank, or where there are many the
    ranks that ended alike."""
    run = facts.run
    each = len(run.ranks) <= _EACH
    found = []
    for rank in run.ranks:
        how = _how(rank, facts, language)
        if each and rank.rank in facts.later:
            how += f", +{facts.later[rank.rank]:.1f} s"
        found.append((rank.rank, state_mark(rank.state.value), how))
    if each:
        return [(str(number), mark, how) for number, mark, how in found]
    alike = sorted(found, key=lambda one: one[1:])
    groups = [(key, [one[0] for one in group]) for key, group in groupby(alike, key=lambda one: one[1:])]
    groups.sort(key=lambda pair: (len(pair[1]), pair[1]))
    return [(rank_ranges(numbers), mark, how) for (mark, how), numbers in groups]


def _how(rank: Rank, facts: Facts, language: str) -> str:
    """``Failed first, exit 1``, ``Ended, SIGTERM``."""
    if facts.failure is not None and rank.rank == facts.failure.rank:
        return f"{say('panel.failed-first', language)}, {exit_text(rank, language)}".rstrip(", ")
    state = state_word(rank.state, language)
    if rank.state is RankState.ENDED and rank.code is not None and rank.code < 0:
        return f"{state}, {signal_name(rank.code)}"
    return f"{state}, {exit_text(rank, language)}" if rank.code else state


def remarks(facts: Facts, language: str, notes: Sequence[str]) -> list[str]:
    """What is to be said of the run beside how it ended; ``notes`` last."""
    ranks, leftover = ranks_text(len(facts.run.ranks), language), facts.run.leftover
    own = (
        *(one.text(language) for one in facts.mistakes),
        slow_text(facts.slow, language) if facts.slow is not None else "",
        *(one.text(language) for one in facts.freed),
        say("panel.alone", language, ranks=ranks) if facts.alone else "",
        say("panel.leftover", language, count=leftover) if leftover else "",
    )
    return [*filter(None, own), *notes]


def logs_title(ranks: Sequence[Rank], language: str) -> str:
    """Whose log it is; how they ended where that was no success."""
    name = f"{say('panel.rank', language)} {rank_ranges([rank.rank for rank in ranks])}"
    state = ranks[0].state
    return name if state is RankState.SUCCEEDED else f"{name} · {state_word(state, language)}"


def run_report(run: Run, directory: RunDirectory, language: str = "en") -> str:
    """Why the run did not succeed: the first failure where a rank has failed, else its reason. Of a run that
    was stopped because that was asked for, one line."""
    return harmless(_report(run, directory, language))


def _report(run: Run, directory: RunDirectory, language: str) -> str:
    failure = diagnose(run, directory)
    if run.state is RunState.FAILED and failure is not None and run.reason.of_ranks:
        report = f"{run.label}: {failure_report(failure, language)}"
        return report if run.spec.nodes == 1 else f"{_ended(run, language)}\n{report}"
    if run.stopped_as_asked:
        reason = reason_text(run.reason, language)
        return say("panel.ended-early", language, label=run.label, reason=reason)
    log = str(directory.supervisor_log) if run.state is RunState.LOST else ""
    text = _ended(run, language, log)
    stall = StallReader(directory).look(run)
    return text if stall is None else "\n".join([text, *hung_lines(stall, language)])


def _ended(run: Run, language: str, log: str = "") -> str:
    """``lenet-k3f9 failed: the time limit of 60 s was reached``, and which log has more."""
    state = state_word(run.state, language) if language == "zh" else run.state.value
    reason = reason_text(run.reason, language)
    return say("panel.ended", language, label=run.label, state=state, reason=reason, log=log)


def stopped_text(run: Run) -> str:
    """``lenet-k3f9 cancelled: 2 processes ended``: the line about a stopped run."""
    here = (run.ranks[spec.rank] for spec in run.spec.here)
    ended = sum(rank.exited is not None for rank in here) + run.leftover
    return f"[nbdist] {run.label} {run.state.value}: {ended} process{'' if ended == 1 else 'es'} ended"
