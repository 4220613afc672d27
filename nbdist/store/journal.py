"""The journal of a run, and safe ways to read and reserve its files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from nbdist.model import Event, decode_event, encode_event
from nbdist.model.decoding import loads
from nbdist.store.paths import open_to_append

LIMIT = 16 << 20  # bytes; a spec of 1,024 ranks has a hundredth of that


def open_plain(path: Path) -> BinaryIO:
    """Open a file of this user to read it. Raises OSError, also for links, pipes and files of others."""
    # opening a pipe would block
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(handle)
        raise PermissionError(errno.EPERM, "it is no file of yours", str(path))
    return open(handle, "rb")


def read_whole(path: Path, limit: int) -> bytes:
    """Return the bytes of a file, by ``open_plain``. Raises OSError, also for more than ``limit``."""
    with open_plain(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
        return file.read(size)


def load_object(path: Path, *, exact: bool = False) -> dict[str, Any]:
    """Return the object in a file, ``exact`` as ``loads`` has it. Raises OSError or ValueError."""
    value = loads(read_whole(path, LIMIT), exact=exact)
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no object")
    return value


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a file; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        return load_object(path)
    return {}


# bytes of disk that a journal reserves, so that a run's end can be written to a full disk
_RESERVE = 256 * 1024
_LONGEST = 1 << 30  # bytes of a journal that can be read: no run has so many events
KEEP_SIZE, PUNCH_HOLE = 1, 2  # the modes of fallocate(2)


class Journal:
    """A writer of events, which locks the file and reserves room on the disk. It writes an event that a full
    disk refuses with the next one."""

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _: None) -> None:
        """Raise BlockingIOError when another process writes this journal."""
        self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise
        size = os.fstat(self._handle).st_size
        # after a torn line
        self._pending = b"\n" if size and os.pread(self._handle, 1, size - 1) != b"\n" else b""
        self._report = report
        with contextlib.suppress(OSError):
            _take_room(self._handle)

    def append(self, event: Event) -> None:
        self._pending += encode_event(event).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Write the events that the disk refused; return whether all are written."""
        while self._pending:
            try:
                written = os.write(self._handle, self._pending)
            except OSError as error:
                self._report(f"the journal cannot be written: {error}")
                return False
            self._pending = self._pending[written:]
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # release the unused room
            os.truncate(self._handle, os.fstat(self._handle).st_size)
        os.close(self._handle)


def reserve(path: Path) -> None:
    """Make an empty file that can be written when the disk is full. Raises OSError where it is full now."""
    handle = open_to_append(path)
    try:
        _take_room(handle)
    except OSError as error:
        # some file systems reserve nothing
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
    finally:
        os.close(handle)


def write_reserved(path: Path, text: str) -> None:
    """Write a file in the room reserved for it, and release the rest. Raises OSError."""
    handle = open_to_append(path)
    try:
        size = os.write(handle, text.encode())
        os.truncate(handle, size)
    finally:
        os.close(handle)


def _take_room(handle: int) -> None:
    """Reserve room on the disk beyond the end of a file. Raises OSError."""
    fallocate(handle, KEEP_SIZE, os.fstat(handle).st_size, _RESERVE)


def fallocate(handle: int, mode: int, offset: int, length: int) -> None:
    """Call fallocate(2). Raises OSError, also where the system has none."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "this system has no fallocate")
    import ctypes  # readers import this module without it

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(handle, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        raise OSError(number := ctypes.get_errno(), os.strerror(number))


def read_events(path: Path) -> list[Event]:
    """Return the events of a journal, without torn and unknown lines; none where there is no file."""
    try:
        raw = read_whole(path, _LONGEST)
    except OSError:
        return []
    events: list[Event] = []
    for line in raw.decode("utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            if (event := decode_event(line)) is not None:
                events.append(event)
    return events
