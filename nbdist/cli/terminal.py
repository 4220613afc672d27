"""What ``nbdist`` writes, and where: results to stdout, everything about them to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from nbdist.panel.ansi import harmless

# as messages are written for a notebook, and what a shell calls the same
_IN_A_SHELL = (
    ("%%distributed -n 2", "nbdist run -n 2 train.py"),
    ("%dist_", "nbdist "),
    ("%env ", "export "),
    ("%pip ", "pip "),
    ("  and restart the kernel", ""),
    (", of another notebook", ", of a notebook"),
    (", kept when the kernel ends", ""),
    ("  !", "  "),
)


def in_a_shell(message: str) -> str:
    """A message with what to type written for a shell."""
    for notebook, shell in _IN_A_SHELL:
        message = message.replace(notebook, shell)
    return message


def complain(message: str) -> None:
    """What went wrong, in one line."""
    _to_stderr(f"nbdist: {in_a_shell(message)}")


def note(message: str) -> None:
    """What a person should know, and a program that reads stdout need not."""
    _to_stderr(f"[nbdist] {in_a_shell(message)}")


def report(text: str) -> None:
    """A report as it stands."""
    _to_stderr(text)


def _to_stderr(text: str) -> None:
    # a terminal that has gone takes nothing more, and there is nobody to tell
    with contextlib.suppress(OSError):
        print(harmless(text), file=sys.stderr, flush=True)


class Output:
    """stdout for as long as somebody reads it; ``on_closed`` is told once when nobody does."""

    def __init__(self, on_closed: Callable[[OSError], object]) -> None:
        self._on_closed = on_closed
        self._closed = False

    def write(self, text: str) -> None:
        if self._closed:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            self._closed = True
            discard_output()
            self._on_closed(error)


def discard_output() -> None:
    """Let what is still written to stdout go nowhere, so that the flush at exit does not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
