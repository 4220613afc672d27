"""Messages for the user, in English and Chinese, by code. The processes of a run send codes and never import
this package.

A catalogue is a file beside this one: ``[code]`` with ``en`` and ``zh``. A message has ``{field}``,
``{field:.1f}``, and ``{field|one|more}``: a text for the number 1 (or a tuple of one), another for the rest.
``[[…]]`` disappears if a field in it is missing or empty.
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
# A space separates Chinese from letters and digits, never from Chinese: "{who} 在等待" with "其他进程".
_SEAM = re.compile("(?<=[\u4e00-\u9fff])(?:\0 | \0)(?=[\u4e00-\u9fff])|\0")


class Both(NamedTuple):
    """Text in both languages."""

    en: str
    zh: str

    def text(self, language: str) -> str:
        return self[language == "zh"]


def say(key: str, language: str, /, **fields: object) -> str:
    """Return the message ``file.code`` in "en" or "zh". Raises KeyError for an unknown code or field."""
    name, _, code = key.partition(".")
    return fill(messages(name)[code].text(language), fields, language)


def both(key: str, /, **fields: object) -> Both:
    """Return a message in both languages; a field may be a text in both."""
    return Both(*(say(key, language, **in_language(fields, language)) for language in ("en", "zh")))


def in_language(fields: Mapping[str, object], language: str) -> dict[str, object]:
    """Return the fields of a message, in one language."""
    return {key: value.text(language) if isinstance(value, Both) else value for key, value in fields.items()}


def reason_text(reason: Reason, language: str = "en") -> str:
    """Return a reason in words; empty for none, and the code itself if only another nbdist knows it."""
    if not reason:
        return ""
    try:
        return say(f"reasons.{reason.code}", language, **reason.fields)
    except (KeyError, TypeError, ValueError):
        known = ", ".join(f"{name}={_shown(value, language)}" for name, value in reason.fields.items())
        return f"{reason.code} ({known})" if known else reason.code


@cache
def messages(name: str) -> Mapping[str, Both]:
    """Return the catalogue of a file beside this one."""
    return {code: Both(**texts) for code, texts in read_table(__file__, name).items()}


def size_text(count: float) -> str:
    """Return bytes in words: ``212 B``, ``4.7 kB``, ``48 MB``."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            number = count / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{count} B"


def fill(text: str, fields: Mapping[str, object], language: str) -> str:
    """Fill the fields into the text. Raises KeyError for a missing one."""

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
            return ", ".join(map(str, value)) or "?"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
