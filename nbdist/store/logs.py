"""A rank's log: its bytes, its lines as a terminal shows them, their times, and the gap in a long log.

Another machine may write these files, on a file system that caches, as NFS does: for up to a minute it denies
a name that was looked up too early, and ``os.stat`` is out of date. A directory's list and the bytes of an
opened file are current.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import struct
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from nbdist.store.journal import KEEP_SIZE, PUNCH_HOLE, fallocate, open_plain

_STALE = 1.0  # seconds


def is_listed(path: Path) -> bool:
    """Return whether a file is in the list of its directory, which exists or is a later attempt's."""
    if path.parent.name.startswith("attempt-") and not is_listed(path.parent):
        return False
    try:
        return path.name in os.listdir(path.parent)
    except OSError:
        return False


class FileStat:
    """Reads the status of one file as often as one asks. ``clock`` in seconds."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._opened = -_STALE

    def look(self) -> os.stat_result:
        """Return ``os.stat`` of the file, at most a second old. Raises OSError."""
        if (now := self._clock()) - self._opened >= _STALE:
            self._opened = now
            with open_plain(self._path) as file:
                os.read(file.fileno(), 1)
        return os.stat(self._path)


# bytes of the line in the gap, with its line ends, so that it can be rewritten as the gap grows
_WIDTH = 128
# the gap of a log of more than _SMALL bytes begins and ends at a multiple of any file system's block
_SMALL, _PAGE, _LARGE = 1 << 26, 1 << 12, 1 << 20


class LogGap:
    """A gap in a growing log, which limits the log to ``room`` bytes of disk: a quarter for its begin.

    The middle becomes a hole in the file (lseek(2)), so that every offset stays true. A line about the
    missing bytes ends where the hole begins, for any program that reads the file.
    """

    def __init__(self, path: str, room: int) -> None:
        self._path = path
        self._room = room = max(room, 16 * _PAGE)
        self._block = _PAGE if room < _SMALL else _LARGE
        self._begin = max(self._block, self._rounded(room // 4))
        self._end = self._begin

    def widen(self, size: int) -> None:
        """Widen the gap for a log of ``size`` bytes. Raises OSError where the file system has no gaps."""
        if size - self._end <= self._room * 3 // 4:
            return
        end = self._rounded(size - self._room // 2)
        handle = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            fallocate(handle, PUNCH_HOLE | KEEP_SIZE, self._end, end - self._end)
            missing = end - self._begin
            size_text = f"{missing / 1e9:,.1f} GB" if missing >= 1e9 else f"{missing / 1e6:,.1f} MB"
            text = f"[nbdist: {size_text} of output left out here: NBDIST_LOG_GB={self._room / 1e9:g}]"
            os.pwrite(handle, f"\n{text:{_WIDTH - 2}}\n".encode(), self._begin - _WIDTH)
        finally:
            os.close(handle)
        self._end = end

    def _rounded(self, offset: int) -> int:
        return offset // self._block * self._block


def read_kept(handle: int, offset: int, limit: int) -> tuple[bytes, int]:
    """Return at most ``limit`` adjacent bytes of a file from ``offset`` on, and their end. Pass over a gap; a
    reader within it receives the line about the missing bytes."""
    data = os.pread(handle, limit, offset)
    # a log rarely has a NUL elsewhere
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
    """Return the begin and the end of each part of a file between its gaps, in order."""
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
    """Return the offset of the next hole, or of the next byte in none; else the end of the file."""
    try:
        return os.lseek(handle, offset, whence)
    except OSError:
        return os.fstat(handle).st_size


_BITE = 16 * 1024


class LogStream:
    """The bytes of one log, which may not exist, read forward from ``offset``. The bytes of one ``read`` are
    adjacent, and end at ``offset``; between two reads there may be a gap."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._stat = FileStat(path)
        self._seen = False

    @property
    def size(self) -> int:
        """Return the current size in bytes."""
        if self._exists():
            with contextlib.suppress(OSError):
                return self._stat.look().st_size
        return 0

    def read(self, limit: int = 1 << 20) -> bytes:
        """Return the next bytes, at most ``limit``; empty when there are none yet."""
        if self._exists():
            with contextlib.suppress(OSError), open_plain(self.path) as file:
                data, self.offset = read_kept(file.fileno(), self.offset, limit)
                return data
        return b""

    def _exists(self) -> bool:
        self._seen = self._seen or is_listed(self.path)
        return self._seen

    def skip_to_tail(self, length: int) -> int:
        """Skip to ``length`` bytes before the end, at a line's start; return the number of skipped bytes."""
        before, size = self.offset, self.size
        if size - self.offset <= length:
            return 0
        self.offset = start = size - length
        while data := self.read(min(_BITE, size - self.offset)):
            if end := data.find(b"\n") + 1:
                line = self.offset - len(data) + end
                # not the newline that ends the log: of a last line longer than the tail the end counts
                start = line if line < size else start
                break
        self.offset = start
        return self.offset - before


class LogLines:
    """Lines decoded from bytes, with UTF-8 that may arrive in halves, as a terminal shows them.

    A carriage return starts the line again, and what is behind a cursor that has moved left is written over:
    a progress bar is one line that changes. The text after the last newline is ``partial``: a line that may
    still grow. To bound the memory, a line longer than ``width`` characters is cut. Rows that a program
    redraws by moving the cursor up become lines once it leaves them.
    """

    def __init__(self, width: int = 16_384) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._width = width
        self._moving: _MovingRows | None = None

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that ``data`` completes."""
        text = self._rest + self._decoder.decode(data)
        if self._moving is not None or ("\x1b[" in text and _MOVES_UP.search(text)):
            return self._move(text)
        # before a newline it changes nothing, and some logs have one in each line
        text = text.replace("\r\n", "\n")
        lines = text.split("\n")
        rest = lines.pop()
        # most logs need neither: check all lines at once
        if moves_within(text):
            lines = [_overwritten(line) for line in lines]
        if max(map(len, lines), default=0) > self._width:
            lines = [piece for line in lines for piece in self._pieces(line)]
        self._rest = rest = _growing(rest)
        cut: list[str] = []
        if len(rest) > self._width:
            *cut, self._rest = self._pieces(_overwritten(rest))
            self._rest += "\r" * rest.endswith("\r")
        return lines + cut

    @property
    def partial(self) -> str:
        """Return the line that is not complete yet, as a terminal would show it."""
        return _overwritten(self._rest) if self._moving is None else self._moving.shown

    @property
    def moves(self) -> bool:
        """Return whether the program redraws rows above the last one: ``partial`` is all of them."""
        return self._moving is not None

    def _move(self, text: str) -> list[str]:
        self._moving = moving = self._moving or _MovingRows()
        lines = moving.write(text)
        self._rest = ""
        if moving.is_over:
            self._rest, self._moving = moving.last(), None
        return [piece for line in lines for piece in self._pieces(line)]

    def close(self) -> list[str]:
        """Return the last line, when no newline ended it."""
        rest = self._decoder.decode(b"", final=True)
        if self._moving is not None:
            rows, self._moving = self._moving.write(rest) + self._moving.close(), None
            return rows
        line = _overwritten(self._rest + rest)
        self._rest = ""
        return [line] if line else []

    def _pieces(self, line: str) -> list[str]:
        width = self._width
        return [line[at : at + width] for at in range(0, len(line), width)] or [""]


# Rows that a program redraws by moving the cursor up, as nested bars and rich's displays do. Overdrawn text
# was never a line; text that the program leaves is. Such a block begins where the cursor moves up, or is
# hidden, as before an animation.

_MOVES_UP = re.compile(r"\x1b\[(?:\d*[AF]|\?25l)")
_MOVE = re.compile(r"\n|\x1b\[(?:(?P<count>\d*)(?P<kind>[ABEFJK])|\?25(?P<cursor>[hl]))")
_UNFINISHED = re.compile(r"\x1b(?:\[[\d?]*)?\Z")
_MOST = 64  # rows of a block
_FIRST = 25  # rows of a block whose height is not known yet: rich draws no more where there is no terminal
_MOVES_UP_BYTES = re.compile(_MOVES_UP.pattern.encode())


def moves_up(data: bytes) -> bool:
    """Return whether ``data`` moves the cursor up."""
    return b"\x1b[" in data and _MOVES_UP_BYTES.search(data) is not None


class _MovingRows:
    """A block of rows at the end of a log, and the cursor in it. ``None`` is a row with nothing on it."""

    def __init__(self) -> None:
        self._rows: list[str | None] = [None]
        self._at = 0
        self._height = 0  # how far the cursor went up
        self._grown = 0  # rows since it did
        self._hidden = False
        self._unread = ""

    def write(self, text: str) -> list[str]:
        """Return the lines that ``text`` leaves behind."""
        text = self._unread + text
        unfinished = _UNFINISHED.search(text)
        self._unread = unfinished[0] if unfinished else ""
        text = text[: len(text) - len(self._unread)]
        lines, end = [], 0
        for move in _MOVE.finditer(text):
            self._put(text[end : move.start()])
            end = move.end()
            self._move(move)
            if len(self._rows) > _MOST:
                lines += self._settled()
            if len(self._rows) > _MOST:
                lines += self.close()
        self._put(text[end:])
        return lines + self._settled()

    @property
    def is_over(self) -> bool:
        """Return whether the program prints lines again."""
        return not self._height and not self._hidden and len(self._rows) == 1

    @property
    def shown(self) -> str:
        """Return the rows as a terminal would show them."""
        return "\n".join(_shown(self._rows))

    def close(self) -> list[str]:
        """Return the rows that are left, and reset the block."""
        rows, self._rows, self._at, self._height, self._hidden = self._rows, [None], 0, 0, False
        return list(_shown(rows))

    def last(self) -> str:
        """Return the text behind the last newline, when it is over."""
        return (self._rows[0] or "") + self._unread

    def _put(self, text: str) -> None:
        if text:
            before = self._rows[self._at] or ""
            row = _growing(before + text)
            # programs erase bars with spaces
            erased = not row.strip("\r") or "\r" in row[:-1] or (row.isspace() and before.endswith(" \r"))
            self._rows[self._at] = None if erased else row

    def _move(self, move: re.Match[str]) -> None:
        if move["cursor"]:
            self._hidden = move["cursor"] == "l"
            self._height = 0
            return
        count = min(int(move["count"] or 1), _MOST)
        match move["kind"]:
            case None:
                self._down()
            case "E":
                for _ in range(count):
                    self._down()
            case "A" | "F":
                missing = max(0, count - self._at)
                self._rows[:0] = [None] * missing
                self._go(self._at + missing - count)
                # rich moves up one row at a time
                self._height, self._grown = max(self._height, len(self._rows) - 1 - self._at), 0
            case "B":
                self._go(min(self._at + count, len(self._rows) - 1))
            case _:
                self._erase(move["kind"], int(move["count"] or 0))

    def _down(self) -> None:
        if self._at + 1 == len(self._rows):
            self._rows.append(None)
            self._at += 1
            self._grown += 1
        else:
            self._go(self._at + 1)

    def _go(self, at: int) -> None:
        self._at = at
        row = self._rows[at]
        # programs redraw a row from its start
        if row and not row.endswith("\r"):
            self._rows[at] = row + "\r"

    def _erase(self, kind: str, mode: int) -> None:
        if kind == "J" and mode == 0:
            del self._rows[self._at + 1 :]
        row = self._rows[self._at] or ""
        if mode == 2 or (mode == 0 and row.endswith("\r")):
            self._rows[self._at] = None

    def _settled(self) -> list[str]:
        """Return the rows above to which the cursor will not return."""
        if not self._hidden and self._grown >= self._height:
            self._height = 0
        kept = self._height + 1 if self._height else 0
        if self._hidden and not self._height:
            kept = _FIRST
        above = max(0, self._at - kept)
        rows, self._rows = self._rows[:above], self._rows[above:]
        self._at -= above
        return list(_shown(rows))


# moves within a row: bars go back by backspaces, by columns, or to a column
_MOVES = re.compile(r"(?:\x08|\x1b\[\d{0,5}[CDG])+")
_MOVE_WITHIN = re.compile(r"(?:\x1b\[(\d{0,5}))?(\x08+|[CDG])")
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # takes no column
_ROW = 512  # columns; of a longer row nothing stays


def moves_within(text: str) -> bool:
    """Return whether ``text`` moves the cursor within a row."""
    return "\r" in text or "\b" in text or ("\x1b[" in text and _MOVES.search(text) is not None)


def row_states(text: str) -> Iterator[tuple[str, int]]:
    """Yield what a terminal shows of a row, at each move to its left and at last, with the characters of
    ``text`` up to there. At its end only moves to the start take effect, since more may come."""
    row, end = "", 0
    for run in _MOVES.finditer(text) if "\b" in text or "\x1b[" in text else ():
        row += text[end : run.start()]
        end = run.end()
        shown = _SEQUENCE.sub("", row) if "\x1b" in row else row
        column = len(shown)
        for count, kind in _MOVE_WITHIN.findall(run[0]):
            number = int(count or 1) or 1
            back = len(kind) if kind[0] == "\b" else number if kind == "D" else -number
            column = number - 1 if kind == "G" else max(0, column - back)
        if (column and end == len(text)) or _UNFINISHED.match(text, end):
            row += run[0]
        elif column and column >= len(shown):
            row += " " * (min(column, _ROW) - len(shown))
        else:
            yield row, run.start()
            # what was behind the cursor is written over
            row = shown[:column] if column < _ROW else ""
    yield row + text[end:], len(text)


def _overwritten(line: str) -> str:
    """Return ``line`` as a terminal shows it: its last state with text. A bar that was erased with spaces
    stays: often it is the only trace of the work."""
    return _MOVES.sub("", _growing(line).partition("\r")[0])


def _growing(line: str) -> str:
    """Return the part of a ``line`` to keep while it may grow: its shown text, the spaces over it, and a
    carriage return if the cursor is at its start."""
    if not moves_within(line):
        return line
    shown = last = ""
    at_start = line.endswith("\r")
    for part in filter(None, reversed(line.split("\r"))):
        blank = state = ""
        for state, _ in row_states(part):
            text = _UNFINISHED.sub("", _MOVES.sub("", state))
            shown, blank = (state, "") if text.strip() else (shown, state or blank)
        at_start |= not last and not state
        last = last or blank or shown
        if shown:
            break
    return (f"{shown}\r" if shown not in ("", last) else "") + last + "\r" * at_start


def _shown(rows: list[str | None]) -> Iterator[str]:
    return (_overwritten(row) for row in rows if row is not None)


def last_lines(path: Path, room: int) -> list[str]:
    """Return the lines in the last ``room`` bytes of a log; none where it cannot be read."""
    stream, lines = LogStream(path), LogLines()
    stream.skip_to_tail(room)
    return [*lines.feed(stream.read(room)), *lines.close()]


# The index of a log, which the supervisor writes beside it: the Unix time of a write, and the size of the log
# then. Sizes only grow. Behind the last whole record is one that is being written.
RECORD = struct.Struct("<dQ")
_LATEST = 1e15


class LogTimes:
    """The times at which a log reached its lengths; none where an old version or a full disk has no index."""

    def __init__(self, path: Path) -> None:
        self._file = LogStream(path)
        self._times = array("d")
        self._sizes = array("Q")

    def at(self, offset: int) -> float | None:
        """Return the Unix time by which the log held ``offset`` bytes; None when not known (yet)."""
        if not self._reaches(offset):
            self._read_on()
            if not self._reaches(offset):
                return None
        return self._times[bisect_left(self._sizes, offset)]

    def between(self, begin: int, end: int) -> Iterator[tuple[int, float]]:
        """Yield the known lengths beyond ``begin``, to the first that reaches ``end``, with their times."""
        if not self._reaches(end):
            self._read_on()
        for at in range(bisect_right(self._sizes, begin), bisect_left(self._sizes, end) + 1):
            if at < len(self._sizes):
                yield self._sizes[at], self._times[at]

    def _reaches(self, offset: int) -> bool:
        return bool(self._sizes) and self._sizes[-1] >= offset

    def _read_on(self) -> None:
        while data := self._file.read():
            torn = len(data) % RECORD.size
            self._file.offset -= torn
            for moment, size in RECORD.iter_unpack(data[: len(data) - torn]):
                # the search relies on the order, whichever program wrote the file; and no time is NaN
                if (not self._sizes or size > self._sizes[-1]) and 0.0 <= moment < _LATEST:
                    self._times.append(moment)
                    self._sizes.append(size)
            if torn:
                return
