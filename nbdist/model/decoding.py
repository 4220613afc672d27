"""JSON that may be anything by now: text in, and a value of the kind that a field asks for, or ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What comes of taking something for what it is not."""

_LARGEST = 1 << 63
_LATEST = 1e15  # seconds; no calendar knows a later time


def loads(text: str | bytes, *, exact: bool = False) -> Any:
    """As ``json.loads``, of which nothing but ValueError comes. Halves of characters, which can be neither
    printed nor written, become question marks; unless ``exact``, for in a path they stand for bytes."""
    try:
        value = json.loads(text)
        if not exact and _may_hold_halves(text):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _may_hold_halves(text: str | bytes) -> bool:
    if isinstance(text, bytes):
        return b"\\ud" in text or b"\\uD" in text
    return "\\ud" in text or "\\uD" in text


def as_int(given: Any) -> int:
    """A number that fits into 64 bits. Raises one of MALFORMED."""
    number = int(given)
    if not -_LARGEST <= number < _LARGEST:
        raise ValueError(f"too large: {given!r:.40}")
    return number


def as_time(given: Any) -> float:
    """Seconds. Raises one of MALFORMED."""
    number = float(given)
    if not -_LATEST < number < _LATEST:  # NaN is not
        raise ValueError(f"no time: {given!r:.40}")
    return number


def check_fields(value: Any) -> None:
    """Compare the fields of a dataclass with their annotations. Raises ValueError."""
    cls: Any = type(value)
    for name, fits in _checks(cls):
        if not fits(given := getattr(value, name)):
            raise ValueError(f"no {type(value).__name__}: {name} is {given!r:.40}")


@cache
def _checks(cls: Any) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    return tuple((field.name, _check(str(field.type))) for field in fields(cls))


def _check(annotation: str) -> Callable[[Any], bool]:
    if annotation.endswith(" | None"):
        inner = _check(annotation.removesuffix(" | None"))
        return lambda value: value is None or inner(value)
    if annotation.startswith("tuple["):
        each = _check(annotation.removeprefix("tuple[").removesuffix(", ...]"))
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    return _FITS.get(annotation, lambda _: True)


def _is_int(value: object) -> bool:
    return type(value) is int and -_LARGEST <= value < _LARGEST


def _is_float(value: object) -> bool:
    """JSON has one kind of number."""
    return type(value) in (int, float) and -_LATEST < value < _LATEST  # type: ignore[operator]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_environment(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value.values()))


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "float": _is_float,
    "str": _is_text,
    "bool": lambda value: isinstance(value, bool),
    "Mapping[str, str]": _is_environment,
}
