"""VisualDL's records: their encoding, and the files that a process writes under the run's ``board/``.

The format is that of visualdl 2.5.3 (``writer/record_writer.py``, ``component/base_component.py``, and
``proto/record_pb2.py``, which numbers the fields): a file is a row of frames, and a frame is a little-endian
uint64 length and a protobuf message, without a checksum: Record { repeated Value values = 1 }, Value { id =
1; tag = 2; timestamp = 3; oneof { … } }. Fields are in the order of their numbers, without zero or empty
ones, except inside a oneof. The first message of a file carries the name of the curve.

VisualDL's own writer takes a second and 42 MB to import, and fails with today's numpy (``np.float``). Each
kind has a directory, since VisualDL shows one file of a directory, and one kind of a tag. A record is one
append of a whole frame: a killed rank loses none, and a forked child can go on.
"""

from __future__ import annotations

import errno
import math
import os
import struct
import time
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


FILE_NAME = "vdlrecords.0000000000.nbdist.log"
"""A name with ``vdlrecords``; of several such files VisualDL reads the last by name."""

_MAX_FLOAT32 = 3.4028235677973366e38  # larger doubles round to float32's infinity
_INT64 = 1 << 63
_LENGTH = struct.Struct("<Q")
_SHORT = struct.Struct("<QBB")
_FLOAT = struct.Struct("<Bf")


def encode(tag: str, step: int, milliseconds: int, one_value: bytes) -> bytes:
    """Return a record as a frame: one of the values below at a step and a Unix time."""
    at = b"\x08" + _varint(step) if step else b""
    when = b"\x18" + _varint(milliseconds) if milliseconds else b""
    value = b"".join((at, _tag(tag), when, one_value))
    if len(value) < 0x80:  # the length of nearly all is one byte, and a board makes millions of them
        return _SHORT.pack(2 + len(value), 0x0A, len(value)) + value
    length = _varint(len(value))
    return b"".join((_LENGTH.pack(1 + len(length) + len(value)), b"\x0a", length, value))


def encode_scalar(*, tag: str, step: int, value: float, milliseconds: int) -> bytes:
    """Return one point as a frame. A value outside float32's range becomes an infinity, as in protobuf."""
    return encode(tag, step, milliseconds, _float32(4, value))


def encode_name(name: str, *, milliseconds: int) -> bytes:
    """Return the first frame of a file: the name under which VisualDL shows the others."""
    metadata = _text(1, name) if name else b""
    return encode("meta_data_tag", 0, milliseconds, _bytes(10, metadata))


def image(png: bytes) -> bytes:
    return _bytes(5, _bytes(4, png))


def audio(wav: bytes, channels: int, frames: int, sample_rate: int) -> bytes:
    length = _int64(3, frames) if frames else b""
    about = (_float32(1, sample_rate), _int64(2, channels), length)
    return _bytes(6, b"".join((*about, _bytes(4, wav), _text(5, "audio/wav"))))


def text(words: str) -> bytes:
    return _bytes(12, _text(1, words) if words else b"")


def embeddings(vectors: Iterable[bytes], labels: Iterable[Sequence[str]], header: Sequence[str]) -> bytes:
    """Return a row for each point: its vector, as little-endian float32, and the columns of its label."""
    texts = [[_text(1, column) for column in label] for label in labels]
    rows = [
        _bytes(1, b"".join(text) + _bytes(2, vector)) for vector, text in zip(vectors, texts, strict=True)
    ]
    return _bytes(7, b"".join(rows + [_text(2, name) for name in header]))


def histogram(counts: Sequence[float], edges: Sequence[float]) -> bytes:
    """Return a histogram with one more of ``edges`` than of ``counts``."""
    return _bytes(8, _doubles(1, counts) + _doubles(2, edges))


def pr_curve(counts: Sequence[Sequence[int]], rates: Sequence[Sequence[float]]) -> bytes:
    """Return a curve of ``arrays.to_counts``, with precision and recall at each threshold."""
    return _bytes(9, _curve(counts, rates))


def roc_curve(counts: Sequence[Sequence[int]], rates: Sequence[Sequence[float]]) -> bytes:
    """Return the same with the true positive rate and the false positive rate."""
    return _bytes(11, _curve(counts, rates))


def encode_hparams(
    *,
    name: str,
    hparams: Mapping[str, int | float | str],
    metrics: Iterable[str],
    milliseconds: int,
) -> bytes:
    """Return the hyperparameters of a run. ``metrics`` are tags of scalars in the same directory."""
    parts = [_bytes(1, _setting(value) + _text(4, key)) for key, value in hparams.items()]
    parts += [_bytes(2, _double(2, 0.0) + _text(4, metric)) for metric in metrics]
    return encode("hparam", 1, milliseconds, _bytes(13, b"".join(parts) + _text(3, name)))


# A field begins with its number and a wire type: 0 varint, 1 eight bytes, 2 counted bytes, 5 four bytes.


@lru_cache(maxsize=1 << 14)
def _tag(tag: str) -> bytes:
    return _text(2, tag.replace("%", "_")) if tag else b""  # inside VisualDL a % is the / of a tag


def _curve(counts: Sequence[Sequence[int]], rates: Sequence[Sequence[float]]) -> bytes:
    columns = [_bytes(field, b"".join(map(_varint, column))) for field, column in enumerate(counts, 1)]
    return b"".join(columns + [_doubles(field, column) for field, column in enumerate(rates, 5)])


def _setting(value: int | float | str) -> bytes:
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return _int64(1, value)
    if isinstance(value, str):
        return _text(3, value)
    return _double(2, float(value))


def _float32(field: int, value: float) -> bytes:
    # struct raises for a finite value outside of float32's range
    within = math.copysign(math.inf, value) if abs(value) >= _MAX_FLOAT32 else value
    return _FLOAT.pack(field << 3 | 5, within)


def _double(field: int, value: float) -> bytes:
    return struct.pack("<Bd", field << 3 | 1, value)


def _doubles(field: int, values: Sequence[float]) -> bytes:
    return _bytes(field, struct.pack(f"<{len(values)}d", *values))


def _int64(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _text(field: int, text: str) -> bytes:
    # JSON may contain half of a surrogate pair, which is no UTF-8
    return _bytes(field, text.encode("utf-8", "replace"))


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


@lru_cache(maxsize=4096)  # records of one moment share its step and its time
def _varint(number: int) -> bytes:
    number &= 0xFFFF_FFFF_FFFF_FFFF  # a negative int64 as two's complement: ten bytes
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_OWN_NAMES = 10_000
_directories: dict[tuple[int, str], str] = {}


def board() -> str:
    """Return the directory of this run's records; empty outside a run."""
    run = os.environ.get("NBDIST_RUN_DIR")
    return os.path.join(run, "board") if run and "NBDIST_RANK" in os.environ else ""


def append_record(kind: str, frame: bytes) -> None:
    """Append a whole frame to the records of a kind. Raises OSError."""
    directory = _own_directory(kind)
    path = os.path.join(directory, FILE_NAME)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(handle).st_size
        if not size:
            name = os.path.basename(directory)
            frame = encode_name(name, milliseconds=round(time.time() * 1000)) + frame
        if os.write(handle, frame) < len(frame):
            # nobody can read frames after half a frame
            os.ftruncate(handle, size)
            raise OSError(errno.ENOSPC, "no space left")
    finally:
        os.close(handle)


def _own_directory(kind: str) -> str:
    """Return this process's own directory under the run's board for records of a kind. Raises OSError."""
    process = os.getpid()
    if (process, kind) not in _directories:
        # the board's name for this rank's scalars
        attempt = os.path.basename(os.environ.get("NBDIST_RANK_DIR", ""))
        suffix = f".{attempt}" if attempt.startswith("attempt-") else ""
        path = os.path.join(board(), f"rank{os.environ['NBDIST_RANK']}{suffix}.{kind}")
        for number in range(1, _OWN_NAMES):
            directory = path if number == 1 else f"{path}-{number}"
            try:
                # it belongs to the process that creates it, a forked or spawned child, too
                os.mkdir(directory, mode=0o700)
            except FileExistsError:
                continue
            _directories[process, kind] = directory
            break
    return _directories[process, kind]
