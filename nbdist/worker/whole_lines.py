"""``print`` writes its line in one piece.

A rank's output is unbuffered, so that a killed rank has lost nothing. Unbuffered, the built-in
``print`` writes each argument, separator and line end by itself, and the lines of several processes
of a rank (DataLoader workers, spawned children) get mixed within each other.
"""

from __future__ import annotations

import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_print = builtins.print


def install() -> None:
    """Put the ``print`` of this module in place of the built-in one, for this process and its forks."""
    builtins.print = whole_line_print


def whole_line_print(
    *values: object,
    sep: Any = " ",
    end: Any = "\n",
    file: Any = None,
    flush: bool = False,
) -> None:
    """Print as the built-in one does."""
    out = sys.stdout
    if file is not None or out is None:
        _print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    space = " " if sep is None else sep
    newline = "\n" if end is None else end
    if not isinstance(space, str) or not isinstance(newline, str):
        _print(*values, sep=sep, end=end, flush=flush)  # it has the right error for that
        return
    out.write(space.join([str(value) for value in values]) + newline)
    if flush:
        out.flush()
