"""Interrupts this rank's program, also in native code that waits for other ranks.

Such code does not return to Python, where signals are handled; it raises when its connections to the other
ranks end. The KeyboardInterrupt of an earlier SIGINT would then end the program's ``except`` or ``finally``,
which saves its work. So the rank's listener (``stack_answers``) sends the main thread a signal whose handler
raises KeyboardInterrupt: once, and not in a program that another exception is already ending.
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

_GLANCE = 0.005  # seconds between two looks at the main thread
_STORE_GRACE = 0.1  # seconds for the main thread to return before the store's sockets, which it may need, end
_SAVING = 1.0  # seconds of an interrupted program in one call: it may save its work with the others
_COMPUTES = 0.01  # seconds of CPU time after which a waiting main thread would sleep
_TURN = 0.25  # seconds after which a woken thread has run, also on a busy machine
_WAKES = 2  # signals to the main thread, which may fall asleep just as the first one arrives


class Freeing:
    """The interrupts of one rank. ``main`` is the main thread, ``asleep`` returns whether it sleeps."""

    def __init__(self, main: int, asleep: Callable[[], bool]) -> None:
        self._main = main
        self._asleep = asleep
        self._channel = Channel()
        self.owes = False  # KeyboardInterrupt is still to be raised
        self._interrupted = self._freed = False
        self.before: BaseException | None = None  # the one that the main thread handled when interrupted
        self._seen: BaseException | None = None  # the one that it handled in the last handler
        # the number of beats when the main thread was sent one, and the time
        self._beats, self._sent, self._woken = -1, 0.0, 0
        main_thread.on_beat = self._in_main_thread

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the main thread, or call the program's handler of SIGINT."""
        if not self._can():
            self._channel.say(KEPT)
            return
        self._channel.say(HEARD)
        self.before, self.owes = main_thread.handled(self._main), True
        self.remind()

    def terminate(self, by_handler: Callable[[], bool]) -> bool:
        """End the program ``by_handler``, its own; return False where it has none."""
        self.before = main_thread.handled(self._main)
        if not self._can() or not by_handler():
            return False
        self._channel.say(HEARD)
        return True

    def free(self) -> None:
        """Receive a ``Wait``, and end the main thread's if it has taken as long."""
        wait = Wait.receive()
        if not self._can():
            self._channel.say(KEPT)
            return
        error = main_thread.handled(self._main)
        ended = self._freed or self._interrupted
        leaving = ended and error is not None and error is not self.before
        if leaving:
            self._channel.say(LEAVING)
        # a new interrupt, unless one is still to be raised
        owe = not leaving and not self.owes
        self._seen = None
        self.remind()
        patience = max(wait.patience, _SAVING) if leaving or self._interrupted else wait.patience
        if self._comes_back(self._sent + patience) or not self._waits():
            # a rank that was freed earlier may have closed their connection
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
        """Have the main thread call the handler as soon as it executes Python."""
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
            # before the program can report what it raises then
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

    def _comes_back(self, deadline: float) -> bool:
        """Return whether the main thread executes Python before the deadline, or has ended its cell."""
        while main_thread.beats == self._beats and not main_thread.over:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_GLANCE)
        return True

    def _waits(self) -> bool:
        """Return whether the main thread sleeps again after the signal, or may spin for its device."""
        clock, deadline = time.pthread_getcpuclockid(self._main), time.monotonic() + _TURN
        begun = time.clock_gettime(clock)
        while time.clock_gettime(clock) - begun < _COMPUTES and time.monotonic() < deadline:
            if self._asleep():
                return True
            time.sleep(_GLANCE)
        return _nccl() is not None

    def _in_main_thread(self) -> None:
        """Raise KeyboardInterrupt if it is owed, unless another exception is already ending the program."""
        error = self._seen = sys.exc_info()[1]
        if not self.owes or main_thread.over or main_thread.blocks:
            return
        while error is not None and error is not self.before:
            if not _is_in_library(error):
                return
            error = error.__context__
        self.owes, self._interrupted = False, True
        held_back = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler and not held_back:
            raise KeyboardInterrupt
        main_thread.handler_ran |= callable(handler) and not held_back
        os.kill(os.getpid(), signal.SIGINT)


def _is_in_library(error: BaseException) -> bool:
    """Return whether torch's or paddle's own code handles an error, which has not reached the program."""
    trace = error.__traceback__
    return trace is not None and main_thread.is_distributed(trace.tb_frame.f_code)


def _open_sockets(inodes: Iterable[int]) -> list[Any]:
    """Return duplicates of this process's sockets with these inodes."""
    import _socket

    wanted, sockets = frozenset(inodes), []
    for name in os.listdir("/proc/self/fd") if wanted else ():
        try:
            # the program may close a number, and open another file under it, at any moment
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
    """Return torch's module of process groups where one of these may be NCCL's."""
    torch, c10d = map(sys.modules.get, ("torch", "torch.distributed.distributed_c10d"))
    try:
        if c10d is not None and c10d.is_nccl_available() and torch is not None:
            return c10d if c10d.is_initialized() and torch.cuda.is_initialized() else None
    except AttributeError:
        # it is being imported
        pass
    return None


aborted = ""
"""The backend of the aborted process groups, which torch forgets: ``cpu:gloo,cuda:nccl``."""


def _abort(c10d: Any) -> None:
    """Abort NCCL's kernels on the device, and with them all process groups."""
    global aborted
    try:
        backend = str(c10d.get_backend_config())
        c10d._abort_process_group()
        aborted = backend
    except Exception:  # noqa: BLE001 - it calls a private function of torch
        return
