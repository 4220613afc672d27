"""A few lines that stay at the foot of a terminal while what is written scrolls above them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from nbdist.panel.ansi import printable
from nbdist.panel.columns import width

_LEFT_OUT = frozenset({"", "dumb", "unknown"})
# colours of the 256 that are read on black and on white alike (contrast 3.7 or more on both), and what
# stands for them where there are but 16
_SHADES = {
    "rank 0": (32, 34),
    "rank 1": (166, 33),
    "rank 2": (29, 32),
    "rank 3": (133, 35),
    "rank 4": (100, 33),
    "rank 5": (30, 36),
    "rank 6": (244, 37),
    "rank 7": (161, 31),
    "brand": (32, 34),
    "good": (28, 32),
    "bad": (167, 31),
    "warn": (166, 33),
    "grey": (244, 37),
}


class Line:
    """One line of pieces in colours, which knows its width before they are painted."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, str]] = []
        self.width = 0

    def add(self, text: str, shade: str = "") -> Line:
        """Append ``text`` in one of the shades, "bold", or as it is, without what a terminal acts on."""
        text = printable(text)
        self._pieces.append((text, shade))
        self.width += width(text)
        return self

    def painted(self, paint: Callable[[str, str], str]) -> str:
        return "".join(paint(text, shade) for text, shade in self._pieces)

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self._pieces)


class Terminal:
    """A terminal that text can be drawn on again: its size, its colours."""

    def __init__(
        self,
        stream: TextIO,
        *,
        colours: bool = True,
        plain: bool = False,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._plain = plain or environ.get("NBDIST_PANEL") == "text"
        self._stream = stream
        self._environ = environ
        many = "256color" in environ.get("TERM", "") or "COLORTERM" in environ
        self._shade = None if environ.get("NO_COLOR") or not colours else 0 if many else 1

    @property
    def drawable(self) -> bool:
        """Whether it is a terminal at all, moves its cursor, and has characters for what is drawn; and
        nobody has asked for plain text."""
        encoding = (self._stream.encoding or "").lower().replace("-", "")
        moves = self._environ.get("TERM", "") not in _LEFT_OUT
        return self._stream.isatty() and moves and encoding == "utf8" and not self._plain

    @property
    def reflows(self) -> bool:
        """Whether it breaks lines anew when its width changes: all do that are known but these two."""
        screen = "STY" in self._environ and "TMUX" not in self._environ
        return not screen and "XTERM_VERSION" not in self._environ

    def size(self) -> tuple[int, int]:
        """Columns and rows now."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        # a terminal that was given no size has 0
        return size.columns or 80, size.lines or 24

    def paint(self, text: str, shade: str) -> str:
        """``text`` in a shade; as it is on a terminal without colours."""
        if not shade or (self._shade is None and shade != "bold"):
            return text
        if shade == "bold":
            return f"\x1b[1m{text}\x1b[0m"
        assert self._shade is not None, "without colours there is no shade"
        number = _SHADES[shade][self._shade]
        return f"\x1b[38;5;{number}m{text}\x1b[0m" if self._shade == 0 else f"\x1b[{number}m{text}\x1b[0m"


class Block:
    """Draws lines at the foot, and again over themselves.

    Each draw is one write: away with the old lines, what is to scroll, the new lines. The cursor rests at
    the end of the last one. No line may be wider than the terminal.
    """

    def __init__(self, write: Callable[[str], object], terminal: Terminal) -> None:
        self._write = write
        self._terminal = terminal
        self._shown: tuple[str, ...] = ()
        self._widths: tuple[int, ...] = ()
        self._columns = 0

    def draw(self, above: str, lines: Sequence[Line]) -> None:
        """Write ``above``, whole lines, to stay where they are; below them ``lines`` until the next draw."""
        columns, _ = self._terminal.size()
        shown = tuple(line.painted(self._terminal.paint) for line in lines)
        if not above and shown == self._shown and columns == self._columns:
            return
        self._write(self._away(columns) + above + "\n".join(shown))
        self._shown, self._widths, self._columns = shown, tuple(line.width for line in lines), columns

    def erase(self) -> None:
        """Leave no trace of the block."""
        if self._shown:
            self._write(self._away(self._terminal.size()[0]))
            self._shown = ()

    def _away(self, columns: int) -> str:
        if not self._shown:
            return ""
        rows = len(self._shown)
        if columns < self._columns and self._terminal.reflows:
            rows = sum(max(1, -(-taken // columns)) for taken in self._widths)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\x1b[J"
