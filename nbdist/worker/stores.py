"""Knows whether a rank has opened a store, and lets it wait for that by looking instead of by sleeping.

Where rank 1 connects before rank 0 listens, torch tries again after some half a second (TCPStore.cpp),
paddle 3 after a fixed three seconds (tcp_utils.cc). Which of the two comes first is chance, so every
other start took that much longer.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from types import ModuleType

_LIMIT = 300.0
_PERIOD = 0.01
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
# whether a port of another machine listens cannot be seen without connecting to it
_HERE = ("127.0.0.1", "localhost")

_opened: list[str] = []


def has_joined() -> bool:
    """Whether this process has been in a process group of torch, paddle or JAX, or may be one of MPI's."""
    if _opened or "mpi4py.MPI" in sys.modules:
        return True
    torch, jax = sys.modules.get("torch.distributed"), sys.modules.get("jax._src.distributed")
    # a store in a file, or one that the program has made, is not seen when it is opened
    if torch is not None and torch.is_available() and torch.is_initialized():
        return True
    return getattr(getattr(jax, "global_state", None), "client", None) is not None


def torch_looks(rendezvous: ModuleType) -> None:
    """Let the store of ``env://`` and ``tcp://`` of a rank other than 0 wait until rank 0 listens.

    ``rendezvous`` is torch.distributed.rendezvous.
    """
    create = getattr(rendezvous, "TCPStore", None)
    if create is None:
        return

    def create_when_it_listens(
        host_name: str, port: int, *args: object, is_master: bool = False, **options: object
    ) -> object:
        _opened.append("torch")
        timeout: timedelta | None = options.get("timeout")  # type: ignore[assignment]
        if not (is_master or args or timeout is None) and host_name in _HERE:
            # the other half is torch's, whose error it is when nobody comes
            waited = _wait_until_it_listens(port, min(timeout.total_seconds() / 2, _LIMIT))
            options["timeout"] = timeout - type(timeout)(seconds=waited)
        return create(host_name, port, *args, is_master=is_master, **options)

    rendezvous.TCPStore = create_when_it_listens  # type: ignore[attr-defined]


def paddle_looks(core: ModuleType) -> None:
    """Let ``create_or_get_global_tcp_store`` of a rank other than 0 wait until rank 0 listens.

    ``core`` is paddle.base.core.
    """
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

    core.create_or_get_global_tcp_store = create_when_it_listens  # type: ignore[attr-defined]


def _wait_until_it_listens(port: int, limit: float) -> float:
    """Wait at most ``limit`` seconds. How many it were."""
    began = time.monotonic()
    while not _listens(port) and time.monotonic() - began < limit:
        time.sleep(_PERIOD)
    return time.monotonic() - began


def _listens(port: int) -> bool:
    """Whether somebody on this machine listens on the port (proc(5), /proc/net/tcp)."""
    wanted = f":{port:04X}"
    known = False
    for table in _TABLES:
        try:
            with open(table) as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue
        known = True
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTENS and fields[1].endswith(wanted):
                return True
    # where the system has no such table, the framework's own way is the only one
    return not known
