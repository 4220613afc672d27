"""The program on a line, behind the options or behind another launcher."""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.errors import UsageMistake
from nbdist.frameworks import launchers
from nbdist.options.line import split_line
from nbdist.options.table import OPTIONS

MODULE_FLAGS = ("-m", "--module")
"""What stands before the name of a module where a script could stand."""

COMMAND_FLAGS = ("--no-python", "--no_python")
"""What stands before a program that is not Python's."""


def instead_of(command: str) -> str:
    """What to type instead of ``!command`` in a notebook, where it starts another launcher; else empty."""
    try:
        words = split_line(command)
        launcher, _ = launchers.behind_launcher(words)
    except UsageMistake:
        return ""
    return f"%distributed {command.strip()}" if launcher else ""


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options in front of a program, and the program with its arguments, which are not looked at.

    A program begins with the first word that is neither an option nor its value, or behind ``--``.
    ``-m`` and ``--no-python`` say what it is, and may stand anywhere before it.
    """
    _, words = launchers.behind_launcher(words)
    valued = {flag for option in OPTIONS if option.metavar for flag in (*option.flags, *option.aliases)}
    own: list[str] = []
    kind: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word in (*MODULE_FLAGS, *COMMAND_FLAGS):
            kind = [word]
            at += 1
            continue
        if not word.startswith("-"):
            break
        foreign = launchers.flag_of(word)
        takes_next = word in valued if foreign is None else foreign.valued and _bare(word)
        own += words[at : at + 1 + takes_next]
        at += 1 + takes_next
    return own, [*kind, *words[at:]]


def _bare(flag: str) -> bool:
    """Whether the value of a flag does not stand in the same word."""
    return "=" not in flag and (flag.startswith("--") or len(flag) == 2)
