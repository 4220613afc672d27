"""Which calls a rank waits in: for other ranks, or for its device, on which it may wait for other ranks.

The supervisor's own, coarse look at a stack; ``diagnosis.places`` finds the words for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from nbdist.store.stacks import Call

_SEP = os.sep
_COLLECTIVES = (
    f"{_SEP}torch{_SEP}distributed{_SEP}",
    f"{_SEP}paddle{_SEP}distributed{_SEP}",
    f"{_SEP}torch{_SEP}nn{_SEP}parallel{_SEP}distributed.py",
)
_DEVICES = (f"{_SEP}torch{_SEP}cuda{_SEP}", f"{_SEP}paddle{_SEP}device{_SEP}")
_BACKWARD = re.compile("backward")
_SYNCHRONISES = re.compile(
    r"\.\s*(?:item|tolist|cpu|numpy|synchronize|wait|backward|barrier|all_?reduce|all_?gather|broadcast)\s*\("
    # a tensor that is asked for its truth, its number or its text is waited for
    r"|\b(?:float|int|bool|print|str|repr)\s*\("
    r"|^\s*(?:if|elif|while|assert)\b"
)
_LINE_ROOM = 1 << 16


def waits(calls: Sequence[Call]) -> bool:
    """Whether the innermost of these calls is one in which a rank may wait for others."""
    if not calls:
        return False
    inner = calls[0]
    if any(package in inner.file for package in (*_COLLECTIVES, *_DEVICES)):
        return True
    return bool(_BACKWARD.search(inner.function) or _SYNCHRONISES.search(_line(inner)))


def _line(call: Call) -> str:
    """The source of a line; empty where it cannot be read."""
    try:
        with open(call.file, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                if number == call.line:
                    return line[:_LINE_ROOM]
    except (OSError, ValueError):
        pass
    return ""
