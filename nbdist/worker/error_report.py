"""Writes the exception that left the program to error.json, before the interpreter tears down, which takes a
framework a second or two.

A program fails also because the disk is full or no file can be opened any more: what its report needs is
taken beforehand.
"""

from __future__ import annotations

import os
import sys

from nbdist.worker.files import put
from nbdist.worker.main_thread import steps_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType, TracebackType
    from typing import Any

ROOM = ".room"
"""What stands behind the name of the report in that of the file that keeps room for it."""

_LONGEST_TEXT = 200_000  # characters of a message or a traceback: one may have a whole tensor in it

_sent: dict[str, Any] = {}  # what came with the last error of a worker that was raised again here
_SIZE = 32 * 1024  # bytes of disk that are taken, and what fits in them:
_LONGEST_MESSAGE, _LONGEST_LINE, _MOST_FRAMES = 2000, 100, 40
_LOADERS = ("torch/utils/data/dataloader.py", "paddle/io/dataloader/dataloader_iter.py")
_OF_WORKERS = ("ExceptionWrapper", "_WorkerException")
"""What a DataLoader worker's error comes in: torch's, paddle's. Both have a method ``reraise``."""

_TRIES = 3
"""How often a report is begun: a handler of the program may raise in it, as torch's does for a dead worker.
Another thread takes the signals that the main thread blocks, and their handlers run in the main thread."""

_DYING = 0.5  # seconds in which a process that has closed its connections is dead
_LEAST = 1 << 20  # bytes that a disk has left which is full (``devices.usage``)


class Reserve:
    """Room on the disk and a file descriptor, taken before the program begins. Its supervisor removes the
    file when the rank has exited. Where there is no room even now, none is taken."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._owner = os.getpid()
        self._descriptor = self._inode = -1
        try:
            file = os.open(path + ROOM, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # kept open for its number: a report is written, and its modules are imported, with it
            self._descriptor, self._inode = file, os.fstat(file).st_ino
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, _SIZE)
        except OSError:
            return

    def open_up(self) -> None:
        """Let one more file be opened in this process."""
        try:
            # the program may have closed it, and have given its number to a file of its own
            if os.fstat(self._descriptor).st_ino == self._inode:
                os.close(self._descriptor)
        except OSError:
            return

    def write(self, data: bytes) -> None:
        """Make the report of the room that was kept: whole, or not at all. Raises OSError."""
        if os.getpid() != self._owner:
            return  # a fork of the rank
        file = os.open(self._path + ROOM, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(file, os.write(file, data))
            whole = os.fstat(file).st_size == len(data)
        finally:
            os.close(file)
        if whole:
            os.replace(self._path + ROOM, self._path)


def write(
    path: str,
    error: BaseException,
    trace: TracebackType | None,
    reserve: Reserve | None = None,
    **about: object,
) -> None:
    """Write the report whole or not at all. A report that cannot be written costs only itself, and the
    traceback still goes to the log: whatever the program has done to what is needed here. ``about`` is more
    to be kept in it."""
    for _ in range(_TRIES):
        try:
            if reserve is not None:
                reserve.open_up()
            _keep(path, _report(path, error, trace) | about, reserve)
            return
        except BaseException:  # noqa: BLE001 - its own exception is what it is to end with
            continue


def _keep(path: str, report: dict[str, Any], reserve: Reserve | None) -> None:
    data = _encoded(report)
    try:
        put(path, data)
    except OSError:
        if reserve is None:
            raise
        reserve.write(data if len(data) <= _SIZE else _encoded(_shortened(report)))


def _encoded(report: dict[str, Any]) -> bytes:
    import json

    return json.dumps(report, ensure_ascii=False).encode(errors="replace")


def _report(path: str, error: BaseException, trace: TracebackType | None) -> dict[str, Any]:
    import time
    import traceback

    raised = time.time()  # before the traceback reads files: who raised first is told by it
    summary = traceback.TracebackException(type(error), error, trace)
    names = _names(error, trace)
    return {
        "type": type_name(error),
        "message": _cut(_message(error)),
        "frames": [[f.filename, f.lineno or 0, f.name, f.line or ""] for f in summary.stack],
        "text": _cut("".join(summary.format())),
        "time": raised,
        "full": _full_disks(os.path.dirname(path), ".", "/dev/shm"),
        "workers": _failed_workers(error),
        **names,
        **{kind: [*sent, *names.get(kind, ())] for kind, sent in _sent.items()},
    }


def type_name(value: object) -> str:
    """Return the name of a value's type as a traceback has it."""
    kind = type(value)
    plain = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _names(error: BaseException, trace: TracebackType | None) -> dict[str, Any]:
    """Return what stood in the failing line, and in the conditions around it with the arrays that are not
    finite. A look that fails costs its own part of the report alone."""
    try:
        from nbdist.worker import operands  # most ranks do not fail
    except Exception:  # noqa: BLE001 - the program may have changed what is imported
        return {}
    looks: dict[str, Callable[[], Any]] = {
        "operands": lambda: [*operands.operands(trace), *operands.layers_of_reducer(error, trace)],
        "values": lambda: [*operands.conditions_of(trace), *operands.not_finite(trace)],
    }
    names: dict[str, Any] = {}
    for name, look in looks.items():
        try:
            names[name] = look()
        except Exception:  # noqa: BLE001 - objects of the program are looked at
            continue
    return names


def send_names(module: ModuleType) -> None:
    """Let the error of a DataLoader worker, of which the rank has the text alone, bring what stood in its
    lines. ``module`` is torch._utils or paddle.io.dataloader.worker."""
    kind: Any = next((vars(module)[name] for name in _OF_WORKERS if name in vars(module)), None)
    if kind is None:
        return
    import functools

    make, reraise = kind.__init__, kind.reraise

    @functools.wraps(make)
    def make_with_names(sent: Any, *given: Any, **named: Any) -> None:
        make(sent, *given, **named)
        _, error, trace = sys.exc_info()
        sent.nbdist_names = _names(error, trace) if error is not None else {}

    # paddle's loader does so in a thread, and the program sees another error
    @functools.wraps(reraise)
    def remember_and_reraise(sent: Any) -> None:
        global _sent
        _sent = getattr(sent, "nbdist_names", {})
        reraise(sent)

    kind.__init__, kind.reraise = make_with_names, remember_and_reraise


def _cut(text: str) -> str:
    """Return both ends of a text that is too long."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters]\n{text[-half:]}"


def _failed_workers(error: BaseException) -> list[tuple[int, int]]:
    """Return pid and exit code of DataLoader workers that had failed, where their loader raised. It may have
    seen no more of it than a closed connection: a process that is killed loses these first, and then is
    dead."""
    workers = [worker for loader in _loaders(error) for worker in loader._workers]
    if workers and isinstance(error, (ConnectionError, EOFError)):
        from multiprocessing.connection import wait

        closed = wait([worker.sentinel for worker in workers], _DYING)
        for worker in workers:
            if worker.sentinel in closed:
                worker.join(_DYING)
    return [(worker.pid, worker.exitcode) for worker in workers if worker.exitcode]


def _loaders(error: BaseException) -> list[Any]:
    """Return the iterators of a DataLoader, torch's or paddle's, that the exception came through."""
    frames = [step.tb_frame for step in steps_of(error.__traceback__)]
    inside = [frame for frame in frames if frame.f_code.co_filename.endswith(_LOADERS)]
    selves = [frame.f_locals.get("self") for frame in inside]
    return list({id(loader): loader for loader in selves if hasattr(loader, "_workers")}.values())


def _full_disks(*places: str) -> list[str]:
    """Return the disks of these places that are full, each by where it begins."""
    full = {}
    for place in places:
        try:
            space = os.statvfs(place)
        except OSError:
            continue
        if space.f_bfree * space.f_frsize < _LEAST or (space.f_files and not space.f_ffree):
            mount = os.path.realpath(place)
            while not os.path.ismount(mount):
                mount = os.path.dirname(mount)
            full[mount] = True
    return list(full)


def _shortened(report: dict[str, Any]) -> dict[str, Any]:
    """Return what the room is enough for: the innermost frames, without what the exception was raised
    from."""
    frames = [[*place, source[:_LONGEST_LINE]] for *place, source in report["frames"][-_MOST_FRAMES:]]
    message = report["message"][:_LONGEST_MESSAGE]
    return report | {"message": message, "frames": frames, "text": "", "values": []}


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001
        # an exception whose own __str__ fails is still the one to report
        return f"<unprintable: {type(broken).__name__}>"
