"""Tells the supervisor when this rank is on its way out: such a rank may save its work, and gets time.

Once the end has begun, the rank's listener (``stack_answers``) looks several times a second whether the
program handles the exception that ends it, or has run a signal handler of its own, and sends each change.
Within ``nbdist.saving()`` an interrupt waits (``freeing``).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from nbdist.worker import main_thread
from nbdist.worker.checkpoints import PLACE
from nbdist.worker.files import put
from nbdist.worker.main_thread import signal
from nbdist.worker.order import SAVES, STAYS, WAITS, WRITES, Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType
    from typing import Any

LINE = "saving"
"""The file with the line of the program, beside the rank's log: ``launch.saves`` reads it."""

_WAITED = 10  # looks in a row at a rank that waits for others, a second together


def _written_below(folder: str) -> Iterator[bool]:
    """Yield True for each open file below the folder that this process may write."""
    with suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{number}").startswith(folder + os.sep):
                    with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as info:
                        flags = next(line for line in info if line.startswith("flags:"))
                    if int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR):
                        yield True


class WayOut:
    """The looks at one rank. ``main`` is the main thread, ``waits`` returns whether it waits for others."""

    def __init__(self, main: int, directory: str, waits: Callable[[], bool]) -> None:
        self._main = main
        self._path = os.path.join(directory, LINE)
        self._checkpoints = os.path.realpath(os.environ.get(PLACE) or self._path)
        self._waits = waits
        self._channel = Channel()
        self._told, self._line = STAYS, 0
        self._waited = 0
        # the number of beats when SIGTERM was sent, whose handler runs before the next beat
        self._signalled = -1

    def begin(self) -> None:
        """Tell the next state of the rank in any case: the supervisor has begun another end."""
        self._told = STAYS

    def terminate(self) -> bool:
        """Call the program's own handler of SIGTERM; return False where it has none."""
        handler: Any = signal.getsignal(signal.SIGTERM)
        if not callable(handler):
            return False
        main_thread.handler_ran = True
        # Slurm sends the signal to every process of a job
        if not self._executes(getattr(getattr(handler, "__func__", handler), "__code__", None)):
            # to this thread, whose sleep it ends
            signal.pthread_kill(self._main, signal.SIGTERM)
        return True

    def _executes(self, code: CodeType | None) -> bool:
        frame = sys._current_frames().get(self._main)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        return frame is not None

    def signalled(self) -> None:
        """Wait for the program's own handler of the SIGTERM that the supervisor has sent."""
        if callable(signal.getsignal(signal.SIGTERM)) and main_thread.takes_beats():
            self._signalled = main_thread.beats

    @property
    def awaits_handler(self) -> bool:
        """True until the main thread has run the handler of a signal that was sent."""
        return self._signalled >= 0

    def look(self, before: BaseException | None) -> None:
        """Tell the supervisor if the rank's state has changed. ``before``: the exception that the program
        handled when the end began."""
        if self.awaits_handler and main_thread.beats > self._signalled:
            main_thread.handler_ran, self._signalled = True, -1
        word = self._state(before)
        if word != self._told:
            self._told = word
            self._channel.say(word)
        if word != STAYS and (line := self._line_of_program()) != self._line:
            self._line = line
            with suppress(OSError):
                put(self._path, b"%d" % line)

    def _state(self, before: BaseException | None) -> bytes:
        if main_thread.over:
            return STAYS
        if main_thread.blocks:
            return WRITES
        error = main_thread.handled(self._main)
        if not main_thread.handler_ran and (error is None or error is before):
            return STAYS
        if any(_written_below(self._checkpoints)):
            return WRITES
        self._waited = self._waited + 1 if self._waits() else 0
        return WAITS if self._waited >= _WAITED else SAVES

    def _line_of_program(self) -> int:
        """Return the line of the program's own file where the main thread is; 0 where it is not in it."""
        program = getattr(sys.modules.get("__main__"), "__file__", None)
        frame = sys._current_frames().get(self._main)
        while frame is not None and frame.f_code.co_filename != program:
            frame = frame.f_back
        return 0 if frame is None else frame.f_lineno
