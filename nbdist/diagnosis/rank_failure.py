"""One failed rank: its output, exit and position."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from nbdist.model import Rank, Run
from nbdist.programs.sources import Sources
from nbdist.store import ErrorFrame, ErrorReport, RunDirectory, read_error
from nbdist.store.logs import last_lines
from nbdist.store.reports import Operand
from nbdist.text import Both, both

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nbdist.diagnosis.complaints import Complaint
    from nbdist.diagnosis.known import Hint
    from nbdist.diagnosis.positions import Side
    from nbdist.store.reports import Call

# paddle's native traces alone can have 20 KB
_TAIL = 65_536
_TAIL_LINES = 20
_SHOWN_LAST = 160

# native log lines (severity, month and day, time), and paddle's about a signal
_OF_NATIVE = re.compile(
    r"^(?:\[rank\d+\]:\[[IWE]\d{4} |[IW]\d{4} \d\d:\d\d:|[-=]{10,}|FLAGS\(|C\+\+ Traceback"
    r"|\d+ {3}\S+.*[(:]|No stack trace in paddle|frame #\d+: |Error Message Summary"
    r"|FatalError: .+ is detected by| +\[\w+Info: \*\*\*| +warnings\.warn\()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Other ranks with the same complaint (``kind``) and ``exit``."""

    ranks: tuple[int, ...]
    kind: str
    exit: str
    exit_zh: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The cause of a run's failure. ``others`` are the ranks that failed after it.

    ``report`` is the exception that left the program, ``frames`` its frames, else ``tail`` the log's last
    lines. ``complaint`` is the cause in the rank's words, ``hint`` what nbdist knows about it, ``full`` the
    disk that was full. ``early_exits`` ended well before this rank complained of them; ``absent`` did not
    come to the call that it waited in. ``groups`` are the others, ``notes`` facts beside the failure;
    ``differing``, the values in its line that differ between ranks, come first.
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
    differing: tuple[Both, ...] = ()
    notes: tuple[Both, ...] = ()

    @property
    def frames(self) -> tuple[ErrorFrame, ...]:
        """Return the frames of the cause, else of the exception that left the program."""
        if self.complaint is not None and self.complaint.root.frames:
            return self.complaint.root.frames
        return self.report.frames if self.report is not None else ()

    @property
    def own_frames(self) -> tuple[ErrorFrame, ...]:
        """Return the frames in the user's files."""
        return tuple(frame for frame in self.frames if self.sources.is_own(frame.file))

    @property
    def said(self) -> str:
        """Return ``Type: message`` of the cause; empty for a rank without message."""
        return self.complaint.root.text if self.complaint is not None else ""

    @property
    def line(self) -> int | None:
        """Return the innermost line of the program in the cause's traceback, else in that of what left it."""
        frame = self._innermost(self.sources.is_program)
        return None if frame is None else frame.line

    @property
    def place(self) -> ErrorFrame | None:
        """Return the innermost frame in the user's files, of the same tracebacks."""
        return self._innermost(self.sources.is_own)

    @property
    def own_call(self) -> Call | None:
        """Return that frame as a call."""
        from nbdist.store.reports import Call

        at = self.place
        return Call(file=at.file, line=at.line, function=at.function) if at is not None else None

    @property
    def found(self) -> dict[str, str | None]:
        """Return the parts of the error that its row matched, by name."""
        known = self.complaint.found if self.complaint is not None else None
        return known.groupdict() if known is not None else {}

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Return the values in the line of that frame."""
        at, report = self.place, self.report
        if at is None or report is None:
            return ()
        return tuple(
            operand for operand in report.operands if (operand.file, operand.line) == (at.file, at.line)
        )

    def _innermost(self, wanted: Callable[[str], bool]) -> ErrorFrame | None:
        outer = self.report.frames if self.report is not None else ()
        for frames in (self.frames, outer):
            own = [frame for frame in frames if wanted(frame.file)]
            if own:
                return own[-1]
        return None

    @property
    def secondary(self) -> bool:
        """Return whether its rank only reported another's failure."""
        return self.complaint is not None and self.complaint.secondary


def failure_of(rank: Rank, run: Run, directory: RunDirectory) -> Failure:
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
    """Return the complaint with source lines in the user's frames: a signal's stack has only numbers."""
    if complaint is None:
        return None
    bare = {frame for frame in complaint.root.frames if not frame.source and sources.is_own(frame.file)}
    frames = tuple(
        replace(frame, source=sources.line(frame.file, frame.line)) if frame in bare else frame
        for frame in complaint.root.frames
    )
    return replace(complaint, root=replace(complaint.root, frames=frames))


def end_of_log(rank: int, run: Run, directory: RunDirectory) -> list[str]:
    """Return the last lines of a rank's log, as many as a cause may lie back."""
    return last_lines(directory.rank(rank, run.attempt).log, _TAIL)


def last_line(rank: int, run: Run, directory: RunDirectory) -> Both:
    """Return ``, its last line: …``; empty for a rank that printed nothing."""
    lines = _before_interrupt(end_of_log(rank, run, directory))
    lines = [line for line in lines if line.strip() and not _OF_NATIVE.match(line)]
    return both("diagnosis.its-last-line", line=lines[-1][:_SHOWN_LAST]) if lines else Both("", "")


def _before_interrupt(lines: list[str]) -> list[str]:
    """Return the lines before the traceback of the interrupt that ended the rank."""
    if not lines or not lines[-1].startswith("KeyboardInterrupt"):
        return lines
    begin = max((at for at, line in enumerate(lines) if line.startswith("Traceback (most")), default=-1)
    return lines[:begin]


def absent_places(failure: Failure, run: Run, directory: RunDirectory) -> list[tuple[Both, bool]]:
    """Return absent ranks' last places, and whether they waited there (these come last)."""
    from nbdist.diagnosis.stack_text import clause  # it reads programs, and most failures need none
    from nbdist.diagnosis.stacks import last_stacks

    report = last_stacks(run, directory)
    if report is None or not failure.absent:
        return []
    return [
        (Both(*(clause(group, report.script, language) for language in ("en", "zh"))), group.place.waits)
        for group in report.groups
        if set(group.ranks) & set(failure.absent) and not group.problem
    ]


def known_as(failure: Failure) -> str:
    """Return the name of the signature that matched a rank's complaint; empty for none."""
    signature = failure.complaint.signature if failure.complaint is not None else None
    return signature.name if signature is not None else ""


def calls_of(failure: Failure) -> tuple[Call, ...]:
    from nbdist.store.reports import Call

    return tuple(Call(file=frame.file, line=frame.line, function=frame.function) for frame in failure.frames)


def waiting_side(*alike: Failure) -> Side:
    """Return ranks that waited for others in the same last call."""
    from nbdist.diagnosis.positions import Side
    from nbdist.programs.sources import place_of

    first, calls = alike[0], calls_of(alike[0])
    return Side(
        ranks=tuple(failure.rank for failure in alike),
        way=tuple(call for call in calls if first.sources.is_own(call.file)),
        calls=calls,
        place=replace(place_of(calls[::-1], first.sources), waits=True),
        values=first.report.values if first.report is not None else (),
    )
