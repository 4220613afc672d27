"""Writes the exception that left the program to error.json, before the interpreter tears down.

Printing and exiting take a framework a second or two; whoever waits for the cause need not.
"""

from __future__ import annotations

import json
import os
import time
from types import TracebackType


def write(path: str, error: BaseException, trace: TracebackType | None) -> None:
    """Write the report whole or not at all. A report that cannot be written costs only itself."""
    import traceback

    summary = traceback.TracebackException(type(error), error, trace)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    report = {
        "type": name,
        "message": _message(error),
        "frames": [[f.filename, f.lineno or 0, f.name, f.line or ""] for f in summary.stack],
        "text": "".join(summary.format()),
        "time": time.time(),
    }
    draft = f"{path}.{os.getpid()}"
    try:
        with open(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            "w",
            errors="replace",
        ) as file:
            json.dump(report, file)
        os.replace(draft, path)
    except OSError:
        # no disk: the traceback still goes to the log
        return


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001
        # an exception whose own __str__ fails is still the one to report
        return f"<unprintable: {type(broken).__name__}>"
