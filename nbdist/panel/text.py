"""A run as lines of text, for where no widget is drawn: nbclient, a terminal, a pipe."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection

from nbdist.panel.follow import LogDelta
from nbdist.panel.labels import ranks_text
from nbdist.panel.view import RunView, duration

_LINES_LIMIT = 20_000


class TextSurface:
    """Each line with its rank in front, as it comes; changes of state on lines of their own.

    After some 20,000 lines no more are shown, so that a notebook stays one that can be opened; a
    note says where the rest is: ``logs`` is the command for it.
    """

    def __init__(
        self, write: Callable[[str], object], limit: int = _LINES_LIMIT, *, logs: str = "%dist_logs"
    ) -> None:
        self._write = write
        self._logs = logs
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
        prefix = rank_prefix(delta.rank, ranks)
        out = []
        if delta.skipped:
            out.append(f"{prefix}… {delta.skipped} bytes not shown here: {self._logs}\n")
        shown = delta.lines[: max(0, self._room)]
        out += [f"{prefix}{line}\n" for line in shown]
        if self._room > 0 and len(delta.lines) >= self._room:
            out.append(f"[nbdist] {self._limit:,} lines are shown; the rest is in the log: {self._logs}\n")
        self._room -= len(delta.lines)
        return "".join(out)


class LogSurface:
    """The lines of some ranks that match a pattern, and nothing else.

    With ``tail``, of what had been written before only the last lines of each rank are shown, once
    ``caught_up`` says that this is all of it. ``prefixed`` puts the rank in front.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        ranks: Collection[int],
        pattern: re.Pattern[str],
        tail: int | None,
        prefixed: bool,
    ) -> None:
        self._write = write
        self._ranks = ranks
        self._pattern = pattern
        self._prefixed = prefixed
        self._held = None if tail is None else {rank: deque[str](maxlen=tail) for rank in ranks}

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        for delta in deltas:
            if delta.rank not in self._ranks:
                continue
            prefix = rank_prefix(delta.rank, len(view.ranks)) if self._prefixed else ""
            found = [f"{prefix}{line}\n" for line in delta.lines if self._pattern.search(line)]
            if self._held is not None:
                self._held[delta.rank] += found
            elif found:
                self._write("".join(found))

    def caught_up(self) -> None:
        """What was written before has been read; from here on every line is shown."""
        held, self._held = self._held, None
        for lines in (held or {}).values():
            if lines:
                self._write("".join(lines))


def rank_prefix(rank: int, ranks: int) -> str:
    """What stands before a line of this rank, in a column for all ``ranks``."""
    return f"[{rank:>{len(str(ranks - 1))}}] "
