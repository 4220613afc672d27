"""``--log-dir``: the logs of the ranks a second time, where paddle's launcher puts them.

``workerlog.N`` in that directory is of local rank N; it grows while the rank writes, and a further run
is appended to it (as there: paddle.distributed.launch, controllers/controller.py).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from nbdist.store.log_gap import read_kept

_PERIOD = 0.2
_CHUNK = 1 << 18
_MOST = 16 * _CHUNK
"""Bytes that one log may cost a tick: the supervisor has other things to do."""


class WorkerLogs:
    """Copies what is appended to the logs of one attempt."""

    def __init__(
        self, folder: Path, logs: Sequence[tuple[int, Path]], *, report: Callable[[str], None]
    ) -> None:
        """``logs`` are local ranks and where each writes."""
        self._folder = folder
        self._copied = dict.fromkeys(logs, 0)
        self._report = report
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Copy what is new, if it is time."""
        if now >= self._due:
            self._due = now + _PERIOD
            self._copy(_MOST)

    def close(self) -> None:
        """Copy all that is left: nothing writes any more."""
        self._copy(None)

    def _copy(self, most: int | None) -> None:
        for (local_rank, log), copied in list(self._copied.items()):
            try:
                self._copied[local_rank, log] = _append(
                    log, copied, self._folder / f"workerlog.{local_rank}", most
                )
            except OSError as error:
                # a directory that cannot be written costs the copy, and not the run
                del self._copied[local_rank, log]
                self._report(f"--log-dir: {self._folder}/workerlog.{local_rank}: {error.strerror}")


def check_log_dir(folder: Path, local_ranks: Sequence[int]) -> None:
    """See whether the logs can be written: a directory of several users may hold what another one has put
    there. Raises OSError, with the name of what is in the way."""
    status = os.lstat(folder)
    if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, "it is a link of another user", str(folder))
    for local_rank in local_ranks:
        os.close(open_log(folder / f"workerlog.{local_rank}"))


def open_log(path: Path) -> int:
    """A log to append to, which is made where there is none. Raises OSError when a link is there, or anything
    else that is no plain file of this user's alone."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError(errno.EPERM, "it is a link", str(path)) from None
        raise
    status = os.fstat(handle)
    # a second name may be one that another user has given to any file of this one
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        return handle
    os.close(handle)
    raise PermissionError(errno.EPERM, "it is no file of yours alone", str(path))


def _append(log: Path, copied: int, target: Path, most: int | None) -> int:
    """Append what ``log`` holds behind the first ``copied`` bytes; how many are copied then."""
    try:
        size = os.stat(log).st_size
    except FileNotFoundError:
        return copied
    if size <= copied and target.exists():
        return copied
    with open(log, "rb") as source, open(open_log(target), "ab") as sink:
        end = size if most is None else min(size, copied + most)
        while copied < end:
            data, copied = read_kept(source.fileno(), copied, min(_CHUNK, end - copied))
            if not data:
                break
            sink.write(data)
    return copied
