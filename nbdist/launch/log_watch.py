"""Watch over the logs of the ranks: an index of lengths and times beside each, and a gap in one too long.

The ranks write straight into their logs, where a later reader sees bytes without times. The cost of the looks
does not grow with the number of ranks; growing logs have more of them. With ``--log-dir`` the logs have
growing copies as from paddle's launcher: later runs append to ``workerlog.N`` of local rank N.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.store.logs import RECORD, LogGap, read_kept
from nbdist.store.paths import RankDirectory, append_whole, open_to_append

PERIOD = 0.045
"""Seconds between two looks, a little less than the supervisor's wait, which may end early."""

_BUSY_LOOKS = 10
_QUIET_LOOKS = 8
"""Logs per look: of those that grew at their last one, and of the others."""

_BEFORE = 1.0
"""Seconds for which a rank may have written before the watch begins."""

_RATE, _BURST = 10.0, 100.0
"""Index entries per second in the long run, and in a burst."""

_KEPT_OPEN = 128
"""Indexes that stay open: many ranks need the descriptors for other files."""


@dataclass(slots=True)
class _Log:
    """One log and its index, which stays open if ``keep``. ``allowance`` is in entries."""

    files: RankDirectory
    keep: bool
    gap: LogGap | None
    report: Callable[[str], None]
    looked: float
    written: float
    allowance: float = _BURST
    recorded: int = 0
    handle: int | None = None

    def look(self, now: float, *, last: bool = False) -> bool:
        """Record a new length; return whether the log grew."""
        before, self.looked = self.looked, now
        try:
            status = os.stat(self.files.log)
        except OSError:
            return False
        if status.st_size <= self.recorded:
            return False
        if self.gap is not None:
            try:
                self.gap.widen(status.st_size)
            except OSError as error:
                self.gap = None
                self.report(f"{self.files.log} is too long, and is kept whole: {error.strerror}")
        self.allowance = min(_BURST, self.allowance + _RATE * max(0.0, now - self.written))
        self.written = now
        if self.allowance >= 1.0 or last:
            # the write may be long before this look, but a file server's clock may differ from ours
            moment = min(now, max(before, status.st_mtime))
            if self._append(RECORD.pack(moment, status.st_size)):
                self.recorded = status.st_size
                self.allowance -= 1.0
        return True

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def _append(self, record: bytes) -> bool:
        """Append to the index; a full disk or a deleted directory costs only the entry."""
        try:
            if self.handle is None:
                self.handle = open_to_append(self.files.log_times)
        except OSError:
            return False
        done = append_whole(self.handle, record)
        if not self.keep:
            self.close()
        return done


class LogWatch:
    """The logs of one attempt, each with ``room`` bytes of disk; ``report`` is called where that fails."""

    def __init__(
        self,
        *,
        room: int | None = None,
        report: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._room = room
        self._report = report
        self._clock = clock
        self._logs: dict[int, _Log] = {}
        self._busy: deque[_Log] = deque()
        self._quiet: deque[_Log] = deque()
        self._due = 0.0
        self.grew = False
        """True if a log grew at the last look."""

    def add(self, rank: int, files: RankDirectory) -> None:
        keep = len(self._logs) < min(_KEPT_OPEN, os.sysconf("SC_OPEN_MAX") // 4)
        gap = None if self._room is None else LogGap(str(files.log), self._room)
        begin = self._clock() - _BEFORE
        log = _Log(files, keep, gap, self._report, looked=begin, written=begin)
        self._logs[rank] = log
        self._quiet.append(log)

    @property
    def quiet(self) -> bool:
        """True if no log grew at its last look."""
        return not self._busy

    def tick(self, now: float) -> None:
        """Look at some of the logs, when it is time. ``now`` is monotonic seconds."""
        if now < self._due:
            return
        self._due = now + PERIOD
        moment = self._clock()
        turn = [*_some(self._busy, _BUSY_LOOKS), *_some(self._quiet, _QUIET_LOOKS)]
        self.grew = False
        for log in turn:
            grew = log.look(moment)
            self.grew |= grew
            (self._busy if grew else self._quiet).append(log)

    def look_at(self, rank: int) -> None:
        """Record the length of the log of a rank that has exited."""
        self._logs[rank].look(self._clock(), last=True)

    def close(self) -> None:
        """Record the last lengths."""
        now = self._clock()
        for log in self._logs.values():
            log.look(now, last=True)
            log.close()


def _some(logs: deque[_Log], most: int) -> Iterator[_Log]:
    for _ in range(min(most, len(logs))):
        yield logs.popleft()


_PERIOD = 0.2
_CHUNK = 1 << 18
_MOST = 16 * _CHUNK
"""Bytes copied from one log per tick, at most."""


class WorkerLogs:
    """Growing copies of the logs of one attempt, which are given by local rank."""

    def __init__(
        self, folder: Path, logs: Sequence[tuple[int, Path]], *, report: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._copied = dict.fromkeys(logs, 0)
        self._report = report
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Copy new bytes, when it is time."""
        if now >= self._due:
            self._due = now + _PERIOD
            self._copy(_MOST)

    def close(self) -> None:
        """Copy the rest."""
        self._copy(None)

    def _copy(self, most: int | None) -> None:
        for (local_rank, log), copied in list(self._copied.items()):
            target = self._folder / f"workerlog.{local_rank}"
            try:
                self._copied[local_rank, log] = _append(log, copied, target, most)
            except OSError as error:
                # a directory without write access costs the copy, not the run
                del self._copied[local_rank, log]
                self._report(f"--log-dir: {target}: {error.strerror}")


def check_log_dir(folder: Path, local_ranks: Sequence[int]) -> None:
    """Check that the copies can be written, in a shared directory too. Raises OSError with the obstacle."""
    status = os.lstat(folder)
    if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, "it is a link of another user", str(folder))
    for local_rank in local_ranks:
        os.close(open_log(folder / f"workerlog.{local_rank}"))


def open_log(path: Path) -> int:
    """Open or make a log to append to. Raises OSError unless it is a plain file of this user alone."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError(errno.EPERM, "it is a link", str(path)) from None
        raise
    status = os.fstat(handle)
    # another user may have given a second name to any file of this user
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        return handle
    os.close(handle)
    raise PermissionError(errno.EPERM, "it is no file of yours alone", str(path))


def _append(log: Path, copied: int, target: Path, most: int | None) -> int:
    """Append the bytes of ``log`` behind the first ``copied`` ones; return the new number of copied bytes."""
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
