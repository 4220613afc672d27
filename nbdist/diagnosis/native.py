"""The last words of native code in a log: an exception that C++ did not catch, a fatal log line, paddle's
summary of an error, Python's report of a signal. None of them stands in the log of a healthy rank."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbdist.diagnosis.tracebacks import Raised
from nbdist.store import ErrorFrame

_THROWN = re.compile(r"^terminate called after throwing an instance of '(?P<type>[^']+)'")
_TERMINATED = re.compile(r"^(?P<message>terminate called (?:without|recursively).*)")
_WHAT = re.compile(r"^  what\(\):  ?(?P<message>.*)")
# glog and c10: severity, month and day, time, thread, file and line
_FATAL = re.compile(r"^\[?F\d{4} [\d:.]+(?: +\d+)? (?P<where>[^\]]+:\d+)\] (?P<message>.+)")
_SUMMARY = "Error Message Summary:"
_RULE = re.compile(r"^-{10,}$")
_SUMMARISED = re.compile(r"^(?P<type>[A-Z]\w*Error): ?(?P<message>.*)")
# said of every signal, and says no more than the exit code
_SIGNALLED = re.compile(r"is detected by the operating system\.$")
_PYTHON = "Fatal Python error: "
_STACK = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):$")
_CALL = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$')
_RUNTIME = re.compile(
    r"^(?:OMP: Error #\d+: .+|libgomp: .+|\S*: .+: Assertion `.+' failed\.|free\(\): .+|malloc\(\): .+"
    r"|double free or corruption.*|corrupted .+|munmap_chunk\(\): .+|\*\*\* stack smashing detected.*"
    r"|ERROR: Unexpected (?:BUS|bus) error encountered in .+"
    r"|Fatal Python error: \w+: .+|nbdist: rank \d+ could not be started: .+"
    r"|\S.*: (?:No space left on device|Disk quota exceeded|Too many open files))$"
)
_RANK = re.compile(r"^\[rank\d+\]:? ?")
_MESSAGE_LINES = 12
_BOOTSTRAP = ("nbdist/worker/bootstrap.py", "nbdist/worker/__main__.py")


def last_words(lines: Sequence[str]) -> Raised | None:
    """What native code said before it ended the process; None where it said nothing.

    ``frames`` are those of the Python code that had called it, where they are known.
    """
    plain = [_RANK.sub("", line) for line in lines]
    kind, message = _said(plain)
    frames = _python_stack(plain)
    if not message and not frames:
        return None
    return Raised(type=kind, message=message, frames=frames)


def _said(lines: Sequence[str]) -> tuple[str, str]:
    """Kind and message of the first of the last words: what comes after is how the process was ended."""
    for at, line in enumerate(lines):
        if (found := _THROWN.match(line)) is not None:
            return found["type"], _what(lines, at + 1)
        if line == _SUMMARY and (summary := _summary(lines, at + 1)) is not None:
            return summary
        if (found := _FATAL.match(line)) is not None:
            return "", f"[{found['where']}] {_paragraph(found['message'], lines, at + 1)}"
        if (found := _TERMINATED.match(line) or _RUNTIME.match(line)) is not None:
            return "", found[0]
    return "", ""


def _what(lines: Sequence[str], at: int) -> str:
    found = _WHAT.match(lines[at]) if at < len(lines) else None
    return _paragraph(found["message"], lines, at + 1) if found is not None else ""


def _summary(lines: Sequence[str], at: int) -> tuple[str, str] | None:
    """Paddle's summary, when it says more than which signal it was."""
    while at < len(lines) and (_RULE.match(lines[at]) or not lines[at].strip()):
        at += 1
    found = _SUMMARISED.match(lines[at]) if at < len(lines) else None
    if found is None or _SIGNALLED.search(found["message"]):
        return None
    return found["type"], _paragraph(found["message"], lines, at + 1)


def _paragraph(first: str, lines: Sequence[str], at: int) -> str:
    """``first`` and the lines up to the next empty one; of an empty first line, the paragraph after it."""
    message = [first]
    for line in lines[at : at + _MESSAGE_LINES]:
        if line.startswith(_PYTHON) or (not line.strip() and any(part.strip() for part in message)):
            break
        message.append(line)
    return "\n".join(message).strip()


def _python_stack(lines: Sequence[str]) -> tuple[ErrorFrame, ...]:
    """The Python stack that the signal met, outermost first: ``faulthandler`` prints it reversed.

    It prints the main thread last, and a thread of native code without any frame.
    """
    current: tuple[ErrorFrame, ...] = ()
    last: tuple[ErrorFrame, ...] = ()
    for at, line in enumerate(lines):
        if _STACK.match(line):
            frames = _calls(lines, at + 1)
            last = frames or last
            if line.startswith("Current"):
                current = frames
    return current or last


def _calls(lines: Sequence[str], at: int) -> tuple[ErrorFrame, ...]:
    frames: list[ErrorFrame] = []
    for call in map(_CALL.match, lines[at:]):
        if call is None:
            break
        # our own lead up to the program
        if not call["file"].endswith(_BOOTSTRAP):
            frames.append(
                ErrorFrame(file=call["file"], line=int(call["line"]), function=call["function"], source="")
            )
    return tuple(reversed(frames))
