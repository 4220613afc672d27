"""Writes the exception that ended the program to error.json, before the interpreter tears down, which takes a
framework a second or two. Disk space and a file descriptor for it are reserved at the start, since a program
also fails for lack of them."""

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
"""The suffix of the file that reserves disk space for the report."""

_LONGEST_TEXT = 200_000  # characters of a message or a traceback, which may contain a whole tensor

_sent: dict[str, Any] = {}  # names that came with the last worker's error that was raised again here
_SIZE = 32 * 1024  # reserved bytes of disk, and the limits of a report that fits in them:
_LONGEST_MESSAGE, _LONGEST_LINE, _MOST_FRAMES = 2000, 100, 40
_TRACEBACK = "Traceback (most recent call last):"
_LOADERS = ("torch/utils/data/dataloader.py", "paddle/io/dataloader/dataloader_iter.py")
_OF_WORKERS = ("ExceptionWrapper", "_WorkerException")
"""Containers of a DataLoader worker's error, torch's and paddle's, both with a method ``reraise``."""

_TRIES = 3
"""The number of attempts: a signal handler of the program may raise meanwhile, as torch's does for a dead
worker. A thread that does not block the signal receives it; the handler runs in the main thread."""

_DYING = 0.5  # seconds in which a process dies after it has closed its connections
_LEAST = 1 << 20  # free bytes below which a disk is full (``devices.usage``)


class Reserve:
    """Disk space and a file descriptor, reserved before the program. The supervisor removes the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._owner = os.getpid()
        self._descriptor = self._inode = -1
        try:
            file = os.open(path + ROOM, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # kept open for its number: writing a report and importing its modules need one
            self._descriptor, self._inode = file, os.fstat(file).st_ino
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, _SIZE)
        except OSError:
            return

    def open_up(self) -> None:
        """Free the descriptor, so that this process can open one more file."""
        try:
            # the program may have closed it, and opened a file of its own under its number
            if os.fstat(self._descriptor).st_ino == self._inode:
                os.close(self._descriptor)
        except OSError:
            return

    def write(self, data: bytes) -> None:
        """Write the report into the reserved space, whole or not at all. Raises OSError."""
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
    """Write the report, with ``about`` in it, whole or not at all. Never raise: the log has the traceback."""
    for _ in range(_TRIES):
        try:
            if reserve is not None:
                reserve.open_up()
            _keep(path, _report(path, error, trace) | about, reserve)
            return
        except BaseException:  # noqa: BLE001 - the program is to end with its own exception
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

    raised = time.time()  # before the traceback reads files: it tells which rank raised first
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
        "printed": _cut(_captured(error, trace)),
        **names,
        **{kind: [*sent, *names.get(kind, ())] for kind, sent in _sent.items()},
    }


def type_name(value: object) -> str:
    """Return the name of a value's type as a traceback prints it."""
    kind = type(value)
    plain = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _names(error: BaseException, trace: TracebackType | None) -> dict[str, Any]:
    """Return the names in the failing line, those in conditions around it, and arrays that are not finite."""
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
        except Exception:  # noqa: BLE001 - it reads objects of the program
            continue
    return names


def send_names(module: ModuleType) -> None:
    """Let the error of a DataLoader worker, whose text alone reaches the rank, carry the names in its lines.
    ``module`` is torch._utils or paddle.io.dataloader.worker."""
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

    # paddle's loader raises it in a thread, and the program sees another error
    @functools.wraps(reraise)
    def remember_and_reraise(sent: Any) -> None:
        global _sent
        _sent = getattr(sent, "nbdist_names", {})
        reraise(sent)

    kind.__init__, kind.reraise = make_with_names, remember_and_reraise


def _cut(text: str) -> str:
    """Return a text, without its middle where it is too long."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters]\n{text[-half:]}"


def _failed_workers(error: BaseException) -> list[tuple[int, int]]:
    """Return pid and exit code of the failed DataLoader workers whose loader raised. Wait for one that only
    closed its connection: a killed process closes these before it is dead."""
    workers = [worker for loader in _loaders(error) for worker in loader._workers]
    if workers and isinstance(error, (ConnectionError, EOFError)):
        from multiprocessing.connection import wait

        closed = wait([worker.sentinel for worker in workers], _DYING)
        for worker in workers:
            if worker.sentinel in closed:
                worker.join(_DYING)
    return [(worker.pid, worker.exitcode) for worker in workers if worker.exitcode]


def _loaders(error: BaseException) -> list[Any]:
    """Return the iterators of DataLoaders, torch's or paddle's, that the exception passed through."""
    frames = [step.tb_frame for step in steps_of(error.__traceback__)]
    inside = [frame for frame in frames if frame.f_code.co_filename.endswith(_LOADERS)]
    selves = [frame.f_locals.get("self") for frame in inside]
    return list({id(loader): loader for loader in selves if hasattr(loader, "_workers")}.values())


def _captured(error: BaseException | None, trace: TracebackType | None) -> str:
    """Return the output of failed processes that the program has captured, of the first in the end."""
    if (module := sys.modules.get("subprocess")) is None:
        return ""
    texts: list[Any] = []
    for held in (list(step.tb_frame.f_locals.values()) for step in steps_of(trace)):
        started = [each for each in held if isinstance(each, (module.CompletedProcess, module.Popen))]
        for failed in (each for each in started if each.returncode):
            texts += [*held, failed.stdout, failed.stderr]
    while error is not None:
        if isinstance(error, module.SubprocessError):
            texts += [getattr(error, "output", None), getattr(error, "stderr", None)]
        error = error.__cause__ or error.__context__
    texts = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in texts]
    return "\n".join(text for text in texts if isinstance(text, str) and _TRACEBACK in text)


def _full_disks(*places: str) -> list[str]:
    """Return the mount points of these places' full disks."""
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
    """Return a report that fits in the reserved space: the innermost frames of the exception alone."""
    frames = [[*place, source[:_LONGEST_LINE]] for *place, source in report["frames"][-_MOST_FRAMES:]]
    message = report["message"][:_LONGEST_MESSAGE]
    return report | {"message": message, "frames": frames, "text": "", "values": [], "printed": ""}


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001
        # an exception whose __str__ raises is still the one to report
        return f"<unprintable: {type(broken).__name__}>"
