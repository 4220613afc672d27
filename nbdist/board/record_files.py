"""VisualDL's record files: split, followed, appended to, and decoded for our own pages. ``worker/records.py``
decides the form of a record."""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.worker.records import FILE_NAME, encode_hparams, encode_name, encode_scalar


def split(buffer: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the message of every whole frame, without a torn tail, and the offset behind it."""
    offset = 0
    while offset + 8 <= len(buffer):
        end = offset + 8 + int.from_bytes(buffer[offset : offset + 8], "little")
        if end > len(buffer):
            return
        yield buffer[offset + 8 : end], end
        offset = end


class CurveFile:
    """The record file of one directory, which grows from nothing, and the records that wait to be written.

    A failed write (a full disk) leaves no trace: the next begins where the last whole one ended. No handle
    stays open, so that a deleted directory raises OSError at the next write.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._size = 0
        self._begun = False
        self._waiting = bytearray()

    def add(self, milliseconds: int, tag: str, step: int, value: float) -> None:
        self._begin(milliseconds)
        self._waiting += encode_scalar(tag=tag, step=step, value=value, milliseconds=milliseconds)

    def add_hparams(self, milliseconds: int, hparams: dict[str, Any], metrics: list[str]) -> None:
        self._begin(milliseconds)
        self._waiting += encode_hparams(
            name=self._name, hparams=hparams, metrics=metrics, milliseconds=milliseconds
        )

    def write(self) -> None:
        """Write the records that wait. Raises OSError; then all wait for the next time."""
        if not self._waiting:
            return
        flags = os.O_WRONLY | os.O_CLOEXEC
        if not self._size:
            self._directory.parent.mkdir(mode=0o700, exist_ok=True)  # not its parents: a run may be deleted
            self._directory.mkdir(mode=0o700, exist_ok=True)
            flags |= os.O_CREAT | os.O_TRUNC
        data, written = bytes(self._waiting), 0
        handle = os.open(self._directory / FILE_NAME, flags, 0o600)
        try:
            while written < len(data):
                written += os.pwrite(handle, data[written:], self._size + written)
        finally:
            os.close(handle)
        self._size += written
        self._waiting.clear()

    def _begin(self, milliseconds: int) -> None:
        if not self._begun:
            self._waiting += encode_name(self._name, milliseconds=milliseconds)
            self._begun = True


_LARGEST_RECORD = 1 << 28  # bytes; a length beyond it is damage
log = logging.getLogger("nbdist.board")


class FrameReader:
    """A stand-in for ``RecordReader`` that follows a file and leaves a torn tail for later. It reads ``room``
    bytes at once, at least one message; ``behind`` while there are more."""

    def __init__(self, filepath: str, dir: str | None = None, room: int | None = None) -> None:
        self.dir = dir
        self.behind = False
        self._path = filepath
        self._room = -1 if room is None else room
        self._offset = 0
        self._size = 0  # of the file when it was last read

    def get_remain(self) -> list[bytes]:
        """Return the messages completed since the last call, as many as there is room for."""
        try:
            with open(self._path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == self._size and not self.behind:
                    return []
                self._size = size
                file.seek(self._offset)
                tail = file.read(self._room)
                if len(tail) == self._room and 8 + (length := _length(tail)) > self._room:
                    tail += file.read(8 + length - self._room if length <= _LARGEST_RECORD else 0)
        except OSError:  # the run was deleted; its points stay on the screen
            self.behind = False
            return []
        self.behind = self._offset + len(tail) < size
        whole = list(split(tail))
        end = whole[-1][1] if whole else 0
        self._offset += end
        torn = tail[end : end + 8]
        if len(torn) == 8 and _length(torn) > _LARGEST_RECORD:
            log.warning("%s is damaged at byte %d and is read no further", self._path, self._offset)
            self._offset, self.behind = 1 << 62, False
        return [message for message, _ in whole]


def _length(frame: bytes) -> int:
    return int.from_bytes(frame[:8], "little")


# Decoding without VisualDL and protobuf, which take a second to import.

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # protobuf's wire types


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A value. ``data`` is a picture (mostly PNG), a WAV, or a text in UTF-8; ``rows`` are counts and edges
    of a histogram, precision and recall, or true and false positive rate."""

    kind: str
    tag: str
    step: int
    data: bytes = b""
    rows: tuple[tuple[float, ...], ...] = ()


def shown_values(content: bytes) -> Iterator[Shown]:
    """Yield the values in a record file, without scalars, names and damaged records."""
    for message, _ in split(content):
        try:
            for number, value in fields(message):
                if number == 1 and isinstance(value, bytes) and (shown := _shown(value)) is not None:
                    yield shown
        except (ValueError, IndexError, struct.error, UnicodeDecodeError):
            continue


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message: numbers, and bytes of any length. Raises ValueError."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(message):
            raise ValueError("a field beyond the end")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number beyond 64 bits")


# by place in a Value: kind, and fields to read
_BLOBS = {5: ("image", 4), 6: ("audio", 4), 12: ("text", 1)}
_ROWS = {8: ("histogram", 1, 2), 9: ("pr_curve", 5, 6), 11: ("roc_curve", 5, 6)}


def _shown(message: bytes) -> Shown | None:
    value = dict(fields(message))
    step, tag = value.get(1, 0), value.get(2, b"")
    if not isinstance(step, int) or not isinstance(tag, bytes):
        return None
    name, step = tag.decode("utf-8", "replace"), step - (1 << 64) if step >> 63 else step
    for number, inner in value.items():
        if isinstance(inner, bytes) and number in _BLOBS:
            kind, place = _BLOBS[number]
            data = dict(fields(inner)).get(place, b"")
            return Shown(kind=kind, tag=name, step=step, data=data if isinstance(data, bytes) else b"")
        if isinstance(inner, bytes) and number in _ROWS:
            kind, *places = _ROWS[number]
            rows = tuple(_doubles(inner, place) for place in places)
            return Shown(kind=kind, tag=name, step=step, rows=rows)
    return None


def _doubles(message: bytes, place: int) -> tuple[float, ...]:
    """Return a repeated double, packed or not."""
    packed = b"".join(v for number, v in fields(message) if number == place and isinstance(v, bytes))
    return tuple(number for (number,) in struct.iter_unpack("<d", packed))
