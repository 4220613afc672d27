"""VisualDL's record files: splitting them into records, and appending to them.

What a record looks like is decided in ``nbdist/worker/records.py``, since ranks write some, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def split(buffer: bytes) -> Iterator[tuple[bytes, int]]:
    """The messages of every whole frame, each with the offset behind it; a torn tail is left."""
    offset = 0
    while offset + 8 <= len(buffer):
        end = offset + 8 + int.from_bytes(buffer[offset : offset + 8], "little")
        if end > len(buffer):
            return
        yield buffer[offset + 8 : end], end
        offset = end


class RecordFile:
    """A record file that grows from nothing, for one writer.

    What goes wrong in the middle of a write (a full disk) leaves no trace: the next one begins
    where the last whole one ended. No handle stays open, so a deleted directory is simply an
    OSError at the next write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = 0
        self._write(b"", os.O_CREAT | os.O_TRUNC)

    def append(self, frames: bytes) -> None:
        self._write(frames)
        self.size += len(frames)

    def _write(self, data: bytes, flags: int = 0) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(handle, data[written:], self.size + written)
        finally:
            os.close(handle)
