"""Tables of texts and numbers, written as TOML files beside the modules that use them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = import_module("tomli")  # the same, before the standard library had it


def read_table(beside: str, name: str) -> dict[str, Any]:
    """Return the table ``NAME.toml`` from the folder of the file ``beside``."""
    table: dict[str, Any] = tomllib.loads(Path(beside).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    return table
