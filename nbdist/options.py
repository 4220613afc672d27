"""The options of ``%%distributed``, once: for the magic, the command line, completion and the README."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from nbdist.errors import UsageMistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was typed behind ``%%distributed``, checked for itself (not yet against the machine).

    ``gpus`` is None where the option is left out, "all", or ids. ``timeout`` is in seconds.
    """

    nproc: int | None = None
    gpus: tuple[int, ...] | str | None = None
    framework: str = "auto"
    backend: str = "auto"
    name: str = ""
    detach: bool = False
    timeout: float | None = None
    retries: int = 0
    env: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()
    cwd: str = ""
    scrape: bool = True
    panel: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its spellings (the first is the one shown), its value, and what it does.

    ``aliases`` are what other launchers call it; they are accepted and not shown.
    """

    flags: tuple[str, ...]
    field: str
    help: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] = str
    many: bool = False


MODULE_FLAGS = ("-m", "--module")
"""What stands before the name of a module where a script could stand."""

_MOST_RANKS = 1024


def _nproc(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageMistake(f"-n {text}: that is not a number of ranks: write  -n 2") from None
    if number > _MOST_RANKS:
        raise UsageMistake(f"-n {number}: one machine gets at most {_MOST_RANKS} ranks: write  -n 2")
    if number < 1:
        raise UsageMistake(f"-n {number} starts no rank: write  -n 1  or more")
    return number


def _gpus(text: str) -> tuple[int, ...] | str:
    if text == "all":
        return "all"
    try:
        ids = tuple(int(part) for part in text.strip("\"'").split(",") if part.strip())
    except ValueError:
        ids = ()
    if not ids or min(ids) < 0:
        raise UsageMistake(
            f"--gpus {text}: give GPU ids as nvidia-smi shows them:  --gpus 0,1  or  --gpus all"
        )
    if len(set(ids)) < len(ids):
        raise UsageMistake(f"--gpus {text} names a GPU twice: give each id once")
    return ids


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Seconds in ``90``, ``90s``, ``5m``, ``1.5h`` or ``1h30m``. Raises UsageMistake."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise UsageMistake(f"--timeout {text}: write a time such as  --timeout 90s, 5m  or  1h30m")
    return seconds


def _retries(text: str) -> int:
    if not text.isdigit():
        raise UsageMistake(f"--retries {text}: write a number of times, for example  --retries 2")
    return int(text)


def _env(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
        raise UsageMistake(f"--env {text}: write  --env NAME=VALUE")
    return key, value


def _args(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageMistake(f'--args {text!r}: {error}; write  --args "--lr 0.1"') from None


def slug(text: str) -> str:
    """``text`` as the name of a run, which is part of a path; empty when nothing of it can be."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")


def _name(text: str) -> str:
    name = slug(text)
    if not name:
        raise UsageMistake(f"--name {text!r}: a name needs a letter or digit:  --name lenet")
    return name


OPTIONS: tuple[Option, ...] = (
    Option(
        flags=("-n", "--nproc"),
        field="nproc",
        metavar="N",
        parse=_nproc,
        aliases=("--nproc_per_node", "--nproc-per-node"),
        help="N ranks on the CPU",
    ),
    Option(
        flags=("--gpus",),
        field="gpus",
        metavar="0,1|all",
        parse=_gpus,
        aliases=("--selected_gpus", "--devices"),
        help="one rank on each of these GPUs, by their ids in nvidia-smi",
    ),
    Option(
        flags=("--framework",),
        field="framework",
        metavar="NAME",
        choices=("auto", "torch", "paddle", "none"),
        help="auto (what the program imports), torch, paddle, none",
    ),
    Option(
        flags=("--backend",),
        field="backend",
        metavar="NAME",
        choices=("auto", "nccl", "gloo"),
        help="auto, nccl, gloo: the default of the process group",
    ),
    Option(
        flags=("--name",),
        field="name",
        metavar="NAME",
        parse=_name,
        help="a name for the run",
    ),
    Option(
        flags=("-d", "--detach"),
        field="detach",
        help="return at once; the run goes on by itself",
    ),
    Option(
        flags=("--timeout",),
        field="timeout",
        metavar="TIME",
        parse=parse_duration,
        help="stop the run after 90s, 5m, 1h30m",
    ),
    Option(
        flags=("--retries",),
        field="retries",
        metavar="N",
        parse=_retries,
        aliases=("--max_restart", "--max_restarts", "--max-restarts"),
        help="after a failure, run again up to N times",
    ),
    Option(
        flags=("--env",),
        field="env",
        metavar="K=V",
        parse=_env,
        many=True,
        help="set a variable in every rank (repeat for more)",
    ),
    Option(
        flags=("--args",),
        field="args",
        metavar='"…"',
        parse=_args,
        help="sys.argv[1:] of the program",
    ),
    Option(
        flags=("--cwd",),
        field="cwd",
        metavar="DIR",
        help="the ranks' working directory (the current one)",
    ),
    Option(
        flags=("--scrape", "--no-scrape"),
        field="scrape",
        help="curves of the numbers that the program prints (on)",
    ),
    Option(flags=("--no-panel",), field="panel", help="plain text instead of the panel"),
)


def help_text(usage: str = "%%distributed [options]", *, without: Collection[str] = ()) -> str:
    """The options below ``usage`` as a table of text, but for the fields in ``without``."""
    shown = [option for option in OPTIONS if option.field not in without]
    rows = [(", ".join(o.flags) + (f" {o.metavar}" if o.metavar else ""), o.help) for o in shown]
    width = max(len(left) for left, _ in rows)
    return "\n".join([usage, *(f"  {left:<{width}}  {right}" for left, right in rows)])


def markdown_table() -> str:
    """The options as the table of the README."""
    lines = ["| Option | What it does |", "|---|---|"]
    for option in OPTIONS:
        written = f"{', '.join(option.flags)} {option.metavar}".rstrip()
        # a bare | would end the table's cell
        cells = [cell.replace("|", r"\|") for cell in (f"`{written}`", option.help)]
        lines.append(f"| {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


class LineParser(argparse.ArgumentParser):
    """The arguments of a line magic or a command; a mistake is answered with how it is written."""

    def __init__(self, usage: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._written = usage

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message}: write  {self._written}")


class _Parser(argparse.ArgumentParser):
    """argparse, with errors that say what to type instead."""

    def error(self, message: str) -> NoReturn:
        # "argument -n/--nproc/…: what is wrong": only a value that is missing, or one too many
        flag = message.removeprefix("argument ").partition("/")[0].partition(":")[0]
        option = next((option for option in OPTIONS if flag in option.flags), None)
        if option is None:
            raise UsageMistake(message)
        if not option.metavar:
            written = flag if flag.startswith("--") else option.flags[-1]
            raise UsageMistake(f"{written} takes no value: write  {written}")
        example = f"{option.flags[0]} {option.metavar}"
        raise UsageMistake(f"{option.flags[0]} needs a value: write  {example}")


def parse(line: str) -> Options:
    """The options on a line. Raises UsageMistake, whose message is one line."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageMistake(f'{line.strip()!r}: {error}; quote a value like  --args "--lr 0.1"') from None
    return parse_words(words)


def parse_words(words: Sequence[str]) -> Options:
    """The options in ``words``. Raises UsageMistake."""
    values, unknown = _parser().parse_known_args(_joined(words))
    if unknown:
        raise UsageMistake(_about_unknown(unknown[0]))
    given = {name: value for name, value in vars(values).items() if value is not None}
    if "env" in given:
        given["env"] = tuple(given["env"])
    options = Options(**given)
    _check_together(options)
    return options


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options in front of a program, and the program with its arguments, which are not looked at.

    A program begins with the first word that is neither an option nor its value, with ``-m``, or
    behind ``--``.
    """
    valued = {flag for option in OPTIONS if option.metavar for flag in (*option.flags, *option.aliases)}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return list(words[:at]), list(words[at + 1 :])
        if word in MODULE_FLAGS or not word.startswith("-"):
            break
        at += 2 if word in valued else 1
    return list(words[:at]), list(words[at:])


def _joined(words: Sequence[str]) -> list[str]:
    """``--args --lr=0.1`` as one word: argparse would take the value for an option of its own."""
    known = {flag for option in OPTIONS for flag in (*option.flags, *option.aliases)}
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--args" and word.partition("=")[0] not in known:
            joined[-1] = f"--args={word}"
        else:
            joined.append(word)
    return joined


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%distributed", add_help=False, allow_abbrev=False, argument_default=None)
    for option in OPTIONS:
        flags = (*option.flags, *option.aliases)
        if not option.metavar:
            for no in (False, True):
                if same := [flag for flag in flags if flag.startswith("--no-") is no]:
                    parser.add_argument(*same, dest=option.field, action="store_const", const=not no)
        else:
            parser.add_argument(
                *flags,
                dest=option.field,
                type=_checked(option),
                action="append" if option.many else "store",
            )
    return parser


def _checked(option: Option) -> Callable[[str], object]:
    def convert(text: str) -> object:
        if option.choices and text not in option.choices:
            flag = option.flags[-1]
            raise UsageMistake(f"{flag} {text}: write {flag} {', '.join(option.choices)}")
        return option.parse(text)

    return convert


def _check_together(options: Options) -> None:
    gpus, nproc = options.gpus, options.nproc
    if isinstance(gpus, tuple) and nproc is not None and nproc != len(gpus):
        ids = ",".join(map(str, gpus))
        raise UsageMistake(
            f"-n {nproc} and --gpus {ids} disagree: --gpus {ids} alone starts {len(gpus)} ranks, one a GPU; "
            f"-n {nproc} alone starts {nproc} on the CPU"
        )
    if options.backend == "nccl" and gpus is None and nproc is not None:
        raise UsageMistake("--backend nccl needs GPUs: leave it out for CPU ranks, or give --gpus")


def _about_unknown(word: str) -> str:
    if not word.startswith("-"):
        return f'{word!r} is no option: arguments of the program go into  --args "{word}"'
    flag = word.partition("=")[0]
    known = [flag for option in OPTIONS for flag in option.flags]
    # without the dashes, which all of them share
    names = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(flag.lstrip("-"), names, n=1, cutoff=0.6)
    if near:
        return f"no option {flag}: did you mean {names[near[0]]}?"
    return f"no option {flag}: there are {', '.join(option.flags[-1] for option in OPTIONS)}"
