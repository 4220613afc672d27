"""Words become Options; a mistake in them says what to type instead."""

from __future__ import annotations

import argparse
import difflib
import functools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from nbdist.errors import UsageMistake
from nbdist.frameworks import launchers
from nbdist.options import agreement, meeting
from nbdist.options.line import split_line
from nbdist.options.options import Options
from nbdist.options.program import split_program
from nbdist.options.table import OPTIONS, Option
from nbdist.privacy import masked_words


def parse(line: str) -> Options:
    """The options on a line, which a comment may end. Raises UsageMistake, whose message is one line."""
    return parse_words(split_line(line))


def parse_words(words: Sequence[str]) -> Options:
    """The options in ``words``, as nbdist or another launcher writes them. Raises UsageMistake."""
    typed = words
    launcher, words = launchers.behind_launcher(words)
    if launcher and (program := split_program(words)[1]):
        left_out, line = shlex.join(masked_words(program)), shlex.join(masked_words(typed))
        raise UsageMistake(
            f"the program of %%distributed is the cell below it: leave out  {left_out} , or run "
            f"the script:  %distributed {line}"
        )
    foreign = launchers.translated(words)
    values, unknown = _parser().parse_known_args(_joined(foreign.words))
    if unknown:
        raise UsageMistake(_about_unknown(unknown[0]))
    given = {name: value for name, value in vars(values).items() if value is not None}
    if "env" in given:
        given["env"] = tuple(given["env"])
    given["master"] = meeting.joined_address(given.get("master", ()))
    options = Options(**given)
    options = replace(options, any_device=foreign.any_device and options.gpus is None, notes=foreign.notes)
    if options.engine == "local" and options.slurm:
        options = replace(options, engine="slurm")
    elif options.engine == "local" and options.ray:
        options = replace(options, engine="ray")
    agreement.check(options)
    return options


def get_ready() -> None:
    """Make what every line needs, which is made once."""
    _parser()


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


@functools.cache
def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%distributed", add_help=False, allow_abbrev=False, argument_default=None)
    for option in OPTIONS:
        flags = (*option.flags, *option.aliases)
        if not option.metavar:
            for no in (False, True):
                if same := [flag for flag in flags if flag.startswith(("--no-", "--cold")) is no]:
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
