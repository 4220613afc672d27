"""A finished run, read once from its directory: its ranks' ends, and the reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nbdist.diagnosis import Failure, diagnose, failure_report
from nbdist.diagnosis.exits import rank_ranges, signal_name
from nbdist.diagnosis.silent import MistakeReader
from nbdist.diagnosis.training import Training
from nbdist.feed.ansi import harmless
from nbdist.feed.curves import Curve, read_curves
from nbdist.feed.given import NOTHING, Given, results_of
from nbdist.feed.labels import cut_text, exit_text, ranks_text, state_mark, state_word
from nbdist.feed.log_lines import Tracebacks
from nbdist.feed.measures import glance, lines_around
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
from nbdist.feed.training_view import read_training
from nbdist.feed.view import last_checkpoint
from nbdist.model import AT_LIMIT, Rank, RankState, Run, RunState
from nbdist.programs.sources import Sources
from nbdist.store import LogStream, RunDirectory
from nbdist.store.logs import last_lines
from nbdist.text import Both, reason_text, say

_LOGS = 8
_SHARES = re.compile(r"RANK|WORLD_SIZE|TRAINER|_rank\b|_world_size\b|process_index|init_p\w+_(?:group|env)")
_TAIL_BYTES = 16_384
_WHOLE = 20  # lines, of all logs together
_TAIL_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """One line of the user's file; the failure came from the ``failing`` one."""

    number: int
    text: str
    failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a log that these ranks have in common; ``whole`` where nothing stands before it."""

    ranks: tuple[Rank, ...]
    lines: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A finished run. ``progress`` of one that did not succeed; ``code`` around the failing line;
    ``later``: by rank, seconds from the first failure to its end; ``logs`` of the ranks that matter, or
    their ends; ``stall`` of a run that hung to its end; ``freed``: the waits that nbdist ended with it.
    ``alone``: no rank joined a process group or asks for a rank's number. ``mistakes`` fail no rank."""

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
    training: Training | None = None


def facts_of(run: Run, directory: RunDirectory) -> Facts:
    """Read the facts from the run's directory."""
    finished = run.state is RunState.FINISHED
    failure, training = diagnose(run, directory), read_training(run, directory)
    return Facts(
        run=run,
        curves=read_curves(run, directory),
        progress=None if finished else glance(run, directory, run.ended or 0.0).progress,
        failure=failure,
        code=code_lines(failure) if failure is not None else (),
        later=_later(failure, run) if failure is not None else {},
        logs=_logs(_that_matter(run, failure), run, directory),
        stall=None if finished else StallReader(directory).look(run),
        slow=ended_slow(run, directory, training),
        freed=freed_texts(run, directory),
        alone=finished and _alone(run, directory),
        results=results_of(run, directory),
        mistakes=MistakeReader(directory).look(run),
        training=training,
    )


def _alone(run: Run, directory: RunDirectory) -> bool:
    """Return whether each rank may have done the whole work: a program that asks for its rank divides it."""
    joined = any(rank.joined or rank.finished is None for rank in run.ranks)
    if run.spec.session is not None or len(run.ranks) == 1 or joined:
        return False
    lines = Sources.of(run, directory).lines(run.spec.program)
    return not any(_SHARES.search(line) for line in lines)


def _that_matter(run: Run, failure: Failure | None) -> list[Rank]:
    """Return at most eight ranks by number: the first failure, others that did not succeed, the lowest."""

    def weight(rank: Rank) -> tuple[bool, bool, bool, int]:
        first = failure is not None and rank.rank == failure.rank
        failed = rank.state in (RankState.FAILED, RankState.LOST)
        return not first, not failed, rank.state is not RankState.STOPPED, rank.rank

    return sorted(sorted(run.ranks, key=weight)[:_LOGS], key=lambda rank: rank.rank)


def code_lines(failure: Failure) -> tuple[CodeLine, ...]:
    """Return the lines around the failure; of a file changed since, the failing line alone."""
    frame = failure.place
    if frame is None:
        return ()
    first, lines = lines_around(frame, failure.sources)
    numbered = enumerate(lines, first)
    return tuple(
        CodeLine(number=number, text=line, failing=number == frame.line) for number, line in numbered
    )


def _later(failure: Failure, run: Run) -> dict[int, float]:
    return {
        rank.rank: max(0.0, rank.exited - failure.time)
        for rank in run.ranks
        if rank.rank != failure.rank and rank.state is not RankState.FINISHED and rank.exited is not None
    }


def _logs(ranks: list[Rank], run: Run, directory: RunDirectory) -> tuple[LogEnd, ...]:
    ends = []
    for rank in ranks:
        path = directory.rank(rank.rank, run.attempt).log
        lines = tuple(last_lines(path, _TAIL_BYTES))
        if run.stopped_as_asked:
            lines = tuple(Tracebacks().without(lines))
        ends.append(LogEnd(ranks=(rank,), lines=lines, whole=LogStream(path).size <= _TAIL_BYTES))
    logs = _alike(ends)
    if all(log.whole for log in logs) and sum(len(log.lines) for log in logs) <= _WHOLE:
        return logs
    short = (
        replace(log, lines=log.lines[-_TAIL_LINES:], whole=log.whole and len(log.lines) <= _TAIL_LINES)
        for log in ends
    )
    return _alike(list(short))


def _alike(logs: Sequence[LogEnd]) -> tuple[LogEnd, ...]:
    alike: dict[tuple[RankState, LogEnd], list[Rank]] = {}
    for log in logs:
        (rank,) = log.ranks
        alike.setdefault((rank.state, replace(log, ranks=())), []).append(rank)
    return tuple(replace(log, ranks=tuple(ranks)) for (_, log), ranks in alike.items())


_EACH = 8


def outcomes(facts: Facts, language: str) -> list[tuple[str, str, str]]:
    """Return ranks, mark and words of their ends: of each rank, or of those that ended alike."""
    run = facts.run
    each = len(run.ranks) <= _EACH
    ends = []
    for rank in run.ranks:
        how = _how(rank, facts, language)
        if each and rank.rank in facts.later:
            how += f", +{facts.later[rank.rank]:.1f} s"
        ends.append((rank.rank, state_mark(rank.state.value), how))
    if each:
        return [(str(number), mark, how) for number, mark, how in ends]
    alike: dict[tuple[str, str], list[int]] = {}
    for number, mark, how in ends:
        alike.setdefault((mark, how), []).append(number)
    groups = sorted(alike.items(), key=lambda pair: (len(pair[1]), pair[1]))
    return [(rank_ranges(numbers), mark, how) for (mark, how), numbers in groups]


def _how(rank: Rank, facts: Facts, language: str) -> str:
    """Return ``Failed first, exit 1``, ``Ended, SIGTERM``."""
    if facts.failure is not None and rank.rank == facts.failure.rank:
        return f"{say('panel.failed-first', language)}, {exit_text(rank, language)}".rstrip(", ")
    state = state_word(rank.state, language)
    if rank.state is RankState.STOPPED and rank.code is not None and rank.code < 0:
        return f"{state}, {signal_name(rank.code)}"
    return f"{state}, {exit_text(rank, language)}" if rank.code else state


_SHOWN_CUTS = 8  # ranks whose saves nbdist ended


def remarks(facts: Facts, language: str, notes: Sequence[str]) -> list[str]:
    """Return what a summary notes beside the ends of the ranks; ``notes`` last."""
    ranks, leftover = ranks_text(len(facts.run.ranks), language), facts.run.leftover
    own = (
        *(mistake.text(language) for mistake in facts.mistakes),
        slow_text(facts.slow, language) if facts.slow is not None else "",
        *(facts.training.lines(language) if facts.training is not None else ()),
        *(freed.text(language) for freed in facts.freed),
        *(cut_text(rank.cut, language) for rank in facts.run.ranks[:_SHOWN_CUTS] if rank.cut is not None),
        _resume_text(facts.run, language),
        say("panel.alone", language, ranks=ranks) if facts.alone else "",
        say("panel.leftover", language, count=leftover) if leftover else "",
    )
    return [*filter(None, own), *notes]


def _resume_text(run: Run, language: str) -> str:
    """Return how to go on with a run that has ended at its limit; empty for others."""
    of_scale = run.spec.sweep is not None and run.spec.sweep.of_scale
    if run.reason.code != AT_LIMIT or of_scale:
        return ""
    return say("panel.resume", language, label=run.label, checkpoint=last_checkpoint(run))


def logs_title(ranks: Sequence[Rank], language: str) -> str:
    """Return the ranks of a log, and how they ended unless they finished."""
    name = f"{say('panel.rank', language)} {rank_ranges([rank.rank for rank in ranks])}"
    state = ranks[0].state
    return name if state is RankState.FINISHED else f"{name} · {state_word(state, language)}"


def run_report(run: Run, directory: RunDirectory, language: str = "en") -> str:
    """Return why the run did not succeed: its first failure, else its reason; one line if asked to stop."""
    return harmless(_report(run, directory, language))


def _report(run: Run, directory: RunDirectory, language: str) -> str:
    failure = diagnose(run, directory)
    if run.state is RunState.FAILED and failure is not None and run.reason.of_ranks:
        report = f"{run.label}: {failure_report(failure, language)}"
        return report if run.spec.nodes == 1 else f"{_ended(run, language)}\n{report}"
    if run.stopped_as_asked:
        return _ended(run, language)
    log = str(directory.supervisor_log) if run.state is RunState.LOST else ""
    text = _ended(run, language, log)
    stall = StallReader(directory).look(run)
    return text if stall is None else "\n".join([text, *hung_lines(stall, language)])


def _ended(run: Run, language: str, log: str = "") -> str:
    """Return ``lenet-k3f9 stopped: from the page``, and the log that has more."""
    state = state_word(run.state, language) if language == "zh" else run.state.value
    reason = reason_text(run.reason, language).removeprefix("stopped ")  # the state says that
    return say("panel.ended", language, label=run.label, state=state, reason=reason, log=log)


def stopped_text(run: Run) -> str:
    """Return ``lenet-k3f9 stopped: 2 processes ended``, the line about a stopped run."""
    here = (run.ranks[spec.rank] for spec in run.spec.here)
    ended = sum(rank.exited is not None for rank in here) + run.leftover
    return f"[nbdist] {run.label} {run.state.value}: {ended} process{'' if ended == 1 else 'es'} ended"
