"""A run as lines of text, for where no widget is drawn: nbclient, a terminal, a pipe."""

from __future__ import annotations

from collections.abc import Callable

from nbdist.panel.follow import LogDelta
from nbdist.panel.labels import ranks_text
from nbdist.panel.view import RunView, duration

_LINES_LIMIT = 20_000


class TextSurface:
    """Each line with its rank in front, as it comes; changes of state on lines of their own.

    After some 20,000 lines no more are shown, so that a notebook stays one that can be opened; a
    note says where the rest is.
    """

    def __init__(self, write: Callable[[str], object], limit: int = _LINES_LIMIT) -> None:
        self._write = write
        self._limit = self._room = limit
        self._state = ""

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        if not self._state:
            devices = ", ".join(dict.fromkeys(rank.device for rank in view.ranks))
            self._write(f"[nbdist] {view.label}: {ranks_text(len(view.ranks), 'en')} on {devices}\n")
        text = "".join(self._lines(delta, len(view.ranks)) for delta in deltas)
        if text:
            self._write(text)
        if view.state != self._state:
            self._state = view.state
            if view.state == "stopping":
                self._write(f"[nbdist] stopping ({duration(view.elapsed)}) {view.reason}".rstrip() + "\n")

    def _lines(self, delta: LogDelta, ranks: int) -> str:
        width = len(str(ranks - 1))
        out = []
        if delta.skipped:
            out.append(f"[{delta.rank:>{width}}] … {delta.skipped} bytes not shown here: %dist_logs\n")
        shown = delta.lines[: max(0, self._room)]
        out += [f"[{delta.rank:>{width}}] {line}\n" for line in shown]
        if self._room > 0 and len(delta.lines) >= self._room:
            out.append(f"[nbdist] {self._limit:,} lines are shown; the rest is in the log: %dist_logs\n")
        self._room -= len(delta.lines)
        return "".join(out)
