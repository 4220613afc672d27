"""The journal of a run: ``events.jsonl``, one event a line, one writer."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

from nbdist.model import Event, decode_event, encode_event
from nbdist.store.json_files import read_whole

_RESERVE = 256 * 1024
"""Bytes of disk that a journal takes ahead of its events: how a run ended can be written to a full disk."""

_LONGEST = 1 << 30
"""Bytes of a journal that can be read: no run has so many events."""

_FALLOC_FL_KEEP_SIZE = 1  # fallocate(2)


class Journal:
    """Appends events. The writer holds a lock on the file for as long as it lives.

    An event that the disk refuses is kept and written with the next one, so that a full disk costs
    no event as long as the writer lives; and the disk seldom refuses one, since room is taken ahead.
    """

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _: None) -> None:
        """Raises BlockingIOError when another process writes this journal."""
        self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise
        self._pending = b"" if self._ends_whole() else b"\n"
        self._report = report
        _take_room(self._handle)

    def append(self, event: Event) -> None:
        self._pending += encode_event(event).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Try again to write what the disk refused; whether all is written."""
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
            # gives back the room that no event has needed
            os.truncate(self._handle, os.fstat(self._handle).st_size)
        os.close(self._handle)

    def _ends_whole(self) -> bool:
        size = os.fstat(self._handle).st_size
        return size == 0 or os.pread(self._handle, 1, size - 1) == b"\n"


def _take_room(handle: int) -> None:
    """Let the file have disk beyond its end, where the system and the filesystem can do that."""
    if sys.platform != "linux":
        return
    import ctypes  # only a writer needs it, and readers import this module, too

    offset, length = os.fstat(handle).st_size, _RESERVE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate(handle, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(offset), ctypes.c_int64(length))


def read_events(path: Path) -> list[Event]:
    """The events of a journal. Lines that are torn or unknown are passed over; no file: no events."""
    try:
        raw = read_whole(path, _LONGEST)
    except OSError:
        return []
    events = []
    for line in raw.decode("utf-8", errors="replace").splitlines():
        try:
            event = decode_event(line)
        except ValueError:
            continue
        if event is not None:
            events.append(event)
    return events
