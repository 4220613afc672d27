"""What a rank changes in a framework from the moment a program has imported it."""

from __future__ import annotations

import _weakref
import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


# The finders and loaders here are such by their methods alone: ``importlib.abc`` takes 19 ms to import.


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call ``action`` with the module ``name`` right after its code has run, or now if it has."""
    if (module := sys.modules.get(name)) is not None:
        action(module)
        return

    around_import(name, lambda: lambda module: None if module is None else action(module))


def around_import(name: str, before: Callable[[], Callable[[ModuleType | None], None]]) -> None:
    """Call ``before`` when the code of the module ``name`` is about to run, and what that returns when it
    has: with the module, or None where its code has failed. Nothing is done of a module that is there."""
    if name not in sys.modules:
        sys.meta_path.insert(0, _Watch(name, before))


class _Watch:
    """Finds one module as the others would, with a loader that calls before and after, then leaves."""

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
        # from here on the module looks as if it had been loaded without us
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
    """Make NBDIST_BACKEND the default for every device it can serve: of
    ``Backend.default_device_backend_map``, which ``init_process_group`` reads. A program that names a backend
    gets the one it named."""
    wanted = os.environ.get("NBDIST_BACKEND", "auto")
    table = module.Backend.default_device_backend_map if wanted != "auto" else {}
    for device in ("cpu", "cuda"):
        if device in table and (wanted, device) != ("nccl", "cpu"):
            table[device] = wanted


# torch's DDP gives up the last reference to its process group where its Reducer is freed, and keeps the
# interpreter meanwhile. The group's destructor waits for its threads, and one of them may need the
# interpreter to drop a Python object of a collective: the rank stands still for ever (torch 2.13,
# ProcessGroupGloo; pytorch#56297), by chance, and where torch._dynamo was imported before DDP, as in ranks
# that have waited. Where Python has the last reference torch lets the interpreter go.


def free_groups_last(parallel: ModuleType) -> None:
    """Let what DistributedDataParallel (of torch.nn.parallel.distributed) makes in C++ be freed before its
    process group."""
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


# A rank waits for the store of rank 0 by looking whether it listens. Where rank 1 connects before that, torch
# tries again after some half a second (TCPStore.cpp), paddle 3 after a fixed three seconds (tcp_utils.cc).

_LIMIT = 300.0
_PERIOD = 0.01
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
# whether a port of another machine listens cannot be seen without connecting to it
_HERE = ("127.0.0.1", "localhost")

_opened: list[str] = []


def has_joined() -> bool:
    """Return whether this process has been in a process group of torch, paddle or JAX, or may be one of
    MPI's."""
    if _opened or "mpi4py.MPI" in sys.modules:
        return True
    torch, jax = sys.modules.get("torch.distributed"), sys.modules.get("jax._src.distributed")
    # a store in a file, or one that the program has made, is not seen when it is opened
    if torch is not None and torch.is_available() and torch.is_initialized():
        return True
    return getattr(getattr(jax, "global_state", None), "client", None) is not None


def torch_looks(rendezvous: ModuleType) -> None:
    """Let the store of ``env://`` and ``tcp://`` (of torch.distributed.rendezvous) of a rank other than 0
    wait until rank 0 listens."""
    create: Any = getattr(rendezvous, "TCPStore", None)
    if create is None:
        return

    def create_when_it_listens(
        host_name: str, port: int, *args: object, is_master: bool = False, **options: Any
    ) -> object:
        _opened.append("torch")
        timeout: timedelta | None = options.get("timeout")
        if not (is_master or args or timeout is None) and host_name in _HERE:
            # the other half is torch's, whose error it is when no rank comes
            waited = _wait_until_it_listens(port, min(timeout.total_seconds() / 2, _LIMIT))
            options["timeout"] = timeout - type(timeout)(seconds=waited)
        return create(host_name, port, *args, is_master=is_master, **options)

    vars(rendezvous)["TCPStore"] = create_when_it_listens


def paddle_looks(core: ModuleType) -> None:
    """Let ``create_or_get_global_tcp_store`` (of paddle.base.core) of a rank other than 0 wait until rank 0
    listens."""
    create = getattr(core, "create_or_get_global_tcp_store", None)
    master = os.environ.get("PADDLE_MASTER", "")
    host, _, port = master.rpartition(":")
    if create is None:
        return
    waits = host in _HERE and os.environ.get("PADDLE_TRAINER_ID") != "0"

    def create_when_it_listens() -> object:
        _opened.append("paddle")
        # a program may have set other addresses in the meantime
        if waits and os.environ.get("PADDLE_MASTER") == master:
            _wait_until_it_listens(int(port), _LIMIT)
        return create()

    vars(core)["create_or_get_global_tcp_store"] = create_when_it_listens


def _wait_until_it_listens(port: int, limit: float) -> float:
    """Wait at most ``limit`` seconds. How many it were."""
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
    # where the system has no such table, the framework's own way is the only one
    return not known or any(row[3] == _LISTENS and row[1].endswith(f":{port:04X}") for row in rows)


# What a framework's import makes lasts as long as the process: an interpreter that ends collects several
# times, and takes a second of a processor for the half a million objects of torch (decision 0013).
# ``gc.freeze`` takes them out, but everything else with them; a cycle of the program's own objects would then
# never be finalized. So these are put back (the C API's PyObject_GC_Track), and what is imported gets a
# stand-in for ``__main__`` (torch._dynamo keeps copies of sys.modules).

# the first optimizer imports torch._dynamo, with some 800 more
_LARGE = ("torch", "torch._dynamo", "paddle", "paddle.distributed")

_MOST = 60_000  # objects of the program that are worth the time it takes to put them back, some 20 ms

_within = False


def watch() -> None:
    """From now on what those imports make is not looked at. To be called before there is a program: what
    there is now lasts, too."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    gc.freeze()
    for name in _LARGE:
        around_import(name, _set_apart)


def _set_apart() -> Callable[[ModuleType | None], None]:
    """Remember the objects that are there before an import; what is returned freezes all others."""
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
    """Has what ``__main__`` has, and does not keep it alive."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__("__main__")
        kept = {*vars(self), "__file__"}
        own = {name: value for name, value in vars(main).items() if name in kept}
        self.__dict__.update(own, _main=_weakref.ref(main))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_main"](), name)


def _thaw(objects: list[object]) -> None:
    """Let the collector look at these again."""
    import ctypes

    untrack, track = ctypes.pythonapi.PyObject_GC_UnTrack, ctypes.pythonapi.PyObject_GC_Track
    for function in (untrack, track):
        function.argtypes, function.restype = (ctypes.py_object,), None
    # a dict or tuple of plain values may have left by itself
    for tracked in filter(gc.is_tracked, objects):
        untrack(tracked)
        track(tracked)


def join_cluster(clusters: ModuleType) -> None:
    """Let ``jax.distributed.initialize()`` without arguments find the ranks of a run.

    JAX reads only the coordinator's address from the environment, and asks the clusters it knows for the rest
    (jax._src.clusters.cluster, which is private). The run comes before all others, since it may itself be in
    a Slurm job."""
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

    # ClusterEnv has put it at the end
    known.insert(0, known.pop())
