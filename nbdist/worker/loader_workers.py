"""The stacks of this rank's DataLoader workers: forked processes, in which no thread listens. The handler of
``faulthandler`` answers for a sleeping one, a handler in Python, between two instructions, for one that
executes Python. Both write to a file that all workers of the rank share.
"""

from __future__ import annotations

import faulthandler
import os
import time

from nbdist.worker.files import append
from nbdist.worker.main_thread import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_BUSY = int(signal.SIGRTMIN) + 9 if hasattr(signal, "SIGRTMIN") else 0
"""The signal for a worker that executes Python."""

_MOST, _LIMIT, _POLL = 2, 0.5, 0.005
"""Workers that are asked, seconds to wait for each, and seconds between two looks at the file."""

_path = ""
_signal = 0


def prepare(directory: str, signal: int) -> None:
    """Let processes that this one forks from now on answer to the signal."""
    global _path, _signal
    _path, _signal = os.path.join(directory, "workers"), signal
    os.register_at_fork(after_in_child=_listen)


def _listen() -> None:
    try:
        file = _open(os.O_WRONLY | os.O_APPEND)
        faulthandler.register(_signal, file=file, all_threads=True, chain=False)
        if _BUSY:
            signal.signal(_BUSY, _tell)
    except (OSError, ValueError, RuntimeError):
        return


def _tell(_: int, frame: FrameType | None) -> None:
    """Write the stack as ``faulthandler`` does."""
    lines = ["Current thread 0x0000000000000001 (most recent call first):"]
    while frame is not None:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}')
        frame = frame.f_back
    try:
        append(_path, "\n".join([*lines, ""]).encode(errors="replace"))
    except OSError:
        return


def _open(flags: int) -> int:
    return os.open(_path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def stacks() -> list[str]:
    """Return the stacks of a few forked processes, without those that do not answer in time."""
    listening = [(pid, number) for pid in _children() if (number := _listens(pid))]
    return list(filter(None, (_stack_of(pid, number) for pid, number in listening[:_MOST])))


def _stack_of(pid: int, number: int) -> str:
    text, until = b"", time.monotonic() + _LIMIT
    try:
        file = _open(os.O_RDWR)
        try:
            os.ftruncate(file, 0)
            os.kill(pid, number)
            while time.monotonic() < until:
                time.sleep(_POLL)
                before, text = text, os.pread(file, 1 << 16, 0)
                if text and text == before:
                    break
        finally:
            os.close(file)
    except OSError:
        return ""
    return text.decode(errors="replace")


def _children() -> list[int]:
    pids: list[int] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as file:
                pids += map(int, file.read().split())
    except (OSError, ValueError):
        return []
    return pids


def _listens(pid: int) -> int:
    """Return the signal that a process handles, 0 for none. One that executes Python could crash while a
    handler in C reads its frames; one that has executed another program would die."""
    try:
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":", 1) for line in file if ":" in line)
        number = {"S": _signal, "R": _BUSY}.get(status["State"].split()[0], 0)
        return number if number and int(status["SigCgt"], 16) & 1 << (number - 1) else 0
    except (OSError, KeyError, ValueError):
        return 0
