"""The middle of a log that is left out because the log has become too long: a hole in the file (lseek(2)).

What comes before and behind stays where it is, so that every offset stays true. A line that says what is
missing ends where the hole begins: whatever reads the file finds it there, nbdist or not.
"""

from __future__ import annotations

import os
import sys

_WIDTH = 128
"""Bytes of that line with the line ends around it, so that it can be written again as the gap grows."""

_SMALL, _PAGE, _LARGE = 1 << 26, 1 << 12, 1 << 20
"""Of a log that may have more than so many bytes the gap begins and ends with a block of any file system."""

_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2  # fallocate(2)


class LogGap:
    """Keeps one log, which grows, within ``room`` bytes of disk: its first quarter, and its end."""

    def __init__(self, path: str, room: int) -> None:
        self._path = path
        self._room = room = max(room, 16 * _PAGE)
        self._block = _PAGE if room < _SMALL else _LARGE
        self._begin = max(self._block, self._rounded(room // 4))
        self._end = self._begin

    def widen(self, size: int) -> None:
        """Leave out what is too much, now that the log has ``size`` bytes. Raises OSError where the system or
        the file system cannot do that, or the log has gone."""
        if size - self._end <= self._room * 3 // 4:
            return
        end = self._rounded(size - self._room // 2)
        handle = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _punch(handle, self._end, end - self._end)
            os.pwrite(handle, self._notice(end - self._begin), self._begin - _WIDTH)
        finally:
            os.close(handle)
        self._end = end

    def _rounded(self, offset: int) -> int:
        return offset // self._block * self._block

    def _notice(self, missing: int) -> bytes:
        gigabytes = f"{missing / 1e9:,.1f} GB" if missing >= 1e9 else f"{missing / 1e6:,.1f} MB"
        text = f"[nbdist: {gigabytes} of output left out here: NBDIST_LOG_GB={self._room / 1e9:g}]"
        return f"\n{text:{_WIDTH - 2}}\n".encode()


def read_kept(handle: int, offset: int, limit: int) -> tuple[bytes, int]:
    """What a file has from ``offset`` on, at most ``limit`` bytes that lie side by side, and where they end.

    A gap is passed over: a reader that stands within it gets the line that says what is missing.
    """
    data = os.pread(handle, limit, offset)
    # no log has one elsewhere, as a rule
    if b"\0" not in data or not hasattr(os, "SEEK_HOLE"):
        return data, offset + len(data)
    begin = _seek(handle, offset, os.SEEK_HOLE)
    ahead = data[begin - offset :]
    if not ahead or ahead[:_PAGE].strip(b"\0"):
        return data, offset + len(data)
    if begin > offset:
        return data[: begin - offset], begin
    end = _seek(handle, offset, os.SEEK_DATA)
    if offset and os.pread(handle, 1, offset - 1) == b"\0":
        return os.pread(handle, _WIDTH, _seek(handle, 0, os.SEEK_HOLE) - _WIDTH), end
    data = os.pread(handle, limit, end)
    return data, end + len(data)


def kept_parts(handle: int) -> list[tuple[int, int]]:
    """Where the bytes lie that a file has: begin and end of each part, in their order."""
    status = os.fstat(handle)
    if status.st_blocks * 512 >= status.st_size or not hasattr(os, "SEEK_HOLE"):
        return [(0, status.st_size)]
    parts, at = [], 0
    while at < status.st_size:
        begin = _seek(handle, at, os.SEEK_DATA)
        at = min(status.st_size, _seek(handle, begin, os.SEEK_HOLE))
        if begin < at:
            parts.append((begin, at))
    return parts or [(0, 0)]


def _seek(handle: int, offset: int, whence: int) -> int:
    """The next hole, or the next byte that is in none; the end of the file where there is none."""
    try:
        return os.lseek(handle, offset, whence)
    except OSError:
        return os.fstat(handle).st_size


def _punch(handle: int, offset: int, length: int) -> None:
    if sys.platform != "linux":
        raise OSError(0, "this system has no holes in files")
    import ctypes  # only a log that is too long needs it, and readers import this module, too

    libc = ctypes.CDLL(None, use_errno=True)
    mode = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
    if libc.fallocate(handle, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
