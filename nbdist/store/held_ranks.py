"""Commands for the prompts of held ranks, and the value of an expression in ranks that go on."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from nbdist.model import RankHeld, Run
from nbdist.model.decoding import MALFORMED, build
from nbdist.sockets import connect_to
from nbdist.store.control import RanksRequest, request_of_ranks, wake
from nbdist.store.journal import load_object
from nbdist.store.paths import RankDirectory, RunDirectory

_LOOK = 0.01
_LONGEST = 1 << 20  # bytes of an answer


def read_held(files: RankDirectory, rank: int) -> RankHeld:
    """Return what a rank has written about its hold; without ``why`` when it goes on."""
    event = {"time": time.time(), "rank": rank}
    with contextlib.suppress(OSError, *MALFORMED):
        return build(RankHeld, load_object(files.held) | event)
    return build(RankHeld, event)


def held_ranks(directory: RunDirectory, run: Run) -> dict[int, Path]:
    """Return the sockets of the prompts that take commands, by rank."""
    sockets = {rank: directory.rank(rank, run.attempt).debugger for rank in run.held}
    return {rank: path for rank, path in sockets.items() if path.exists()}


def ask(prompts: Mapping[int, Path], text: str, patience: float | None = None) -> dict[int, str]:
    """Send a command to the prompts of ranks; return the answers. A command that lets a program go on is
    answered at its next stop: those that take more than ``patience`` seconds are left out."""
    answers: dict[int, str] = {}
    lines: dict[int, socket.socket] = {}
    deadline = None if patience is None else time.monotonic() + patience
    with contextlib.ExitStack() as connections:
        for rank, path in prompts.items():
            # it may have gone on
            with contextlib.suppress(OSError):
                line = connections.enter_context(connect_to(path))
                line.sendall(f"{text}\n".encode("utf-8", "replace"))
                line.shutdown(socket.SHUT_WR)
                lines[rank] = line
        for rank, line in lines.items():
            line.settimeout(None if deadline is None else max(_LOOK, deadline - time.monotonic()))
            with contextlib.suppress(OSError):
                answers[rank] = line.makefile("rb").read(_LONGEST).decode("utf-8", "replace").rstrip("\n")
    return answers


def live_ranks(run: Run) -> tuple[int, ...]:
    """Return the ranks that have begun and not ended."""
    return tuple(rank.rank for rank in run.ranks if rank.process is not None and not rank.state.terminal)


def values(directory: RunDirectory, run: Run, expression: str, limit: float) -> dict[int, str]:
    """Return the value of an expression by rank, of those that answer in time. Raises OSError."""
    request = RanksRequest(ranks=live_ranks(run), name=os.urandom(8).hex(), expression=expression)
    request_of_ranks(directory, request)
    wake(run)
    deadline = time.monotonic() + limit
    files = {rank: directory.rank(rank, run.attempt).answer(request.name) for rank in request.ranks}
    while not all(path.exists() for path in files.values()) and time.monotonic() < deadline:
        time.sleep(_LOOK)
    answers = {}
    for rank, path in files.items():
        with contextlib.suppress(OSError):
            answers[rank] = path.read_text("utf-8", "replace")
            path.unlink()
    return answers


def grouped(answers: Mapping[int, str]) -> list[tuple[list[int], str]]:
    """Return each answer once, with the ranks that gave it."""
    groups: dict[str, list[int]] = {}
    for rank, text in sorted(answers.items()):
        groups.setdefault(text, []).append(rank)
    return [(ranks, text) for text, ranks in groups.items()]
