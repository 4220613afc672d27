"""What may be done to a run from a page: ask it to end, remove it. Each takes time, and is for threads."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from dataclasses import asdict
from typing import Any

from nbdist.diagnosis.stacks import take_stacks
from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.stalling import stall_view
from nbdist.model import Reason, Run
from nbdist.store import RunDirectory, look
from nbdist.store.control import ask_to_end, request_interrupt


def stop(directory: RunDirectory, reason: Reason) -> Run | None:
    """Ask the run to end; how it stood before. Where the disk refuses the request, by a signal.

    Raises LaunchError when it cannot be asked either way.
    """
    run = look(directory)
    if run is None or run.state.terminal:
        return run
    try:
        ask_to_end(directory, run, reason)
    except OSError as error:
        raise LaunchError(f"the run cannot be asked to end: {error.strerror}") from error
    return run


def stacks(directory: RunDirectory) -> dict[str, Any]:
    """Where the ranks are now, as the panel's view has a stall: ``Stacks`` in openapi.yaml."""
    report = take_stacks(directory)
    return {
        "time": report.time,
        "live": report.live,
        "problem": report.problem,
        "stall": asdict(stall_view(report, 0.0)),
    }


def interrupt(directory: RunDirectory, rank: int) -> Run | None:
    """Ask for one rank to be interrupted as by Ctrl-C; how the run stood before. Raises LaunchError."""
    run = look(directory)
    if run is None or run.state.terminal or rank >= run.spec.world_size:
        return run
    try:
        request_interrupt(directory, rank)
    except OSError as error:
        raise LaunchError(f"the rank cannot be interrupted: {error.strerror}") from error
    return run


def delete(directory: RunDirectory) -> None:
    """Remove a run with all its files. Raises UsageMistake when it goes on, LaunchError when the disk
    refuses."""
    run = look(directory)
    if run is not None and not run.state.terminal:
        raise UsageMistake(f"run {run.label} goes on: stop it first")
    # out of the list at once, whatever becomes of its files
    gone = directory.path.with_name(f".deleted-{secrets.token_hex(8)}")
    try:
        os.rename(directory.path, gone)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LaunchError(f"the run cannot be removed: {error.strerror}") from error
    with contextlib.suppress(OSError):
        shutil.rmtree(gone, ignore_errors=True)
