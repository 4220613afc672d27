"""Commands for the prompts of held ranks, and the value of an expression in ranks that go on."""

from __future__ import annotations

import codeop
import contextlib
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nbdist.model import RankHeld, Run
from nbdist.model.decoding import MALFORMED, build
from nbdist.sockets import connect_to
from nbdist.store.control import request_debug, wake
from nbdist.store.journal import load_object
from nbdist.store.paths import RankDirectory, RunDirectory

_LOOK = 0.01
_LONGEST = 1 << 20  # bytes of an answer


def read_held(files: RankDirectory, event: RankHeld) -> RankHeld:
    """Return the event with what the rank has written about its hold."""
    try:
        return build(RankHeld, load_object(files.held) | {"time": event.time, "rank": event.rank})
    except (OSError, *MALFORMED):
        return replace(event, why="step")


def held_ranks(directory: RunDirectory, run: Run) -> list[int]:
    """Return the ranks whose prompts take commands."""
    return [rank for rank in run.held if directory.rank(rank, run.attempt).debugger.exists()]


def ask(
    directory: RunDirectory, run: Run, ranks: Iterable[int], text: str, patience: float | None = None
) -> dict[int, str]:
    """Send a command to the prompts of ranks; return the answers. A command that lets a program go on is
    answered at its next stop: those that take more than ``patience`` seconds are left out."""
    received: dict[int, bytes] = {}
    answers: dict[int, str] = {}
    until = None if patience is None else time.monotonic() + patience
    with contextlib.ExitStack() as lines, selectors.DefaultSelector() as selector:
        for rank in ranks:
            # it may have gone on
            with contextlib.suppress(OSError):
                line = lines.enter_context(connect_to(directory.rank(rank, run.attempt).debugger))
                line.sendall(f"{text}\n".encode("utf-8", "replace"))
                line.shutdown(socket.SHUT_WR)
                selector.register(line, selectors.EVENT_READ, (rank, line))
        while selector.get_map() and (until is None or time.monotonic() < until):
            for key, _ in selector.select(None if until is None else max(0.0, until - time.monotonic())):
                rank, line = key.data
                piece = b""
                with contextlib.suppress(OSError):
                    piece = line.recv(1 << 16)
                received[rank] = received.get(rank, b"") + piece
                if not piece or len(received[rank]) > _LONGEST:
                    selector.unregister(line)
                    answers[rank] = received[rank].decode("utf-8", "replace").rstrip("\n")
    return answers


def values(directory: RunDirectory, run: Run, expression: str, limit: float) -> dict[int, str]:
    """Return the value of an expression by rank, of those that answer in time. Raises OSError."""
    ranks = [rank.rank for rank in run.ranks if rank.process is not None and not rank.state.terminal]
    name = request_debug(directory, ranks, expression)
    wake(run)
    answers: dict[int, str] = {}
    deadline = time.monotonic() + limit
    while len(answers) < len(ranks) and time.monotonic() < deadline:
        for rank in ranks:
            if (text := _value(directory.rank(rank, run.attempt), name)) is not None:
                answers[rank] = text
        time.sleep(_LOOK)
    return answers


def _value(files: RankDirectory, name: str) -> str | None:
    """Return the answer of this name; None while there is none."""
    with contextlib.suppress(OSError, *MALFORMED):
        answer = load_object(files.value)
        return str(answer["text"]) if answer["name"] == name else None
    return None


def grouped(answers: Mapping[int, str]) -> list[tuple[list[int], str]]:
    """Return each answer once, with the ranks that gave it."""
    groups: dict[str, list[int]] = {}
    for rank, text in sorted(answers.items()):
        groups.setdefault(text, []).append(rank)
    return [(ranks, text) for text, ranks in groups.items()]


def is_incomplete(text: str) -> bool:
    """Return whether more lines belong to a statement."""
    try:
        return codeop.compile_command(text, symbol="single") is None
    except (SyntaxError, ValueError, OverflowError):
        return False
