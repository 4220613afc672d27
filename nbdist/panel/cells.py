"""A cell of a session on the screen: the output of its ranks, and how it ended."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nbdist.diagnosis import describe_exit, hint
from nbdist.diagnosis.complaints import complaint_of
from nbdist.diagnosis.exits import rank_names, rank_ranges
from nbdist.feed.ansi import harmless
from nbdist.feed.rank_log import LogDelta
from nbdist.model import CellEnded, RankExited
from nbdist.panel.outputs import Bundle, bundles_in
from nbdist.panel.terminal import folded
from nbdist.panel.text import Room
from nbdist.store import ErrorReport, LogLines, LogStream, RunDirectory, read_error
from nbdist.text import say

_CHUNK = 1 << 20
_CELL_FILE = re.compile(r"\b(\d{4,})\.py\b")  # in the message of a SyntaxError
_HOLD = 0.15  # seconds that a line may wait for the same line of the other ranks


class CellOutput:
    """The output of a cell, by ``write`` and, for figures, ``show``: once where all of its ranks write the
    same line. ``cell_report`` has the tracebacks."""

    def __init__(
        self,
        directory: RunDirectory,
        number: int,
        *,
        language: str,
        write: Callable[[str], object],
        show: Callable[[Bundle], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._number = number
        self._language = language
        self._write = write
        self._show = show
        self._clock = clock
        self._ranks: dict[int, _RankLines] = {}
        self._held: dict[int, list[str]] = {}
        self._since = 0.0
        self._room = Room()

    def look(self, logs: Mapping[int, int], ended: Mapping[int, CellEnded], *, last: bool = False) -> None:
        """Show the new lines. ``logs`` has the offset in the log at which each rank began the cell, ``ended``
        the ranks that are done with it. ``last``: nothing more comes."""
        if self._room.full:
            return
        for rank, begin in logs.items():
            if rank not in self._ranks:
                files = self._directory.rank(rank)
                self._ranks[rank] = _RankLines(LogStream(files.log, begin), files.cell_error(self._number))
        for rank, lines in self._ranks.items():
            if new := lines.read(ended[rank].log if rank in ended else None, self._room.characters):
                self._since = self._since if self._held else self._clock()
                self._held.setdefault(rank, []).extend(new)
        if self._held:
            self._release(late=last or len(self._ranks) == 1 or self._clock() - self._since >= _HOLD)

    def _release(self, *, late: bool) -> None:
        """Show the held lines; unless ``late``, keep those that the other ranks may still write."""
        if len(self._held) < len(self._ranks) and not late:
            return
        held, self._held = sorted(self._held.items()), {}
        deltas = [LogDelta.of(rank, lines) for rank, lines in held]
        lines = list(folded(deltas, len(self._ranks)))
        end = len(lines)
        while not late and end and lines[end - 1][0] is not None:
            end -= 1
        for rank, line in lines[end:]:
            assert rank is not None, "a line of all ranks is not held"
            self._held.setdefault(rank, []).append(line)
        self._since = self._clock() if end else self._since
        self._put(lines[:end])

    def _put(self, lines: Sequence[tuple[int | None, str]]) -> None:
        everyone = sorted(self._ranks)
        text = ""
        for rank, line in lines:
            if not self._room.takes(line):
                text += self._room.note("%dist_logs", self._language)
                break
            text += f"[{rank_ranges(everyone) if rank is None else rank}] {harmless(line)}\n"
            shown = bundles_in(line, self._directory, everyone[0] if rank is None else rank)
            if shown and self._show is not None:
                self._write(text)
                text = ""
                for bundle in shown:
                    self._show(bundle)
        if text:
            self._write(text)


class _RankLines:
    """Lines of one rank, up to a traceback that it reports."""

    def __init__(self, stream: LogStream, error: Path) -> None:
        self._stream = stream
        self._error = error
        self._lines = LogLines()
        self._end: int | None = None
        self._closed = False

    def read(self, end: int | None, most: int) -> list[str]:
        """Return the next lines, until they exceed ``most`` characters. ``end`` is the offset at which the
        rank was done; None while it is not."""
        if self._closed:
            return []
        size = self._stream.size if end is None else end
        # the rank writes its report before the traceback
        if self._end is None and os.path.lexists(self._error):
            report = read_error(self._error)
            self._end = None if report is None else report.log
        if self._end is not None:
            size = min(size, self._end)
        new: list[str] = []
        while data := self._stream.read(max(0, min(_CHUNK, size - self._stream.offset))):
            new += self._lines.feed(data)
            if sum(len(line) + 1 for line in new) > most:
                return new
        if end is not None:
            self._closed = True
            new += self._lines.close()
        return new


def cell_report(
    directory: RunDirectory,
    number: int,
    ended: Mapping[int, CellEnded],
    exits: Mapping[int, RankExited],
    language: str,
) -> str:
    """Return the errors in a cell, a line each, their tracebacks, and known causes and fixes; empty
    without."""
    outcomes: dict[str, list[int]] = {}
    for rank in sorted(ended):
        outcomes.setdefault(ended[rank].outcome, []).append(rank)
    kept = ranks_kept(ended)
    others = {"others": rank_names(kept, language), "count": len(kept)}
    heads: list[str] = []

    def head(code: str, ranks: Sequence[int], **facts: object) -> None:
        heads.append(say(f"panel.cell-{code}", language, ranks=rank_names(ranks, language), **facts))

    groups: dict[str, tuple[ErrorReport, list[int]]] = {}
    for rank in outcomes.get("error", ()):
        if (report := read_error(directory.rank(rank).cell_error(number))) is not None:
            groups.setdefault(_plain(report.text, directory), (report, []))[1].append(rank)
    for report, ranks in groups.values():
        message = _CELL_FILE.sub(_cell_name, report.message.partition("\n")[0])
        error = f"{report.type}: {message}" if message else report.type
        head("error", ranks, error=error, line=_line_of(report, directory, number))
    for rank in outcomes.get("died", ()):
        head("died", (rank,), exit=_exit_text(exits.get(rank), language), **others)
    if ranks := outcomes.get("unreachable", []):
        head("unreachable", ranks, **others)
    freed: dict[int | None, list[int]] = {}
    for rank in outcomes.get("freed", ()):
        report = read_error(directory.rank(rank).cell_error(number))
        freed.setdefault(_line_of(report, directory, number), []).append(rank)
    for line, ranks in freed.items():
        head("freed", ranks, line=line)
    traces = (f"—— {rank_names(ranks, language)}\n{text.rstrip()}" for text, (_, ranks) in groups.items())
    hints = dict.fromkeys(_hint(report, language) for report, _ in groups.values())
    return "\n\n".join(filter(None, ["\n".join(heads), *traces, *hints]))


def ranks_kept(ended: Mapping[int, CellEnded]) -> list[int]:
    """Return the ranks of a cell that kept their variables."""
    return [rank for rank in sorted(ended) if ended[rank].outcome not in ("died", "unreachable")]


def _hint(report: ErrorReport, language: str) -> str:
    """Return cause and fix of a known error; empty for any other."""
    complaint = None if report.type == "SystemExit" else complaint_of(report, (), None)
    if complaint is None or complaint.signature is None or complaint.found is None:
        return ""
    return hint(complaint.signature, **complaint.found.groupdict()).text(language)


def _exit_text(gone: RankExited | None, language: str) -> str:
    if gone is None:
        return ""
    return describe_exit(gone.code, oom=gone.oom, memory=gone.memory, limit=gone.limit, language=language)


def _line_of(report: ErrorReport | None, directory: RunDirectory, number: int) -> int | None:
    """Return the cell's line in the innermost of the error's frames that is in the cell."""
    # the user may have moved the directory since
    name = directory.session_cell(number).name
    frames = report.frames if report is not None else ()
    return next((frame.line for frame in reversed(frames) if Path(frame.file).name == name), None)


def _plain(text: str, directory: RunDirectory) -> str:
    """Return a traceback with ``cell 7`` in place of that cell's file."""
    folder = re.escape(f"{directory.cells}{os.sep}")
    return re.sub(rf'File "{folder}(\d+)\.py"', _cell_name, text)


def _cell_name(match: re.Match[str]) -> str:
    return f"cell {int(match[1])}"
