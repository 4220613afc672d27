"""VisualDL's record files, as far as scalars need them: encoding, splitting, appending.

The format is what visualdl 2.5.3 writes and reads (``writer/record_writer.py``,
``reader/record_reader.py``, ``proto/record.proto``): a file is a row of frames, and a frame is a
little-endian uint64 length and that many bytes of a protobuf message, with no checksum.

    Record { repeated Value values = 1 }
    Value  { int64 id = 1; string tag = 2; int64 timestamp = 3;
             oneof { float value = 4; …; MetaData meta_data = 10; … } }
    MetaData { string display_name = 1 }

protobuf writes fields in the order of their numbers and leaves out those that are zero or empty,
except inside a oneof. One message per frame; the first one carries the name of the curve.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path

FILE_NAME = "vdlrecords.0000000000.nbdist.log"
"""VisualDL takes a file whose name holds ``vdlrecords``, and of several the last by name."""

_MAX_FLOAT32 = 3.4028235677973366e38  # from here on a double rounds to float32's infinity


def encode_scalar(*, tag: str, step: int, value: float, milliseconds: int) -> bytes:
    """One point as a frame. ``step`` is an int64, ``milliseconds`` is unix time.

    Outside float32's range the value becomes an infinity, as protobuf has it.
    """
    if abs(value) >= _MAX_FLOAT32:  # struct would raise
        value = math.copysign(math.inf, value)
    return _frame(step, tag, milliseconds, struct.pack("<Bf", 4 << 3 | 5, value))


def encode_name(name: str, *, milliseconds: int) -> bytes:
    """The first frame of a file: the name under which VisualDL shows what follows."""
    metadata = _text(1, name) if name else b""
    return _frame(0, "meta_data_tag", milliseconds, _bytes(10, metadata))


def split(buffer: bytes) -> Iterator[tuple[bytes, int]]:
    """The messages of every whole frame, each with the offset behind it; a torn tail is left."""
    offset = 0
    while offset + 8 <= len(buffer):
        end = offset + 8 + int.from_bytes(buffer[offset : offset + 8], "little")
        if end > len(buffer):
            return
        yield buffer[offset + 8 : end], end
        offset = end


class RecordFile:
    """A record file that grows from nothing, for one writer.

    What goes wrong in the middle of a write (a full disk) leaves no trace: the next one begins
    where the last whole one ended. No handle stays open, so a deleted directory is simply an
    OSError at the next write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = 0
        self._write(b"", os.O_CREAT | os.O_TRUNC)

    def append(self, frames: bytes) -> None:
        self._write(frames)
        self.size += len(frames)

    def _write(self, data: bytes, flags: int = 0) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(handle, data[written:], self.size + written)
        finally:
            os.close(handle)


# A field begins with its number and a wire type: 0 varint, 2 counted bytes, 5 four bytes.


def _frame(step: int, tag: str, milliseconds: int, one_value: bytes) -> bytes:
    value = b"".join(
        (
            _int64(1, step) if step else b"",
            _text(2, tag) if tag else b"",
            _int64(3, milliseconds) if milliseconds else b"",
            one_value,
        )
    )
    record = _bytes(1, value)
    return struct.pack("<Q", len(record)) + record


def _int64(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _text(field: int, text: str) -> bytes:
    # half of a surrogate pair, which JSON can carry, is no UTF-8
    return _bytes(field, text.encode("utf-8", "replace"))


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    number &= 0xFFFF_FFFF_FFFF_FFFF  # a negative int64 as two's complement: ten bytes
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
