"""Lets a rank of paddle wait for its store by looking instead of by sleeping.

Where rank 1 connects before rank 0 listens, paddle 3 tries again only after a fixed three seconds
(tcp_utils.cc). Which of the two comes first is chance, so every other start took three seconds more.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_LIMIT = 300.0
_PERIOD = 0.01
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"


def wait_for_master(core: ModuleType) -> None:
    """Let ``create_or_get_global_tcp_store`` of a rank other than 0 wait until rank 0 listens.

    ``core`` is paddle.base.core. Only for ranks of one machine: whether a port of another one listens
    cannot be seen without connecting to it.
    """
    create = getattr(core, "create_or_get_global_tcp_store", None)
    master = os.environ.get("PADDLE_MASTER", "")
    host, _, port = master.rpartition(":")
    if create is None or host != "127.0.0.1" or os.environ.get("PADDLE_TRAINER_ID") == "0":
        return

    def create_when_it_listens() -> object:
        # a program may have set other addresses in the meantime
        if os.environ.get("PADDLE_MASTER") == master:
            _wait_until_it_listens(int(port))
        return create()

    core.create_or_get_global_tcp_store = create_when_it_listens  # type: ignore[attr-defined]


def _wait_until_it_listens(port: int) -> None:
    deadline = time.monotonic() + _LIMIT
    while not _listens(port) and time.monotonic() < deadline:
        time.sleep(_PERIOD)


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
    # where the system has no such table, paddle's own way is the only one
    return not known
