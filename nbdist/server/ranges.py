"""Byte ranges of HTTP (RFC 9110, section 14). Pure."""

from __future__ import annotations

import re

MOST = 16
_UNIT = re.compile(r"\s*bytes\s*=(.*)", re.IGNORECASE | re.DOTALL)
_SPEC = re.compile(r"([0-9]{0,18})-([0-9]{0,18})")


class Unsatisfiable(Exception):
    """None of the ranges lies within the content, or they are too many."""


def read_ranges(header: str | None, size: int) -> list[tuple[int, int]] | None:
    """First byte and end (behind the last) of each range; None for the whole, which is also the answer to
    what cannot be understood. Raises Unsatisfiable."""
    unit = _UNIT.fullmatch(header or "")
    if unit is None:
        return None
    specs = [_SPEC.fullmatch(spec.strip()) for spec in unit[1].split(",") if spec.strip()]
    if not specs or any(spec is None or not (spec[1] or spec[2]) for spec in specs):
        return None
    if any(spec[1] and spec[2] and int(spec[2]) < int(spec[1]) for spec in specs if spec is not None):
        return None
    if len(specs) > MOST:
        raise Unsatisfiable
    found = [_resolved(spec[1], spec[2], size) for spec in specs if spec is not None]
    within = [(low, high) for low, high in found if low < high]
    if not within:
        raise Unsatisfiable
    return within


def _resolved(first: str, last: str, size: int) -> tuple[int, int]:
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size
