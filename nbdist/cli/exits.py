"""The exit codes of ``nbdist``, as shells and other launchers know them."""

from __future__ import annotations

import signal

from nbdist.diagnosis import first_failure
from nbdist.model import Run, RunState
from nbdist.store import RunDirectory

USAGE = 2
TIME_LIMIT = 124
"""As timeout(1) has it."""

INTERRUPTED = 128 + signal.SIGINT
OUTPUT_CLOSED = 128 + signal.SIGPIPE


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
