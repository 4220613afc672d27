"""The rows that a program draws again by moving the cursor up, as nested bars and rich's displays do. What is
drawn over was never a line; what the program leaves behind is."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOVES_UP = re.compile(r"\x1b\[(?:\d*[AF]|\?25l)")
"""What begins a block of such rows: the cursor goes up, or is hidden, as before an animation."""

_MOVE = re.compile(r"\n|\x1b\[(?:(?P<count>\d*)(?P<kind>[ABEFJK])|\?25(?P<cursor>[hl]))")
_UNFINISHED = re.compile(r"\x1b(?:\[[\d?]*)?\Z")
_MOST = 64  # rows of a block
_FIRST = 8  # rows of a block whose height is not known yet


_MOVES_UP_BYTES = re.compile(MOVES_UP.pattern.encode())


def moves_up(data: bytes) -> bool:
    """Whether rows move in ``data``."""
    return b"\x1b[" in data and _MOVES_UP_BYTES.search(data) is not None


class MovingRows:
    """A block of rows at the end of a log, and the cursor in it. ``None`` is a row with nothing on it."""

    def __init__(self) -> None:
        self._rows: list[str | None] = [None]
        self._at = 0
        self._height = 0  # how far the cursor went up
        self._grown = 0  # rows since it did
        self._hidden = False
        self._unread = ""

    def write(self, text: str) -> list[str]:
        """The lines that ``text`` leaves behind."""
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
        """Whether the program prints lines again."""
        return not self._height and not self._hidden and len(self._rows) == 1

    @property
    def shown(self) -> str:
        """The rows as a terminal would show them."""
        return "\n".join(_lines(self._rows))

    def close(self) -> list[str]:
        """The rows that are left; nothing draws on them any more."""
        rows, self._rows, self._at, self._height, self._hidden = self._rows, [None], 0, 0, False
        return list(_lines(rows))

    def last(self) -> str:
        """What stands behind the last newline, when it is over."""
        return (self._rows[0] or "") + self._unread

    def _put(self, text: str) -> None:
        if text:
            before = self._rows[self._at] or ""
            *over, row = [part for part in (before + text).split("\r") if part] or [""]
            # a carriage return takes effect only with what comes after it
            waiting = "\r" if text.endswith("\r") else ""
            # bars are taken away with spaces
            self._rows[self._at] = None if over and row.isspace() else row + waiting

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
                self._up(count)
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

    def _up(self, count: int) -> None:
        missing = max(0, count - self._at)
        self._rows[:0] = [None] * missing
        self._height, self._grown = max(self._height, count), 0
        self._go(self._at + missing - count)

    def _go(self, at: int) -> None:
        self._at = at
        row = self._rows[at]
        # programs draw a row anew from its start
        if row and not row.endswith("\r"):
            self._rows[at] = row + "\r"

    def _erase(self, kind: str, mode: int) -> None:
        if kind == "J" and mode == 0:
            del self._rows[self._at + 1 :]
        row = self._rows[self._at] or ""
        if mode == 2 or (mode == 0 and row.endswith("\r")):
            self._rows[self._at] = None

    def _settled(self) -> list[str]:
        """The rows above that the cursor will not come back to."""
        if not self._hidden and self._grown >= self._height:
            self._height = 0
        kept = self._height + 1 if self._height else 0
        if self._hidden and not self._height:
            kept = _FIRST
        above = max(0, self._at - kept)
        rows, self._rows = self._rows[:above], self._rows[above:]
        self._at -= above
        return list(_lines(rows))


def overwritten(line: str) -> str:
    """What a terminal shows of ``line``: the text after the last carriage return that has text.

    A bar that is taken away with spaces stays: often it is all that tells what was done.
    """
    if "\r" not in line:
        return line
    return growing(line).partition("\r")[0]


def growing(line: str) -> str:
    """What must be kept of a ``line`` that may go on: what it shows, and the spaces that were put over it."""
    if "\r" not in line:
        return line
    parts = [part for part in line.split("\r") if part] or [""]
    if not parts[-1].isspace():
        return parts[-1]
    shown = next((part for part in reversed(parts) if not part.isspace()), None)
    return parts[-1] if shown is None else f"{shown}\r{parts[-1]}"


def _lines(rows: list[str | None]) -> Iterator[str]:
    return (overwritten(row) for row in rows if row is not None)
