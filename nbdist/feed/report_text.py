"""A run as one plain text for a colleague or an assistant, without secrets."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import accumulate

from nbdist.diagnosis import Failure, diagnose, failure_headline
from nbdist.diagnosis.rank_failure import end_of_log
from nbdist.diagnosis.report import aftermath, said_lines, traceback_lines
from nbdist.diagnosis.stack_text import stacks_text
from nbdist.diagnosis.stacks import StackReport, last_stacks
from nbdist.feed.ansi import printable
from nbdist.feed.labels import ranks_text, state_word
from nbdist.feed.stalling import StallReader
from nbdist.feed.summary import code_lines
from nbdist.feed.view import current_reason, duration
from nbdist.model import Run, RunState
from nbdist.privacy import Privacy
from nbdist.programs.sources import Sources
from nbdist.store import RunDirectory
from nbdist.text import reason_text, say
from nbdist.version import __version__

ROOM = 8192  # bytes of the whole text
_LINE, _TITLE = 500, 60  # bytes, characters
_NEAR, _LOG_LINES = 200, 20  # lines
_TRACEBACK = "Traceback (most recent call last)"


def report_text(run: Run, directory: RunDirectory, language: str = "en", *, now: float | None = None) -> str:
    """Return the run as it stands at ``now`` (Unix seconds), in at most ROOM bytes of UTF-8."""
    stacks = last_stacks(run, directory) if run.state is not RunState.FINISHED else None
    known = stacks if stacks is not None else StackReport(label=run.label)
    report = _Report(run, directory, language, diagnose(run, directory), known)
    clean = Privacy(run.spec).clean
    parts = [part.cleaned(clean) for part in report.parts(time.time() if now is None else now) if part.lines]
    # what stands last matters least; the versions have little to lose
    for number, part in reversed(list(enumerate(parts))):
        over = len(_joined(parts).encode()) - ROOM
        parts[number] = part.shortened(max(part.room, part.size - over)) if over > 0 else part
    return _joined(parts)


def _joined(parts: Sequence[_Part]) -> str:
    texts = ("\n".join([f"== {part.title} =="] * bool(part.title) + [*part.lines]) for part in parts)
    return "\n\n".join(texts) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Lines of the text; where the whole is too long, ``room`` bytes of them around the line ``at``."""

    lines: Sequence[str]
    room: int
    title: str = ""
    at: int = 0

    @property
    def size(self) -> int:
        return sum(len(line.encode()) + 1 for line in self.lines)

    def cleaned(self, clean: Callable[[str], str]) -> _Part:
        lines = map(printable, clean("\n".join(self.lines)).split("\n"))
        return replace(self, lines=[_short(line) for line in lines], title=clean(self.title))

    def shortened(self, room: int) -> _Part:
        if self.size <= room:
            return self
        nearest = sorted(range(len(self.lines)), key=lambda number: abs(number - self.at))
        sizes = accumulate(len(self.lines[number].encode()) + 1 for number in nearest)
        marks = 2 * len("…\n".encode())
        kept = [number for number, size in zip(nearest, sizes, strict=True) if size <= room - marks]
        first, last = min(kept, default=0), max(kept, default=-1) + 1
        before, after = ["…"] * (first > 0), ["…"] * (last < len(self.lines))
        return replace(self, lines=[*before, *self.lines[first:last], *after])


def _short(line: str) -> str:
    data = line.encode()
    return line if len(data) <= _LINE else data[:_LINE].decode(errors="ignore") + "…"


@dataclass(frozen=True, slots=True)
class _Report:
    run: Run
    directory: RunDirectory
    language: str
    failure: Failure | None
    stacks: StackReport

    def parts(self, now: float) -> list[_Part]:
        head, log, versions = self._head(now), self._log(), self._versions()
        if self.failure is None:
            return [head, self._stacks(), self._program(), log, versions]
        return [head, *self._failure(self.failure), self._program(), self._stacks(), log, versions]

    def _say(self, key: str, **fields: object) -> str:
        return say(f"panel.{key}", self.language, **fields)

    def _head(self, now: float) -> _Part:
        run, elapsed = self.run, self.run.elapsed(now)
        stall = StallReader(self.directory).look(run) if not run.state.terminal else None
        state = state_word(run.state, self.language) if stall is None else self._say("stalled")
        devices = ", ".join(dict.fromkeys(str(rank.spec.device) for rank in run.ranks))
        ranks = f"{ranks_text(len(run.ranks), self.language)} ({devices})"
        framework = [run.spec.framework] * (run.spec.framework not in ("", "none"))
        reason = current_reason(run, None if self.failure is None else self.failure.rank)
        lines = [
            self._say("report-of", label=run.label),
            " · ".join([state, ranks, *framework, duration(elapsed)]),
            self._say("no-progress", seconds=f"{elapsed - stall.since:.0f}") if stall is not None else "",
            reason_text(reason, self.language),
        ]
        return _Part(lines=list(filter(None, lines)), room=600)

    def _failure(self, failure: Failure) -> Iterator[_Part]:
        """Yield the facts, the exception, and the lines of the module that raised it."""
        hint = failure.hint.text(self.language).split("\n") if failure.hint is not None else []
        facts = [failure_headline(failure, self.language), *hint, *aftermath(failure, self.language)]
        yield _Part(lines=facts, room=1500)
        if failure.report is not None or failure.said:
            lines, error = said_lines(failure, self.language), len(traceback_lines(failure, self.language))
            yield _Part(title=self._say("exception"), lines=lines, room=1400, at=min(error, len(lines) - 1))
        if failure.place is not None and not failure.sources.is_program(failure.place.file):
            code = [_code(*astuple(line)) for line in code_lines(failure)]
            yield _Part(title=failure.sources.name(failure.place.file)[-_TITLE:], lines=code, room=500)

    def _program(self) -> _Part:
        """Return the program around the line that failed, or around the lines the ranks are in."""
        places = [group.place for group in self.stacks.groups if not group.place.file]
        marked = [place.line for place in places] if self.failure is None else [self.failure.line]
        lines = Sources.of(self.run, self.directory).text(self.run.spec.program).rstrip().split("\n")
        at = min(filter(None, marked), default=1) - 1
        first = max(0, at - _NEAR)
        near = list(enumerate(lines, 1))[first : at + _NEAR] if any(lines) else []
        code = [_code(number, line, number in marked) for number, line in near]
        return _Part(title=self._say("program"), lines=code, room=1500, at=at - first)

    def _stacks(self) -> _Part:
        lines = stacks_text(self.stacks, self.language).split("\n") if self.stacks.groups else []
        return _Part(title=self._say("stacks"), lines=lines, room=1000)

    def _log(self) -> _Part:
        """Return the log's end of the rank that failed, up to its traceback, or that holds up others."""
        failure = self.failure
        rank = min(self.stacks.behind, default=0) if failure is None else failure.rank
        lines = end_of_log(rank, self.run, self.directory)
        raised = failure.report.text.count(_TRACEBACK) if failure is not None and failure.report else 0
        begins = [number for number, line in enumerate(lines) if _TRACEBACK in line]
        end = begins[-raised] if 0 < raised <= len(begins) else len(lines)
        kept = [line for line in lines[:end] if line.strip()][-_LOG_LINES:]
        return _Part(title=self._say("end-of", rank=rank), lines=kept, room=800, at=len(kept) - 1)

    def _versions(self) -> _Part:
        known = {"nbdist": __version__, "Python": platform.python_version()} | dict(self.run.spec.versions)
        system = f"{platform.system()} {platform.release()} ({platform.machine()})"
        line = " · ".join([*(f"{name} {version}" for name, version in known.items()), system])
        return _Part(title=self._say("versions"), lines=[line], room=400)


def _code(number: int, line: str, marked: bool) -> str:
    return f"{'▸' if marked else ' '} {number:>3}  {line}".rstrip()
