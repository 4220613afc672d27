"""A rank's log: its bytes, its lines, when they were written, and the middle that a log lacks which has
become too long.

Another machine may write these files, on a file system that remembers what it has seen, as NFS does. It goes
on denying a name that it was asked for too early, and ``os.stat`` tells how a file was, both for up to a
minute. A list of a directory is as it is now, and so is what is opened and read.
"""

from __future__ import annotations

import codecs
import os
import struct
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

from nbdist.store.journal import KEEP_SIZE, PUNCH_HOLE, fallocate, open_plain
from nbdist.store.moving_rows import MOVES_UP, MovingRows, growing, overwritten

_STALE = 1.0  # seconds


def is_listed(path: Path) -> bool:
    """Whether a file is there; it is not asked for by its name.

    Its directory is there before a reader asks, or is one of a rank's later attempts.
    """
    if path.parent.name.startswith("attempt-") and not is_listed(path.parent):
        return False
    try:
        return path.name in os.listdir(path.parent)
    except OSError:
        return False


class FileStat:
    """How one file is, as often as one asks. ``clock`` in seconds."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._opened = -_STALE

    def look(self) -> os.stat_result:
        """As ``os.stat``, at most a second old. Raises OSError."""
        if (now := self._clock()) - self._opened >= _STALE:
            self._opened = now
            # a pipe would hold us, and a link lead elsewhere
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(self._path, flags)
            try:
                os.read(handle, 1)
            finally:
                os.close(handle)
        return os.stat(self._path)


_WIDTH = 128
"""Bytes of that line with the line ends around it, so that it can be written again as the gap grows."""

_SMALL, _PAGE, _LARGE = 1 << 26, 1 << 12, 1 << 20
"""Of a log that may have more than so many bytes the gap begins and ends with a block of any file system."""


class LogGap:
    """Keeps one log, which grows, within ``room`` bytes of disk: its first quarter, and its end.

    The middle becomes a hole in the file (lseek(2)), so that every offset stays true. A line that says what
    is missing ends where the hole begins: whatever reads the file finds it there, nbdist or not.
    """

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
            fallocate(handle, PUNCH_HOLE | KEEP_SIZE, self._end, end - self._end)
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


_BITE = 16 * 1024


class LogStream:
    """The bytes of one log, read forward from ``offset``. The file may not exist yet, or any more.

    What one ``read`` returns lies side by side, and ends at ``offset``; between two of them there may be a
    gap (``log_gap``)."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._stat = FileStat(path)
        self._seen = False

    @property
    def size(self) -> int:
        """Bytes in the log now."""
        if not self._is_there():
            return 0
        try:
            return self._stat.look().st_size
        except OSError:
            return 0

    def read(self, limit: int = 1 << 20) -> bytes:
        """The next bytes, at most ``limit``; empty when there are none yet."""
        if not self._is_there():
            return b""
        try:
            with open_plain(self.path) as file:
                data, self.offset = read_kept(file.fileno(), self.offset, limit)
        except OSError:
            return b""
        return data

    def _is_there(self) -> bool:
        self._seen = self._seen or is_listed(self.path)
        return self._seen

    def skip_to_tail(self, length: int) -> int:
        """Go on ``length`` bytes before the end, at a line's start; how many bytes were passed over."""
        before, size = self.offset, self.size
        if size - self.offset <= length:
            return 0
        self.offset = start = size - length
        while data := self.read(min(_BITE, size - self.offset)):
            if end := data.find(b"\n") + 1:
                found = self.offset - len(data) + end
                # not the newline that ends the log: a last line longer than the tail is shown by its end
                start = found if found < size else start
                break
        self.offset = start
        return self.offset - before


class LogLines:
    """Bytes in, lines out: split at newlines, UTF-8 that may arrive in halves, ``\\r`` as a terminal.

    A carriage return starts the line again, so a progress bar is one line that changes. What stands
    after the last newline is ``partial``: a line that may still grow. A line longer than ``width``
    characters is cut into several, so that no program can make one line eat the memory. Rows that a
    program draws again by moving the cursor up are lines once it leaves them.
    """

    def __init__(self, width: int = 16_384) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._width = width
        self._moving: MovingRows | None = None

    def feed(self, data: bytes) -> list[str]:
        """The lines that ``data`` completes."""
        text = self._rest + self._decoder.decode(data)
        if self._moving is not None or ("\x1b[" in text and MOVES_UP.search(text)):
            return self._move(text)
        if "\r" in text:
            # before a newline it changes nothing, and whole logs are written so
            text = text.replace("\r\n", "\n")
        lines = text.split("\n")
        rest = lines.pop()
        # what most logs need none of is asked once for all lines, not for each
        if "\r" in text:
            lines = [overwritten(line) for line in lines]
        if max(map(len, lines), default=0) > self._width:
            lines = [piece for line in lines for piece in self._pieces(line)]
        # a carriage return at the end takes effect only with what comes after it
        waiting = "\r" if rest.endswith("\r") else ""
        rest = growing(rest)
        cut: list[str] = []
        if len(rest) > self._width:
            *cut, rest = self._pieces(overwritten(rest))
        self._rest = rest + waiting
        return lines + cut

    @property
    def partial(self) -> str:
        """The line that is not complete yet, as a terminal would show it."""
        return overwritten(self._rest) if self._moving is None else self._moving.shown

    @property
    def moves(self) -> bool:
        """Whether the program draws rows above the last one anew: ``partial`` is all of them."""
        return self._moving is not None

    def _move(self, text: str) -> list[str]:
        self._moving = moving = self._moving or MovingRows()
        lines = moving.write(text)
        self._rest = ""
        if moving.is_over:
            self._rest, self._moving = moving.last(), None
        return [piece for line in lines for piece in self._pieces(line)]

    def close(self) -> list[str]:
        """The last line, when no newline ended it."""
        rest = self._decoder.decode(b"", final=True)
        if self._moving is not None:
            rows, self._moving = self._moving.write(rest) + self._moving.close(), None
            return rows
        line = overwritten(self._rest + rest)
        self._rest = ""
        return [line] if line else []

    def _pieces(self, line: str) -> list[str]:
        width = self._width
        return [line[at : at + width] for at in range(0, len(line), width)] or [""]


RECORD = struct.Struct("<dQ")
"""The index of a log, which the supervisor keeps beside it: the Unix time of a write, and the bytes that the
log held then. Sizes only grow. What is left over behind the last whole record is one that is being
written."""

_LATEST = 1e15


def last_lines(path: Path, room: int) -> list[str]:
    """The last lines of a log, of so many bytes; none where it cannot be read."""
    stream, lines = LogStream(path), LogLines()
    stream.skip_to_tail(room)
    return [*lines.feed(stream.read(room)), *lines.close()]


class LogTimes:
    """When the log reached which length. Answers from memory what it has read, and reads on where that does
    not reach.

    The index of a run that an older version made, or a full disk refused, is a file that is not there:
    nothing is known then.
    """

    def __init__(self, path: Path) -> None:
        self._file = LogStream(path)
        self._times = array("d")
        self._sizes = array("Q")

    def at(self, offset: int) -> float | None:
        """The Unix time by which the log held ``offset`` bytes; None when that is not known (yet)."""
        if not self._reaches(offset):
            self._read_on()
            if not self._reaches(offset):
                return None
        return self._times[bisect_left(self._sizes, offset)]

    def _reaches(self, offset: int) -> bool:
        return bool(self._sizes) and self._sizes[-1] >= offset

    def _read_on(self) -> None:
        while data := self._file.read():
            torn = len(data) % RECORD.size
            self._file.offset -= torn
            for moment, size in RECORD.iter_unpack(data[: len(data) - torn]):
                # the search below relies on it, whichever program wrote the file; and no time is NaN
                if (not self._sizes or size > self._sizes[-1]) and 0.0 <= moment < _LATEST:
                    self._times.append(moment)
                    self._sizes.append(size)
            if torn:
                return
