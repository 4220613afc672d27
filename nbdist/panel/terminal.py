"""A run in a terminal: lines that scroll and stay, and below them a block with its state."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TextIO

from nbdist.diagnosis.exits import rank_ranges
from nbdist.feed.ansi import colours_alone, harmless, printable
from nbdist.feed.following import Surface
from nbdist.feed.labels import cut, pad, ranks_text, state_mark, state_word, width
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.view import RankView, RunView, bytes_text, duration, progress_text, rate_text, slowest
from nbdist.model import RankState
from nbdist.panel.status import rank_cells, run_state_text
from nbdist.panel.text import LINES_LIMIT, Calm, Notes, TextSurface, rank_prefix, skipped_text
from nbdist.text import say

_LEFT_OUT = frozenset({"", "dumb", "unknown"})
# of 256 colours, readable on black and on white (contrast 3.7 or more), and of 16
_COLOURS = {
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
    """A line of coloured pieces; ``width`` does not count the colours."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, str]] = []
        self.width = 0

    def add(self, text: str, shade: str = "") -> Line:
        """Append ``text`` without control sequences, in a shade, "bold", or plain."""
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
    """A terminal: its size, its colours, its abilities."""

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
        """Return True for a UTF-8 terminal that moves its cursor, unless the user wants plain text."""
        encoding = (self._stream.encoding or "").lower().replace("-", "")
        moves = self._environ.get("TERM", "") not in _LEFT_OUT
        return self._stream.isatty() and moves and encoding == "utf8" and not self._plain

    @property
    def reflows(self) -> bool:
        """Return whether the terminal rewraps lines when its width changes; all but screen and xterm do."""
        screen = "STY" in self._environ and "TMUX" not in self._environ
        return not screen and "XTERM_VERSION" not in self._environ

    def size(self) -> tuple[int, int]:
        """Return columns and rows."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        # 0 in a terminal without a size
        return size.columns or 80, size.lines or 24

    def paint(self, text: str, shade: str) -> str:
        """Return ``text`` in a shade, or plain on a terminal without colours."""
        if not shade or (self._shade is None and shade != "bold"):
            return text
        if shade == "bold":
            return f"\x1b[1m{text}\x1b[0m"
        assert self._shade is not None, "without colours there is no shade"
        number = _COLOURS[shade][self._shade]
        return f"\x1b[38;5;{number}m{text}\x1b[0m" if self._shade == 0 else f"\x1b[{number}m{text}\x1b[0m"


class Block:
    """Lines at the foot of a terminal, none wider than it; each draw replaces them by one write."""

    def __init__(self, write: Callable[[str], object], terminal: Terminal) -> None:
        self._write = write
        self._terminal = terminal
        self._shown: tuple[str, ...] = ()
        self._widths: tuple[int, ...] = ()
        self._columns = 0

    def draw(self, above: str, lines: Sequence[Line]) -> None:
        """Write ``above``, whole lines that stay; below them ``lines`` until the next draw."""
        columns, _ = self._terminal.size()
        shown = tuple(line.painted(self._terminal.paint) for line in lines)
        if not above and shown == self._shown and columns == self._columns:
            return
        self._write(self._away(columns) + above + "\n".join(shown))
        self._shown, self._widths, self._columns = shown, tuple(line.width for line in lines), columns

    def erase(self) -> None:
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


_EACH_RANK = 8
_BARS_OF_MANY = 2
_BAR = 20
_SHADES = {
    "running": "brand",
    "stopping": "warn",
    "stalled": "warn",
    "finished": "good",
    "failed": "bad",
    "lost": "bad",
}
# columns to leave out on a narrow terminal, in this order
_DISPENSABLE = (2, 1, 5, 3)


def on_text_screen(
    write: Callable[[str], object],
    terminal: Terminal,
    *,
    language: str,
    logs: str = "%dist_logs",
    limit: int = LINES_LIMIT,
) -> contextlib.AbstractContextManager[Surface]:
    """Return a surface on ``write``: with a block if the terminal draws one, else of ``limit`` lines."""
    if terminal.drawable:
        return TerminalSurface(write, terminal, language=language, logs=logs)
    return contextlib.nullcontext(TextSurface(write, limit, logs=logs, language=language))


class TerminalSurface:
    """A run on ``terminal``, by ``write``, as a context: at its end only the block disappears. A line that
    all ranks write between two looks appears once."""

    def __init__(
        self, write: Callable[[str], object], terminal: Terminal, *, language: str, logs: str = "%dist_logs"
    ) -> None:
        self._terminal = terminal
        self._block = Block(write, terminal)
        self._language = language
        self._logs = logs
        self._growing: dict[int, str] = {}
        self._notes = Notes(language)
        self._calm = Calm(logs, language)

    def __enter__(self) -> TerminalSurface:
        return self

    def __exit__(self, *_: object) -> None:
        self._block.erase()

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        deltas = self._calm.deltas(view, deltas)
        before, after = harmless(self._notes.before(view)), harmless(self._notes.after(view))
        after = harmless(self._calm.note(view)) + after
        self._growing |= {delta.rank: delta.partial for delta in deltas}
        lines = "".join(self._lines(view, deltas))
        self._block.draw(before + lines + after, self._foot(view) if view.live else [])

    def _lines(self, view: RunView, deltas: list[LogDelta]) -> Iterator[str]:
        ranks = len(view.ranks)
        for delta in deltas:
            if delta.skipped:
                yield rank_prefix(delta.rank, ranks) + skipped_text(delta.skipped, self._logs)
        for rank, line in folded(deltas, ranks):
            prefix = rank_prefix(rank, ranks) if rank is not None else f"[0–{ranks - 1}] "
            shade = _rank_shade(rank) if rank is not None else "grey"
            times = "" if rank is not None else self._terminal.paint(f" ×{ranks}", "grey")
            painted = self._terminal.paint(prefix[:-1], shade)
            yield f"{painted} {colours_alone(line)}{times}\n"

    def _foot(self, view: RunView) -> list[Line]:
        columns, rows = self._terminal.size()
        # a full line would leave the cursor between two
        room = columns - 1
        head = [Line().add("─" * room, "grey"), self._head(view, room)]
        many = len(view.ranks) > _EACH_RANK
        ranks = self._counts(view, room) if many else self._ranks(view, room)
        bars = list(self._bars(view, room))[: _BARS_OF_MANY if many else None]
        # at most half of the terminal: the rest is for the log
        left = max(0, rows // 2 - len(head))
        if len(ranks) > left:
            ranks = self._counts(view, room)[:left]
        return head + ranks + bars[: left - len(ranks)]

    def _head(self, view: RunView, room: int) -> Line:
        """Return state, label, progress, time; where they fit, the bar and the number of ranks."""
        state = f" {run_state_text(view, self._language)}  "
        line = Line().add(*_state_mark("stalled" if view.hangs else view.state)).add(state, "bold")
        line.add(cut(view.label, room - line.width))
        elapsed = f"  {duration(view.elapsed)}"
        spare = room - line.width - width(elapsed)
        progress = next((form for form in self._progress(view) if width(form) <= spare), "")
        spare -= width(progress)
        ranks = f"  {ranks_text(len(view.ranks), self._language)}"
        if view.progress is not None and spare >= _BAR + 2:
            spare -= _BAR + 2
            if width(ranks) <= spare:
                line.add(ranks, "grey")
            done = round(_BAR * min(1.0, max(0.0, view.progress.fraction)))
            line.add("  " + "━" * done, "brand").add("╌" * (_BAR - done), "grey")
        elif width(ranks) <= spare:
            line.add(ranks, "grey")
        line.add(progress)
        return line.add(elapsed) if line.width + width(elapsed) <= room else line

    def _progress(self, view: RunView) -> Iterator[str]:
        """Yield the progress of the run in ever fewer words."""
        if view.progress is not None:
            short = replace(view.progress, text="")
            for progress in (view.progress, short, replace(short, remaining=None)):
                yield f"  {progress_text(replace(view, progress=progress), self._language)}"

    def _ranks(self, view: RunView, room: int) -> list[Line]:
        rows = [self._cells(rank, view) for rank in view.ranks]
        widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
        for column in _DISPENSABLE:
            if sum(taken + 2 for taken in widths if taken) <= room:
                break
            widths[column] = 0
        lines = []
        for rank, row in zip(view.ranks, rows, strict=True):
            line = Line().add(f"{rank.rank} ", _rank_shade(rank.rank)).add(*_state_mark(rank.state))
            cells = [
                f"  {pad(cell, taken)}" for cell, taken in zip(row[1:], widths[1:], strict=True) if taken
            ]
            lines.append(line.add(cut("".join(cells).rstrip(), room - line.width)))
        return lines

    def _cells(self, rank: RankView, view: RunView) -> list[str]:
        cells = rank_cells(rank, view, self._language)
        if cells["rate"]:
            cells["rate"] = say("panel.rate-each", self._language, rate=cells["rate"])
        head = f"{rank.rank} {state_mark(rank.state)}"
        return [head, *(cells[column] for column in ("state", "device", "memory", "use", "rate"))]

    def _counts(self, view: RunView, room: int) -> list[Line]:
        """Return two lines: the ranks counted by state, and the ranges of their figures."""
        line = Line()
        for state, count in Counter(rank.state for rank in view.ranks).most_common():
            line.add("  " if line.width else "").add(*_state_mark(state))
            line.add(f" {count} {state_word(RankState(state), self._language)}")
            if state in ("failed", "lost"):
                line.add(f" ({rank_ranges([rank.rank for rank in view.ranks if rank.state == state])})")
        figures = [
            _span([r.memory if r.gpu_memory is None else r.gpu_memory for r in view.ranks], bytes_text),
            _span([r.cpu if r.gpu is None else r.gpu for r in view.ranks], lambda share: f"{share:.0f} %"),
        ]
        if rates := _span([rank.rate for rank in view.ranks], rate_text):
            figures.append(say("panel.rate-each", self._language, rate=rates))
        if (last := slowest(view.ranks)) is not None:
            figures.insert(0, f"{say('panel.slowest', self._language)} {last.rank}")
        text = "  ".join(filter(None, figures))
        lines = [line if line.width <= room else Line().add(cut(line.plain, room))]
        return [*lines, Line().add(cut(text, room))] if text else lines

    def _bars(self, view: RunView, room: int) -> Iterator[Line]:
        """Yield the lines that still grow."""
        for rank in view.ranks:
            for row in self._growing.get(rank.rank, "").split("\n"):
                if not (text := printable(row).strip()):
                    continue
                prefix = rank_prefix(rank.rank, len(view.ranks))
                yield Line().add(prefix, _rank_shade(rank.rank)).add(cut(text, room - len(prefix)))


def folded(deltas: Sequence[LogDelta], ranks: int) -> Iterator[tuple[int | None, str]]:
    """Yield each rank's lines in order, with the rank; once, with None, a line that several ``ranks`` all
    wrote."""
    lines = [delta.lines for delta in deltas]
    at = [0] * len(deltas)
    if len(deltas) == ranks > 1:
        places: list[dict[str, list[int]]] = [defaultdict(list) for _ in deltas]
        for own, written in zip(places, lines, strict=True):
            for number, line in enumerate(written):
                own[line].append(number)
        for line in lines[0]:
            nexts = [_next(own[line], begin) for own, begin in zip(places, at, strict=True)]
            if not all(nexts):
                continue
            for number, (delta, (end,)) in enumerate(zip(deltas, nexts, strict=True)):
                for before in lines[number][at[number] : end]:
                    yield delta.rank, before
                at[number] = end + 1
            yield None, line
    for delta, written, begin in zip(deltas, lines, at, strict=True):
        for line in written[begin:]:
            yield delta.rank, line


def _next(places: Sequence[int], begin: int) -> Sequence[int]:
    """Return the first place from ``begin`` on, alone; empty for none."""
    at = bisect_left(places, begin)
    return places[at : at + 1]


def _span(values: Iterable[float | None], written: Callable[..., str]) -> str:
    """Return ``1.1 GB – 1.4 GB``, or one of two equal texts."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return " – ".join(dict.fromkeys([written(min(known)), written(max(known))]))


def _state_mark(state: str) -> tuple[str, str]:
    return state_mark(state), _SHADES.get(state, "grey")


def _rank_shade(rank: int) -> str:
    return f"rank {rank % 8}"
