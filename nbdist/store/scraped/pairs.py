"""The pairs of a name and a number in a line.

Words in front of a name that qualify it stay: ``Avg Loss`` is ``avg_loss``. Of ``0.5 (0.6)`` the first is
taken (in an evaluation the second, the mean), an array is its mean, ``9870/10000`` of an accuracy is 0.987, a
percentage stays as it is written, a number with a unit (``12ms``) is no metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdist.store.scraped.names import (
    QUALIFIERS,
    TAILS,
    is_companion,
    is_metric,
    may_be_listed,
    may_be_named,
    tag_of,
)
from nbdist.store.scraped.phases import PHASES, phase_of

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf)\b"
_VALUE = (
    r"(?:(?:np\.|numpy\.)?(?:tensor|array|float\d*|int\d*)\()?['\"]?"
    r"(?:(?P<deep>\[)?\[\s*(?P<many>[-+\d.e,\s]+?|[-+]?(?:nan|inf))\s*\](?(deep)\])"
    rf"|(?P<value>{_NUMBER}))(?:/(?P<of>\d+)\b)?"
    r"(?![\w:/*]|\.\d|-\d|,\d{3}\b|;\s*$|\s*[*+]\s*\w|\s*(?:[kmg]i?b|ms)\b)"
)
PAIR = re.compile(
    r"(?<![\w.\\/=-])(?<!::)(?P<name>@?[a-z][\w/-]*(?:@\d*\.?\d+)?)(?:\s?\(%\)|(?<=lr)\(\w+\))?"
    rf"(?P<by>\s*(?:=(?!=)|:|->|│)\s*|\s+(?:is|was)\s*:?\s*|\s+){_VALUE}",
)
ITEM = re.compile(rf"""['"](?P<name>[a-z][\w/@ .-]*)['"]\s*(?P<by>:)\s*{_VALUE}""")
_MEAN = re.compile(r"\s*\(\s*(-?\d+\.?\d*(?:e[-+]?\d+)?)\)")
_WORDS_BEFORE = re.compile(r"([a-z][\w-]*)\s+$")


def metrics_in(
    text: str, *, listed: bool, exact: bool = False, mean: bool = False
) -> Iterator[tuple[str, float]]:
    """The pairs of a name and a number, in which ``listed`` lets names in that are not known.

    ``exact``: a number behind nothing but a space needs a decimal point. ``mean``: of ``0.5 (0.6)`` the
    second is taken.
    """
    end, passed_on = 0, ""
    for found in PAIR.finditer(text):
        name, before, end = found["name"], text[end : found.start()], found.end()
        if not listed and not may_be_named(name):
            continue
        value = number(found)
        if mean and (average := _MEAN.match(text, end)) is not None:
            value = float(average[1])
        if value is None or (exact and found["by"].strip() in ("", "is", "was") and not _is_exact(found)):
            continue
        # only a word that a space parts from the name can belong to it
        name, qualified = _with_words_before(name, before) if before.rstrip()[-1:].isalpha() else (name, "")
        tag = tag_of(name)
        if is_metric(tag) or is_companion(tag):
            if qualified:
                passed_on = qualified
            elif passed_on and is_metric(tag) and not phase_of(tag):
                tag = f"{passed_on}_{tag}"
            yield tag, value
        elif listed and found["by"].strip() and may_be_listed(tag):
            yield tag, value


def _with_words_before(name: str, before: str) -> tuple[str, str]:
    """``name`` with the words in front of it that belong to it, and the phase among these."""
    phase = ""
    for _ in range(3):
        word = _WORDS_BEFORE.search(before)
        if word is None:
            break
        if word[1] not in QUALIFIERS and name not in TAILS:
            break
        if word[1] in PHASES or word[1] in ("train", "training"):
            phase = word[1]
        name, before = f"{word[1]}_{name}", before[: word.start()]
    return name, phase


def number(found: re.Match[str]) -> float | None:
    try:
        if found["many"] is not None:
            numbers = [float(word) for word in found["many"].replace(",", " ").split()]
            return sum(numbers) / len(numbers)
        value = float(found["value"].replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
    if found["of"] is None:
        return value
    return value / float(found["of"]) if "acc" in found["name"] and float(found["of"]) else None


def _is_exact(found: re.Match[str]) -> bool:
    return found["many"] is not None or found["of"] is not None or bool(re.search(r"[.a-z]", found["value"]))
