"""The probe of a run whose ranks have GPUs: a small process that asks NVML, and is asked by us.

Why a process: a call of NVML may hang for as long as a driver is in trouble, and the supervisor, which
must end ranks in that very moment, may have no second thread (the ranks' parent-death signal belongs to
the thread that forks, and forks of a process with threads are unsafe). It has an interpreter of its own,
too, with site-packages, where the supervisor has none. If it never answers, there are no such values.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from nbdist.devices.gpu_load import GpuLoad, decode_loads
from nbdist.launch.binding import become_child
from nbdist.model import ProcessId
from nbdist.processes import identify, send

PROBE = Path(__file__).parent.parent / "devices" / "__main__.py"

_FRESH = 5.0
"""Seconds for which an answer counts."""

_PATIENCE = 0.5
"""Seconds that a killed probe has to go. One that hangs in the kernel stays until its call returns."""


class GpuProbe:
    """Asks now, answers later: no call here waits for the probe, but for ``end``."""

    def __init__(
        self,
        gpus: Iterable[int],
        *,
        command: Sequence[str] = (sys.executable, str(PROBE)),
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises OSError when no process can be made."""
        self._clock = clock
        self._pause = pause
        self._loads: dict[int, GpuLoad] = {}
        self._answered = -_FRESH
        self.waits = False
        """Whether a question has not been answered yet."""
        self._rest = b""
        ours, theirs = socket.socketpair()
        with contextlib.closing(theirs):
            self.process = _fork([*command, *map(str, gpus)], theirs.fileno())
        ours.setblocking(False)
        self._socket = ours

    def ask(self) -> None:
        """Let the probe look, unless it is still at the last look."""
        if not self.waits:
            with contextlib.suppress(OSError):
                self._socket.send(b"\n")
                self.waits = True

    def loads(self) -> Mapping[int, GpuLoad]:
        """The loads by the GPU's index, as far as they have been answered lately."""
        with contextlib.suppress(OSError):
            while data := self._socket.recv(1 << 16):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self._take(line)
        return self._loads if self._clock() - self._answered < _FRESH else {}

    def end(self) -> bool:
        """Kill the probe; whether it has gone."""
        self._socket.close()
        send(self.process, signal.SIGKILL)
        deadline = self._clock() + _PATIENCE
        while not _gone(self.process.pid):
            if self._clock() > deadline:
                return False
            self._pause(0.002)
        return True

    def _take(self, line: bytes) -> None:
        self.waits = False
        with contextlib.suppress(ValueError):
            self._loads = {load.index: load for load in decode_loads(line)}
            self._answered = self._clock()


def _fork(command: Sequence[str], channel: int) -> ProcessId:
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become_probe(command, channel, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return identify(pid) or ProcessId(pid=pid, start_time=0, boot_id="")


def _become_probe(command: Sequence[str], channel: int, parent: int) -> None:
    """In the child: never returns. What it has to say, a driver that is missing, is nobody's concern."""
    try:
        become_child(parent)
        os.dup2(channel, 0)
        os.dup2(channel, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.execv(command[0], list(command))
    finally:
        os._exit(127)


def _gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        # collected already, with the ranks
        return True
