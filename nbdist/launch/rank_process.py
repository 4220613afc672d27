"""The process of one rank: started in its own session, its output straight into its log."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist.launch.lifetime import become_child
from nbdist.model.process import ProcessId
from nbdist.processes import identify, send
from nbdist.worker.order import CHANNEL, Order

if TYPE_CHECKING:
    from nbdist.worker.engagement import Preload

WORKER = Path(__file__).parent.parent / "worker" / "__main__.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCommand:
    """Everything the process of a rank is made from."""

    run_id: str
    rank: int
    python: str
    cwd: str
    environment: Mapping[str, str]
    log: Path
    order: Order | Preload


@dataclass(frozen=True, slots=True)
class RankProcess:
    """A started rank. ``channel`` is the supervisor's end of its socket; the supervisor reaps it."""

    process: ProcessId
    channel: socket.socket

    def send(self, number: signal.Signals) -> None:
        send(self.process, number)


def start_rank(command: RankCommand) -> RankProcess:
    """Start the process of a rank and tell it what to run. Raises OSError when it cannot be made.

    It is forked here, in a process with one thread, and not by ``subprocess``: the parent-death
    signal has to be armed between fork and exec, and belongs to the thread that forked.
    """
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    with contextlib.closing(theirs):
        log = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # until it has its own handlers, a signal to the child would run ours, and tell us of it
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _become_rank(command, log, theirs.fileno(), parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(log)
    process = identify(pid) or ProcessId(pid=pid, start_time=0, boot_id="")
    with contextlib.suppress(OSError):
        # a rank that died before it was told is found by its exit
        ours.sendall(command.order.encode())
    ours.setblocking(False)
    return RankProcess(process, ours)


def _become_rank(command: RankCommand, log: int, channel: int, parent: int) -> None:
    """In the child: never returns."""
    try:
        become_child(parent)
        null = os.open(os.devnull, os.O_RDONLY)
        saved = os.dup2(channel, _above(CHANNEL, channel), inheritable=False)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(saved, CHANNEL)
        os.chdir(command.cwd)
        arguments = [
            command.python,
            "-u",
            str(WORKER),
            command.run_id,
            str(command.rank),
        ]
        os.execve(command.python, arguments, dict(command.environment))
    except BaseException as error:  # noqa: BLE001 - the top of a process: said in its log
        os.write(log, f"nbdist: rank {command.rank} could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def _above(low: int, other: int) -> int:
    """A descriptor that neither the standard streams nor ``low`` will overwrite."""
    return max(low, other) + 64
