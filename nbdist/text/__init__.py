"""The words that a user reads, English and Chinese side by side, by code: read from the files beside this one
when the first of them is asked for. The processes of a run make codes and never come here.

A catalogue is a file of messages: ``[code]`` with ``en`` and ``zh``. In a message stand ``{field}``,
``{field:.1f}``, and ``{field|one|more}``: one text for the number 1 (or a tuple of one), another for the
rest. ``[[…]]`` is left out where a field in it is missing or empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from nbdist.model import Reason
from nbdist.tables import read_table

_PLACE = re.compile(r"\{(\w+)(?::([^{}|]+)|\|([^{}|]*)\|([^{}|]*))?\}")
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
# A space parts Chinese from letters and digits, never Chinese from Chinese: "{who} 在等待" with "其他进程".
_SEAM = re.compile("(?<=[\u4e00-\u9fff])(?:\0 | \0)(?=[\u4e00-\u9fff])|\0")


class Both(NamedTuple):
    """A text in both languages."""

    en: str
    zh: str

    def text(self, language: str) -> str:
        return self[language == "zh"]


def say(key: str, language: str, /, **fields: object) -> str:
    """The message ``key``, written ``file.code``, in "en" or "zh". Raises KeyError where there is none, or
    where it lacks a field."""
    name, _, code = key.partition(".")
    return fill(messages(name)[code].text(language), fields, language)


def both(key: str, /, **fields: object) -> Both:
    """The message ``key`` in both languages; a field may be a text in both."""
    return Both(*(say(key, one, **in_language(fields, one)) for one in ("en", "zh")))


def in_language(fields: Mapping[str, object], language: str) -> dict[str, object]:
    """The fields of a message, those in both languages as they are in one."""
    return {key: one.text(language) if isinstance(one, Both) else one for key, one in fields.items()}


def reason_text(reason: Reason, language: str = "en") -> str:
    """A reason as it is read; empty for none. Of a code that only another nbdist knows: the code."""
    if not reason:
        return ""
    try:
        return say(f"reasons.{reason.code}", language, **reason.fields)
    except (KeyError, TypeError, ValueError):
        known = ", ".join(f"{name}={_shown(value, language)}" for name, value in reason.fields.items())
        return f"{reason.code} ({known})" if known else reason.code


@cache
def messages(name: str) -> Mapping[str, Both]:
    """The catalogue of a file beside this one."""
    return {code: Both(**said) for code, said in read_table(__file__, name).items()}


def size_text(count: int) -> str:
    """Bytes as they are read: ``212 B``, ``4.7 kB``, ``48 MB``."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            number = count / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{count} B"


def fill(text: str, fields: Mapping[str, object], language: str) -> str:
    """The text with its fields. Raises KeyError where it lacks one."""

    def place(match: re.Match[str]) -> str:
        value = fields[match[1]]
        if match[3] is not None:
            return match[3] if value == 1 or (isinstance(value, tuple) and len(value) == 1) else match[4]
        return f"\0{format(value, match[2]) if match[2] else _shown(value, language)}\0"

    def optional(match: re.Match[str]) -> str:
        empty = any(
            not fields.get(name[1]) and fields.get(name[1]) != 0 for name in _PLACE.finditer(match[1])
        )
        return "" if empty else match[1]

    return _SEAM.sub("", _PLACE.sub(place, _OPTIONAL.sub(optional, text)))


def _shown(value: object, language: str) -> str:
    match value:
        case Reason():
            return reason_text(value, language)
        case tuple():
            return ", ".join(str(one) for one in value) or "?"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
