"""Files of a rank, which only its user may read, and the lines that say why one is not written."""

from __future__ import annotations

import errno
import itertools
import os
import sys

_drafts = itertools.count(1)
_lines: set[str] = set()


def append(path: str, data: bytes) -> None:
    """Append in one write: the lines of threads, forks and signal handlers do not mix. Raises OSError."""
    _write(path, os.O_APPEND, data)


def put(path: str, data: bytes) -> None:
    """Write a file anew, in whose place a reader finds the one before until it is whole. Raises OSError."""
    draft = f"{path}.{os.getpid()}-{next(_drafts)}"
    try:
        _write(draft, os.O_TRUNC, data)
        os.replace(draft, path)
    except OSError:
        remove(draft)
        raise


def remove(path: str) -> None:
    """Remove a file that may be there."""
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
    """Tell the reader of the rank's log, each thing once."""
    if line not in _lines:
        _lines.add(line)
        print(f"nbdist: {line}", file=sys.stderr)
