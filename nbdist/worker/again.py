"""A rank begins again, in the same process, as one that has not waited.

What a process has is replaced (execve(2)): its number, its log, its socket and its parent stay the same. What
the program did until then, it does a second time; that is little, since it had not imported its framework.
"""

from __future__ import annotations

import contextlib
import os
import sys

from nbdist.worker import bootstrap
from nbdist.worker.order import CHANNEL, Channel, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms

AGAIN = "--again"
"""Stands before the id of the run on the command line, with the file descriptor of the order."""


def main() -> None:
    """Be the rank whose order is in the file that the process before this one has left open."""
    at = sys.orig_argv.index(AGAIN)
    told = int(sys.orig_argv[at + 1])
    order = Channel(told).receive()
    os.close(told)
    del sys.orig_argv[at : at + 2]
    bootstrap.run(Channel(), order)


def begin_again(
    order: Order, environment: Mapping[str, str], cwd: str, *, noted: bool = True
) -> Callable[[str], None]:
    """What to call with the reason. It does not return, but in a forked child, which is no rank. ``noted``:
    the next run of the program would come to the same."""
    rank = os.getpid()
    processors = os.sched_getaffinity(0)

    def begin(reason: str) -> None:
        if os.getpid() != rank:
            _say(f"{reason}, too late for what a forked child of this rank imports: run it with --cold")
            return
        _say(f"this rank begins again, cold: {reason}")
        if noted:
            _note(order, reason)
        told = os.memfd_create("nbdist-order", 0)
        os.write(told, order.encode())
        os.lseek(told, 0, os.SEEK_SET)
        os.set_inheritable(CHANNEL, True)
        os.chdir(cwd)
        os.sched_setaffinity(0, processors)
        # ignored signals would stay ignored; Python sets them in the main thread alone
        with contextlib.suppress(ValueError):
            for number in signal.valid_signals():
                if signal.getsignal(number) == signal.SIG_IGN:
                    signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        at = len(sys.orig_argv) - 2
        arguments = [*sys.orig_argv[:at], AGAIN, str(told), *sys.orig_argv[at:]]
        os.execve(arguments[0], arguments, dict(environment))

    return begin


def _note(order: Order, reason: str) -> None:
    """For whoever keeps ranks waiting: not for this program."""
    with contextlib.suppress(OSError):
        path = os.path.join(os.path.dirname(order.error_file), "again")
        note = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.write(note, reason.encode())


def _say(what: str) -> None:
    """Into the log, behind what the program has written, wherever it writes now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os.write(2, f"[nbdist] {what}\n".encode())
