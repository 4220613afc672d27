"""JSON of any content: text in, and a value of the kind that a field asks for, or ValueError. Every reader
of a socket or a file decodes here, and catches MALFORMED around its use of the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from nbdist.model.reason import Reason

T = TypeVar("T")

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""The errors of a value of the wrong kind."""

_LARGEST = 1 << 63
_LATEST = 1e15  # seconds; no calendar knows a later time


def loads(text: str | bytes, *, exact: bool = False) -> Any:
    """Parse as ``json.loads``, and raise nothing but ValueError. Halves of surrogate pairs, which cannot
    be printed or written, become question marks; unless ``exact``, for in a path they stand for bytes."""
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
    """Return a number of 64 bits. Raises one of MALFORMED."""
    number = int(given)  # OverflowError for an infinity
    if not -_LARGEST <= number < _LARGEST:
        raise ValueError(f"too large: {given!r:.40}")
    return number


def as_time(given: Any) -> float:
    """Return seconds. Raises one of MALFORMED."""
    number = float(given)
    if not -_LATEST < number < _LATEST:  # NaN is not
        raise ValueError(f"no time: {given!r:.40}")
    return number


def build(cls: type[T], data: object) -> T:
    """Build this dataclass from an object, or from a list in the order of its fields. Unknown fields,
    perhaps of a newer nbdist, are dropped. Raises one of MALFORMED."""
    converters = _converters(cls)  # type: ignore[arg-type]  # every class is hashable
    if isinstance(data, (list, tuple)):
        data = dict(zip(converters, data, strict=True))
    if not isinstance(data, Mapping):
        raise TypeError(f"no {cls.__name__}: {data!r:.80}")
    values = {}
    for name, converter in converters.items():
        if name in data:
            try:
                values[name] = converter(data[name])
            except _Unfit:
                raise ValueError(f"no {cls.__name__}: {name} is {data[name]!r:.40}") from None
    return cls(**values)


class _Unfit(ValueError):
    pass


@cache
def _converters(cls: Any) -> dict[str, Callable[[Any], Any]]:
    hints = get_type_hints(cls)
    return {field.name: _converter(hints[field.name]) for field in fields(cls)}


def _converter(kind: Any) -> Callable[[Any], Any]:
    if kind in _PLAIN:
        return partial(_plain, _PLAIN[kind])
    if kind is Reason:
        return Reason.recorded
    if is_dataclass(kind) and isinstance(kind, type):
        return partial(build, kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        return partial(_tuple, [_converter(each) for each in inner if each is not ...], many=... in inner)
    if get_origin(kind) is Mapping:
        convert = _converter(inner[1])
        return lambda value: {str(key): convert(item) for key, item in value.items()}
    assert NoneType in inner, f"a kind of field that no record has: {kind}"
    some = _converter(inner[0])
    return lambda value: None if value is None else some(value)


def _plain(fits: Callable[[Any], bool], value: Any) -> Any:
    if not fits(value):
        raise _Unfit
    return value


def _tuple(each: list[Callable[[Any], Any]], value: Any, *, many: bool) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"no list: {value!r:.40}")
    if many:
        return tuple(map(each[0], value))
    return tuple(convert(item) for convert, item in zip(each, value, strict=True))


_PLAIN: Mapping[type, Callable[[Any], bool]] = {
    int: lambda value: type(value) is int and -_LARGEST <= value < _LARGEST,
    # JSON has one kind of number
    float: lambda value: type(value) in (int, float) and -_LATEST < value < _LATEST,
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
}
