"""A run as lines of text, for where nothing can be drawn: nbclient, a pipe."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection

from nbdist.feed.ansi import harmless
from nbdist.feed.labels import ranks_text, state_word
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.stalling import stall_sentence
from nbdist.feed.view import RunView, duration, progress_text
from nbdist.model import RunState
from nbdist.text import say

LINES_LIMIT = 20_000
_LINE = 200
"""Characters of a line, in the mean: a program may print few lines that are long."""

_PROGRESS_STEP = 0.1
_PROGRESS_PERIOD = 5.0


class Room:
    """The text for which a notebook has room: so many lines, and as many characters as lines have."""

    def __init__(self, lines: int = LINES_LIMIT) -> None:
        self._lines = lines
        self._shown = 0
        self.characters = lines * _LINE
        """Count those left."""

        self.full = False
        """A line had no room, and none has any after it."""

    def takes(self, line: str) -> bool:
        """Count a line; return whether there was room for it."""
        size = len(line) + 1
        self.full = self.full or self._shown == self._lines or size > self.characters
        if not self.full:
            self._shown += 1
            self.characters -= size
        return not self.full

    def note(self, logs: str, language: str) -> str:
        """Return the line that stands for the rest; ``logs`` is the command that shows it."""
        return say("panel.more-lines-shown", language, count=self._shown, logs=logs) + "\n"


class TextSurface:
    """Each line with its rank in front, as it comes; changes of state, and how far the run is, on lines
    of their own. A line that still grows is shown when it is complete.

    Where a notebook has no ``Room`` for more than ``limit`` lines, a note says where the rest is: ``logs`` is
    the command for it. So it stays one that can be opened.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        limit: int = LINES_LIMIT,
        *,
        logs: str = "%dist_logs",
        language: str = "en",
    ) -> None:
        self._write = _screened(write)
        self._logs = logs
        self._language = language
        self._room = Room(limit)
        self._state = ""
        self._progress = _ProgressNotes(language)
        self._stall = StallNotes(language)
        self._queue = QueueNotes(language)
        self._warnings = WarningNotes(language)

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        if not self._state:
            self._write(introduction(view, self._language))
        text = "".join(self._lines(delta, len(view.ranks)) for delta in deltas)
        if text:
            self._write(text)
        if view.state != self._state:
            self._state = view.state
            if view.state == "stopping":
                self._write(stopping_text(view, self._language))
        notes = (self._queue, self._progress, self._stall, self._warnings)
        for note in (one.note(view) for one in notes):
            if note:
                self._write(note)

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


class QueueNotes:
    """A line when a run waits in an engine's queue or for imports, and when the reason is another one."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._said = ""

    def note(self, view: RunView) -> str:
        """The line that is due now; empty for none."""
        if view.state not in ("pending", "running") or not view.reason or view.reason == self._said:
            return ""
        self._said = view.reason
        state = state_word(RunState.PENDING, self._language).lower()
        queued = f"{state}: " if view.state == "pending" else ""
        return f"[nbdist] {queued}{view.reason_zh if self._language == 'zh' else view.reason}\n"


class _ProgressNotes:
    """A line at each tenth of the way, for runs that take long enough to be asked about."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._said = 0
        self._next = _PROGRESS_PERIOD

    def note(self, view: RunView) -> str:
        """The line that is due now; empty for none."""
        if view.progress is None or not view.live or view.elapsed < self._next:
            return ""
        # a tenth that arithmetic made a little less is one
        tenths = int(view.progress.fraction / _PROGRESS_STEP + 1e-9)
        if tenths <= self._said:
            # the next attempt begins anew
            self._said = tenths
            return ""
        self._said, self._next = tenths, view.elapsed + _PROGRESS_PERIOD
        return f"[nbdist] {view.label}: {progress_text(view, self._language)}\n"


class StallNotes:
    """Lines when a run hangs, once it is known where and why, and one when it goes on."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._since: float | None = None

    def note(self, view: RunView) -> str:
        """The lines that are due now; empty for none."""
        if view.hangs and view.stall is not None and view.stall.taken is not None:
            if self._since is None:
                self._since = view.stall.since
                sentence = stall_sentence(view.stall, view.elapsed, self._language)
                lines = [f"{view.label}: {sentence}", *view.stall.behind_text(self._language).splitlines()]
                return "".join(f"[nbdist] {line}\n" for line in lines)
        elif self._since is not None and view.live and view.stall is None:
            seconds = f"{max(0.0, view.elapsed - self._since):.0f}"
            self._since = None
            said = say("panel.goes-on", self._language, label=view.label, seconds=seconds)
            return f"[nbdist] {said}\n"
        return ""


class WarningNotes:
    """A line for each mistake of the program that fails no rank, once."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._said: set[str] = set()

    def note(self, view: RunView) -> str:
        """The lines that are due now, while the run goes on: its summary has them, too. Empty for none."""
        said = [one.sentence(self._language) for one in view.warnings if view.live]
        new = [sentence for sentence in said if sentence not in self._said]
        self._said.update(new)
        return "".join(f"[nbdist] {view.label}: {sentence}\n" for sentence in new)


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
        self._write = _screened(write)
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


def _screened(write: Callable[[str], object]) -> Callable[[str], object]:
    """``write``, for what ranks and other machines have said."""

    def screened(text: str) -> object:
        return write(harmless(text))

    return screened


def rank_prefix(rank: int, ranks: int) -> str:
    """What stands before a line of this rank, in a column for all ``ranks``."""
    return f"[{rank:>{len(str(ranks - 1))}}] "


def introduction(view: RunView, language: str) -> str:
    """The first line: which run, and what it runs on."""
    devices = ", ".join(dict.fromkeys(rank.device for rank in view.ranks))
    on = "·" if language == "zh" else "on"
    return f"[nbdist] {view.label}: {ranks_text(len(view.ranks), language)} {on} {devices}\n"


def stopping_text(view: RunView, language: str) -> str:
    """The line for a run that was asked to stop."""
    stopping = state_word(RunState.STOPPING, language).lower()
    reason = view.reason_zh if language == "zh" else view.reason
    return f"[nbdist] {stopping} ({duration(view.elapsed)}) {reason}".rstrip() + "\n"


def skipped_text(count: int, logs: str) -> str:
    """What stands for bytes that came too fast; ``logs`` is the command that shows them."""
    return f"… {count} bytes not shown here: {logs}\n"
