"""ANSI escape sequences in what ranks write."""

from __future__ import annotations

import re

# CSI sequences (colours, cursor), OSC sequences (titles, links), and the two-character escapes
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def strip_ansi(text: str) -> str:
    """``text`` without escape sequences."""
    return _SEQUENCE.sub("", text)
