"""Writing of a rank's files, which only its user may read, and of its warnings."""

from __future__ import annotations

import errno
import itertools
import os
import sys

_drafts = itertools.count(1)
_lines: set[str] = set()


def append(path: str, data: bytes) -> None:
    """Append in one write, so that lines of threads, forks and signal handlers do not mix. Raises OSError."""
    _write(path, os.O_APPEND, data)


def put(path: str, data: bytes) -> None:
    """Replace a file; a reader finds the old one until the new one is whole. Raises OSError."""
    draft = f"{path}.{os.getpid()}-{next(_drafts)}"
    try:
        _write(draft, os.O_TRUNC, data)
        os.replace(draft, path)
    except OSError:
        remove(draft)
        raise


def remove(path: str) -> None:
    """Remove a file that may exist."""
    try:
        os.unlink(path)
    except OSError:
        return


def _write(path: str, flags: int, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    try:
        if os.write(handle, data) < len(data):
            raise OSError(errno.ENOSPC, "no space left")
    finally:
        os.close(handle)


def say_once(line: str) -> None:
    """Print a line to the rank's log, each line once."""
    if line not in _lines:
        _lines.add(line)
        print(f"nbdist: {line}", file=sys.stderr)
