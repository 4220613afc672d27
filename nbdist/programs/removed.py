"""Names that a newer version of a library has removed (``removed.toml``), with what to write today."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from nbdist.tables import read_table

_MISSING_NAMES = (
    re.compile(r"^ModuleNotFoundError: No module named '(?P<module>[\w.]+)'"),
    re.compile(r"^AttributeError: module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"^ImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'"),
)


def removed_name(error: str) -> dict[str, str] | None:
    """Return the row of the name that an error's ``Type: message`` misses, if the table has it: the ``name``,
    the ``package`` that had it, ``since`` which version it is gone, and what to write ``instead``."""
    for pattern in _MISSING_NAMES:
        if (missing := pattern.match(error)) is not None:
            name = ".".join(part for part in (missing["module"], missing.groupdict().get("name")) if part)
            for old, package, since, instead in rows():
                if is_within(name, old):
                    return {"name": old, "package": package, "since": since, "instead": instead}
    return None


def is_within(name: str, old: str) -> bool:
    """Return true for ``old`` itself and for what is inside it."""
    return name == old or name.startswith(f"{old}.")


@cache
def rows() -> list[tuple[str, str, str, str]]:
    """Return each row: the dotted name, as the program resolves to it; the distribution that it is gone from
    (or "python"), since which version, and what to write instead."""
    return [
        (name, package, since, instead)
        for package, versions in _table()["removed"].items()
        for since, names in versions.items()
        for name, instead in names.items()
    ]


def parts_of(module: str) -> dict[str, str]:
    """Return what to write for the parts of ``fluid`` or ``apex``."""
    parts: dict[str, str] = _table()[module]
    return parts


@cache
def _table() -> dict[str, Any]:
    return read_table(__file__, "removed")
