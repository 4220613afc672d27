"""What a row of the tables of this package is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What an error says of its rank.

    CAUSE: this rank did it. GONE: another rank closed its connection. WAITED: another rank did not come
    in time. CHILD: a process that this rank had started failed, and said itself why.
    """

    CAUSE = "cause"
    GONE = "gone"
    WAITED = "waited"
    CHILD = "child"


class Source(Enum):
    """What a pattern is searched in: ``Type: message`` of an error, or an exit (``exits.exit_kind``)."""

    ERROR = "error"
    EXIT = "exit"
    SITUATION = "situation"
    """Nothing: it is seen from what all ranks did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """An error that is known. Named groups of ``pattern`` can be used in the texts as ``{group}``.

    ``framework`` is whose words the pattern has: "torch", "paddle" or "any".
    """

    name: str
    pattern: str = ""
    framework: str = "any"
    role: Role = Role.CAUSE
    source: Source = Source.ERROR
    cause: str
    fix: str
    cause_zh: str
    fix_zh: str
