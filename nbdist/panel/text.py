"""A run as lines of text, for nbclient or a pipe; and the lines about it that a terminal shows, too."""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator

from nbdist.diagnosis.exits import rank_names
from nbdist.feed.ansi import harmless
from nbdist.feed.labels import ranks_text, state_word
from nbdist.feed.log_lines import Tracebacks
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.stalling import stall_sentence
from nbdist.feed.view import RunView, duration, progress_text
from nbdist.model import RunState
from nbdist.text import say

LINES_LIMIT = 20_000
_LINE = 200  # characters in the mean: a program may print a few long ones
_PROGRESS_STEP = 0.1
_PROGRESS_PERIOD = 5.0


class Room:
    """The room of a notebook for text, in lines and characters."""

    def __init__(self, lines: int = LINES_LIMIT) -> None:
        self._lines = lines
        self._shown = 0
        self.characters = lines * _LINE
        """Characters left."""

        self.full = False
        """True from the first line without room on."""

    def takes(self, line: str) -> bool:
        """Count a line; return whether it fits."""
        size = len(line) + 1
        self.full = self.full or self._shown == self._lines or size > self.characters
        if not self.full:
            self._shown += 1
            self.characters -= size
        return not self.full

    def note(self, logs: str, language: str) -> str:
        """Return the line in place of the rest, which the command ``logs`` shows."""
        return say("panel.more-lines-shown", language, count=self._shown, logs=logs) + "\n"


class TextSurface:
    """A run as complete lines with their ranks, and lines about its state and progress. After ``limit`` lines
    a note names the command for the rest, ``logs``."""

    def __init__(
        self,
        write: Callable[[str], object],
        limit: int = LINES_LIMIT,
        *,
        logs: str = "%dist_logs",
        language: str = "en",
    ) -> None:
        self._write = write
        self._logs = logs
        self._language = language
        self._room = Room(limit)
        self._notes = Notes(language, progress=True)
        self._calm = Calm(logs, language)

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        deltas = self._calm.deltas(view, deltas)
        lines = "".join(self._lines(delta, len(view.ranks)) for delta in deltas)
        if text := self._notes.before(view) + lines + self._calm.note(view) + self._notes.after(view):
            self._write(harmless(text))

    def _lines(self, delta: LogDelta, ranks: int) -> str:
        if self._room.full:
            return ""
        prefix = rank_prefix(delta.rank, ranks)
        out = []
        if delta.skipped:
            out.append(prefix + skipped_text(delta.skipped, self._logs))
        for line in delta.lines:
            if not self._room.takes(line):
                out.append(self._room.note(self._logs, self._language))
                break
            out.append(f"{prefix}{line}\n")
        return "".join(out)


class Calm:
    """The lines of a run that its user stops, without the tracebacks of its ranks, which ``logs`` shows."""

    def __init__(self, logs: str, language: str) -> None:
        self._logs, self._language = logs, language
        self._ranks: dict[int, Tracebacks] = defaultdict(Tracebacks)

    def deltas(self, view: RunView, deltas: list[LogDelta]) -> list[LogDelta]:
        if view.failure is not None or view.state not in ("stopping", "stopped"):
            return deltas
        kept = ((delta, self._ranks[delta.rank].without(delta.lines)) for delta in deltas)
        return [
            LogDelta.of(delta.rank, lines, partial=delta.partial, skipped=delta.skipped)
            for delta, lines in kept
        ]

    def note(self, view: RunView) -> str:
        """Return a line about what was left out, once the run has ended."""
        if view.live or not any(rank.left_out for rank in self._ranks.values()):
            return ""
        self._ranks.clear()
        return _line(say("panel.tracebacks-of-stop", self._language, logs=self._logs))


class Notes:
    """The lines about a run, each once, when due. ``progress`` adds a line at each tenth of a long run."""

    def __init__(self, language: str, *, progress: bool = False) -> None:
        self._language = language
        self._state = ""
        self._queued = ""
        self._tenths = 0
        self._next = _PROGRESS_PERIOD if progress else math.inf
        self._stalled: float | None = None
        self._warned: set[str] = set()
        self._lasting: set[str] = set()

    def before(self, view: RunView) -> str:
        """Return a first line with the run and its devices; later an empty text."""
        if self._state:
            return ""
        devices = ", ".join(dict.fromkeys(rank.device for rank in view.ranks))
        on = "·" if self._language == "zh" else "on"
        return _line(f"{view.label}: {ranks_text(len(view.ranks), self._language)} {on} {devices}")

    def after(self, view: RunView) -> str:
        """Return the lines that are due, to follow those of the ranks."""
        notes = (self._stopping, self._waiting, self._queue, self._progress, self._stall, self._warnings)
        lines = [line for note in notes for line in note(view)]
        self._state = view.state
        return "".join(map(_line, lines))

    def _stopping(self, view: RunView) -> Iterator[str]:
        if view.state == "stopping" != self._state:
            stopping = state_word(RunState.STOPPING, self._language).lower()
            yield f"{stopping} ({duration(view.elapsed)}) {self._reason(view)}".rstrip()

    def _waiting(self, view: RunView) -> Iterator[str]:
        """Yield a line when ranks have saved for a second, and one when a debugger begins to hold ranks."""
        waiting = [rank for rank in view.ranks if rank.state == "running" and rank.exit]
        for text, held in (("panel.save-lasts", False), ("panel.looked-at", True)):
            ranks = [rank.rank for rank in waiting if rank.held == held]
            if ranks and text not in self._lasting:
                yield say(text, self._language, ranks=rank_names(ranks, self._language), count=len(ranks))
            (self._lasting.add if ranks else self._lasting.discard)(text)

    def _queue(self, view: RunView) -> Iterator[str]:
        """Yield a line when the run waits, in a queue or for imports, for a new reason."""
        if view.state in ("pending", "running") and view.reason and view.reason != self._queued:
            self._queued = view.reason
            state = state_word(RunState.PENDING, self._language).lower()
            queued = f"{state}: " if view.state == "pending" else ""
            yield f"{queued}{self._reason(view)}"

    def _progress(self, view: RunView) -> Iterator[str]:
        if view.progress is None or not view.live or view.elapsed < self._next:
            return
        # against rounding errors
        tenths = int(view.progress.fraction / _PROGRESS_STEP + 1e-9)
        # fewer in the next attempt
        further, self._tenths = tenths > self._tenths, tenths
        if further:
            self._next = view.elapsed + _PROGRESS_PERIOD
            yield f"{view.label}: {progress_text(view, self._language)}"

    def _stall(self, view: RunView) -> Iterator[str]:
        """Yield lines once the place and cause of a hang are known, and one when the run goes on."""
        if view.hangs and view.stall is not None and view.stall.taken is not None:
            if self._stalled is None:
                self._stalled = view.stall.since
                yield f"{view.label}: {stall_sentence(view.stall, view.elapsed, self._language)}"
                yield from view.stall.behind_text(self._language).splitlines()
        elif self._stalled is not None and view.live and view.stall is None:
            seconds = f"{max(0.0, view.elapsed - self._stalled):.0f}"
            self._stalled = None
            yield say("panel.goes-on", self._language, label=view.label, seconds=seconds)

    def _warnings(self, view: RunView) -> Iterator[str]:
        """Yield a line for each silent mistake, until the run ends: its summary has them."""
        for warning in view.warnings if view.live else ():
            sentence = warning.sentence(self._language)
            if sentence not in self._warned:
                self._warned.add(sentence)
                yield f"{view.label}: {sentence}"

    def _reason(self, view: RunView) -> str:
        return view.reason_zh if self._language == "zh" else view.reason


def _line(text: str) -> str:
    return f"[nbdist] {text}\n"


class LogSurface:
    """The lines of some ranks that match a pattern, ``prefixed`` with the rank; of those before ``caught_up``
    only each rank's ``tail``."""

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
            lines = [f"{prefix}{line}\n" for line in delta.lines if self._pattern.search(line)]
            if self._held is not None:
                self._held[delta.rank] += lines
            elif lines:
                self._write(harmless("".join(lines)))

    def caught_up(self) -> None:
        """Write the tails of the lines so far; from here on write every line."""
        held, self._held = self._held, None
        for lines in (held or {}).values():
            if lines:
                self._write(harmless("".join(lines)))


def rank_prefix(rank: int, ranks: int) -> str:
    """Return the prefix of this rank's lines, equally wide for all ``ranks``."""
    return f"[{rank:>{len(str(ranks - 1))}}] "


def skipped_text(count: int, logs: str) -> str:
    """Return a line in place of bytes that came too fast, which the command ``logs`` shows."""
    return f"… {count} bytes not shown here: {logs}\n"
