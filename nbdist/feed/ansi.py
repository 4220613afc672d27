"""ANSI escape sequences in text of ranks: removed, kept as colours, or made HTML."""

from __future__ import annotations

import colorsys
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

# CSI sequences (colours, cursor), OSC sequences (titles, links), and the two-character escapes
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_COLOUR = re.compile(r"\x1b\[([0-9;:]*)m")
# the C0 and C1 controls but the tab: a terminal acts on these, too
_CONTROLS = dict.fromkeys((*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0)))
# and by these it reverses their neighbours (Unicode Bidirectional Algorithm, 2)
_UNSEEN = _CONTROLS | dict.fromkeys((0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
_ACTED_ON = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f](?:(?<!\x1b)|(?!\[[0-9;:]*m))")
# a colour that is the last of its line, and no reset
_LEFT_ON = re.compile(r"\x1b\[(?!(?:[0-9;:]*;)?0*m)[0-9;:]*m[^\n\x1b]*(?=\n|\Z)")
_PLAIN = bytes((0x09, 0x0A, *range(0x20, 0x7F)))
_RESET = "\x1b[0m"

# The hues of the colours 1 to 6 of a terminal, in degrees
_HUES = ((0, 1), (60, 3), (120, 2), (180, 6), (240, 4), (300, 5), (360, 1))


def strip_ansi(text: str) -> str:
    return _SEQUENCE.sub("", text) if "\x1b" in text else text


def printable(text: str) -> str:
    """Return ``text`` without anything that a terminal would act on; a tab becomes spaces."""
    plain = strip_ansi(text)
    return plain if plain.isprintable() else plain.expandtabs().translate(_UNSEEN)


def harmless(text: str) -> str:
    """Return lines with their colours, for a terminal: without moves, titles, clipboard, or queries. No line
    holds half a sequence, so none can begin one for the next; its colours end with it."""
    # most logs hold no escapes, or colours alone: test all lines at once
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return text
    if _ACTED_ON.search(text):
        text = "\n".join(map(_filtered, text.split("\n")))
    return _LEFT_ON.sub(rf"\g<0>{_RESET}", text)


def colours_alone(text: str) -> str:
    """Return ``text`` with its colours, which end with it, and without cursor moves and bells."""
    if text.isprintable():
        return text
    kept = _filtered(text)
    return kept + (_RESET if "\x1b" in kept else "")


def _filtered(text: str) -> str:
    """Return ``text`` without controls and without sequences other than colours."""
    pieces = []
    end = 0
    for match in _SEQUENCE.finditer(text):
        pieces.append(text[end : match.start()].translate(_CONTROLS))
        if _COLOUR.fullmatch(match[0]):
            pieces.append(match[0])
        end = match.end()
    pieces.append(text[end:].translate(_CONTROLS))
    return "".join(pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The look of text: ``colour`` is 0 for the page's own, else 1 to 6 as in a terminal, 7 for grey."""

    colour: int = 0
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underlined: bool = False

    @property
    def classes(self) -> str:
        names = [f"n-c{self.colour}"] if self.colour else []
        flags = {"b": self.bold, "d": self.dim, "i": self.italic, "u": self.underlined}
        return " ".join([*names, *(f"n-c{name}" for name, on in flags.items() if on)])


def ansi_html(text: str) -> str:
    """Return ``text`` escaped, with its colours as spans. The classes are ``n-c1`` to ``n-c7`` for red,
    green, yellow, blue, magenta, cyan and grey of any shade, so that a page can choose legible colours;
    ``n-cb``, ``n-cd``, ``n-ci``, ``n-cu`` for bold, dim, italic, underlined. There are no backgrounds."""
    parts = []
    for piece, look in _runs(text):
        escaped = html.escape(piece, quote=False)
        parts.append(f'<span class="{look.classes}">{escaped}</span>' if look.classes else escaped)
    return "".join(parts)


def _runs(text: str) -> Iterator[tuple[str, _Look]]:
    """Yield the pieces of ``text`` between its colour sequences, and the look of each."""
    look, end = _Look(), 0
    for match in _COLOUR.finditer(text):
        if piece := strip_ansi(text[end : match.start()]).translate(_CONTROLS):
            yield piece, look
        look, end = _after(look, match[1]), match.end()
    if piece := strip_ansi(text[end:]).translate(_CONTROLS):
        yield piece, look


_SETS: dict[int, dict[str, Any]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underlined": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underlined": False},
    39: {"colour": 0},
}


def _after(look: _Look, parameters: str) -> _Look:
    """Return the look after one sequence of SGR parameters (ECMA-48, 8.3.117)."""
    codes = [int(code or 0) for code in parameters.replace(":", ";").split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            look = _Look()
        elif code in (38, 48):
            colour = _extended(codes)
            look = replace(look, colour=colour) if code == 38 else look
        elif 30 <= code <= 37 or 90 <= code <= 97:
            look = replace(look, colour=_basic(code - 30 if code < 90 else code - 82))
        else:
            look = replace(look, **_SETS.get(code, {}))
    return look


def _extended(codes: list[int]) -> int:
    """Return the colour behind 38 or 48: ``5;N`` of 256, or ``2;R;G;B``; remove these from ``codes``."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        number = codes.pop(0)
        if number < 16:
            return _basic(number)
        if number >= 232:
            return 7 if number < 250 else 0
        number -= 16
        return _nearest(*(level and 55 + 40 * level for level in (number // 36, number // 6 % 6, number % 6)))
    if kind == 2 and len(codes) >= 3:
        red, green, blue = codes[:3]
        del codes[:3]
        return _nearest(red, green, blue)
    return 0


def _basic(number: int) -> int:
    """Return one of the 16: black and white are the page's own, bright black is grey, others not brighter."""
    return 7 if number == 8 else number % 8 % 7


def _nearest(red: int, green: int, blue: int) -> int:
    hue, lightness, saturation = colorsys.rgb_to_hls(*(min(255, level) / 255 for level in (red, green, blue)))
    if saturation < 0.2 or not 0.08 < lightness < 0.95:
        return 7 if 0.3 < lightness < 0.75 else 0
    return min(_HUES, key=lambda known: abs(known[0] - hue * 360))[1]
