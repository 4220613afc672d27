"""Changes that a rank makes to a framework once the program has imported it."""

from __future__ import annotations

import _weakref
import gc
import os
import sys
import time
from contextlib import suppress

from nbdist.worker.files import put, remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


# The finders and loaders here do not inherit from ``importlib.abc``, which takes 19 ms to import.


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call ``action`` with the module ``name`` once its code has run."""
    if (module := sys.modules.get(name)) is not None:
        action(module)
    else:
        around_import(name, lambda: lambda module: None if module is None else action(module))


def around_import(name: str, before: Callable[[], Callable[[ModuleType | None], None]]) -> None:
    """Call ``before`` when the code of the module ``name`` is about to run, and its result afterwards, with
    the module or, where its code has raised, None. Do nothing for a module that is imported already."""
    if name not in sys.modules:
        sys.meta_path.insert(0, _Watch(name, before))


def note_import(name: str, file: str) -> None:
    """Keep the name of the module in ``file`` while it is imported."""

    def before() -> Callable[[ModuleType | None], None]:
        with suppress(OSError):
            put(file, name.encode())
        return lambda _: remove(file)

    around_import(name, before)


class _Watch:
    """A finder that finds one module by the other finders, wraps its loader, and removes itself."""

    def __init__(self, name: str, before: Callable[[], Callable[[ModuleType | None], None]]) -> None:
        self._name = name
        self._before = before

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _WatchedLoader(spec.loader, self._before)  # type: ignore[assignment]
                return spec
        return None


class _WatchedLoader:
    def __init__(self, loader: Any, before: Callable[[], Callable[[ModuleType | None], None]]) -> None:
        self._loader = loader
        self._before = before

    def exec_module(self, module: ModuleType) -> None:
        # the module is not to show this loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        after, loaded = self._before(), None
        try:
            self._loader.exec_module(module)
            loaded = module
        finally:
            after(loaded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def prefer_backend(module: ModuleType) -> None:
    """Make NBDIST_BACKEND the default of ``init_process_group`` for every device that it can serve."""
    wanted = os.environ.get("NBDIST_BACKEND", "auto")
    table = module.Backend.default_device_backend_map if wanted != "auto" else {}
    for device in ("cpu", "cuda"):
        if device in table and (wanted, device) != ("nccl", "cpu"):
            table[device] = wanted


def wait_for_debugger(module: ModuleType) -> None:
    """Let ranks wait in a process group for one that a debugger holds, unless the program says how long."""
    from datetime import timedelta

    day = timedelta(days=1)
    vars(module).update(default_pg_timeout=day, default_pg_nccl_timeout=day)


# torch's DDP drops the last reference to its process group as its Reducer is freed, and holds the GIL. The
# group's destructor waits for its threads, one of which may need the GIL to drop a Python object of a
# collective: a deadlock (torch 2.13, ProcessGroupGloo; pytorch#56297), by chance, and where torch._dynamo was
# imported before DDP, as in ranks that have waited. Where Python drops the last one, torch releases the GIL.


def free_groups_last(parallel: ModuleType) -> None:
    """Free the C++ objects of DistributedDataParallel (in torch.nn.parallel.distributed) before its group."""
    import functools
    import weakref

    kind: Any = getattr(parallel, "DistributedDataParallel", None)
    make = getattr(kind, "_ddp_init_helper", None)
    if make is None:
        return

    @functools.wraps(make)
    def make_and_hold(model: Any, *given: Any, **named: Any) -> Any:
        made = make(model, *given, **named)
        for part in ("logger", "reducer"):
            if (held := getattr(model, part, None)) is not None:
                # pybind11 calls this when the C++ object has gone
                weakref.finalize(held, lambda _: None, getattr(model, "process_group", None)).atexit = False
        return made

    kind._ddp_init_helper = make_and_hold


# A thread of gloo drops what its collective held (torch 2.13: Python's context of backward) after the program
# has gone on. If it needs the GIL when the interpreter has ended, Python ends the thread, and C++ therefore
# the process: "terminate called without an active exception", in one of five ends on a busy machine.

_THREADS = "/proc/self/task"
_REST, _PATIENCE = 0.001, 5.0  # seconds


def end_after_gloo(_: ModuleType) -> None:
    """Let gloo's threads come to rest before the interpreter ends (torch.distributed)."""
    import atexit

    atexit.register(wait_for_gloo)


def wait_for_gloo() -> None:
    """Wait until no thread of gloo runs, some seconds at most."""
    until = time.monotonic() + _PATIENCE
    with suppress(OSError):  # there is no /proc
        while time.monotonic() < until:
            time.sleep(_REST)  # a thread that waits for the GIL has it now
            if not any(map(_runs_gloo, os.listdir(_THREADS))):
                return


def _runs_gloo(thread: str) -> bool:
    # one that has ended has no file
    with suppress(OSError), open(f"{_THREADS}/{thread}/stat") as file:
        return "(pt_gloo_runloop) R" in file.read()
    return False


def mend_ends() -> None:
    """Mend the ends of torch's programs that hang or abort by chance."""
    after_import("torch.nn.parallel.distributed", free_groups_last)
    after_import("torch.distributed.distributed_c10d", end_after_gloo)


# A rank connects to the store of rank 0 once that listens. After a refused connection torch waits for half a
# second (TCPStore.cpp), paddle 3 for three seconds (tcp_utils.cc).

_LIMIT = 300.0
_PERIOD = 0.01
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
# the ports that listen on another machine are not visible without a connection
_HERE = ("127.0.0.1", "localhost")

_opened: list[str] = []


def has_joined() -> bool:
    """Return whether this process has been in a process group of torch, paddle or JAX, or may be MPI's."""
    if _opened or "mpi4py.MPI" in sys.modules:
        return True
    torch, jax = sys.modules.get("torch.distributed"), sys.modules.get("jax._src.distributed")
    # _opened misses a store in a file, and one that the program has made
    if torch is not None and torch.is_available() and torch.is_initialized():
        return True
    return getattr(getattr(jax, "global_state", None), "client", None) is not None


def torch_looks(rendezvous: ModuleType) -> None:
    """Let ranks other than 0 wait for rank 0's store (torch.distributed.rendezvous) before they connect."""
    create: Any = getattr(rendezvous, "TCPStore", None)
    if create is None:
        return

    def create_when_it_listens(
        host_name: str, port: int, *args: object, is_master: bool = False, **options: Any
    ) -> object:
        _opened.append("torch")
        timeout: timedelta | None = options.get("timeout")
        if not (is_master or args or timeout is None) and host_name in _HERE:
            # the other half is torch's, which raises its own error at a timeout
            waited = _wait_until_it_listens(port, min(timeout.total_seconds() / 2, _LIMIT))
            options["timeout"] = timeout - type(timeout)(seconds=waited)
        return create(host_name, port, *args, is_master=is_master, **options)

    vars(rendezvous)["TCPStore"] = create_when_it_listens


def paddle_looks(core: ModuleType) -> None:
    """Let ranks other than 0 wait for rank 0's store (paddle.base.core) before they connect."""
    create = getattr(core, "create_or_get_global_tcp_store", None)
    master = os.environ.get("PADDLE_MASTER", "")
    host, _, port = master.rpartition(":")
    if create is None:
        return
    waits = host in _HERE and os.environ.get("PADDLE_TRAINER_ID") != "0"

    def create_when_it_listens() -> object:
        _opened.append("paddle")
        # a program may have set another address since
        if waits and os.environ.get("PADDLE_MASTER") == master:
            _wait_until_it_listens(int(port), _LIMIT)
        return create()

    vars(core)["create_or_get_global_tcp_store"] = create_when_it_listens


def _wait_until_it_listens(port: int, limit: float) -> float:
    """Wait up to ``limit`` seconds for the port; return the seconds waited."""
    began = time.monotonic()
    while not _listens(port) and time.monotonic() - began < limit:
        time.sleep(_PERIOD)
    return time.monotonic() - began


def _listens(port: int) -> bool:
    """Return whether a process of this machine listens on the port (proc(5), /proc/net/tcp)."""
    rows: list[list[str]] = []
    known = False
    for table in _TABLES:
        try:
            with open(table) as file:
                rows += map(str.split, file.read().splitlines()[1:])
        except OSError:
            continue
        known = True
    # without such a table the framework connects and tries again
    return not known or any(row[3] == _LISTENS and row[1].endswith(f":{port:04X}") for row in rows)


# The objects that a framework's import makes last as long as the process. At its end the interpreter collects
# several times, which takes a second of CPU for torch's half a million objects (decision 0013). ``gc.freeze``
# excludes them, but also all others; a cycle of the program's own objects would then never be finalized. So
# PyObject_GC_Track of the C API puts those back, and the imported modules see a stand-in for ``__main__``
# (torch._dynamo keeps copies of sys.modules).

# the first optimizer imports torch._dynamo, and with it some 800 modules
_LARGE = ("torch", "torch._dynamo", "paddle", "paddle.distributed")

_MOST = 60_000  # objects of the program: to put them back takes some 20 ms

_within = False


def watch() -> None:
    """Exclude all objects that exist now, before the program, and those of later imports from collections."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    gc.freeze()
    for name in _LARGE:
        around_import(name, _set_apart)


def _set_apart() -> Callable[[ModuleType | None], None]:
    """Remember the objects before an import; return a function that freezes all others."""
    global _within
    before: list[object] = [] if _within else gc.get_objects()
    if _within or len(before) > _MOST:
        return lambda _: None
    _within = True
    main = sys.modules["__main__"]
    stand_in = sys.modules["__main__"] = _StandIn(main)

    def after(_: ModuleType | None) -> None:
        global _within
        _within = False
        if sys.modules.get("__main__") is stand_in:
            sys.modules["__main__"] = main
        gc.freeze()
        _thaw(before)
        before.clear()

    return after


class _StandIn(type(sys)):  # type: ignore[misc]
    """A module with the attributes of ``__main__`` that does not keep it alive."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__("__main__")
        kept = {*vars(self), "__file__"}
        own = {name: value for name, value in vars(main).items() if name in kept}
        self.__dict__.update(own, _main=_weakref.ref(main))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_main"](), name)


def _thaw(objects: list[object]) -> None:
    """Let the collector track these again."""
    import ctypes

    untrack, track = ctypes.pythonapi.PyObject_GC_UnTrack, ctypes.pythonapi.PyObject_GC_Track
    for function in (untrack, track):
        function.argtypes, function.restype = (ctypes.py_object,), None
    # the collector itself untracks dicts and tuples of plain values
    for tracked in filter(gc.is_tracked, objects):
        untrack(tracked)
        track(tracked)


def join_cluster(clusters: ModuleType) -> None:
    """Let ``jax.distributed.initialize()`` without arguments find the ranks of a run.

    JAX reads only the coordinator's address from the environment, and the rest from its clusters
    (jax._src.clusters.cluster, private). The run comes first, since it may itself be in a Slurm job."""
    known = getattr(getattr(clusters, "ClusterEnv", None), "_cluster_types", None)
    if not isinstance(known, list):
        return

    class Run(clusters.ClusterEnv):  # type: ignore[name-defined, misc]
        name = "nbdist"
        is_env_present = staticmethod(lambda: {"JAX_COORDINATOR_ADDRESS", "RANK"} <= os.environ.keys())
        get_coordinator_address = staticmethod(lambda *_, **__: os.environ["JAX_COORDINATOR_ADDRESS"])
        get_process_count = staticmethod(lambda: int(os.environ["WORLD_SIZE"]))
        get_process_id = staticmethod(lambda: int(os.environ["RANK"]))
        get_local_process_id = staticmethod(lambda: int(os.environ["LOCAL_RANK"]))

    # ClusterEnv has appended it
    known.insert(0, known.pop())
