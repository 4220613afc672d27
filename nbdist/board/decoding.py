"""VisualDL's records, decoded as far as a page of our own shows them; ``worker.records`` has the format.

Without VisualDL and protobuf, which take a second to import. What is damaged is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from nbdist.board.records import split

Field = tuple[int, int | bytes]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # protobuf's wire types


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One value. ``data`` is a PNG (or another picture), a WAV, or a text in UTF-8; ``rows`` are counts and
    edges of a histogram, precision and recall, or true and false positive rate."""

    kind: str
    tag: str
    step: int
    data: bytes = b""
    rows: tuple[tuple[float, ...], ...] = ()


def shown_values(content: bytes) -> Iterator[Shown]:
    """The values in a record file, without scalars and names."""
    for message, _ in split(content):
        try:
            for number, value in fields(message):
                if number == 1 and isinstance(value, bytes) and (shown := _shown(value)) is not None:
                    yield shown
        except (ValueError, IndexError, struct.error, UnicodeDecodeError):
            continue


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a protobuf message: numbers, and bytes of whatever length. Raises ValueError."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(message):
            raise ValueError("a field beyond the end")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number beyond 64 bits")


# where in a Value they stand, what they are, and which of their own fields are asked for
_BLOBS = {5: ("image", 4), 6: ("audio", 4), 12: ("text", 1)}
_ROWS = {8: ("histogram", 1, 2), 9: ("pr_curve", 5, 6), 11: ("roc_curve", 5, 6)}


def _shown(message: bytes) -> Shown | None:
    said = dict(fields(message))
    step, tag = said.get(1, 0), said.get(2, b"")
    if not isinstance(step, int) or not isinstance(tag, bytes):
        return None
    name, step = tag.decode("utf-8", "replace"), step - (1 << 64) if step >> 63 else step
    for number, inner in said.items():
        if isinstance(inner, bytes) and number in _BLOBS:
            kind, place = _BLOBS[number]
            data = dict(fields(inner)).get(place, b"")
            return Shown(kind=kind, tag=name, step=step, data=data if isinstance(data, bytes) else b"")
        if isinstance(inner, bytes) and number in _ROWS:
            kind, *places = _ROWS[number]
            rows = tuple(_doubles(inner, place) for place in places)
            return Shown(kind=kind, tag=name, step=step, rows=rows)
    return None


def _doubles(message: bytes, place: int) -> tuple[float, ...]:
    """A repeated double, packed or one by one."""
    found = (value for number, value in fields(message) if number == place and isinstance(value, bytes))
    return tuple(one for value in found for (one,) in struct.iter_unpack("<d", value))
