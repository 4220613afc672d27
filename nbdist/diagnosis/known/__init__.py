"""Known errors with cause and fix: a table for each family of software.

A row that matches a healthy program's output is a defect: patterns are searched in the first failure's text
alone, and tested against logs of runs that went well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from types import MappingProxyType

from nbdist.diagnosis.exits import rank_names
from nbdist.tables import read_table
from nbdist.text import Both, say

# the first match counts: torch and paddle wrap NCCL's and CUDA's errors
_TABLES = ("nccl", "ranks", "cuda", "paddle", "python", "exits", "hangs")

# the type and message are at the head, what they pass on at the tail; between them native stacks take 45 KB
_HEAD, _TAIL = 4_096, 1_024

_GROUP, _NEVER = re.compile(r"\\g<(\w+)>"), "(?!)"


class Role(Enum):
    """The part of a rank in an error.

    CAUSE: this rank did it. GONE: another rank closed its connection. WAITED: another rank did not come in
    time. CHILD: a process that this rank had started failed, and printed its own error.
    """

    CAUSE = "cause"
    GONE = "gone"
    WAITED = "waited"
    CHILD = "child"


class Source(Enum):
    """The text to search: ``Type: message`` of an error, or an ``exits.exit_kind``."""

    ERROR = "error"
    EXIT = "exit"
    SITUATION = "situation"
    """No text: it follows from all ranks' behaviour."""
    PROGRAM = "program"
    """``Type: message`` of an error that no other row matches, in a program that contains ``where``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A known error. Its texts may use named groups of ``pattern`` as ``{group}``.

    ``framework`` is the pattern's: "torch", "paddle" or "any". ``of`` matches names of other signatures that
    this one replaces where the program matches ``where``; there, ``\\g<name>`` stands for the other's group.
    """

    name: str
    pattern: str = ""
    framework: str = "any"
    role: Role = Role.CAUSE
    source: Source = Source.ERROR
    of: str = ""
    where: str = ""
    cause: str
    fix: str
    cause_zh: str
    fix_zh: str


@cache
def signatures() -> dict[str, Signature]:
    """Return all rows by name, in the order of matching."""
    rows = {name: row for table in _TABLES for name, row in read_table(__file__, table).items()}
    return {name: _signature(name, row) for name, row in rows.items()}


def _signature(name: str, row: dict[str, str | list[str]]) -> Signature:
    """Return the signature of a row; its pattern is a string or a list of alternatives."""
    pattern = row.pop("pattern", "")
    texts = {key: str(text) for key, text in row.items()}
    return Signature(
        name=name,
        pattern=pattern if isinstance(pattern, str) else "|".join(pattern),
        role=Role(texts.pop("role", "cause")),
        source=Source(texts.pop("source", "error")),
        **texts,
    )


def match(text: str, source: Source = Source.ERROR) -> tuple[Signature, re.Match[str]] | None:
    """Return the signature that matches an error's (or exit's) text, by the ends of a long one."""
    return _match(_ends(text), source)


def _ends(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


# hundreds of ranks print the same
@lru_cache(maxsize=64)
def _match(text: str, source: Source) -> tuple[Signature, re.Match[str]] | None:
    for signature, pattern in _compiled(source):
        if (found_match := pattern.search(text)) is not None:
            return signature, found_match
    return None


# re caches fewer patterns than there are rows
@cache
def _compiled(source: Source) -> tuple[tuple[Signature, re.Pattern[str]], ...]:
    rows = (row for row in signatures().values() if row.source is source)
    return tuple((row, re.compile(row.pattern)) for row in rows)


def variant(
    known: Signature, program: str, groups: Mapping[str, str | None] = MappingProxyType({})
) -> Signature:
    """Return the row that replaces ``known`` in a program with this text; ``groups`` are named groups."""

    def group(mark: re.Match[str]) -> str:
        return re.escape(groups.get(mark[1]) or "") or _NEVER

    rows = (row for row in signatures().values() if row.of and re.fullmatch(row.of, known.name))
    return next((row for row in rows if re.search(_GROUP.sub(group, row.where), program)), known)


def match_in(text: str, program: str) -> tuple[Signature, re.Match[str]] | None:
    """Return the row of an error's text that applies only in a program with this text."""
    for row, pattern in _compiled(Source.PROGRAM):
        if (found_match := pattern.search(_ends(text))) is not None and re.search(row.where, program):
            return row, found_match
    return None


def in_paddle(text: str) -> str:
    """Return a hint in the words of a program of paddle."""
    for torch, paddle in read_table(__file__, "in_paddle").items():
        text = text.replace(torch, paddle)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Cause and fix; ``signature`` is the row's name."""

    signature: str
    cause: Both
    fix: Both

    def in_paddle(self) -> Hint:
        """Return the hint in the words of a program of paddle."""
        return replace(self, cause=Both(*map(in_paddle, self.cause)), fix=Both(*map(in_paddle, self.fix)))

    def text(self, language: str = "en") -> str:
        """Return two lines: the cause, the fix."""
        cause = say("diagnosis.cause", language, cause=self.cause.text(language))
        return f"{cause}\n{say('diagnosis.fix', language, fix=self.fix.text(language))}"


def hint(row: str | Signature, /, **values: object) -> Hint:
    """Return the hint of a row with these values: tuples are ranks, None a group without a match."""
    row = signatures()[row] if isinstance(row, str) else row
    en, zh = ({key: _word(value, language) for key, value in values.items()} for language in ("en", "zh"))
    return Hint(
        signature=row.name,
        cause=Both(row.cause.format_map(en), row.cause_zh.format_map(zh)),
        fix=Both(row.fix.format_map(en), row.fix_zh.format_map(zh)),
    )


def _word(value: object, language: str) -> str:
    if isinstance(value, Both):
        return value.text(language)
    if isinstance(value, tuple):
        return rank_names(value, language)
    return "?" if value is None else str(value)
