"""The words of states and columns on a screen, and text cut to its room."""

from __future__ import annotations

import os
import re
import unicodedata

from nbdist.diagnosis import describe_exit
from nbdist.model import Rank, RankCut, RankHeld, RankState, RunState
from nbdist.text import say

# a shape beside the word, so that no state is a colour alone
_MARKS = {
    "pending": "○",
    "starting": "○",
    "running": "●",
    "stopping": "●",
    "finished": "✓",
    "failed": "✕",
    "stopped": "■",
    "stalled": "‖",
    "slow": "▲",
    "lost": "✕",
}


def ranks_text(count: int, language: str) -> str:
    """Return ``1 rank``, ``2 ranks``, ``2 个进程``."""
    return say("panel.ranks", language, count=count)


def state_word(state: RunState | RankState, language: str) -> str:
    """Return the word for a state in the pill and in the strip."""
    kind = "run" if isinstance(state, RunState) else "rank"
    return say(f"panel.{kind}-{state.value}", language)


def state_mark(state: str) -> str:
    return _MARKS[state]


def exit_text(rank: Rank, language: str, now: float = 0.0) -> str:
    """Return a rank's exit in words, or where it is held, or for how long it has saved at ``now`` (Unix
    seconds); else an empty text."""
    if rank.code is None and rank.held is not None:
        return held_text(rank.held, language)
    if rank.code is None:
        seconds = 0.0 if rank.saves is None or rank.state.terminal else now - rank.saves
        return say("panel.saving", language, seconds=int(seconds)) if seconds >= 1 else ""
    ended = rank.state is RankState.STOPPED
    return describe_exit(
        rank.code, oom=rank.oom, ended=ended, memory=rank.memory, limit=rank.limit, language=language
    )


def held_text(held: RankHeld, language: str) -> str:
    """Return ``held at line 7: breakpoint()``, for a debugger."""
    name = os.path.basename(held.file)
    file = "" if re.fullmatch(r"(cell|\d{4,})\.py", name) else name
    return say("panel.held", language, file=file, line=held.line, what=held.what)


def cut_text(cut: RankCut, language: str) -> str:
    """Return what a rank saved when nbdist ended it: the line, the file, its size."""
    file, size = os.path.basename(cut.file), f"{cut.size / 1e6:.3g}"
    return say(
        "panel.cut", language, rank=cut.rank, line=cut.line or "", file=file, size=size if file else ""
    )


def width(text: str) -> int:
    """Return the columns that ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def cut(text: str, columns: int) -> str:
    """Return ``text`` in at most ``columns`` columns; an ellipsis replaces what does not fit."""
    if width(text) <= columns:
        return text
    if columns < 1:
        return ""
    room = columns - 1
    kept = []
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def pad(text: str, columns: int) -> str:
    """Return ``text`` with spaces up to ``columns`` columns."""
    return text + " " * (columns - width(text))


def clipped(text: str, room: int) -> str:
    """Return ``text`` in at most ``room`` characters."""
    return text if len(text) <= room else text[: room - 1] + "…"


def shortened(text: str, room: int) -> str:
    """Return ``text`` without its middle where it is longer than ``room`` characters."""
    return text if len(text) <= room else f"{text[: room // 2]}\n…\n{text[-room // 2 :]}"


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
