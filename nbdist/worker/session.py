"""A rank of a session: executes the cells that it is given, one after the other, in one namespace.

A cell is shown as a notebook shows it: the value of its last expression, its figures, ``await`` outside of
functions, and a traceback that begins in the cell. IPython is imported for a cell that is no Python, such as
one with ``%time``, and where it is not installed such a cell is a SyntaxError.

The thread that answers for this rank (``stacks``) takes the cells from its socket. ``stacks.over`` says that
none is executed: then nothing raises here that is meant for one.
"""

from __future__ import annotations

import os
import sys
from _queue import SimpleQueue
from importlib import import_module

from nbdist.worker import error_report, rejoining, stacks
from nbdist.worker.bootstrap import ends_silently, show_open_figures, strip, take_out
from nbdist.worker.display import display
from nbdist.worker.order import BROKEN, CELL, GROUPED, RAISED, READY, WELL, Cell, Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import CodeType, TracebackType
    from typing import Any
else:
    import _signal as signal

_ONLY_TREE, _TOP_LEVEL_AWAIT = 0x400, 0x2000  # ast.PyCF_…, without the 10 ms of ast
_COROUTINE = 0x80  # inspect.CO_COROUTINE
_HERE = os.path.dirname(os.path.abspath(__file__))

_loop: Any = None


def serve() -> None:
    """Execute what the supervisor gives, until it says that there will be no more."""
    cells: SimpleQueue[Cell | None] = SimpleQueue()
    channel = Channel()
    stacks.over = True
    signal.signal(signal.SIGINT, _interrupt)
    stacks.on_cell = lambda word: cells.put(Cell.receive() if word == CELL else None)
    channel.say(READY)
    while (cell := cells.get()) is not None:
        error = _executed(cell)
        if error is not None:
            _report(cell, error)
            if _is_of_group(error):
                channel.say(BROKEN)
        if rejoining.is_joined():
            channel.say(GROUPED)
        channel.say(WELL if error is None else RAISED)
        # with it would live what its frames hold
        del error
    stacks.over = False


def _interrupt(_number: int, _frame: object) -> None:
    if not stacks.over:
        raise KeyboardInterrupt


def _executed(cell: Cell) -> BaseException | None:
    """Execute it; what it has raised. An interrupt may come until ``stacks.over`` is true again."""
    namespace = sys.modules["__main__"].__dict__
    rejoining.port = cell.port
    try:
        try:
            stacks.over = False
            _execute(cell, namespace)
        finally:
            stacks.over = True
    except BaseException as raised:  # noqa: BLE001 - SystemExit, too, ends the cell alone
        # an interrupt may have come in between
        stacks.over = True
        return raised
    return None


def _execute(cell: Cell, namespace: dict[str, Any]) -> None:
    if cell.rejoin:
        rejoining.move(join=cell.rejoin == "join")
    if cell.inputs:
        from nbdist.worker import inputs

        inputs.load(cell.inputs, namespace)
    with open(cell.path, "rb") as file:
        text = file.read()
    body, last = _compiled(text, cell.path)
    _evaluated(body, namespace)
    if last is not None and (value := _evaluated(last, namespace)) is not None:
        display(value)
    show_open_figures()
    if (shell := _shell_there()) is not None:
        # %matplotlib inline shows its figures then
        shell.events.trigger("post_execute")
    if cell.pull:
        from nbdist.worker.results import result

        if missing := [name for name in cell.pull if name not in namespace]:
            raise NameError(f"--pull: there is no {' and no '.join(missing)}")
        result(**{name: namespace[name] for name in cell.pull})


def _compiled(text: bytes, path: str) -> tuple[CodeType, CodeType | None]:
    """The cell, and its last statement by itself where that is an expression whose value a notebook would
    show. Raises SyntaxError."""
    try:
        tree: Any = compile(text, path, "exec", _ONLY_TREE | _TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError:
        python = _without_commands(text)
        if python.split() == text.split():
            raise
        text = python
        tree = compile(text, path, "exec", _ONLY_TREE | _TOP_LEVEL_AWAIT, dont_inherit=True)
    import _ast

    last = tree.body[-1] if tree.body else None
    if not isinstance(last, _ast.Expr) or ends_silently(text, last):
        return compile(tree, path, "exec", _TOP_LEVEL_AWAIT, dont_inherit=True), None
    tree.body.pop()
    shown: Any = _ast.Expression(last.value)
    return (
        compile(tree, path, "exec", _TOP_LEVEL_AWAIT, dont_inherit=True),
        compile(shown, path, "eval", _TOP_LEVEL_AWAIT, dont_inherit=True),
    )


def _evaluated(code: CodeType, namespace: dict[str, Any]) -> Any:
    value = eval(code, namespace)
    if not code.co_flags & _COROUTINE:
        return value
    import asyncio

    global _loop
    if _loop is None:
        _loop = asyncio.new_event_loop()
    return _loop.run_until_complete(value)


def _without_commands(text: bytes) -> bytes:
    """The cell with IPython's commands as calls; as it is where there is no IPython."""
    try:
        shell = _shell()
    except ImportError:
        return text
    changed: str = shell.transform_cell(text.decode("utf-8", "replace"))
    # it leaves out the lines that stand for those above the cell
    above = len(text) - len(text.lstrip(b"\n"))
    return b"\n" * above + changed.encode("utf-8", "replace")


def _shell_there() -> Any:
    """IPython's shell, where a cell has needed it."""
    module: Any = sys.modules.get("IPython.core.interactiveshell")
    return module.InteractiveShell.instance() if module and module.InteractiveShell.initialized() else None


def _shell() -> Any:
    """IPython's shell over the namespace of the cells. It executes no cell; its magics do what they do.
    Raises ImportError."""
    if (there := _shell_there()) is not None:
        return there
    base: Any = import_module("IPython.core.interactiveshell").InteractiveShell

    class Shell(base):  # type: ignore[misc]
        def enable_gui(self, gui: object = None) -> None:
            """There is no event loop of a window here."""

        def init_virtualenv(self) -> None:
            """It is the one of the rank."""

        def showtraceback(self, *_: object, **__: object) -> None:
            """What a magic would print ends the cell."""
            raise  # it is called where an exception is handled

    config = import_module("traitlets.config").Config()
    config.HistoryManager.enabled = False
    # its displayhook and its hook for exceptions are put in place where it executes a cell itself
    return Shell.instance(config=config, user_module=sys.modules["__main__"])


def _report(cell: Cell, error: BaseException) -> None:
    """Write down what the cell raised, then print it: a reader who sees the traceback finds the report."""
    import traceback

    take_out(error)
    trace = _trace_of(error, cell.path)
    directory = os.environ["NBDIST_RANK_DIR"]
    try:
        os.makedirs(os.path.join(directory, "cells"), mode=0o700, exist_ok=True)
        begun = os.path.getsize(os.path.join(directory, "log"))
    except OSError:
        begun = 0
    path = os.path.join(directory, "cells", f"{cell.number:04}.json")
    error_report.write(path, error, trace, log=begun)
    try:
        traceback.print_exception(type(error), error, trace)
    except Exception:  # noqa: BLE001 - whatever the program has made of its stderr
        return


def _trace_of(error: BaseException, path: str) -> TracebackType | None:
    """Its frames from the cell on; none where it was raised here."""
    found = strip(error.__traceback__)
    at, inner = found, ""
    while at is not None:
        inner = at.tb_frame.f_code.co_filename
        if inner == path:
            return at
        at = at.tb_next
    return None if os.path.dirname(inner) == _HERE else found


def _is_of_group(error: BaseException) -> bool:
    """Whether it is a failure of the communication between ranks, as far as can be seen."""
    if not isinstance(error, RuntimeError):
        return False
    trace = error.__traceback__
    while trace is not None:
        if stacks.is_distributed(trace.tb_frame.f_code):
            return True
        trace = trace.tb_next
    said = str(error).lower()
    return "gloo" in said or "nccl" in said
