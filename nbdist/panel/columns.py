"""Text cut to what there is room for: in columns of a terminal, where a Chinese character takes two, or in
characters."""

from __future__ import annotations

import unicodedata


def width(text: str) -> int:
    """The columns that ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def cut(text: str, columns: int) -> str:
    """``text`` in at most so many columns; an ellipsis stands for what does not fit."""
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
    """``text`` with spaces up to so many columns."""
    return text + " " * (columns - width(text))


def clipped(text: str, room: int) -> str:
    """``text`` in at most ``room`` characters."""
    return text if len(text) <= room else text[: room - 1] + "…"


def shortened(text: str, room: int) -> str:
    """``text`` with its middle left out where it is longer than ``room`` characters."""
    return text if len(text) <= room else f"{text[: room // 2]}\n…\n{text[-room // 2 :]}"


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
