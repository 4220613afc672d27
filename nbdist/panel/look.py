"""The look of text tables and of static HTML on light and dark pages.

Greys and state colours are JupyterLab's variables, with fallbacks. Without styles, as on a code host, words,
marks and tables remain.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from nbdist.feed.ansi import printable
from nbdist.feed.labels import cut, pad, state_mark, width

_HERE = Path(__file__).parent
_COLOURS = {
    "LINE": "var(--jp-border-color2,rgba(127,127,127,.35))",
    # between the page and its text on either ground; --jp-layout-color2 leaves grey text too little contrast
    "GROUND": "rgba(127,127,127,.1)",
}


def sheet(name: str, rules: str) -> str:
    """Return a style element for the class ``name``: the common rules, then ``rules``, in which ``&`` stands
    for the class, ``LINE`` and ``GROUND`` for colours of the page."""
    text = (_HERE / "common.css").read_text(encoding="utf-8") + rules
    # three times, to outweigh JupyterLab's rules for tables and code in an output
    for word, meaning in {**_COLOURS, "&": f".{name}" * 3}.items():
        text = text.replace(word, meaning)
    return f"<style>{' '.join(text.split())}</style>"


@cache
def page_sheet(page: str, name: str = "") -> str:
    """Return the style element of ``{page}.css``, for the class ``nbdist-{name}``."""
    return sheet(f"nbdist-{name or page}", (_HERE / f"{page}.css").read_text(encoding="utf-8"))


def rank_chip(ranks: str) -> str:
    """Return a rank's number on its colour; several ranks (``0–3``) on grey."""
    number = f" n-k{int(ranks) % 8}" if ranks.isdigit() else ""
    return f'<span class="n-rank{number}">{ranks}</span>'


def mark(state: str) -> str:
    """Return the shape of a state in its colour, for a page that says the word beside it."""
    return f'<span class="n-{state}" aria-hidden="true">{state_mark(state)}</span>'


def text_table(rows: Sequence[Sequence[str]], room: int = sys.maxsize) -> str:
    """Return the cells in columns of text, each at most ``room`` wide."""
    cells = [[cut(printable(cell), room) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(pad, row, widths)).rstrip() for row in cells)
