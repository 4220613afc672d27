"""A rank's log: its bytes from an offset, and those bytes as lines."""

from __future__ import annotations

import codecs
from pathlib import Path

from nbdist.store.json_files import open_plain
from nbdist.store.log_gap import read_kept
from nbdist.store.moving_rows import MOVES_UP, MovingRows, growing, overwritten
from nbdist.store.shared_files import FileStat, is_listed

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
