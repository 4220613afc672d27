"""How ``nbdist`` talks to a shell: results to stdout, everything about them to stderr, and an exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from nbdist.diagnosis import first_failure
from nbdist.feed.ansi import harmless
from nbdist.model import Run, RunState
from nbdist.store import RunDirectory
from nbdist.verbs.verb import TERMINAL, Frontend

USAGE = 2
TIME_LIMIT = 124
"""As timeout(1) has it."""

INTERRUPTED = 128 + signal.SIGINT
OUTPUT_CLOSED = 128 + signal.SIGPIPE

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


HERE = Frontend(TERMINAL, note)


def report(text: str) -> None:
    """A report as it stands."""
    _to_stderr(text)


def _to_stderr(text: str) -> None:
    # a terminal that has gone takes nothing more
    with contextlib.suppress(OSError):
        print(harmless(text), file=sys.stderr, flush=True)


class Output:
    """stdout as long as it is read; ``on_closed`` is called once when its reader has gone."""

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


def exit_code(run: Run, directory: RunDirectory) -> int:
    """0 for success, 130 for a run that was stopped, 124 at its time limit, else that of its first
    failure: its exit code, or 128 + N for signal N; 1 where there is none."""
    if run.state is RunState.SUCCEEDED:
        return 0
    if run.state is RunState.CANCELLED:
        return INTERRUPTED
    if run.timed_out:
        return TIME_LIMIT
    failure = first_failure(run, directory) if run.state is RunState.FAILED else None
    if failure is None or not failure.code:
        # an exception that left the program, whatever the process made of it
        return 1
    if failure.code < 0:
        # after an exception, a signal is only how the process was ended
        return 1 if failure.report is not None else 128 - failure.code
    return failure.code
