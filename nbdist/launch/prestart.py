"""Start of the ranks before their supervisor has imported its modules.

That import takes longer than the start of a rank. So the new process starts the ranks at once by a launch
plan (``local.hand_over``), and becomes their supervisor meanwhile. The journal has its first lines before a
program begins. This module imports only what that takes.
"""

from __future__ import annotations

import marshal
import os
import time

from nbdist.control_groups import make_group
from nbdist.launch.binding import (
    FOR_THE_RANKS,
    NOTIFY,
    REQUESTS_TO_END,
    allow_files,
    become_subreaper,
    drop_interrupt,
    start_process,
)
from nbdist.launch.reaper import keep_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from _socket import socket
    from collections.abc import Sequence
    from typing import Any

    from nbdist.store.paths import RunDirectory
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms


def main(arguments: Sequence[str]) -> int:
    """Run as the process of a supervisor (``FD RUN_DIR [LIFELINE_FD]``), with the plan at FD."""
    drop_interrupt()
    given, path, *lifeline = arguments
    with open(int(given), "rb") as file:
        ahead = marshal.load(file)
    for descriptor in (*ahead["held"], *map(int, lifeline)):
        os.set_inheritable(descriptor, False)
    # until they have a handler
    signal.pthread_sigmask(signal.SIG_BLOCK, (*REQUESTS_TO_END, *FOR_THE_RANKS))
    return keep_over(lambda: _supervise(ahead, path, lifeline), lambda: _directory(path))


def _supervise(ahead: dict[str, Any], path: str, lifeline: list[str]) -> None:
    become_subreaper()
    allow_files(len(ahead["ranks"]))
    started = _start(ahead["ranks"])
    # before a program begins, whose children are to be in the group, too. The kernel needs up to 20 ms for
    # it, as the interpreter of a rank does to start
    group = make_group(os.getpid(), _start_time(os.getpid()))
    if group is not None:
        for pid, _ in started.values():
            group.add(pid)
    lines = _record(ahead, started) if len(started) == len(ahead["ranks"]) else []
    for rank in ahead["ranks"] if lines else ():
        channel = started[rank["place"]][1]
        try:
            channel.sendall(rank["order"])
        except OSError:
            pass  # the supervisor finds a dead rank by its exit
        channel.setblocking(False)
    from nbdist.launch.supervisor import adopt

    descriptor = int(lifeline[0]) if lifeline else None
    adopt(
        _directory(path),
        ahead["spec"],
        descriptor,
        started=started,
        lines=lines,
        port=tuple(ahead["port"]),
        group=group,
    )


def _start(ranks: Sequence[dict[str, Any]]) -> dict[str, tuple[int, socket]]:
    """Start the ranks; return pid and channel of each by its directory. The supervisor retries missing
    ones."""
    started = {}
    environment = {name: value for name, value in os.environ.items() if name != NOTIFY}
    try:
        for rank in ranks:
            os.makedirs(rank["place"], 0o700, exist_ok=True)
            started[rank["place"]] = start_process(
                rank["arguments"],
                environment={**environment, **rank["environment"]},
                cwd=rank["cwd"],
                log=rank["log"],
            )
    except OSError:
        pass
    return started


def _record(ahead: dict[str, Any], started: dict[str, tuple[int, socket]]) -> list[str]:
    """Begin the journal; return its lines. On an error the ranks wait for their orders by the supervisor."""
    lines = [_filled(ahead["begin"][0], os.getpid()), _filled(ahead["begin"][1])]
    lines += [_filled(rank["begin"], started[rank["place"]][0]) for rank in ahead["ranks"]]
    data = "".join(lines).encode()
    try:
        journal = os.open(ahead["journal"], os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            written = os.write(journal, data)
            if written < len(data):
                os.ftruncate(journal, 0)
        finally:
            os.close(journal)
    except OSError:
        return []
    return lines if written == len(data) else []


def _filled(line: str, pid: int = 0) -> str:
    """Fill in the zeros of ``local.line``."""
    now = f'"time": {time.time()!r}'
    return line.replace('"time": 0.0', now, 1).replace(
        '"pid": 0, "start_time": 0', f'"pid": {pid}, "start_time": {_start_time(pid) if pid else 0}', 1
    )


def _start_time(pid: int) -> int:
    """Return the start time as ``processes.read_stat`` does."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def _directory(path: str) -> RunDirectory:
    from pathlib import Path

    from nbdist.store.paths import RunDirectory

    return RunDirectory(Path(path))
