"""A verb: its name, arguments, help and action, spelt for a magic or for a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

from nbdist.errors import UsageMistake
from nbdist.options import LineParser
from nbdist.tables import read_table

# prefixes of a verb's name
NOTEBOOK = "%dist_"
TERMINAL = "nbdist "
HELP = frozenset({"-h", "--help"})

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Frontend:
    """The place in which a user types a verb. ``prefix`` is NOTEBOOK or TERMINAL, ``usage`` the verb's
    spelling; ``say`` shows a line while the verb works."""

    prefix: str
    say: Callable[[str], None]
    usage: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, by its ``form``: ``RUN`` or ``RUN …`` for a position, ``-f, --follow`` for a flag,
    ``--rank R`` for a value.

    ``name`` is that of its value, if the form's does not suffice. Arguments with the same ``either`` exclude
    each other. ``only`` is the prefix of the one front end that has it. The usage leaves a ``rare`` one out.
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
        """Return ``RUN``, ``--rank R``."""
        return self.form.rpartition(", ")[2]

    @property
    def field(self) -> str:
        """Return the action's parameter."""
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
    """A verb whose ``act`` receives the front end and the arguments by name, and returns a value.

    ``about`` is a line, ``text`` the help above the arguments, ``exits`` the help about exit codes; all spell
    verbs as in a notebook. ``form`` replaces the arguments in the usage, with ``{}`` for the verb. ``more``
    are rows of the help about further words, which ``act`` receives as ``words``.
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
        """Parse ``words``, and act. Raises UsageMistake with the usage, and LaunchError."""
        usage = self.usage(frontend.prefix)
        parser, arguments = LineParser(usage), self._of(frontend.prefix)
        frontend = replace(frontend, usage=usage)
        for argument in arguments:
            argument.add_to(parser)
        if self.more:
            values, others = parser.parse_known_args(words)
            return self.act(frontend, words=others, **vars(values))
        values = parser.parse_intermixed_args(words)
        _check(values, arguments, usage)
        return self.act(frontend, **vars(values))

    def usage(self, prefix: str) -> str:
        """Return ``nbdist stop [RUN | --all]``."""
        name = f"{prefix}{self.name}"
        if self.form:
            return f"{name} {self.form.format(name)}"
        return " ".join([name, *(f"[{each}]" for each in self._forms(prefix))])

    def help(self, prefix: str) -> str:
        """Return the usage, the text, and a line for each argument."""
        parts = [self.usage(prefix), self.text]
        rows = [*self.more, *((each.form, each.help) for each in self._of(prefix) if each.help)]
        if rows:
            width = max(len(left) for left, _ in rows)
            margin = "\n" + " " * (width + 4)
            lines = [f"  {left:<{width}}  {right}".replace("\n", margin) for left, right in rows]
            parts.append("\n".join(lines))
        if self.exits and prefix == TERMINAL:
            parts.append(f"Exit code: {self.exits}")
        return "\n\n".join(parts).replace(NOTEBOOK, prefix)

    def _of(self, prefix: str) -> list[Argument]:
        return [each for each in self.arguments if each.only in ("", prefix)]

    def _forms(self, prefix: str) -> Iterator[str]:
        """Yield the usage's parts in brackets."""
        groups: dict[str, list[str]] = {}
        for argument in self._of(prefix):
            if not argument.rare:
                groups.setdefault(argument.either or argument.form, []).append(argument.written)
        yield from map(" | ".join, groups.values())


def make_verb(name: str, act: Callable[..., Result], **parse: Callable[[str], object]) -> Verb[Result]:
    """Return the verb with its words from ``verbs.toml``; ``parse`` has the parsers of its arguments."""
    row = dict(_table()[name])
    arguments = [_argument(**about) for about in row.pop("arguments", ())]
    parsed = tuple(replace(each, parse=parse.get(each.field, each.parse)) for each in arguments)
    more = tuple((left, right) for left, right in row.pop("more", ()))
    return Verb(name=name, act=act, arguments=parsed, more=more, **row)


def _argument(*, only: str = "", **about: Any) -> Argument:
    return Argument(only={"": "", "notebook": NOTEBOOK, "terminal": TERMINAL}[only], **about)


@cache
def _table() -> dict[str, Any]:
    return read_table(__file__, "verbs")


def _check(values: Any, arguments: Sequence[Argument], usage: str) -> None:
    """Raise UsageMistake for two arguments that exclude each other."""
    given: dict[str, Argument] = {}
    for argument in arguments:
        if not argument.either or not getattr(values, argument.field):
            continue
        if (other := given.setdefault(argument.either, argument)) is not argument:
            raise UsageMistake(f"{argument.written} is not allowed with {other.written}: write  {usage}")
