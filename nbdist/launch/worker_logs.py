"""``--log-dir``: the logs of the ranks a second time, where paddle's launcher puts them.

``workerlog.N`` in that directory is of local rank N; it grows while the rank writes, and a further run
is appended to it (as there: paddle.distributed.launch, controllers/controller.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

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


def _append(log: Path, copied: int, target: Path, most: int | None) -> int:
    """Append what ``log`` holds behind the first ``copied`` bytes; how many are copied then."""
    try:
        size = os.stat(log).st_size
    except FileNotFoundError:
        return copied
    if size <= copied and target.exists():
        return copied
    with open(log, "rb") as source, open(target, "ab") as sink:
        source.seek(copied)
        end = size if most is None else min(size, copied + most)
        while copied < end and (data := source.read(min(_CHUNK, end - copied))):
            sink.write(data)
            copied += len(data)
    return copied
