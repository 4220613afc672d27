"""A failure as text for a person: headline, traceback in lines of the cell, hint, the other ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbdist.diagnosis.exits import describe_exit, rank_names
from nbdist.diagnosis.failure import SAME_ERROR
from nbdist.diagnosis.rank_failure import Failure, Group
from nbdist.programs.sources import short_path
from nbdist.store import ErrorFrame
from nbdist.text import say

# torch's C++ stack, in the message of some exceptions
_NATIVE_STACK = re.compile(r"\nException raised from .+", re.DOTALL)
_SHOWN = 400
_LONGEST_END = 4_000  # characters shown of each end of an error's text, which may contain a whole tensor
# names that many modules give their one exception
_MODULES_OWN = frozenset({"error", "exception", "timeout", "empty", "full"})


def failure_headline(failure: Failure, language: str = "en") -> str:
    """Return ``rank 1 failed first: ZeroDivisionError at line 9 of the cell``, or of ``pkg/models.py``."""
    at, where = failure.place, ""
    if at is not None:
        file = failure.sources.name(at.file)
        where = say(f"diagnosis.at-{'file' if file else 'cell'}", language, line=at.line, file=file)
    if failure.complaint is not None and failure.report is not None and failure.complaint.root.by:
        where += say("diagnosis.started", language, by=failure.complaint.root.by)
    what, late = failure_kind(failure, language) + where, rank_names([failure.rank], language)
    if failure.early_exits:
        early = rank_names(failure.early_exits, language)
        return say("diagnosis.early", language, early=early, late=late, what=what)
    if failure.absent:
        absent = rank_names(failure.absent, language)
        return say("diagnosis.absent", language, absent=absent, late=late, what=what)
    return say("diagnosis.first", language, late=late, what=what)


def error_text(failure: Failure) -> str:
    """Return the exception that was the cause, or native code's last message; empty for neither."""
    if failure.complaint is not None and failure.complaint.root.text:
        return failure.complaint.root.text
    if failure.report is None:
        return ""
    return f"{failure.report.type}: {failure.report.message}".rstrip(": ")


def failure_report(failure: Failure, language: str = "en") -> str:
    """Return the headline, the traceback (library frames folded) or the log's end, the hint, the others."""
    paragraphs = [
        failure_headline(failure, language),
        "\n".join(said_lines(failure, language)),
        failure.hint.text(language) if failure.hint is not None else "",
        "\n".join(aftermath(failure, language)),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def aftermath(failure: Failure, language: str = "en") -> list[str]:
    """Return a line each for values that differ, for the other ranks, and for further facts."""
    lines = [note.text(language) for note in failure.differing]
    lines += [_group_line(group, language) for group in failure.groups]
    lines += [note.text(language) for note in failure.notes[len(failure.differing) :]]
    if not failure.groups and failure.others:
        others = rank_names(failure.others, language)
        lines.append(say("diagnosis.later", language, ranks=others))
    return lines


def failure_kind(failure: Failure, language: str) -> str:
    """Return the exception, or else how the rank exited."""
    if failure.report is not None:
        return _short_type((failure.complaint and failure.complaint.root.type) or failure.report.type)
    if failure.code is None:
        return say("diagnosis.not-exited", language)
    if failure.complaint is not None and failure.code > 0 and failure.complaint.root.type:
        return _short_type(failure.complaint.root.type)
    return describe_exit(
        failure.code, oom=failure.oom, memory=failure.memory, limit=failure.limit, language=language
    )


def _short_type(name: str) -> str:
    """Return a class without its module, except for a name like the ``error`` of ``struct.error``."""
    last = name.rpartition(".")[2]
    return name if last.lower() in _MODULES_OWN else last


def said_lines(failure: Failure, language: str) -> list[str]:
    """Return the traceback with the error, or the end of the log of a rank that raised none."""
    lines = traceback_lines(failure, language)
    if failure.complaint is not None and failure.complaint.root.text:
        root, outer = failure.complaint.root, failure.complaint.outer
        lines += _error_lines(root.text)
        if failure.report is not None and not outer.text.startswith(root.text):
            lines += _raised_again(failure, language)
    elif failure.report is not None:
        report = failure.report
        lines += _error_lines(f"{report.type}: {report.message}" if report.message else report.type)
    # sys.exit(1) explains nothing, the lines before it may
    left = failure.complaint is not None and re.fullmatch(r"SystemExit: \d+", failure.complaint.root.text)
    if failure.tail and (left or (failure.report is None and not lines)):
        lines.append(say("diagnosis.last-lines", language, rank=failure.rank))
        lines += [f"    {line}" for line in failure.tail]
    return lines


def _error_lines(text: str) -> list[str]:
    text = _NATIVE_STACK.sub("", text)
    if len(text) > 2 * _LONGEST_END:
        text = f"{text[:_LONGEST_END]}\n[…]\n{text[-_LONGEST_END:]}"
    return text.split("\n")


def _raised_again(failure: Failure, language: str) -> list[str]:
    """Return the exception that left the program, where it was not the cause, in one line."""
    report = failure.report
    assert report is not None
    own = [frame for frame in report.frames if failure.sources.is_own(frame.file)]
    message = report.message.strip().split("\n")[0][:_SHOWN]
    kind = _short_type(report.type)
    text = f"{kind}: {message}" if message else kind
    line = _line(failure, own[-1], language) if own else ""
    return [say("diagnosis.left-as", language, said=text, line=line)]


def _group_line(group: Group, language: str) -> str:
    """Return ``ranks 0, 2: Connection closed by peer``, with their exit where that adds something."""
    kind, how = group.kind, group.exit_zh if language == "zh" else group.exit
    if kind == SAME_ERROR:
        kind = say("diagnosis.same-error", language)
    what = kind or how or say("diagnosis.failed-after", language)
    who = rank_names(group.ranks, language)
    return say("diagnosis.group", language, ranks=who, what=what, how=how if kind else "")


def traceback_lines(failure: Failure, language: str = "en") -> list[str]:
    """Return the traceback with the user's frames in full and each run of others in one line."""
    lines: list[str] = []
    hidden: list[ErrorFrame] = []
    for frame in failure.frames:
        if failure.sources.is_own(frame.file):
            lines += _folded(hidden)
            hidden = []
            function = f", in {frame.function}" if frame.function else ""
            lines.append(f"  {_line(failure, frame, language)}{function}")
            if frame.source:
                lines.append(f"    {frame.source}")
        else:
            hidden.append(frame)
    return lines + _folded(hidden)


def _line(failure: Failure, frame: ErrorFrame, language: str) -> str:
    name = failure.sources.name(frame.file)
    code = "diagnosis.line" if name else "diagnosis.cell-line"
    return say(code, language, file=name, line=frame.line)


def _folded(frames: Sequence[ErrorFrame]) -> list[str]:
    if not frames:
        return []
    last = frames[-1]
    more = f"{len(frames) - 1} more, " if len(frames) > 1 else ""
    function = f", in {last.function}" if last.function else ""
    lines = [f"  ({more}{short_path(last.file)} line {last.line}{function})"]
    if last.source:
        lines.append(f"    {last.source}")
    return lines
