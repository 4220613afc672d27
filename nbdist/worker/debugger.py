"""Holds the program of this rank for a debugger: at ``breakpoint()``, where it raised, or where it is now.

The prompt is pdb's. A client connects to the rank's socket, sends one command, closes its half, and receives
what pdb prints until it reads the next one. So the prompt belongs to no client: the cell, the panel and a
terminal may all ask, and one that goes leaves nothing behind. A file tells the supervisor what is held.
"""

from __future__ import annotations

import ctypes
import functools
import json
import linecache
import os
import pdb
import socket
import sys
import time
from contextlib import suppress

from nbdist.sockets import is_own, listen_at
from nbdist.worker import main_thread
from nbdist.worker.files import put, remove
from nbdist.worker.operands import conditions, is_library, operands
from nbdist.worker.order import HELD, HOLDS, QUIT, Channel, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

_PATIENCE = 1800.0  # seconds without a command after which the program goes on
_LOOK = 0.25  # seconds between two looks whether the run ends
_SLOW = 5.0  # seconds that a client may take to send, or to read
_LONGEST, _MOST = 200, 12  # characters of a value or a line, and values
_REFUSED = "nbdist holds no rank of a run in the background, or of several machines: add  --debug, without -d"
_IN_CHILD = "breakpoint() in {}: a debugger holds the rank alone, so read the data there (num_workers=0)"


class _Prompt(pdb.Pdb):
    """pdb at the rank's socket, which it reads and writes as its files. One serves all holds."""

    def __init__(self) -> None:
        directory = os.environ["NBDIST_RANK_DIR"]
        self._path, self._file = (os.path.join(directory, name) for name in ("pdb", "held.json"))
        self._listener: socket.socket | None = None
        self._client: socket.socket | None = None
        self._busy = False  # with a command, of which it may read more lines
        self._about: dict[str, str] = {}
        self._channel = Channel()
        files: Any = self
        super().__init__(stdin=files, stdout=files, nosigint=True, readrc=False, skip=["nbdist.*"])
        self.prompt = ""

    def hold(self, frame: FrameType | None, trace: TracebackType | None = None, **about: str) -> None:
        """Hold the program in ``frame``, or after the exception with this ``trace``."""
        if self._listener is not None:
            return  # it is held already
        self.reset()
        self._about, outer = about, frame
        while outer is not None:
            outer.f_trace = self.trace_dispatch
            self.botframe, outer = outer, outer.f_back
        self.interaction(frame, trace)
        if frame is not None and (self.breaks or not self._goes_on):
            # no call may follow: it would be traced
            sys.settrace(self.trace_dispatch)

    def interaction(self, frame: Any, trace: Any = None, *more: Any) -> None:
        if main_thread.over or main_thread.obeyed:
            self.set_continue()
            return
        self._listener = listen_at(self._path)
        try:
            super().interaction(frame, trace, *more)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # without pdb's frames
        finally:
            self._listener.close()
            self._listener, self._about = None, {"why": "step"}
            remove(self._path)
            remove(self._file)
            self._channel.say(HELD)
            if self._goes_on:
                self.answer()

    @property
    def _goes_on(self) -> bool:
        """Return whether the last command was to stop at breakpoints alone."""
        return self.stoplineno == -1

    def get_stack(self, frame: Any, trace: Any) -> Any:
        """Return the stack from the program on, and the place of the innermost frame that is no library's."""
        stack, at = super().get_stack(frame, trace)
        own = [at for at, (each, _) in enumerate(stack) if not is_library(each.f_code.co_filename)] or [at]
        return stack[own[0] :], own[-1] - own[0]

    def setup(self, frame: Any, trace: Any) -> Any:
        """Say what is held."""
        nothing = super().setup(frame, trace)
        at, line = self.stack[self.curindex]
        file = at.f_code.co_filename
        values = operands(trace) if trace is not None else conditions(at)
        about = {
            "file": file,
            "line": line,
            "what": linecache.getline(file, line).strip()[:_LONGEST],
            "values": [f"{name} = {value}"[:_LONGEST] for _, _, name, value in values[:_MOST]],
        }
        with suppress(OSError):
            put(self._file, json.dumps(about | self._about).encode())
        self._channel.say(HELD)
        return nothing

    def forget(self) -> None:
        """Give a function the values that were assigned to its variables; from Python 3.13 on it has them."""
        if sys.version_info < (3, 13) and (frame := getattr(self, "curframe", None)) is not None:
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        super().forget()

    def readline(self) -> str:
        """Wait for a command; return "continue" when none has come in time."""
        if self._busy:
            return "\n"  # a block is over: all its lines came at once
        assert self._listener is not None, "a prompt is open"
        self._listener.settimeout(_LOOK)
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            self.answer()
            if main_thread.obeyed:
                raise KeyboardInterrupt
            with suppress(OSError, ValueError):
                self._client, _ = self._listener.accept()
                self._client.settimeout(_SLOW)
                if is_own(self._client):
                    text = self._client.makefile("rb").read().decode()
                    if text.startswith("\t"):
                        self.write("\n".join(self._completions(text[1:].rstrip("\n"))))
                    elif text:
                        return text
        return "continue\n"

    def write(self, text: str) -> None:
        # the client may have gone
        with suppress(OSError):
            if self._client is not None:
                self._client.sendall(text.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def answer(self) -> None:
        """End the answer to the last command."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def onecmd(self, line: str) -> bool:
        self._busy = True
        try:
            return super().onecmd(line)
        finally:
            self._busy = False

    def _cmdloop(self) -> None:
        self.cmdloop()  # pdb's own one keeps KeyboardInterrupt, by which a run ends

    def do_quit(self, arg: str) -> bool | None:
        """End the run, in order; a rank that has raised fails."""
        if self._about["why"] == "error":
            return self.do_continue(arg)
        self.message("the run ends")
        self._channel.say(QUIT)
        return None

    def do_interact(self, arg: str) -> None:
        self.error("a rank has no keyboard to interact with: type lines here, also several at once")

    do_q = do_exit = do_quit
    do_commands = do_run = do_restart = do_interact

    def _completions(self, text: str) -> list[str]:
        word = text.rpartition(" ")[2]
        names = self._complete_expression(word, text, len(text) - len(word), len(text))
        return [*(self.completenames(text) if word == text else ()), *names]


_prompt = functools.cache(_Prompt)


def stop(*_: object, **__: object) -> None:
    """Hold the caller: ``breakpoint()``. Raises RuntimeError where no prompt is shown."""
    if os.getpid() != main_thread.process:
        worker: Any = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
        name = f"DataLoader worker {worker.id}" if worker else "a process that the rank has started"
        raise RuntimeError(_IN_CHILD.format(name))
    if os.environ.get(HOLDS) == "nothing":
        raise RuntimeError(_REFUSED)
    # behind the hook
    _prompt().hold(sys._getframe(2), why="breakpoint")


def perform(task: Task, frame: FrameType) -> None:
    """Write the value of an expression, or hold the program where it is."""
    if not task.expression:
        _prompt().hold(frame, why="pause")
        return
    path = os.path.join(os.environ["NBDIST_RANK_DIR"], f"answer-{task.name}")
    with suppress(OSError):
        put(path, _value(task.expression.strip(), frame).encode("utf-8", "replace"))


def _value(expression: str, frame: FrameType | None) -> str:
    """Return the value of an expression in the innermost frame of the program that has its names."""
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    main = sys.modules["__main__"].__dict__
    around = (main, main) if frame is None else (frame.f_globals, frame.f_locals)
    try:
        return repr(eval(expression, *around))
    except Exception as error:  # noqa: BLE001 - whatever the expression raises
        if isinstance(error, NameError) and frame is not None:
            return _value(expression, frame.f_back)
        return f"*** {type(error).__name__}: {error}"


def post_mortem(error: BaseException, trace: TracebackType | None) -> None:
    """Hold a rank whose program raised."""
    if isinstance(error, Exception):
        what = f"{type(error).__name__}: {error}"[:_LONGEST].rstrip(": ")
        with suppress(KeyboardInterrupt):
            _prompt().hold(None, trace, why="error", what=what)


def leave() -> None:
    """Stop nowhere behind the program's last line, and answer a client that waits for that."""
    sys.settrace(None)
    _prompt().answer()
