"""A verb: its name, arguments, help and action, for the magic in a notebook and the command in a terminal.

Where it was typed decides how it is written, in its help and in its errors, and which arguments it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

from nbdist.errors import UsageMistake
from nbdist.options import LineParser
from nbdist.tables import read_table

NOTEBOOK = "%dist_"
TERMINAL = "nbdist "
"""What stands before a verb's name there."""

HELP = frozenset({"-h", "--help"})

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Frontend:
    """Where a verb was typed. ``prefix`` is NOTEBOOK or TERMINAL; ``say`` shows a line there while the verb
    is at work. ``usage`` is how the verb is written there."""

    prefix: str
    say: Callable[[str], None]
    usage: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. ``form`` is how it is written: ``RUN`` or ``RUN …`` by its place, ``-f, --follow`` as a
    flag, ``--rank R`` with a value.

    ``name`` is that of its value, where the form does not say it. At most one of those with the same
    ``either`` may be given. ``only``: the prefix of the one place that has it. A ``rare`` one is in the help,
    and not in the usage.
    """

    form: str
    help: str = ""
    name: str = ""
    parse: Callable[[str], object] = str
    choices: Sequence[str] | None = None
    default: object = None
    either: str = ""
    only: str = ""
    rare: bool = False

    @property
    def written(self) -> str:
        """``RUN``, ``--rank R``."""
        return self.form.rpartition(", ")[2]

    @property
    def field(self) -> str:
        """The name under which the action gets its value."""
        return self.name or self.written.partition(" ")[0].lstrip("-").lower()

    def add_to(self, parser: LineParser) -> None:
        word, _, value = self.written.partition(" ")
        if not word.startswith("-"):
            parser.add_argument(self.field, nargs="*" if value else "?", type=self.parse)
        elif value:
            parser.add_argument(
                word, dest=self.field, type=self.parse, choices=self.choices, default=self.default
            )
        else:
            parser.add_argument(*self.form.split(", "), dest=self.field, action="store_true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb(Generic[Result]):
    """``act`` gets the place and the arguments by their names, and returns what came of it as a value.

    ``about`` is a line, ``text`` the help above the arguments, ``exits`` the help about exit codes; texts
    write verbs as in a notebook. ``form`` stands for the arguments in the usage where these say too little;
    in it ``{}`` is the verb. ``more`` are rows of the help about words that are not in ``arguments``; where
    there are some, ``act`` gets those words as ``words``.
    """

    name: str
    about: str
    text: str
    act: Callable[..., Result]
    arguments: tuple[Argument, ...] = ()
    exits: str = ""
    form: str = ""
    more: tuple[tuple[str, str], ...] = ()

    def __call__(self, words: Sequence[str], frontend: Frontend) -> Result:
        """Do what is typed. Raises UsageMistake, which says how it is written there, and LaunchError."""
        usage = self.usage(frontend.prefix)
        parser, arguments = LineParser(usage), self._of(frontend.prefix)
        frontend = replace(frontend, usage=usage)
        for argument in arguments:
            argument.add_to(parser)
        if self.more:
            asked, others = parser.parse_known_args(words)
            return self.act(frontend, words=others, **vars(asked))
        asked = parser.parse_intermixed_args(words)
        _check(asked, arguments, usage)
        return self.act(frontend, **vars(asked))

    def usage(self, prefix: str) -> str:
        """``nbdist stop [RUN | --all]``: how it is written there."""
        name = f"{prefix}{self.name}"
        if self.form:
            return f"{name} {self.form.format(name)}"
        return " ".join([name, *(f"[{each}]" for each in self._forms(prefix))])

    def help(self, prefix: str) -> str:
        """The usage, what the verb does, and a line for each argument."""
        parts = [self.usage(prefix), self.text]
        rows = [*self.more, *((each.form, each.help) for each in self._of(prefix) if each.help)]
        if rows:
            width = max(len(left) for left, _ in rows)
            lines = (
                f"  {left:<{width}}  {right}".replace("\n", f"\n{'':{width + 4}}") for left, right in rows
            )
            parts.append("\n".join(lines))
        if self.exits and prefix == TERMINAL:
            parts.append(f"Exit code: {self.exits}")
        return "\n\n".join(parts).replace(NOTEBOOK, prefix)

    def _of(self, prefix: str) -> list[Argument]:
        return [each for each in self.arguments if each.only in ("", prefix)]

    def _forms(self, prefix: str) -> Iterator[str]:
        """What the usage has in brackets."""
        shown = [each for each in self._of(prefix) if not each.rare]
        told = set()
        for argument in shown:
            if not argument.either:
                yield argument.written
            elif argument.either not in told:
                told.add(argument.either)
                yield " | ".join(each.written for each in shown if each.either == argument.either)


def make_verb(name: str, act: Callable[..., Result], **parse: Callable[[str], object]) -> Verb[Result]:
    """The verb of this name, with its words from ``verbs.toml``; ``parse`` reads the values of arguments."""
    row = dict(_table()[name])
    arguments = [_argument(**about) for about in row.pop("arguments", ())]
    return Verb(
        name=name,
        act=act,
        arguments=tuple(replace(one, parse=parse.get(one.field, one.parse)) for one in arguments),
        more=tuple((left, right) for left, right in row.pop("more", ())),
        **row,
    )


def _argument(*, only: str = "", **about: Any) -> Argument:
    return Argument(only={"": "", "notebook": NOTEBOOK, "terminal": TERMINAL}[only], **about)


@cache
def _table() -> dict[str, Any]:
    return read_table(__file__, "verbs")


def _check(asked: Any, arguments: Sequence[Argument], usage: str) -> None:
    """Raises UsageMistake for two arguments of which only one may be given."""
    given: dict[str, Argument] = {}
    for argument in arguments:
        if not argument.either or not getattr(asked, argument.field):
            continue
        other = given.setdefault(argument.either, argument)
        if other is not argument:
            raise UsageMistake(f"{argument.written} is not allowed with {other.written}: write  {usage}")
