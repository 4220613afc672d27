"""The error report of a rank: the exception that left its program, as the worker wrote it down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFrame:
    """One frame of a traceback, outermost first; ``line`` counts from 1."""

    file: str
    line: int
    function: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """``type`` is the exception's class (with its module unless built in), ``text`` the traceback."""

    type: str
    message: str
    frames: tuple[ErrorFrame, ...]
    text: str
    time: float


def read_error(path: Path) -> ErrorReport | None:
    """The report at ``path``; None where there is none or it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        return ErrorReport(
            type=str(data["type"]),
            message=str(data["message"]),
            frames=tuple(
                ErrorFrame(
                    file=str(file),
                    line=int(line),
                    function=str(function),
                    source=str(source),
                )
                for file, line, function, source in data["frames"]
            ),
            text=str(data["text"]),
            time=float(data["time"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
