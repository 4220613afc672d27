"""A run's state, first failure, stall and use of time in two kilobytes. This module alone decides their
content; commands, magics, server and Python encode it.

It says what the panel says, from the same functions. ``untrusted`` is text of a program or its data, which a
reader, above all a language model, must not take for nbdist's own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

from nbdist.diagnosis import Failure, diagnose
from nbdist.diagnosis.report import aftermath, failure_kind
from nbdist.diagnosis.silent import MistakeReader
from nbdist.diagnosis.stacks import last_stacks
from nbdist.diagnosis.training import Training
from nbdist.feed.ansi import printable
from nbdist.feed.labels import clipped, state_word
from nbdist.feed.measures import failure_view, glance
from nbdist.feed.stalling import StallReader, StallView, ended_slow, slow_text
from nbdist.feed.summary import code_lines
from nbdist.feed.view import current_reason, duration
from nbdist.model import Run, RunState
from nbdist.privacy import Privacy
from nbdist.store import MetricPoint, RunDirectory
from nbdist.store.metrics import last_points, sampled_points
from nbdist.text import reason_text, say
from nbdist.version import JSON_VERSION

ROOM = 2048  # bytes of an explanation as JSON
_TEXT = 400  # characters of a line that a rank or the user wrote
_SHORTER = (1600, 800, 400, 240, 120, 60)  # characters of any text, until all of it fits
_PART = {"untrusted": 4, "source": 8}  # divisors of that for what a reader misses least
_LISTED = 16
_END = 5  # last lines of a rank that raised nothing
_AFTER = 8
_LATELY = 4096  # bytes at the end of a live rank's measurements
_OF_PROGRAM = {"failure": ("kind", "headline", "file", "source"), "stall": ("where", "behind")}
_WATCHED = ("wait", "cpu", "gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Lines of the user's file around ``line``, at most five; ``first`` is the number of the first."""

    first: int
    line: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankText:
    """Text of ranks, without secrets: the exception's, or the last lines; and a line for each other group."""

    message: str
    last_lines: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFailure:
    """The failure that caused the others: an exception of class ``kind``, or the rank's end. ``line``,
    ``file`` and ``file_line`` are as in ``FailureView``. ``signature`` names the known mistake, with its
    ``cause`` and ``fix``; empty for none. ``early`` ended before and ``absent`` never came to what
    ``rank`` waited in: the fault may be theirs. ``others`` failed, or were ended, after it."""

    rank: int
    kind: str
    headline: str
    line: int | None
    file: str
    file_line: int | None
    source: Source | None
    signature: str
    cause: str
    fix: str
    early: tuple[int, ...]
    absent: tuple[int, ...]
    others: tuple[int, ...]
    untrusted: RankText

    @property
    def message(self) -> str:
        """Return the exception's type and text, else the last line of the rank."""
        return self.untrusted.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A stall of ``seconds``, until now or the run's end. The others wait for ``ranks``, the first of them
    in ``line`` of the user's code; ``where`` and ``behind`` describe all. Empty without stacks."""

    seconds: float
    ranks: tuple[int, ...]
    line: int | None
    where: str
    behind: str
    signature: str
    cause: str
    fix: str


@dataclass(frozen=True, slots=True)
class Slowest:
    """The rank that holds the others up: ``factor`` times their own time a step, ``over`` ms more."""

    rank: int
    factor: float
    over: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A percentage over the ranks; ``rank`` has the most."""

    mean: float
    least: float
    most: float
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpent:
    """Shares of time, lately or in all of an ended run: ``wait`` for others, ``cpu`` of a core, ``gpu``."""

    wait: Share | None = None
    cpu: Share | None = None
    gpu: Share | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A run's state and its reasons. ``elapsed`` in seconds, ``done`` a fraction of 1 (None: not known),
    ``progress`` in words. ``warnings`` name mistakes that fail no rank. Sentences are in ``language``."""

    run_id: str
    label: str
    language: str
    state: str
    live: bool
    reason: str
    elapsed: float
    attempt: int
    world_size: int
    done: float | None
    progress: str
    failure: FirstFailure | None
    stall: Stall | None
    slow: Slowest | None
    warnings: tuple[str, ...]
    time: TimeSpent
    training: Training | None = None

    def to_dict(self, *, apart: bool = False) -> dict[str, Any]:
        """Return it for JSON, in at most ROOM bytes: longer text of ranks and source is cut. ``apart``,
        for agents, moves names of the program's parts below ``untrusted``, too."""
        data: dict[str, Any] = {"version": JSON_VERSION} | asdict(replace(self, training=None))
        data["training"] = None if self.training is None else self.training.to_dict(self.language)
        for most in _SHORTER:
            shorter: dict[str, Any] = _clipped(data, most)
            shorter = _apart(shorter) if apart else shorter
            if len(encode(shorter).encode()) <= ROOM:
                break
        return shorter

    def __str__(self) -> str:
        """Return a few lines for a person."""
        state, elapsed = state_word(RunState(self.state), self.language), duration(self.elapsed)
        lines = [" · ".join(filter(None, (self.label, state, elapsed, self.progress, self.reason)))]
        if self.failure is not None:
            lines += _failure_lines(self.failure, self.language)
        if self.stall is not None:
            known = self.failure.cause if self.failure is not None else ""
            lines += _stall_lines(self.stall, known, live=self.live, language=self.language)
        slow = self.slow.text if self.slow is not None else ""
        training = self.training.lines(self.language) if self.training is not None else ()
        # the training's own wait leaves out the imports
        spent = replace(self.time, wait=None) if training else self.time
        lines += filter(None, (slow, *self.warnings, *training, _time_line(spent, self.language)))
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print it in a notebook."""
        printer.text(str(self))


def encode(data: object) -> str:
    """Return JSON in one line, as nbdist's commands print it. Raises ValueError for NaN and infinities."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def explain_run(
    run: Run, directory: RunDirectory, language: str = "en", *, now: float | None = None
) -> Explanation:
    """Return the run as it stands at ``now`` (Unix seconds), from the files of its directory."""
    now = time.time() if now is None else now
    clean = Privacy(run.spec).clean
    seen = glance(run, directory, run.ended or now)
    finished = run.state is RunState.FINISHED
    progress = None if finished else seen.progress
    failure = diagnose(run, directory)
    stall = None if finished else StallReader(directory).look(run)
    slow = seen.slow if not run.state.terminal else ended_slow(run, directory, seen.training)
    reason = current_reason(run, None if failure is None else failure.rank)
    return Explanation(
        run_id=run.run_id,
        label=run.label,
        language=language,
        state=run.state.value,
        live=not run.state.terminal,
        reason=clean(reason_text(reason, language)),
        elapsed=round(run.elapsed(now), 1),
        attempt=run.attempt,
        world_size=run.spec.world_size,
        done=None if progress is None else round(progress.fraction, 4),
        progress="" if progress is None else progress.text,
        failure=None if failure is None else first_failure_of(failure, clean, language),
        stall=None if stall is None else _stall(stall, run, directory, run.elapsed(now), clean, language),
        slow=None if slow is None else Slowest(slow.rank, slow.factor, slow.over, slow_text(slow, language)),
        warnings=tuple(clean(mistake.text(language)) for mistake in MistakeReader(directory).look(run)),
        time=time_spent(run, directory),
        training=seen.training,
    )


def first_failure_of(failure: Failure, clean: Callable[[str], str], language: str = "en") -> FirstFailure:
    """Return the panel's view of a failure, and what else is known. ``clean`` removes secrets."""
    view, zh = failure_view(failure), language == "zh"
    code = code_lines(failure)
    failing = next((line.number for line in code if line.failing), 0)
    source = Source(
        first=code[0].number if code else 0,
        line=failing,
        lines=tuple(clean(line.text)[:_TEXT] for line in code),
    )
    others = {rank for group in failure.groups for rank in group.ranks} | set(failure.others)
    return FirstFailure(
        rank=view.rank,
        kind=clean(failure_kind(failure, language)),
        headline=clean(view.headline_zh if zh else view.headline),
        line=view.line,
        file=clean(view.file),
        file_line=view.file_line,
        source=source if code else None,
        signature=failure.hint.signature if failure.hint is not None else "",
        cause=clean(view.cause_zh if zh else view.cause),
        fix=clean(view.fix_zh if zh else view.fix),
        early=failure.early_exits,
        absent=failure.absent,
        others=tuple(sorted(others)),
        untrusted=RankText(
            message=_printable(view.message, clean),
            last_lines=_all_printable(failure.tail[-_END:], clean) if failure.report is None else (),
            after=_all_printable(aftermath(failure, language)[:_AFTER], clean),
        ),
    )


def _printable(text: str, clean: Callable[[str], str]) -> str:
    return "\n".join(printable(line) for line in clean(text).split("\n"))


def _all_printable(lines: Iterable[str], clean: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(_printable(line, clean)[:_TEXT] for line in lines)


def _stall(
    view: StallView,
    run: Run,
    directory: RunDirectory,
    elapsed: float,
    clean: Callable[[str], str],
    language: str,
) -> Stall:
    report = last_stacks(run, directory)
    hint = report.hint if report is not None else None
    held = [group for group in view.groups if group.kind == "held"]
    behind = view.behind_text(language).removesuffix(hint.text(language) if hint else "")
    return Stall(
        seconds=round(max(0.0, elapsed - view.since), 1),
        ranks=tuple(rank for group in held for rank in group.ranks),
        line=held[0].line if held else None,
        where=clean(view.sentence(language)),
        behind=clean(behind).rstrip("\n"),
        signature=hint.signature if hint else "",
        cause=clean(hint.cause.text(language)) if hint else "",
        fix=clean(hint.fix.text(language)) if hint else "",
    )


def time_spent(run: Run, directory: RunDirectory, runs: int = 1) -> TimeSpent:
    """Return the supervisor's measurements of the ranks of one of ``runs``."""
    means: dict[str, dict[int, float]] = {}
    for rank in run.ranks:
        path = directory.rank(rank.rank, run.attempt).system
        points: Iterable[MetricPoint] = (
            sampled_points(path, len(run.ranks) * runs) if run.state.terminal else last_points(path, _LATELY)
        )
        for tag, mean in _means(points).items():
            means.setdefault(tag, {})[rank.rank] = mean
    return TimeSpent(**{tag: _share(means[tag]) for tag in _WATCHED if tag in means})


def _means(points: Iterable[MetricPoint]) -> dict[str, float]:
    by_tag: dict[str, list[float]] = {}
    for point in points:
        for tag in _WATCHED:
            if isfinite(value := point.values.get(tag, float("nan"))):
                by_tag.setdefault(tag, []).append(value)
    return {tag: sum(values) / len(values) for tag, values in by_tag.items()}


def _share(by_rank: Mapping[int, float]) -> Share:
    rank, most = max(by_rank.items(), key=lambda pair: pair[1])
    values = by_rank.values()
    mean, least = sum(values) / len(values), min(values)
    return Share(mean=round(mean, 1), least=round(least, 1), most=round(most, 1), rank=rank)


def _apart(data: dict[str, Any]) -> dict[str, Any]:
    """Return an explanation as data in which names and lines of the program stand apart."""
    for part, names in _OF_PROGRAM.items():
        if data[part] is not None:
            own = {name: value for name, value in data[part].items() if name not in names}
            theirs = {name: data[part][name] for name in names}
            data = data | {part: own | {"untrusted": theirs | own.get("untrusted", {})}}
    return data


def _clipped(value: Any, most: int) -> Any:
    """Return ``value`` with at most ``most`` characters in each text, and fewer in text of ranks."""
    match value:
        case str():
            return clipped(value, most)
        case dict():
            return {name: _clipped(each, most // _PART.get(name, 1)) for name, each in value.items()}
        case list() | tuple():
            return [_clipped(each, most) for each in value[:_LISTED]]
    return value


def _failure_lines(failure: FirstFailure, language: str) -> list[str]:
    lines = [failure.headline, failure.untrusted.message]
    if (source := failure.source) is not None:
        width = len(str(source.first + len(source.lines)))
        for number, text in enumerate(source.lines, source.first):
            lines.append(f"  {'▸' if number == source.line else ' '} {number:>{width}}  {text}".rstrip())
    elif failure.untrusted.last_lines:
        lines.append(say("diagnosis.last-lines", language, rank=failure.rank))
        lines += [f"    {line}" for line in failure.untrusted.last_lines]
    return [*filter(None, lines), *_reasons(failure, language), *failure.untrusted.after]


def _reasons(known: FirstFailure | Stall, language: str) -> list[str]:
    cause = say("diagnosis.cause", language, cause=known.cause)
    return [cause, say("diagnosis.fix", language, fix=known.fix)] if known.cause else []


def _stall_lines(stall: Stall, known: str, *, live: bool, language: str) -> list[str]:
    """Return the stall and, unless it is ``known`` from the failure, its cause."""
    quiet = say("panel.no-progress", language, seconds=f"{stall.seconds:.0f}")
    state = quiet if live else say("panel.hung", language)
    where = f"{say('diagnosis.colon', language)}{stall.where}" if stall.where else ""
    reasons = [] if stall.cause == known else _reasons(stall, language)
    return [state + where, *filter(None, [stall.behind]), *reasons]


def _time_line(spent: TimeSpent, language: str) -> str:
    shares = ((tag, getattr(spent, tag)) for tag in _WATCHED)
    return " · ".join(
        say(f"panel.time-{tag}", language, mean=round(share.mean), most=round(share.most), rank=share.rank)
        for tag, share in shares
        if share is not None
    )
