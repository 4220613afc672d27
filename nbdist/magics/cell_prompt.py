"""The prompt of held ranks below the cell of their run."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import threading
from collections.abc import Mapping

from nbdist.model import RankHeld, Run
from nbdist.panel.debug_prompt import DebugPrompt
from nbdist.runner import RunHandle
from nbdist.store.held_ranks import ask, held_ranks


class CellPrompt:
    """``input()`` in a thread, beside a cell that goes on to show its run: it ends when others have let the
    ranks go on. A context that ends it."""

    def __init__(self, handle: RunHandle, *, asks: bool) -> None:
        self._handle = handle
        self._asks = asks
        self._thread: threading.Thread | None = None
        self._reads = False

    def __enter__(self) -> CellPrompt:
        return self

    def __exit__(self, *_: object) -> None:
        self.look({})

    def attend(self, run: Run) -> None:
        """Look at a run, and keep it watched."""
        self._handle.keep_watched(run)
        self.look(run.held)

    def look(self, held: Mapping[int, RankHeld]) -> None:
        """Begin to ask when a rank is held, and end when none is."""
        alive = self._thread is not None and self._thread.is_alive()
        if held and self._asks and not alive:
            target = functools.partial(contextvars.copy_context().run, self._ask)
            self._thread = threading.Thread(target=target, name="nbdist debugger", daemon=True)
            self._thread.start()
        elif alive and not held and self._reads and self._thread is not None:
            thread = ctypes.c_ulong(self._thread.ident or 0)
            # the kernel's input() looks for it a hundred times a second
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))
            self._thread.join(1.0)

    def _ask(self) -> None:
        try:
            DebugPrompt(self._handle.directory, read=self._read).run()
        except RuntimeError:
            # input() has no front end, as under nbclient: who wants to come from elsewhere says --debug
            run, directory = self._handle.run, self._handle.directory
            self._asks = not run.spec.debug
            if self._asks:
                ask(directory, run, held_ranks(directory, run), "c", 0.0)

    def _read(self, text: str) -> str:
        self._reads = True
        try:
            return input(text)
        finally:
            self._reads = False
