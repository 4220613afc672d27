"""Where the DataLoader workers of this rank are: forked processes, which tell by a handler that they inherit.

In a worker no thread listens. So the handler of ``faulthandler`` alone answers there, into a file that all
workers of the rank share.
"""

from __future__ import annotations

import faulthandler
import os
import time

_MOST, _LIMIT, _POLL = 2, 0.25, 0.005
"""So many workers are asked, each for so many seconds, with so many between two looks at the file."""

_path = ""
_signal = 0


def prepare(directory: str, signal: int) -> None:
    """From now on a process that this one forks answers to the signal."""
    global _path, _signal
    _path, _signal = os.path.join(directory, "workers"), signal
    os.register_at_fork(after_in_child=_listen)


def _listen() -> None:
    try:
        file = _open(os.O_WRONLY | os.O_APPEND)
        faulthandler.register(_signal, file=file, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        return


def _open(flags: int) -> int:
    return os.open(_path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def stacks() -> list[str]:
    """What the handlers of a few forked processes wrote; nothing of one that did not answer in time."""
    children = [pid for pid in _children() if _listens(pid)]
    return list(filter(None, map(_asked, children[:_MOST])))


def _asked(pid: int) -> str:
    text, until = b"", time.monotonic() + _LIMIT
    try:
        file = _open(os.O_RDWR)
        try:
            os.ftruncate(file, 0)
            os.kill(pid, _signal)
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
    try:
        threads = os.listdir("/proc/self/task")
        found = []
        for thread in threads:
            with open(f"/proc/self/task/{thread}/children") as file:
                found += [int(pid) for pid in file.read().split()]
    except (OSError, ValueError):
        return []
    return found


def _listens(pid: int) -> bool:
    """Whether the process sleeps, and takes the signal. One that executes Python could crash while a handler
    reads its frames; one that has executed another program would be ended by the signal."""
    try:
        with open(f"/proc/{pid}/status") as file:
            told = dict(line.split(":", 1) for line in file if ":" in line)
        return "S" in told["State"].split()[0] and bool(int(told["SigCgt"], 16) & 1 << (_signal - 1))
    except (OSError, KeyError, ValueError):
        return False
