"""A rank of a session: it executes the cells that it receives, one by one, in one namespace.

A cell behaves as in a notebook: the value of its last expression, its figures, ``await`` outside of
functions, and a traceback that begins in the cell. Only a cell that is no Python, such as one with ``%time``,
imports IPython. The thread of ``stack_answers`` receives the cells. While ``main_thread.over`` is true no
cell is executed, and no interrupt raises here.

``nbdist.rejoin``: the ranks leave a broken process group, and join a new one. paddle has one store for each
process, and a communicator for each number of a group, so a new group gets new ones.
"""

from __future__ import annotations

import os
import sys
from _queue import SimpleQueue
from importlib import import_module

from nbdist.worker import error_report, main_thread, stack_answers
from nbdist.worker.bootstrap import hold_after, split_last, strip, take_out
from nbdist.worker.display import display
from nbdist.worker.framework_hooks import after_import
from nbdist.worker.main_thread import signal
from nbdist.worker.order import BROKEN, CELL, GROUPED, RAISED, READY, REJOINED, WELL, Cell, Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any

_TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, without the 10 ms of ast
_COROUTINE = 0x80  # inspect.CO_COROUTINE
_HERE = os.path.dirname(os.path.abspath(__file__))

_loop: Any = None


def serve() -> None:
    """Execute the supervisor's cells until it sends END."""
    cells: SimpleQueue[Cell | None] = SimpleQueue()
    channel = Channel()
    main_thread.over = True
    signal.signal(signal.SIGINT, _interrupt)
    stack_answers.on_cell = lambda word: cells.put(Cell.receive() if word == CELL else None)
    after_import("inspect", lambda inspect: import_module("nbdist.values.box").find_classes(inspect))
    channel.say(READY)
    while (cell := cells.get()) is not None:
        error = _executed(cell)
        if error is not None:
            _report(cell, error)
            if _is_of_group(error):
                channel.say(BROKEN)
        if _is_joined():
            channel.say(GROUPED)
        channel.say(WELL if error is None else RAISED)
        # it would keep the objects of its frames
        del error
    main_thread.over = False


def _interrupt(_number: int, _frame: object) -> None:
    if not main_thread.over:
        raise KeyboardInterrupt


def _executed(cell: Cell) -> BaseException | None:
    """Execute a cell; return the exception that it raised."""
    global port
    namespace = sys.modules["__main__"].__dict__
    port = cell.port
    try:
        try:
            main_thread.over = False
            _execute(cell, namespace)
        except Exception as error:
            hold_after(error)
            raise
        finally:
            main_thread.over = True
            stack_answers.call_used("debugger", "leave")
    except BaseException as raised:  # noqa: BLE001 - SystemExit, too, ends the cell alone
        # an interrupt may have raised in the ``finally`` above
        main_thread.over = True
        return raised
    return None


def _execute(cell: Cell, namespace: dict[str, Any]) -> None:
    if cell.rejoin:
        _move(join=cell.rejoin == "join")
    if cell.inputs:
        from nbdist.values.box import bring

        bring(cell.inputs, namespace)
    with open(cell.path, "rb") as file:
        text = file.read()
    body, last = _compiled(text, cell.path)
    stack_answers.call_used("step_hooks", "pause")
    _evaluated(body, namespace)
    if last is not None and (value := _evaluated(last, namespace)) is not None:
        display(value)
    stack_answers.call_used("figures", "show")
    if (shell := _shell_in_use()) is not None:
        # %matplotlib inline shows its figures then
        shell.events.trigger("post_execute")
    if cell.pull:
        from nbdist.worker.result_files import result

        if missing := [name for name in cell.pull if name not in namespace]:
            raise NameError(f"--pull: there is no {' and no '.join(missing)}")
        result(**{name: namespace[name] for name in cell.pull})


def _compiled(text: bytes, path: str) -> tuple[CodeType, CodeType | None]:
    """Return the code of a cell as ``split_last`` does, also with IPython's commands. Raises SyntaxError."""
    try:
        return split_last(text, path, _TOP_LEVEL_AWAIT)
    except SyntaxError:
        python = _without_commands(text)
        if python.split() == text.split():
            raise
    return split_last(python, path, _TOP_LEVEL_AWAIT)


def _evaluated(code: CodeType, namespace: dict[str, Any]) -> Any:
    value = eval(code, namespace)
    if not code.co_flags & _COROUTINE:
        return value
    import asyncio

    global _loop
    _loop = _loop or asyncio.new_event_loop()
    return _loop.run_until_complete(value)


def _without_commands(text: bytes) -> bytes:
    """Return the cell with IPython's commands as calls; unchanged without IPython."""
    try:
        shell = _shell()
    except ImportError:
        return text
    changed: str = shell.transform_cell(text.decode("utf-8", "replace"))
    # it drops the empty lines that keep the cell's line numbers
    above = len(text) - len(text.lstrip(b"\n"))
    return b"\n" * above + changed.encode("utf-8", "replace")


def _shell_in_use() -> Any:
    """Return IPython's shell where a cell has needed it."""
    module: Any = sys.modules.get("IPython.core.interactiveshell")
    return module.InteractiveShell.instance() if module and module.InteractiveShell.initialized() else None


def _shell() -> Any:
    """Return IPython's shell over the namespace of the cells, for its magics. Raises ImportError."""
    if (shell := _shell_in_use()) is not None:
        return shell
    base: Any = import_module("IPython.core.interactiveshell").InteractiveShell

    class Shell(base):  # type: ignore[misc]
        def enable_gui(self, gui: object = None) -> None:
            """Do nothing: there is no event loop of a window."""

        def init_virtualenv(self) -> None:
            """Do nothing: the rank's environment is right."""

        def showtraceback(self, *_: object, **__: object) -> None:
            """Raise the exception, which a magic would only print."""
            raise  # callers are handling it

    config = import_module("traitlets.config").Config()
    config.HistoryManager.enabled = False
    # it installs its displayhook and excepthook only where it executes a cell itself
    return Shell.instance(config=config, user_module=sys.modules["__main__"])


def _report(cell: Cell, error: BaseException) -> None:
    """Write the report of a cell's exception, then print it: a reader of the traceback finds the report."""
    import traceback

    take_out(error)
    trace = _trace_of(error, cell.path)
    directory = os.environ["NBDIST_RANK_DIR"]
    path, log = os.path.join(directory, "cells", f"{cell.number:04}.json"), os.path.join(directory, "log")
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        begun = os.path.getsize(log)
    except OSError:
        begun = 0
    error_report.write(path, error, trace, log=begun)
    try:
        traceback.print_exception(type(error), error, trace)
    except Exception:  # noqa: BLE001 - whatever the program has made of its stderr
        return


def _trace_of(error: BaseException, path: str) -> TracebackType | None:
    """Return the frames from the cell on; None for an exception of this package."""
    shown, inner = strip(error.__traceback__), ""
    for step in main_thread.steps_of(shown):
        inner = step.tb_frame.f_code.co_filename
        if inner == path:
            return step
    return None if os.path.dirname(inner) == _HERE else shown


def _is_of_group(error: BaseException) -> bool:
    """Return whether the exception looks like failed communication between ranks."""
    codes = (step.tb_frame.f_code for step in main_thread.steps_of(error.__traceback__))
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        any(map(main_thread.is_distributed, codes)) or "gloo" in text or "nccl" in text
    )


port: int | None = None
"""The port for a new process group in this cell; 0 once it is used, None outside of a session."""

_WRAPPERS = frozenset({"DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"})

_PADDLE_GROUP = 1_000_000  # the number of paddle's first new group: those of ``new_group`` are lower
_PADDLE_LIMIT = 60  # seconds to wait for its ranks

_moves = 0


def rejoin() -> None:
    """Leave the process group, and join a new one with the same backend and the same ranks. All ranks of the
    session call it, in the same cell. It does nothing where nbdist has rejoined before the cell, and has
    printed so.

    It prints the names of the objects of the old group, which you have to make again: models wrapped in
    DistributedDataParallel or FullyShardedDataParallel, groups of ``new_group``.

    Raises RuntimeError outside of a session and without a process group, and as ``init_process_group``.
    """
    if port is None:
        raise RuntimeError("nbdist.rejoin() is for the ranks of a session: call it below  %%ranks")
    if port == 0:
        return
    if not _is_joined():
        raise RuntimeError("there is no process group to be left: write  dist.init_process_group()")
    _move(join=True)


def _is_joined() -> bool:
    """Return whether this rank is in a process group of torch or paddle, or was freed from one."""
    dist: Any = sys.modules.get("torch.distributed")
    joined = dist is not None and dist.is_available() and dist.is_initialized()
    return joined or bool(_aborted()) or _paddle() is not None


def _aborted() -> str:
    """Return the backend of the groups that this rank was freed from."""
    # most sessions free no rank; the listener's thread may be importing the module now
    return str(getattr(sys.modules.get("nbdist.worker.freeing"), "aborted", ""))


def _paddle() -> Any:
    """Return paddle.distributed where this rank is in a group of it."""
    dist: Any = sys.modules.get("paddle.distributed")
    return dist if dist is not None and dist.is_initialized() else None


def _move(*, join: bool) -> None:
    """Leave the process group, if there is one, and ``join`` the next one at ``port``."""
    global port
    os.environ["MASTER_PORT"], port = str(port), 0
    # the supervisor now knows the store's port
    Channel().say(REJOINED)
    if not _is_joined():
        return
    if (paddle := _paddle()) is None:
        _move_torch(sys.modules["torch.distributed"], join=join)
    elif join:
        _move_paddle(paddle)
    else:
        print("nbdist: paddle's group was broken, and not all ranks are in it: %dist_session reset")


def _move_torch(dist: Any, *, join: bool) -> None:
    in_group = dist.is_initialized()
    backend = str(getattr(dist, "get_backend_config", dist.get_backend)()) if in_group else _aborted()
    # cpu:gloo,cuda:gloo
    if len(names := {part.rpartition(":")[2] for part in backend.split(",")}) == 1:
        backend = min(names)
    lost = _of_the_group(dist.ProcessGroup)
    try:
        if in_group:
            dist.destroy_process_group()
    except Exception as error:  # noqa: BLE001 - a broken group may raise as it is destroyed
        print(f"nbdist: leaving the process group: {type(error).__name__}: {error}")
    if not join:
        print("nbdist: the process group was broken, and is left: join it anew with  init_process_group")
        return
    dist.init_process_group(backend)
    if (freeing := sys.modules.get("nbdist.worker.freeing")) is not None:
        vars(freeing)["aborted"] = ""
    _say_joined(dist.get_world_size(), backend, lost)


def _say_joined(ranks: int, backend: str, lost: list[str]) -> None:
    again = f"; to be made again: {', '.join(lost)}" if lost else ""
    print(f"nbdist: {ranks} ranks have joined a new process group ({backend}){again}")


def _move_paddle(dist: Any) -> None:
    """Do the same as ``init_parallel_env`` (paddle 3), with a second store of this process."""
    global _moves
    core: Any = sys.modules["paddle.base"].core
    collective: Any = sys.modules["paddle.distributed.collective"]
    groups: Any = sys.modules["paddle.distributed.communication.group"]
    _moves += 1
    backend, name = dist.get_backend().lower(), collective._default_group_name
    rank, ranks = dist.get_rank(), dist.get_world_size()
    lost = _of_the_group(groups.Group)
    dist.destroy_process_group()
    for known in (collective._group_map, collective._group_map_by_name, collective._group_map_backend):
        known.clear()
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        _await_store(address)
    store = core.TCPStore(*address, rank == 0, ranks, _PADDLE_LIMIT)
    collective._set_default_store(store)
    number = _PADDLE_GROUP + _moves
    made = collective._new_process_group_impl(backend, store, rank, ranks, name, None, group_id=number)
    group = groups.Group(rank, 0, list(range(ranks)), pg=made, name=name)
    collective._set_group_map_by_name(name, group)
    collective._set_group_map(0, group)
    collective._set_group_map_backend(group, backend)
    groups._add_new_group(group)
    _say_joined(ranks, backend, lost)


def _await_store(address: tuple[str, int]) -> None:
    """Wait until the store listens: otherwise paddle waits for three seconds."""
    import socket
    import time

    deadline = time.monotonic() + _PADDLE_LIMIT
    while time.monotonic() < deadline:
        try:
            socket.create_connection(address, 1.0).close()
            return
        except OSError:
            time.sleep(0.01)


def _of_the_group(group: type) -> list[str]:
    """Return the cells' names for objects of the group: ``model (DistributedDataParallel)``."""
    names = []
    for name, value in list(sys.modules["__main__"].__dict__.items()):
        kinds = {kind.__name__ for kind in type(value).__mro__}
        if wrapper := kinds & _WRAPPERS:
            names.append(f"{name} ({min(wrapper)})")
        elif isinstance(value, group) and not name.startswith("_"):
            names.append(f"{name} ({group.__name__})")
    return names
