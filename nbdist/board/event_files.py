"""TensorBoard's event files, made of the records that VisualDL reads: the same points for either viewer.

A file is a row of frames: little-endian uint64 length, its checksum, the message, its checksum. The checksum
is CRC-32C, rotated and offset so that sums of sums differ (TFRecord). Frames are written here rather than by
TensorBoard's EventFileWriter, which has a thread and a queue for each file and names it by the time: a file
of ours has one name, and is made again from nothing when a server starts. The messages are TensorBoard's own
classes, which alone know what its plugins want to see.

Imported by the board's own process, and only when somebody asks for TensorBoard.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import summary_v2 as hparams_summary
from tensorboard.plugins.pr_curve import metadata as pr_curve_metadata
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.util import tensor_util
from visualdl.proto.record_pb2 import Record

FILE_NAME = "events.out.tfevents.0000000000.nbdist"

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reversed
_OFFSET = 0xA282EAD8


def frame(message: bytes) -> bytes:
    """One event as it stands in a file."""
    length = struct.pack("<Q", len(message))
    return b"".join((length, _masked(length), message, _masked(message)))


def first_frame() -> bytes:
    """What an event file begins with."""
    return frame(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())


def event_frames(value: Any) -> Iterator[bytes]:
    """A value of a VisualDL record as events; none for what TensorBoard has no place for."""
    convert = _CONVERTED.get(value.WhichOneof("one_value"))
    if convert is None:
        return
    summary = convert(value.tag, value)
    event = Event(wall_time=value.timestamp / 1000, step=value.id, summary=summary)
    yield frame(event.SerializeToString())


def values_of(message: bytes) -> list[Any]:
    """The values of a VisualDL record. Raises protobuf's DecodeError."""
    return list(Record.FromString(message).values)


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def _masked(data: bytes) -> bytes:
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _OFFSET) & 0xFFFFFFFF)


def _scalar(tag: str, value: Any) -> Any:
    return Summary(value=[Summary.Value(tag=tag, simple_value=value.value)])


def _image(tag: str, value: Any) -> Any:
    png = value.image.encoded_image_string
    # where a PNG has its width and height; TensorBoard shows other pictures, too
    width, height = struct.unpack(">II", png[16:24]) if png[:4] == b"\x89PNG" else (0, 0)
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=png)
    return Summary(value=[Summary.Value(tag=tag, image=image)])


def _audio(tag: str, value: Any) -> Any:
    given = value.audio
    audio = Summary.Audio(
        sample_rate=given.sample_rate,
        num_channels=given.num_channels,
        length_frames=given.length_frames,
        encoded_audio_string=given.encoded_audio_string,
        content_type=given.content_type,
    )
    return Summary(value=[Summary.Value(tag=tag, audio=audio)])


def _histogram(tag: str, value: Any) -> Any:
    counts, edges = list(value.histogram.hist), list(value.histogram.bin_edges)
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    histogram = HistogramProto(
        min=edges[0],
        max=edges[-1],
        num=sum(counts),
        sum=sum(count * middle for count, middle in zip(counts, middles, strict=True)),
        sum_squares=sum(count * middle**2 for count, middle in zip(counts, middles, strict=True)),
        bucket_limit=edges[1:],
        bucket=counts,
    )
    return Summary(value=[Summary.Value(tag=tag, histo=histogram)])


def _text(tag: str, value: Any) -> Any:
    metadata = text_metadata.create_summary_metadata(display_name="", description="")
    tensor = TensorProto(
        dtype=DT_STRING,
        string_val=[value.text.encoded_text_string.encode()],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    return _tensor(tag, tensor, metadata)


def _pr_curve(tag: str, value: Any) -> Any:
    curve = value.pr_curve
    columns = (curve.TP, curve.FP, curve.TN, curve.FN, curve.precision, curve.recall)
    rows = numpy.array([list(column) for column in columns], numpy.float32)
    metadata = pr_curve_metadata.create_summary_metadata(
        display_name="", description="", num_thresholds=rows.shape[1]
    )
    return _tensor(tag, tensor_util.make_tensor_proto(rows), metadata)


def _hparams(_tag: str, value: Any) -> Any:
    settings = {}
    for info in value.hparam.hparamInfos:
        kind = info.WhichOneof("type")
        if kind is not None:
            settings[info.name] = getattr(info, kind)
    return hparams_summary.hparams_pb(settings)


def _tensor(tag: str, tensor: Any, metadata: SummaryMetadata) -> Any:
    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])


_CONVERTED: dict[str | None, Callable[[str, Any], Any]] = {
    "value": _scalar,
    "image": _image,
    "audio": _audio,
    "histogram": _histogram,
    "text": _text,
    "pr_curve": _pr_curve,
    "hparam": _hparams,
}
