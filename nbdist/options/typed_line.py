"""A typed line, split into nbdist's own options and the program with its arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.errors import UsageMistake
from nbdist.frameworks import launchers
from nbdist.frameworks.command_line import launcher_of, read_command
from nbdist.options.table import OPTIONS
from nbdist.privacy import masked_text

MODULE_FLAGS = ("-m", "--module")  # before the name of a module
COMMAND_FLAGS = ("--no-python", "--no_python")  # before a program that is not Python's
_KINDS = (*MODULE_FLAGS, *COMMAND_FLAGS)
_COUNTS = {"-n", "--nproc", "--nproc-per-node", "--gpus", "--devices", "--selected-gpus"}
_NO_LOCAL_RANK = {"--use-env", "--use_env", "--no-local-rank", "--no_local_rank"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A typed line: nbdist's own words and the flags of ``launcher`` ("" for none), and the program with its
    arguments, unparsed: a script, ``-m`` and a module, or ``--no-python`` and a command."""

    own: list[str]
    launcher: str
    program: list[str]


def split_line(line: str) -> list[str]:
    """Split a line as a shell does, without a comment behind. Raises UsageMistake."""
    if "\0" in line:
        raise UsageMistake(f"a null character stands in {line.strip()!r:.80}: take it out")
    try:
        return shlex.split(_without_comment(line))
    except ValueError as error:
        raise UsageMistake(
            f'{masked_text(line.strip())!r} ({error}): quote a value like  --args "--lr 0.1"'
        ) from None


_WORDS = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<=\S)\#|[^\\'"\#])*""", re.DOTALL)


def _without_comment(line: str) -> str:
    """Return ``line`` up to a ``#`` that begins a word outside quotes."""
    words = _WORDS.match(line)
    return words[0] if words is not None and line[words.end() :].startswith("#") else line


def check_shell(line: str) -> None:
    """Raise UsageMistake where a line has syntax of a shell: ``| tee log``, ``> log``, ``&``."""
    # the quotes stay: those of  --sep "|"  count
    plain = re.sub(r"\\.", "_", _without_comment(line))
    words = shlex.shlex(plain, posix=False, punctuation_chars="();<>|&")
    words.whitespace_split, words.commenters = True, ""
    if sign := next((word for word in words if not word.strip("();<>|&")), ""):
        raise UsageMistake(
            f"{sign} is for a shell, and nbdist starts none: leave it out, the logs are kept:  %dist_logs"
        )


def instead_of(command: str) -> str:
    """Return the line to type for ``!command`` where it starts another launcher; else empty."""
    try:
        launcher = read_line(split_line(command)).launcher
    except UsageMistake:
        return ""
    return f"%distributed {command.strip()}" if launcher else ""


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options in front of a program, and the program with its arguments. A program begins with the
    first word that is neither an option nor its value, or behind ``--``; a launcher may stand in front of it.
    ``-m`` and ``--no-python`` may stand anywhere before it. Raises UsageMistake."""
    line = read_line(words)
    return line.own, line.program


def read_line(words: Sequence[str]) -> Line:
    """Read a line. Raises UsageMistake for a command that nbdist cannot replace."""
    own, kind, rest = options_first(words)
    if kind and not launcher_of([*kind, *rest])[0]:
        return Line(own=own, launcher="", program=[*kind, *rest])
    command = read_command([*kind, *rest])
    launcher, program, of_launcher = command.launcher, list(command.rest), list(command.own)
    if not launcher:
        return Line(own=[*of_launcher, *own], launcher="", program=program)
    if command.mixed:
        flags, kind, program = options_first(program, launcher)
        of_launcher += flags
    else:
        kind = [word for word in of_launcher if word in _KINDS]
        of_launcher = [word for word in of_launcher if word not in _KINDS]
    if program:
        given = {word.partition("=")[0].replace("_", "-") for word in (*of_launcher, *own)}
        if not given & _COUNTS:
            of_launcher += launchers.default_count(launcher)
        if not _NO_LOCAL_RANK & set(words):
            program[1:1] = launchers.local_rank_argument(launcher)
    # what the user gave nbdist itself comes last, and holds
    return Line(own=[*of_launcher, *own], launcher=launcher, program=[*kind, *program])


def options_first(words: Sequence[str], launcher: str = "") -> tuple[list[str], list[str], list[str]]:
    """Return the options that ``words`` begin with, ``-m`` or ``--no-python`` where it stands among them, and
    the words from the program on. Behind a ``launcher``, flags may be shortened."""
    valued = {flag for option in OPTIONS if option.metavar for flag in option.spellings}
    own: list[str] = []
    kind: list[str] = []
    at = 0
    while at < len(words):
        word = launchers.whole_flag(words[at], launcher) if launcher else words[at]
        if word == "--":
            return own, kind, list(words[at + 1 :])
        if word in _KINDS:
            kind = [word]
            at += 1
            continue
        if not word.startswith("-"):
            break
        foreign = launchers.flag_of(word)
        # the value of a foreign flag may stand in the same word
        bare = "=" not in word and (word.startswith("--") or len(word) == 2)
        takes_next = word in valued if foreign is None else not foreign.switch and bare
        own += [word, *words[at + 1 : at + 1 + takes_next]]
        at += 1 + takes_next
    return own, kind, launchers.without_dashes(words[at:])
