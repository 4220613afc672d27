"""Signals as something to read: a wait with a selector ends when one comes, and it is dealt with there."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

from nbdist.launch.binding import REQUESTS_TO_END

# SIGURG is how an engine tells a supervisor alone: whoever does not listen to it ignores it
_NUMBERS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGURG)


class Wakeup:
    """Takes the signals of this process from now on."""

    def __init__(self) -> None:
        self.socket, self._theirs = socket.socketpair()
        self.socket.setblocking(False)
        self._theirs.setblocking(False)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        for number in _NUMBERS:
            # the handler does nothing: the wake-up descriptor carries the number
            signal.signal(number, lambda *_: None)
        # what has come before
        signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS_TO_END)

    def requests_to_end(self) -> Iterator[signal.Signals]:
        """What has come but SIGCHLD, which only wakes up."""
        for number in self.socket.recv(4096):
            if number != signal.SIGCHLD:
                yield signal.Signals(number)
