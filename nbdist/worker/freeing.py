"""Interrupts this rank's program, and gets it back from native code that waits for other ranks.

Such code does not come back to Python, and a signal that Python has noted does nothing there. It raises when
its connections to the other ranks end. The KeyboardInterrupt of a SIGINT that Python had noted before would
then end the program's ``except`` or ``finally``, which was to save its work. So the rank's listener
(``stacks``) sends the main thread a signal whose handler raises KeyboardInterrupt: once, and not in a program
that is already leaving by what it has raised since.
"""

from __future__ import annotations

import _thread
import itertools
import os
import stat
import sys
import time
from contextlib import suppress

from nbdist.worker import main_thread
from nbdist.worker.main_thread import signal
from nbdist.worker.order import FREED, HEARD, KEPT, LEAVING, Channel, Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_GLANCE = 0.005  # seconds between two looks whether the main thread is back
_STORE_GRACE = 0.1
"""Seconds that it has to come back before the store is ended, too, which it may need to leave in order."""

_SAVING = 1.0
"""Seconds that a program that was interrupted may be in one call: it may save its work with the others."""

_COMPUTES = 0.01  # seconds of a processor in which a main thread that waits would have gone to sleep
_TURN = 0.25  # seconds in which a thread that was woken has had its turn, on a busy machine, too
_WAKES = 2  # how often the main thread is sent the signal: it may begin to sleep just when it is to be woken


class Freeing:
    """``main`` is the main thread, ``asleep`` says whether it sleeps."""

    def __init__(self, main: int, asleep: Callable[[], bool]) -> None:
        self._main = main
        self._asleep = asleep
        self._channel = Channel()
        self.owes = False
        """Whether KeyboardInterrupt is still to be raised."""

        self._interrupted = self._freed = False
        self.before: BaseException | None = None
        """What the main thread handled when it was interrupted."""

        # what it handled when it last executed the handler
        self._seen: BaseException | None = None
        # how many beats there had been when the main thread was sent one, and when that was
        self._beats, self._sent, self._woken = -1, 0.0, 0
        main_thread.on_beat = self._in_main_thread

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the main thread, or let it do what it does at SIGINT."""
        if not self._can():
            self._channel.say(KEPT)
            return
        self._channel.say(HEARD)
        self._owe()
        self.remind()

    def free(self) -> None:
        """Read what ends a wait, and end the main thread's if it has taken long enough."""
        wait = Wait.receive()
        if not self._can():
            self._channel.say(KEPT)
            return
        error = main_thread.handled(self._main)
        told = self._freed or self._interrupted
        leaving = told and error is not None and error is not self.before
        if leaving:
            self._channel.say(LEAVING)
        # asked anew where the interrupt has been raised: one that is still owed will be
        owe = not leaving and not self.owes
        self._seen = None
        self.remind()
        patience = max(wait.patience, _SAVING) if leaving or self._interrupted else wait.patience
        if self._comes_back(self._sent + patience) or not self._waits():
            # a rank that was freed before may have brought it back by its end of their connection
            seen: BaseException | None = self._seen
            brought = seen is not None and seen is not error
            self._freed |= brought
            if not leaving:
                self._channel.say(FREED if brought else KEPT)
            return
        if owe:
            self.before = error
        self._end(wait, leaving=leaving, owe=owe)

    def remind(self) -> None:
        """Have the handler called, in the main thread, as soon as that executes Python."""
        if main_thread.beats != self._beats:
            self._beats, self._sent, self._woken = main_thread.beats, time.monotonic(), 0
        if self._freed or self._interrupted:
            # a signal might end a write of what it saves
            _thread.interrupt_main(main_thread.BEAT)  # type: ignore[arg-type]  # it has no name of its own
        elif self._woken < _WAKES:
            self._woken += 1
            signal.pthread_kill(self._main, main_thread.BEAT)

    def _end(self, wait: Wait, *, leaving: bool, owe: bool) -> None:
        """End the wait. ``owe``: KeyboardInterrupt is to be raised then."""
        nccl = _nccl()
        groups = [_open_sockets(inodes) for inodes in (wait.sockets, wait.store)]
        ends = any(groups) or nccl is not None
        if not leaving:
            # said before the program can say what it raises then
            self._channel.say(FREED if ends else KEPT)
        if not ends:
            return
        self._freed = True
        self.owes |= owe
        if nccl is not None:
            _abort(nccl)
        for sockets in groups:
            for opened in sockets:
                # the other rank may have been faster
                with suppress(OSError):
                    opened.shutdown(2)  # SHUT_RDWR
            if sockets and self._comes_back(time.monotonic() + _STORE_GRACE):
                break
        for opened in itertools.chain(*groups):
            opened.close()

    def _can(self) -> bool:
        return main_thread.takes_beats() and not main_thread.over

    def _owe(self) -> None:
        self.before, self.owes = main_thread.handled(self._main), True

    def _comes_back(self, deadline: float) -> bool:
        """Return whether the main thread executes Python before the deadline, or is done with its cell."""
        while main_thread.beats == self._beats and not main_thread.over:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_GLANCE)
        return True

    def _waits(self) -> bool:
        """Return whether the main thread sleeps, or may spin for its device. The signal that it was sent has
        woken it, and it may stand behind others for a processor before it sleeps again."""
        clock, deadline = time.pthread_getcpuclockid(self._main), time.monotonic() + _TURN
        begun = time.clock_gettime(clock)
        while time.clock_gettime(clock) - begun < _COMPUTES and time.monotonic() < deadline:
            if self._asleep():
                return True
            time.sleep(_GLANCE)
        return _nccl() is not None

    def _in_main_thread(self) -> None:
        """Raise KeyboardInterrupt if that is owed, and the program is not leaving already."""
        error = self._seen = sys.exc_info()[1]
        if not self.owes or main_thread.over:
            return
        while error is not None and error is not self.before:
            if not _is_in_library(error):
                return
            error = error.__context__
        self.owes, self._interrupted = False, True
        held_back = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler and not held_back:
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGINT)


def _is_in_library(error: BaseException) -> bool:
    """Return whether torch's or paddle's own code handles an error, which the program has not seen yet."""
    trace = error.__traceback__
    return trace is not None and main_thread.is_distributed(trace.tb_frame.f_code)


def _open_sockets(inodes: Iterable[int]) -> list[Any]:
    """Return this process's sockets of these inodes, under numbers of their own."""
    import _socket

    wanted, sockets = frozenset(inodes), []
    for name in os.listdir("/proc/self/fd") if wanted else ():
        try:
            # the program may close a number, and give it to another file, at any moment
            number = os.dup(int(name))
        except OSError:
            continue
        status = os.fstat(number)
        if stat.S_ISSOCK(status.st_mode) and status.st_ino in wanted:
            sockets.append(_socket.socket(fileno=number))
        else:
            os.close(number)
    return sockets


def _nccl() -> Any:
    """torch's module of process groups, where one of these may be NCCL's."""
    torch, c10d = map(sys.modules.get, ("torch", "torch.distributed.distributed_c10d"))
    try:
        if c10d is not None and c10d.is_nccl_available() and torch is not None:
            return c10d if c10d.is_initialized() and torch.cuda.is_initialized() else None
    except AttributeError:
        # it is being imported
        pass
    return None


aborted = ""
"""The backend of the process groups that were ended, as torch names it (``cpu:gloo,cuda:nccl``): torch has
forgotten them then."""


def _abort(c10d: Any) -> None:
    """End what NCCL does on the device, and all process groups with it."""
    global aborted
    try:
        backend = str(c10d.get_backend_config())
        c10d._abort_process_group()
        aborted = backend
    except Exception:  # noqa: BLE001 - it is another project's, and has a name of its own
        return
