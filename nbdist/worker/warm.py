"""A rank that waits: an interpreter that has imported its framework, and nothing else, before it is told
what to run. What the import may have read is known (``_prepare``), and the supervisor that hands it a run has
compared that with what the run asks for. When its run has ended it leaves quickly: what was loaded before its
program is not taken apart.
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
"""Takes each operator out of each of the dispatcher's tables, when the process ends."""
_FLUSH = "_ZNSo5flushEv"
_STREAMS = ("_ZSt4cout", "_ZSt4clog")
"""std::ostream::flush, std::cout and std::clog: libstdc++ flushes them later than this."""


def leave_directly() -> None:
    """End the process, with its exit code, when all that is registered from now on has been called and the
    buffers of C and C++ are written. Otherwise libc would call what was registered before (atexit(3)): for a
    tenth of a second destructors of torch's C++ objects free memory that goes with the process anyway. A
    library of LD_PRELOAD may want to have the last word; on_exit(3) is glibc's."""
    libc = ctypes.CDLL(None)
    if "LD_PRELOAD" in os.environ or not hasattr(libc, "on_exit"):
        return
    register = libc["__cxa_atexit"]
    # the last to be registered is called first
    libc.on_exit(libc["_exit"], None)
    with suppress(OSError, AttributeError, ValueError):
        streams = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD)
        for name in _STREAMS:
            # as long as nothing that is loaded includes <iostream>, the libstdc++ of GCC 12 and before leaves
            # them zeros; what makes them of these later is registered later, and flushes them itself
            if ctypes.c_void_p.in_dll(streams, name).value is not None:
                register(streams[_FLUSH], ctypes.byref(ctypes.c_char.in_dll(streams, name)), None)
    register(libc["fflush"], None, None)


def keep_code() -> None:
    """Let the code of every function there is outlive the interpreter, and the operators that torch.library
    knows: freeing them one by one takes long. Code refers to constants alone: nothing of a later program is
    kept by it."""
    code = [made.__code__ for made in gc.get_objects() if type(made) is FunctionType]
    # one reference more than will ever be dropped
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        if (alive := finalizer.peek()) is not None and alive[1].__module__ == _OPERATORS:
            finalizer.atexit = False


_ARRAYS = "numpy"
"""What the frameworks import first, and what starts OpenBLAS's threads where OMP_NUM_THREADS is not 1."""


def main() -> None:
    """Import, say what that was made from, wait, and be the rank. Ends with the supervisor."""
    channel = Channel()
    early = frozenset(sys.modules)
    preload = Preload.receive(channel)
    # as bootstrap finds it when the program is known
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
    bootstrap.run(channel, assignment, lambda: _withhold(early, preload, facts, assignment))


def _withhold(early: frozenset[str], preload: Preload, facts: dict[str, Any], assignment: Assignment) -> None:
    """Let the program find what was imported when it imports it, and not before."""
    reads, unseen = frozenset(facts["reads"]), tuple(preload.unseen)
    gate = DeferredImports(
        early,
        preload.modules,
        reads=lambda name: name in reads or name.startswith(unseen),
        differs=partial(restart_cold, assignment),
    )
    # what the modules have registered for the end finds them as ever
    atexit.register(gate.open)


def _prepare(modules: list[str], called: Callable[[], bool]) -> dict[str, Any]:
    """Import the modules, until a supervisor has ``called`` that cannot wait for the last of them. What was
    read, by name: variables, and files with time and size."""
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
    # the collector of the program, and the end of the interpreter, need not go through what stays
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
    """Return the threads of this process, if Python knows of one alone: the others are those of a native
    library that computes. They wait for work, a fork leaves them behind, and a cold start has them, too."""
    threading = sys.modules.get("threading")
    alone = threading is None or threading.active_count() == 1
    return len(os.listdir("/proc/self/task")) if alone else 1


def import_recorded(modules: list[str], called: Callable[[], bool] = lambda: False) -> tuple[set[str], str]:
    """Import the modules, until a supervisor has ``called``; the variables that Python code asked for
    meanwhile, and what went wrong."""
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

    # the object that every module knows as os.environ stays the same
    environ.__class__ = Recorded
    try:
        for module in modules:
            if called():
                break
            importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - whatever an import raises is why this rank cannot be used
        return reads, f"import {module}: {type(error).__name__}: {error}"
    finally:
        environ.__class__ = kind
    return reads, ""


def _files() -> dict[str, tuple[int, int]]:
    """Return every file that a module came from, and the interpreter, with its time (ns) and size."""
    files = {}
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for path in {sys.executable, *(os.path.abspath(path) for path in modules if isinstance(path, str))}:
        with suppress(OSError):
            status = os.stat(path)
            files[path] = (status.st_mtime_ns, status.st_size)
    return files


def _become(assignment: Assignment) -> None:
    """Be as a process that was started with all this."""
    _mark(assignment.environment[PLACE])
    os.environ.clear()
    os.environ.update(assignment.environment)
    sys.orig_argv[sys.orig_argv.index(WAIT)] = assignment.environment["NBDIST_RUN_ID"]
    _write_to(assignment.log)
    os.chdir(assignment.cwd)
    importlib.invalidate_caches()
    _reseed()


def _mark(place: str) -> None:
    """Show the run's directory where the system shows the environment that this process was started with:
    by that its descendants are found when no process is left that knows them (``store.recovery``)."""
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p
    value = os.fsencode(place)
    address = library.getenv(PLACE.encode())
    assert address, "it was started with room for it"
    assert len(value) < ROOM, "the caller has checked"
    ctypes.memset(address, 0, ROOM)
    ctypes.memmove(address, value, len(value))


def _write_to(log: str) -> None:
    """From now on stdout and stderr are the log, which begins with what the imports have written."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with suppress(OSError):  # what imports wrote is worth less than the run
        before = os.open("/proc/self/fd/1", os.O_RDONLY)
        while data := os.read(before, 1 << 16):
            os.write(handle, data)
        os.close(before)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)


def _reseed() -> None:
    """Random numbers as of a process that has just begun: no other process has, or can know, the state."""
    seed = int.from_bytes(os.urandom(8), "little")
    if random := sys.modules.get("random"):
        random.seed()
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)
    if paddle := sys.modules.get("paddle"):
        paddle.framework.core.default_cpu_generator().manual_seed(seed % (1 << 63))
