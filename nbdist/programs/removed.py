"""Names that a newer framework removed (``removed.toml``), with today's spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from nbdist.tables import read_table

APEX = "apex"
"""A library that torch has replaced; it may still be installed."""

_MISSING_NAMES = (
    re.compile(r"^ModuleNotFoundError: No module named '(?P<module>[\w.]+)'"),
    re.compile(r"^AttributeError: module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"^ImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A dotted name that ``package`` lacks ``since`` a version, and its replacement."""

    name: str
    package: str
    since: str
    instead: str


def removed_row(name: str) -> Removed | None:
    """Return the row of a dotted name, or of its longest removed part."""
    parts = name.split(".")
    candidates = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((_rows()[candidate] for candidate in candidates if candidate in _rows()), None)


def removed_name(error: str) -> dict[str, str] | None:
    """Return the values of the row for an error's missing name; None for no row."""
    for pattern in _MISSING_NAMES:
        if (missing := pattern.match(error)) is not None:
            name = ".".join(part for part in (missing["module"], missing.groupdict().get("name")) if part)
            row = removed_row(name)
            if row is not None and row.package != APEX:
                return {"name": row.name, "package": row.package, "since": row.since, "instead": row.instead}
    return None


@cache
def _rows() -> dict[str, Removed]:
    return {
        name: Removed(name=name, package=package, since=since, instead=instead)
        for package, versions in read_table(__file__, "removed").items()
        for since, names in versions.items()
        for name, instead in names.items()
    }
