"""Text that a failing rank wrote: tracebacks (chains, groups, tracebacks inside a message) and native code's
last message; and tracebacks in the logs of running ranks.

Frameworks pass errors between processes as text (a DataLoader worker's or a spawned child's inside the
message of another), so this parses what ``traceback`` prints, not exception objects.
"""

from __future__ import annotations

import contextlib
import re
from ast import literal_eval
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nbdist.model import Run
from nbdist.programs.sources import Sources
from nbdist.store import ErrorFrame, RunDirectory, read_error
from nbdist.store.logs import last_lines

_HEADER = re.compile(r"^(?:Original )?Traceback \(most recent call last\):$")
_GROUP = "Exception Group Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?$")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_MARGIN = re.compile(r"^\s*\|(?: (.*))?$")
_MEMBER = re.compile(r"^\s*(?:\+-)?\+-+ (\d+|\.\.\.) -+$")
_GROUP_END = re.compile(r"^\s*\+-{20,}$")
# torch's native code writes the rank before each line
_RANK = re.compile(r"^\[rank\d+\]:? ?")
# torch's exception hook and launchers write the process before each line, once or several times
_MARKED = re.compile(
    r"^(?P<by>\S(?:.*?\S)? ?)(?:  \+ Exception Group |Original )?Traceback \(most recent call last\):$"
)
_ESCAPED = re.compile(
    r"^(?P<before>[A-Za-z_][\w.]*: .*?)"
    r"""(?P<text>b?(['"])(?:.*\\n)?Traceback \(most recent call last\):\\n.*\3).*$"""
)
# ends of the line before a traceback inside a message
_ANNOUNCES = (":", '"""')
_INSIDE = "\0inside"
_LINKS = {_CAUSE: "cause", _CONTEXT: "context", _INSIDE: "inside"}
# between the traceback of a pool's worker and the same error in the rank
_REMOTE = ['"""', "", _CAUSE]
# normal ends of a coroutine or an iteration: the exception raised from one is the error
_ENDINGS = frozenset({"CancelledError", "GeneratorExit", "StopAsyncIteration", "StopIteration"})
_GRAPHS = re.compile(r"/torch/cuda/graphs\.py$")
# errors of one line: further lines of a log are the program's
_OF_ONE_LINE = frozenset({"KeyError", "IndexError", "ZeroDivisionError", "NameError"})
_PLAIN_HEADER = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """One exception of a chain. ``link`` connects it to the one before: "cause" (``raise … from``), "context"
    (raised while handling it), "remote" (the same in a process of a pool), "inside" (in its message, or a
    member of the group), or "" (not at all). ``by`` is the process that marks its lines: ``rank 1``."""

    type: str
    message: str
    frames: tuple[ErrorFrame, ...]
    link: str = ""
    by: str = ""

    @property
    def text(self) -> str:
        """Return ``type: message``, as Python prints it."""
        return ": ".join(part for part in (self.type, self.message) if part)


def parse(text: str) -> tuple[Raised, ...]:
    """Return the exceptions of one report, in the order of their text."""
    return tuple(_raised(_plain(text.splitlines()), in_log=False))


def chains_in_log(lines: Sequence[str]) -> list[tuple[Raised, ...]]:
    """Return the tracebacks in a log, each with its chain, by process; a message ends at an empty line."""
    chains: list[list[Raised]] = []
    for mark, own in _by_mark(lines).items():
        by = re.sub(r"(?<=[a-z])(?=\d)", " ", next(iter(re.findall(r"\w+", mark)[-1:]), ""))
        for at, raised in enumerate(_raised(_plain(own), in_log=True)):
            if not raised.link or not at:
                chains.append([])
            chains[-1].append(replace(raised, by=by))
    return [tuple(chain) for chain in chains]


def _by_mark(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines by the mark of their process: none, then that of the last to fail."""
    heads = dict.fromkeys(match["by"] for match in map(_MARKED.match, lines) if match is not None)
    marks = [by for by in heads if any(re.match(rf"{re.escape(by)}[ |]+File \"", line) for line in lines)]
    parts: dict[str, list[str]] = {mark: [] for mark in ("", *reversed(marks))}
    for line in lines:
        mark = max((mark for mark in parts if line.startswith(mark.rstrip())), key=len)
        parts[mark].append(line[len(mark) :])
    return parts


def root(chain: Sequence[Raised]) -> Raised:
    """Return the first cause: the innermost, and there what it was raised from, unless a library raised that
    again in the same words. Of a CUDA graph's capture, the error that ended it."""
    start = max((index for index, raised in enumerate(chain) if raised.link == "inside"), default=0)
    at = len(chain) - 1
    while at > start and (_is_from(chain[at - 1], chain[at]) or _of_capture(chain[at])):
        at -= 1
    return chain[at]


def _is_from(before: Raised, after: Raised) -> bool:
    passed_on = before.type.rpartition(".")[2] in _ENDINGS or before.text == after.text
    return after.link == "remote" or (after.link == "cause" and not passed_on)


def _of_capture(raised: Raised) -> bool:
    """Return whether it was raised while an error left ``with torch.cuda.graph(…):``."""
    return raised.link == "context" and any(
        frame.function == "__exit__" and _GRAPHS.search(frame.file) for frame in raised.frames
    )


def _plain(lines: list[str]) -> list[str]:
    """Return lines without margins, groups with their first member only, escaped messages unfolded."""
    lines = [part for line in lines for part in _unescaped(line)]
    grouped = any(line.strip().removeprefix("+ ").removeprefix("| ") == _GROUP for line in lines)
    return list(_first_members(lines)) if grouped else lines


def _unescaped(line: str) -> list[str]:
    if _PLAIN_HEADER in line and (match := _ESCAPED.match(line)) is not None:
        with contextlib.suppress(ValueError, SyntaxError):
            text = literal_eval(match["text"].removeprefix("b"))
            line = f"{match['before']}{text}"
    # a message may be a traceback itself
    before, header, after = line.partition(_PLAIN_HEADER)
    return [before, *f"{header}{after}".splitlines()] if _ERROR.match(before) and header else line.split("\n")


def _first_members(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if (member := _MEMBER.match(line)) is not None:
            if member[1] != "1":
                return
            # a member never raised has no header
            yield from (_INSIDE, _PLAIN_HEADER)
        elif not _GROUP_END.match(line):
            yield _without_margin(line)


def _without_margin(line: str) -> str:
    while (margin := _MARGIN.match(line)) is not None:
        line = margin[1] or ""
    return _PLAIN_HEADER if line.strip().removeprefix("+ ") == _GROUP else line


def members(text: str) -> list[Raised]:
    """Return the cause of each exception in the groups of a report, with those of groups within a group."""
    parts: list[list[str]] = []
    for line in text.splitlines():
        if (member := _MEMBER.match(line)) is not None:
            if member[1] == "1" and line.startswith("   "):
                parts.pop()  # it is a group, whose members follow
            parts.append([_PLAIN_HEADER])
        elif parts and _MARGIN.match(line):
            parts[-1].append(_without_margin(line))
    return [root(chain) for part in parts if (chain := tuple(_raised(part, in_log=False)))]


def _raised(lines: Sequence[str], *, in_log: bool) -> Iterator[Raised]:
    link, at = "", 0
    while at < len(lines):
        if lines[at] in _LINKS:
            link = "remote" if lines[max(at - 2, 0) : at + 1] == _REMOTE else _LINKS[lines[at]]
        elif _is_header(lines[at]):
            frames, at = _frames(lines, at + 1)
            error = _ERROR.match(lines[at]) if at < len(lines) else None
            if error is not None:
                if in_log and error["type"] in _OF_ONE_LINE:
                    message, at = error["message"] or "", at + 1
                else:
                    message, at = _message(error["message"] or "", lines, at + 1, in_log=in_log)
                yield Raised(type=error["type"], message=message, frames=frames, link=link)
                # a message that continues as a traceback reports an exception elsewhere
                goes_over = at < len(lines) and _is_header(lines[at])
                if in_log and goes_over and not lines[at].lstrip().startswith("Original"):
                    # or another traceback stands next to it in the log
                    goes_over = lines[at - 1].rstrip().endswith(_ANNOUNCES)
                link = "inside" if goes_over else ""
            continue
        at += 1


def _is_header(line: str) -> bool:
    return _HEADER.match(line.strip()) is not None


def _frames(lines: Sequence[str], at: int) -> tuple[tuple[ErrorFrame, ...], int]:
    """Return the frames from ``at`` on, and the first line after them."""
    frames: list[ErrorFrame] = []
    while at < len(lines) and lines[at].startswith(" "):
        if (match := _FRAME.match(lines[at])) is not None:
            source = lines[at + 1] if at + 1 < len(lines) else ""
            has_source = source.startswith("    ") and not _FRAME.match(source)
            frames.append(
                ErrorFrame(
                    file=match["file"],
                    line=int(match["line"]),
                    function=match["function"] or "",
                    source=source.strip() if has_source else "",
                )
            )
        at += 1
    return tuple(frames), at


def _message(first: str, lines: Sequence[str], at: int, *, in_log: bool) -> tuple[str, int]:
    """Return the message that begins with ``first`` and continues at ``at``, and the first line after it."""
    message = [first]
    while at < len(lines) and lines[at] not in _LINKS and not _is_header(lines[at]):
        if lines[at : at + 3] == _REMOTE:
            break
        # spawn's message begins with empty lines
        if in_log and not lines[at].strip() and any(line.strip() for line in message):
            break
        message.append(lines[at])
        at += 1
    return "\n".join(message).strip("\n"), at


_THROWN = re.compile(r"^terminate called after throwing an instance of '(?P<type>[^']+)'")
_TERMINATED = re.compile(r"^(?P<message>terminate called (?:without|recursively).*)")
_WHAT = re.compile(r"^  what\(\):  ?(?P<message>.*)")
# glog and c10: severity, month and day, time, thread, file and line
_FATAL = re.compile(r"^\[?F\d{4} [\d:.]+(?: +\d+)? (?P<where>[^\]]+:\d+)\] (?P<message>.+)")
_SUMMARY = "Error Message Summary:"
_RULE = re.compile(r"^-{10,}$")
_SUMMARISED = re.compile(r"^(?P<type>[A-Z]\w*Error): ?(?P<message>.*)")
# printed for every signal, and no more than the exit code
_SIGNALLED = re.compile(r"is detected by the operating system\.$")
_PYTHON = "Fatal Python error: "
_STACK = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):$")
_CALL = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$')
_RAISED_FROM = "Exception raised from "
WATCHDOG = "Watchdog caught collective operation timeout"
_CALLED_BY = "Stack trace of the failed collective:"
_NUMBERED = re.compile(r"^#\d+ (?P<function>.+) from (?P<file>/.+):(?P<line>\d+)$")
_KERNEL = (
    r"(?:\S.*: block: \[\d+,\d+,\d+\],? thread: \[\d+,\d+,\d+\]|Error: \S+\.\w+:\d+)"
    r" Assertion `.+` failed\..*"
)
"""The words of failed assertions in GPU kernels of torch and paddle."""

_RUNTIME = re.compile(
    rf"^(?:{_KERNEL}"
    r"|OMP: Error #\d+: .+|libgomp: .+|\S*: .+: Assertion `.+' failed\.|free\(\): .+|malloc\(\): .+"
    r"|double free or corruption.*|corrupted .+|munmap_chunk\(\): .+|\*\*\* stack smashing detected.*"
    r"|ERROR: Unexpected (?:BUS|bus) error encountered in .+"
    r"|Fatal Python error: \w+: .+|nbdist: rank \d+ could not be started: .+"
    r"|\S.*: (?:No space left on device|Disk quota exceeded|Too many open files))$"
)
_MESSAGE_LINES = 12
_BOOTSTRAP = ("nbdist/worker/bootstrap.py", "nbdist/worker/__main__.py")


def last_words(lines: Sequence[str]) -> Raised | None:
    """Return native code's message before the exit, with the Python frames if known; else None."""
    plain = [_RANK.sub("", line) for line in lines]
    kind, message = _said(plain)
    # the program called the collective long before its present line
    frames = (_collective_stack(plain) if WATCHDOG in message else ()) or _python_stack(plain)
    if not message and not frames:
        return None
    return Raised(type=kind, message=message, frames=frames)


def _said(lines: Sequence[str]) -> tuple[str, str]:
    """Return kind and message of the first of the last words: later ones report how the process ended."""
    for at, line in enumerate(lines):
        if (match := _THROWN.match(line)) is not None:
            return match["type"], _what(lines, at + 1)
        if line == _SUMMARY and (summary := _summary(lines, at + 1)) is not None:
            return summary
        if (match := _FATAL.match(line)) is not None:
            return "", f"[{match['where']}] {_paragraph(match['message'], lines, at + 1)}"
        if (match := _TERMINATED.match(line) or _RUNTIME.match(line)) is not None:
            return "", match[0]
    return "", ""


def _what(lines: Sequence[str], at: int) -> str:
    match = _WHAT.match(lines[at]) if at < len(lines) else None
    return _paragraph(match["message"], lines, at + 1) if match is not None else ""


def _summary(lines: Sequence[str], at: int) -> tuple[str, str] | None:
    """Return paddle's summary, if it has more than the signal."""
    while at < len(lines) and (_RULE.match(lines[at]) or not lines[at].strip()):
        at += 1
    match = _SUMMARISED.match(lines[at]) if at < len(lines) else None
    if match is None or _SIGNALLED.search(match["message"]):
        return None
    return match["type"], _paragraph(match["message"], lines, at + 1)


def _paragraph(first: str, lines: Sequence[str], at: int) -> str:
    """Return ``first`` and the lines to the next empty one; after an empty ``first``, the next paragraph."""
    message = [first]
    for line in lines[at : at + _MESSAGE_LINES]:
        if line.startswith((_PYTHON, _RAISED_FROM)) or (
            not line.strip() and any(part.strip() for part in message)
        ):
            break
        message.append(line)
    return "\n".join(message).strip()


def _python_stack(lines: Sequence[str]) -> tuple[ErrorFrame, ...]:
    """Return ``faulthandler``'s stack of the signal, outermost first; the main thread is last."""
    current: tuple[ErrorFrame, ...] = ()
    last: tuple[ErrorFrame, ...] = ()
    for at, line in enumerate(lines):
        if _STACK.match(line):
            frames = _frames_at(_CALL, lines[at + 1 :])
            last = frames or last
            if line.startswith("Current"):
                current = frames
    return current or last


def _collective_stack(lines: Sequence[str]) -> tuple[ErrorFrame, ...]:
    """Return the stack of the one collective that NCCL's watchdogs abandoned, outermost first."""
    begins = [at for at, line in enumerate(lines) if line.rstrip().endswith(_CALLED_BY)]
    stacks = {_frames_at(_NUMBERED, lines[at + 1 :]) for at in begins}
    return stacks.pop() if len(stacks) == 1 else ()


def _frames_at(begin: re.Pattern[str], lines: Sequence[str]) -> tuple[ErrorFrame, ...]:
    """Return the frames that ``lines`` begin with, outermost first, without nbdist's own."""
    frames: list[ErrorFrame] = []
    for call in map(begin.match, lines):
        if call is None:
            break
        if not call["file"].endswith(_BOOTSTRAP):
            file, line = call["file"], int(call["line"])
            frames.append(ErrorFrame(file=file, line=line, function=call["function"], source=""))
    return tuple(reversed(frames))


# Tracebacks in the logs of running ranks.

_EFFECTS = frozenset(
    {"KeyboardInterrupt", "BrokenPipeError", "EOFError", "ConnectionResetError", "SystemExit"}
)
"""Exceptions that threads and processes raise when their rank is ended."""

_FEW_RANKS, _LOG_ROOM, _SHOWN = 4, 32_768, 160
"""The most logs to search for a traceback, the bytes of each, and the characters to show."""

STARTERS = re.compile(
    r"/(?:threading|runpy|multiprocessing/\w+|concurrent/futures/\w+)\.py$|^<(?:string|frozen runpy)>$"
)
"""Files in which the stack of a thread or a process begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback:
    """The last traceback in a rank's log: its error in a line, and the innermost line of the user's files
    with its ``file`` ("" for the program). ``ended``: it ended a thread or a process."""

    rank: int
    error: str
    line: int | None = None
    file: str = ""
    ended: bool = True

    @property
    def where(self) -> str:
        """Return ``22``, or ``prefetch.py:22`` of a module beside the program; empty if unknown."""
        return f"{self.file}:{self.line}" if self.file else str(self.line or "")


def raised_in_logs(ranks: Sequence[int], run: Run, directory: RunDirectory) -> tuple[Traceback, ...]:
    """Return the last traceback of a few of these ranks, except those that ended their programs."""
    tracebacks = (_last_traceback(rank, run, directory) for rank in ranks[:_FEW_RANKS])
    return tuple(traceback for traceback in tracebacks if traceback is not None)


def gave_up(ranks: Sequence[int], run: Run, directory: RunDirectory) -> bool:
    """Return whether NCCL's watchdog gave up on one of these ranks; it ends the process a minute later."""
    logs = (last_lines(directory.rank(rank, run.attempt).log, _LOG_ROOM) for rank in ranks[:_FEW_RANKS])
    return any(WATCHDOG in line for lines in logs for line in lines)


def ended_by(tracebacks: Sequence[Traceback]) -> dict[int, str]:
    """Return by rank the error that ended a thread or a process."""
    return {
        traceback.rank: f"{traceback.error} (line {traceback.where})" if traceback.where else traceback.error
        for traceback in tracebacks
        if traceback.ended
    }


def _last_traceback(rank: int, run: Run, directory: RunDirectory) -> Traceback | None:
    lines = last_lines(directory.rank(rank, run.attempt).log, _LOG_ROOM)
    if not any(line.endswith("Traceback (most recent call last):") for line in lines):
        return None
    left = read_error(directory.rank(rank, run.attempt).error)
    own_end = (left.type, left.message.partition("\n")[0]) if left is not None else None
    chains = [
        chain
        for chain in chains_in_log(lines)
        if chain[-1].type not in _EFFECTS
        and (chain[-1].type, chain[-1].message.partition("\n")[0]) != own_end
    ]
    if not chains:
        return None
    first, sources = root(chains[-1]), Sources.of(run, directory)
    own = [frame for frame in first.frames if sources.is_own(frame.file)]
    return Traceback(
        rank=rank,
        error=" ".join(first.text.split())[:_SHOWN],
        line=own[-1].line if own else None,
        file="" if not own or sources.is_program(own[-1].file) else sources.name(own[-1].file),
        ended=bool(first.frames) and _ends_another(first.frames[0], sources),
    )


def _ends_another(outermost: ErrorFrame, sources: Sources) -> bool:
    """Return whether a traceback beginning so ended a thread or process, and was not caught and printed."""
    begins = rf"(?:target=|submit\(|map\(|apply_async\()\s*[\w.]*\b{re.escape(outermost.function)}\b"
    return (
        STARTERS.search(outermost.file) is not None
        or (outermost.function == "<module>" and not sources.is_program(outermost.file))
        or outermost.function == "run"
        or re.search(begins, sources.text(outermost.file)) is not None
    )
