"""Notices of a run to its user (``--notify``), each sent once by a process of its own (``feed.notice``)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from nbdist.launch.binding import NOTIFY
from nbdist.launch.lifetime import complain
from nbdist.model import Event, RunEnded, RunLost, Stalled
from nbdist.model.events import RunState
from nbdist.store.paths import RunDirectory

_ENTRY = Path(__file__).parent.parent / "entry.py"

_LONGEST = 20.0
"""Seconds for the last notice, once the end is recorded: no reader of the run waits for it."""


class Notices:
    """The notices of one run. Takes the URL out of this process's environment: it may have a secret."""

    def __init__(self, directory: RunDirectory) -> None:
        self._url = os.environ.pop(NOTIFY, "")
        self._directory = directory
        self._stalled = False
        self.senders: set[int] = set()

    def recorded(self, event: Event) -> None:
        """Send what the user wants to hear of: the first stall, and an end that no person asked for."""
        if not self._url:
            return
        if isinstance(event, Stalled) and not self._stalled:
            self._stalled = True
            self._send()
        elif isinstance(event, RunLost) or (
            isinstance(event, RunEnded) and event.state is not RunState.STOPPED
        ):
            self._send()

    def finish(self) -> None:
        """Wait for the notices, and end those that take too long."""
        deadline = time.monotonic() + _LONGEST
        while self.senders and time.monotonic() < deadline:
            for pid in [*self.senders]:
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(pid, os.WNOHANG)[0] == 0:
                        continue
                self.senders.discard(pid)
            time.sleep(0.02)
        for pid in self.senders:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _send(self) -> None:
        command = [sys.executable, str(_ENTRY), "feed.notice", str(self._directory.path)]
        try:
            self.senders.add(os.posix_spawn(command[0], command, {**os.environ, NOTIFY: self._url}))
        except OSError as error:
            complain(f"the notice could not be sent: {error}")
