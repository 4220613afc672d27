"""A rank that waits for its order, with its framework, and nothing else, already imported. ``_prepare``
records what the imports have read, and the supervisor compares that with the run before it sends the order.
The rank exits quickly: it does not tear down what it had loaded before its program.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import sys
import time
import weakref
from contextlib import suppress
from functools import partial
from importlib import util
from types import FunctionType

from nbdist.worker import bootstrap
from nbdist.worker.deferred_imports import DeferredImports, restart_cold
from nbdist.worker.order import PLACE, ROOM, WAIT, Assignment, Channel, Preload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_OPERATORS = "torch.library"
"""The module whose finalizers remove each operator from the dispatcher's tables as the process ends."""
_FLUSH = "_ZNSo5flushEv"
_STREAMS = ("_ZSt4cout", "_ZSt4clog")
"""std::ostream::flush, std::cout and std::clog, which libstdc++ would flush too late."""


def leave_directly() -> None:
    """End the process after the exit handlers that are registered from now on, with C's and C++'s buffers
    written. The earlier handlers (atexit(3)) would free torch's C++ objects for a tenth of a second. Do
    nothing without glibc's on_exit(3), and with LD_PRELOAD, whose library may need its handlers."""
    libc = ctypes.CDLL(None)
    if "LD_PRELOAD" in os.environ or not hasattr(libc, "on_exit"):
        return
    register = libc["__cxa_atexit"]
    # the last to be registered is called first
    libc.on_exit(libc["_exit"], None)
    with suppress(OSError, AttributeError, ValueError):
        streams = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD)
        for name in _STREAMS:
            # until a loaded library includes <iostream>, they are zeros in libstdc++ of GCC 12 and before; a
            # library that is loaded later registers its own flush
            if ctypes.c_void_p.in_dll(streams, name).value is not None:
                register(streams[_FLUSH], ctypes.byref(ctypes.c_char.in_dll(streams, name)), None)
    register(libc["fflush"], None, None)


def keep_code() -> None:
    """Never free the code of existing functions and the operators of torch.library, which takes long. Code
    refers to constants alone, and so keeps no object of a later program."""
    code = [made.__code__ for made in gc.get_objects() if type(made) is FunctionType]
    # a reference that nobody drops
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        if (alive := finalizer.peek()) is not None and alive[1].__module__ == _OPERATORS:
            finalizer.atexit = False


_ARRAYS = "numpy"
"""The frameworks' first import, which starts OpenBLAS's threads where OMP_NUM_THREADS is not 1."""


def main() -> None:
    """Import, send what the imports have read, wait, and run the order. Return when the supervisor dies."""
    channel = Channel()
    early = frozenset(sys.modules)
    preload = Preload.receive(channel)
    # as bootstrap sets it later
    sys.path[:] = bootstrap.python_path(preload.python_path, preload.first)
    facts = _prepare(preload.modules, channel.is_called)
    channel.tell(json.dumps(facts).encode() + b"\n")
    try:
        assignment = Assignment.receive(channel)
    except EOFError:
        return
    _become(assignment)
    if assignment.cold:
        restart_cold(assignment, assignment.cold, noted=False)
    leave_directly()
    reads, unseen = frozenset(facts["reads"]), tuple(preload.unseen)

    def hide_modules() -> None:
        gate = DeferredImports(
            early,
            preload.modules,
            reads=lambda name: name in reads or name.startswith(unseen),
            differs=partial(restart_cold, assignment),
        )
        # the modules' exit handlers find them
        atexit.register(gate.open)

    bootstrap.run(channel, assignment, hide_modules)


def _prepare(modules: list[str], called: Callable[[], bool]) -> dict[str, Any]:
    """Import the modules until a supervisor has ``called``, which cannot wait for the last of them; return
    what they read: variables by name, files with time and size."""
    begun = time.time_ns()
    reads, problem = import_recorded([_ARRAYS] if util.find_spec(_ARRAYS) and modules else [])
    pool = _threads()
    if not problem:
        more, problem = import_recorded(modules, called)
        reads |= more
    files = _files()
    changed = [path for path, (time_ns, _) in files.items() if time_ns >= begun]
    if changed and not problem:
        problem = f"{changed[0]} changed while it was imported"
    keep_code()
    # the collector of the program, and the end of the interpreter, skip these objects
    gc.freeze()
    return {
        "begun": begun,
        "reads": sorted(reads),
        "files": files,
        "path": sys.path,
        "problem": problem,
        "threads": pool,
    }


def _threads() -> int:
    """Return the number of threads, or 1 where Python itself has several. The others are a native library's
    for computing: they wait for work, a fork does not copy them, and a cold start has them, too."""
    threading = sys.modules.get("threading")
    alone = threading is None or threading.active_count() == 1
    return len(os.listdir("/proc/self/task")) if alone else 1


def import_recorded(modules: list[str], called: Callable[[], bool] = lambda: False) -> tuple[set[str], str]:
    """Import the modules until a supervisor has ``called``; return the variables read, and the problem."""
    environ = os.environ
    kind = type(environ)
    reads: set[str] = set()

    class Recorded(kind):  # type: ignore[misc, valid-type]
        def __getitem__(self, key: str) -> str:
            reads.add(os.fsdecode(key))
            return str(super().__getitem__(key))

        def __contains__(self, key: object) -> bool:
            reads.add(os.fsdecode(key))  # type: ignore[arg-type]
            return bool(super().__contains__(key))

    # every module keeps the same object os.environ
    environ.__class__ = Recorded
    try:
        for module in modules:
            if called():
                break
            importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - whatever an import raises: nobody uses this rank
        return reads, f"import {module}: {type(error).__name__}: {error}"
    finally:
        environ.__class__ = kind
    return reads, ""


def _files() -> dict[str, tuple[int, int]]:
    """Return the files of all modules, and the interpreter, each with its time (ns) and size."""
    files = {}
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for path in {sys.executable, *(os.path.abspath(path) for path in modules if isinstance(path, str))}:
        with suppress(OSError):
            status = os.stat(path)
            files[path] = (status.st_mtime_ns, status.st_size)
    return files


def _become(assignment: Assignment) -> None:
    """Take over the assignment's environment, directory and log, as a new process would have them."""
    _mark(assignment.environment[PLACE])
    os.environ.clear()
    os.environ.update(assignment.environment)
    sys.orig_argv[sys.orig_argv.index(WAIT)] = assignment.environment["NBDIST_RUN_ID"]
    _write_to(assignment.log)
    os.chdir(assignment.cwd)
    importlib.invalidate_caches()
    _reseed()


def _mark(place: str) -> None:
    """Write the run's directory into the environment that the system shows: ``store.recovery`` finds this
    process's descendants by it when no process is left that knows them."""
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p
    value = os.fsencode(place)
    address = library.getenv(PLACE.encode())
    assert address, "it was started with room for it"
    assert len(value) < ROOM, "the caller has checked"
    ctypes.memset(address, 0, ROOM)
    ctypes.memmove(address, value, len(value))


def _write_to(log: str) -> None:
    """Redirect stdout and stderr to the log, which begins with the output of the imports."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with suppress(OSError):  # the run matters more than that output
        before = os.open("/proc/self/fd/1", os.O_RDONLY)
        while data := os.read(before, 1 << 16):
            os.write(handle, data)
        os.close(before)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)


def _reseed() -> None:
    """Seed the random numbers as in a new process: no other process can know the state."""
    seed = int.from_bytes(os.urandom(8), "little")
    if random := sys.modules.get("random"):
        random.seed()
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)
    if paddle := sys.modules.get("paddle"):
        paddle.framework.core.default_cpu_generator().manual_seed(seed % (1 << 63))
