"""Tracebacks in text, read back: chains, exception groups, and tracebacks inside a message.

A framework that passes an error from one process to another passes it as text (a DataLoader worker's
in the message of the error in the loop, a spawned child's in that of ``spawn``), so the cause is found
here by reading what ``traceback`` prints, and not from exception objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nbdist.store import ErrorFrame

_HEADER = re.compile(r"^(?:Original )?Traceback \(most recent call last\):$")
_GROUP = "Exception Group Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?$")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_MARGIN = re.compile(r"^\s*\|(?: (.*))?$")
_MEMBER = re.compile(r"^\s*(?:\+-)?\+-+ (\d+|\.\.\.) -+$")
_GROUP_END = re.compile(r"^\s*\+-{20,}$")
# torch's exception hook writes the rank before each line
_RANK = re.compile(r"^\[rank\d+\]: ?")
_INSIDE = "\0inside"
_LINKS = {_CAUSE: "cause", _CONTEXT: "context", _INSIDE: "inside"}
_PLAIN_HEADER = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """One exception of a chain. ``link`` says how it came after the one before it in the text:
    "cause" (``raise … from``), "context" (raised while that one was handled), "inside" (part of that
    one: in its message, or a member of the group), or "" (nothing connects them)."""

    type: str
    message: str
    frames: tuple[ErrorFrame, ...]
    link: str = ""

    @property
    def text(self) -> str:
        """As Python prints it: type, colon, message."""
        return ": ".join(part for part in (self.type, self.message) if part)


def parse(text: str) -> tuple[Raised, ...]:
    """The exceptions of one report, in the order in which they are printed."""
    return tuple(_raised(_plain(text.splitlines()), in_log=False))


def chains_in_log(lines: Sequence[str]) -> list[tuple[Raised, ...]]:
    """The tracebacks that stand among the lines of a log, each with what it is connected to.

    Nothing marks a message's end there: it goes to the next empty line.
    """
    chains: list[list[Raised]] = []
    for raised in _raised(_plain([_RANK.sub("", line) for line in lines]), in_log=True):
        if not raised.link or not chains:
            chains.append([])
        chains[-1].append(raised)
    return [tuple(chain) for chain in chains]


def root(chain: Sequence[Raised]) -> Raised:
    """What the others followed from: the innermost part, and there what it was raised from."""
    start = max((index for index, raised in enumerate(chain) if raised.link == "inside"), default=0)
    at = len(chain) - 1
    while at > start and chain[at].link == "cause":
        at -= 1
    return chain[at]


def _plain(lines: list[str]) -> list[str]:
    """The lines without the margins of exception groups, of which only first members are kept."""
    grouped = any(line.strip().removeprefix("+ ").removeprefix("| ") == _GROUP for line in lines)
    return list(_first_members(lines)) if grouped else lines


def _first_members(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if (member := _MEMBER.match(line)) is not None:
            if member[1] != "1":
                return
            # a member that was never raised has no header of its own
            yield from (_INSIDE, _PLAIN_HEADER)
        elif not _GROUP_END.match(line):
            while (margin := _MARGIN.match(line)) is not None:
                line = margin[1] or ""
            yield _PLAIN_HEADER if line.strip().removeprefix("+ ") == _GROUP else line


def _raised(lines: Sequence[str], *, in_log: bool) -> Iterator[Raised]:
    link, at = "", 0
    while at < len(lines):
        if lines[at] in _LINKS:
            link = _LINKS[lines[at]]
        elif _is_header(lines[at]):
            frames, at = _frames(lines, at + 1)
            error = _ERROR.match(lines[at]) if at < len(lines) else None
            if error is not None:
                message, at = _message(error["message"] or "", lines, at + 1, in_log=in_log)
                yield Raised(type=error["type"], message=message, frames=frames, link=link)
                # a message that goes over into a traceback tells of an exception elsewhere
                link = "inside" if at < len(lines) and _is_header(lines[at]) else ""
            continue
        at += 1


def _is_header(line: str) -> bool:
    return _HEADER.match(line.strip()) is not None


def _frames(lines: Sequence[str], at: int) -> tuple[tuple[ErrorFrame, ...], int]:
    """The frames from ``at`` on, and the first line that is none."""
    frames: list[ErrorFrame] = []
    while at < len(lines) and lines[at].startswith(" "):
        if (found := _FRAME.match(lines[at])) is not None:
            source = lines[at + 1] if at + 1 < len(lines) else ""
            has_source = source.startswith("    ") and not _FRAME.match(source)
            frames.append(
                ErrorFrame(
                    file=found["file"],
                    line=int(found["line"]),
                    function=found["function"] or "",
                    source=source.strip() if has_source else "",
                )
            )
        at += 1
    return tuple(frames), at


def _message(first: str, lines: Sequence[str], at: int, *, in_log: bool) -> tuple[str, int]:
    """The message that begins with ``first`` and goes on at ``at``, and the first line after it."""
    message = [first]
    while at < len(lines) and lines[at] not in _LINKS and not _is_header(lines[at]):
        # spawn's message begins with empty lines
        if in_log and not lines[at].strip() and any(line.strip() for line in message):
            break
        message.append(lines[at])
        at += 1
    return "\n".join(message).strip("\n"), at
