"""Interrupts while a run starts, goes on and ends: from before its first process until its end has been seen
they stop the run, and not the code that starts and watches it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from nbdist.errors import UnknownRun
from nbdist.model import Reason
from nbdist.runner.handle import RunHandle, request_stop_of


class Interrupts:
    """Takes the signals ``numbers`` for as long as it is entered; each stops the run, and a second one
    hastens its end. ``reason`` says why a run is stopped.

    With ``raises`` one that comes before ``begin`` is a KeyboardInterrupt at once, and any is one at the end
    where nothing else is raised; otherwise it is for the caller to ask for ``latest``. Off the main thread (a
    subshell) Python has no signals to catch: there the interrupt reaches the main thread, and the panel's
    Stop reaches the run.
    """

    def __init__(
        self,
        reason: Callable[[signal.Signals], Reason],
        numbers: Iterable[signal.Signals] = (signal.SIGINT,),
        *,
        raises: bool,
    ) -> None:
        self.latest: signal.Signals | None = None
        self._reason = reason
        self._numbers = tuple(numbers)
        self._raises = raises
        self._begun = False
        self._kept: list[signal.Signals] = []
        self._handle: RunHandle | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                # nohup and the & of a shell's script ignore some on purpose
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        if self._raises and self.came() and error is None:
            raise KeyboardInterrupt("the run is stopped, if it had not ended before")

    def came(self) -> bool:
        """Whether there was one."""
        return self.latest is not None

    def begin(self) -> None:
        """From here on they are kept for the run that is about to start. Raises KeyboardInterrupt when one
        has come before: Python drops an exception in one of its own callbacks, as imports have them."""
        self._begun = True
        if self.came():
            raise KeyboardInterrupt("nothing was started")

    def stop(self, handle: RunHandle) -> None:
        """From here on they stop this run; what came before is made up for."""
        self._handle = handle
        while self._kept:
            self._ask(self._kept.pop())

    def _take(self, number: int, _: object) -> None:
        self.latest = signal.Signals(number)
        if self._handle is not None:
            self._ask(self.latest)
        elif self._raises and not self._begun:
            raise KeyboardInterrupt("nothing was started")
        else:
            self._kept.append(self.latest)

    def _ask(self, number: signal.Signals) -> None:
        assert self._handle is not None, "there is a run to stop"
        # a run whose directory was deleted is stopped by its supervisor
        with contextlib.suppress(UnknownRun):
            request_stop_of(self._handle, self._reason(number))
