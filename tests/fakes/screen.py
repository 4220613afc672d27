"""A terminal that a test looks at: what was drawn on it, and what has scrolled away."""

from __future__ import annotations

import re

from nbdist.feed.labels import width

_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class Screen:
    """Takes what a program writes, as a terminal of this size would. Lines may be as long as they like:
    what wraps is one line here. ``reflows`` and colours are as the test wants them."""

    def __init__(self, columns: int = 80, rows: int = 24, *, colours: bool = False) -> None:
        self.columns = columns
        self.rows = rows
        self.reflows = True
        self.colours = colours
        self.writes: list[str] = []
        self.lines = [""]
        self._row = 0
        self._at_start = True

    # what nbdist.panel asks a terminal
    def size(self) -> tuple[int, int]:
        return self.columns, self.rows

    def paint(self, text: str, shade: str) -> str:
        return f"<{shade}:{text}>" if self.colours and shade else text

    # what a terminal does
    def write(self, text: str) -> None:
        self.writes.append(text)
        end = 0
        for control in re.finditer(r"\x1b\[[0-9;]*[A-Za-z]|[\r\n]", text):
            self._put(text[end : control.start()])
            self._act(control[0])
            end = control.end()
        self._put(text[end:])

    def _put(self, text: str) -> None:
        assert not (text and self.lines[self._row] and self._at_start), "nothing is written over text"
        self._at_start = self._at_start and not text
        self.lines[self._row] += text

    def _act(self, control: str) -> None:
        if control == "\r":
            self._at_start = True
            return
        if control == "\n":
            self._row += 1
            if self._row == len(self.lines):
                self.lines.append("")
            return
        sequence = _SEQUENCE.fullmatch(control)
        match sequence[2]:
            case "A":
                # a terminal that has become narrower has made several rows of a line
                up = int(sequence[1]) - (self._rows(self._row) - 1)
                while up > 0:
                    self._row -= 1
                    up -= self._rows(self._row)
                assert up == 0, "the cursor came to the begin of a line"
            case "J":
                assert self._at_start, "only whole lines are erased"
                del self.lines[self._row + 1 :]
                self.lines[self._row] = ""
            case "m":
                self._put(control)
            case other:
                raise AssertionError(f"the block uses no {other}")

    def _rows(self, line: int) -> int:
        return max(1, -(-width(self.lines[line]) // self.columns))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)
