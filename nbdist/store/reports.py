"""The error report of a rank: the exception that left its program, as the worker wrote it down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nbdist.model.decoding import MALFORMED, as_int, as_time
from nbdist.store.json_files import load_object


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFrame:
    """One frame of a traceback, outermost first; ``line`` counts from 1."""

    file: str
    line: int
    function: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """``type`` is the exception's class (with its module unless built in), ``text`` the traceback. ``full``
    are the disks that were full then, ``workers`` pid and exit code of DataLoader workers that had failed."""

    type: str
    message: str
    frames: tuple[ErrorFrame, ...]
    text: str
    time: float
    full: tuple[str, ...] = ()
    workers: tuple[tuple[int, int], ...] = ()


def read_error(path: Path) -> ErrorReport | None:
    """The report at ``path``; None where there is none or it cannot be read."""
    try:
        data = load_object(path)
        return ErrorReport(
            type=str(data["type"]),
            message=str(data["message"]),
            frames=tuple(
                ErrorFrame(
                    file=str(file),
                    line=as_int(line),
                    function=str(function),
                    source=str(source),
                )
                for file, line, function, source in data["frames"]
            ),
            text=str(data["text"]),
            time=as_time(data["time"]),
            full=tuple(map(str, data.get("full", ()))),
            workers=tuple((as_int(pid), as_int(code)) for pid, code in data.get("workers", ())),
        )
    except (OSError, *MALFORMED):
        return None
