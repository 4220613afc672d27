"""TensorBoard over some runs, under one address: the second viewer, where it is installed.

It is TensorBoard's WSGI application in the board's own process, and not its command: so it has the board's
token, listens nowhere itself, and ends with the board. Its event files lie in the board's directory and are a
copy of the records that VisualDL reads, made when a page asks: the same points for either viewer. They are
not written by TensorBoard's EventFileWriter, which has a thread and a queue for each file and names it by the
time: a file of ours has one name, and is made again from nothing when a server starts.

Imported only when a page asks for it: that takes seconds.
"""

from __future__ import annotations

import io
import logging
import re
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorboard import assets, default, program
from tensorboard.backend import application
from tensorboard.backend.event_processing.data_ingester import (
    DEFAULT_SIZE_GUIDANCE,
    DEFAULT_TENSOR_SIZE_GUIDANCE,
)
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import summary_v2 as hparams_summary
from tensorboard.plugins.pr_curve import metadata as pr_curve_metadata
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util
from visualdl.proto.record_pb2 import Record

from nbdist.board.feed import Feed
from nbdist.board.patches import curve_name
from nbdist.board.records import FrameReader, RecordFile
from nbdist.store import RunDirectory
from nbdist.store.paths import make_private

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


FILE_NAME = "events.out.tfevents.0000000000.nbdist"


def frame(message: bytes) -> bytes:
    """One event as it stands in a file."""
    file = io.BytesIO()
    RecordWriter(file).write(message)
    return file.getvalue()


def first_frame() -> bytes:
    """What an event file begins with."""
    return frame(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())


def event_frames(value: Any) -> Iterator[bytes]:
    """A value of a VisualDL record as events; none for what TensorBoard has no place for."""
    convert = _CONVERTED.get(value.WhichOneof("one_value"))
    if convert is None:
        return
    # hyperparameters make a summary of their own
    made = convert(value)
    summary = Summary(value=[Summary.Value(tag=value.tag, **made)]) if isinstance(made, dict) else made
    event = Event(wall_time=value.timestamp / 1000, step=value.id, summary=summary)
    yield frame(event.SerializeToString())


def values_of(message: bytes) -> list[Any]:
    """The values of a VisualDL record. Raises protobuf's DecodeError."""
    return list(Record.FromString(message).values)


def _scalar(value: Any) -> Any:
    return {"simple_value": value.value}


def _image(value: Any) -> Any:
    png = value.image.encoded_image_string
    # where a PNG has its width and height; TensorBoard shows other pictures, too
    width, height = struct.unpack(">II", png[16:24]) if png[:4] == b"\x89PNG" else (0, 0)
    return {"image": Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=png)}


def _audio(value: Any) -> Any:
    given = value.audio
    audio = Summary.Audio(
        sample_rate=given.sample_rate,
        num_channels=given.num_channels,
        length_frames=given.length_frames,
        encoded_audio_string=given.encoded_audio_string,
        content_type=given.content_type,
    )
    return {"audio": audio}


def _histogram(value: Any) -> Any:
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
    return {"histo": histogram}


def _text(value: Any) -> Any:
    metadata = text_metadata.create_summary_metadata(display_name="", description="")
    tensor = TensorProto(
        dtype=DT_STRING,
        string_val=[value.text.encoded_text_string.encode()],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    return {"tensor": tensor, "metadata": metadata}


def _pr_curve(value: Any) -> Any:
    curve = value.pr_curve
    columns = (curve.TP, curve.FP, curve.TN, curve.FN, curve.precision, curve.recall)
    rows = numpy.array([list(column) for column in columns], numpy.float32)
    metadata = pr_curve_metadata.create_summary_metadata(
        display_name="", description="", num_thresholds=rows.shape[1]
    )
    return {"tensor": tensor_util.make_tensor_proto(rows), "metadata": metadata}


def _hparams(value: Any) -> Any:
    settings = {}
    for info in value.hparam.hparamInfos:
        kind = info.WhichOneof("type")
        if kind is not None:
            settings[info.name] = getattr(info, kind)
    return hparams_summary.hparams_pb(settings)


_CONVERTED: dict[str | None, Callable[[Any], Any]] = {
    "value": _scalar,
    "image": _image,
    "audio": _audio,
    "histogram": _histogram,
    "text": _text,
    "pr_curve": _pr_curve,
    "hparam": _hparams,
}


_SHOWN = "nbdist"  # in the place of a directory, which the page need not know
_KIND = re.compile(r"\.(?:image|audio|text|histogram|pr_curve)(?:-\d+)?$")
_LOOK_SECONDS = 1.0  # between two looks at what is new, while a page asks

log = logging.getLogger("nbdist.board")


class TensorBoardView:
    """``scratch`` is a directory of its own, which is made."""

    def __init__(self, runs: list[RunDirectory], public_path: str, feed: Feed, scratch: Path) -> None:
        self._runs = runs
        self._feed = feed
        self._public_path = public_path
        self._copies = [_Copy(run, runs, scratch) for run in runs]
        self._lock = threading.Lock()
        self._looked = 0.0
        self._scratch = str(make_private(scratch))
        server = program.TensorBoard(
            plugins=default.get_static_plugins(), assets_zip_provider=assets.get_default_assets_zip_provider()
        )
        server.configure(("tensorboard", "--logdir", _SHOWN, "--path_prefix", public_path))
        # as its ingester, which has a thread that never ends; the fast one is another process, with a port
        self._multiplexer: Any = EventMultiplexer(
            size_guidance=DEFAULT_SIZE_GUIDANCE, tensor_size_guidance=DEFAULT_TENSOR_SIZE_GUIDANCE
        )
        self._app: WSGIApplication = application.TensorBoardWSGIApp(
            server.flags,
            server.plugin_loaders,
            MultiplexerDataProvider(self._multiplexer, _SHOWN),
            server.assets_zip_provider,
            self._multiplexer,
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if "/data/" in environ["PATH_INFO"].removeprefix(self._public_path):
            self._look()
        return self._app(environ, start_response)

    def _look(self) -> None:
        """Let it read what is new. Its own thread would go on for ever."""
        with self._lock:
            if time.monotonic() - self._looked < _LOOK_SECONDS:
                return
            for run, copy in zip(self._runs, self._copies, strict=True):
                self._feed.advance(run)
                copy.advance()
            self._multiplexer.AddRunsFromDirectory(self._scratch, None)
            self._multiplexer.Reload()
            self._looked = time.monotonic()


class _Copy:
    """The records of one run as event files: those of a directory in one of the same name, and what a rank
    shows besides scalars, for which VisualDL needs directories of their own, with its scalars."""

    def __init__(self, run: RunDirectory, runs: list[RunDirectory], scratch: Path) -> None:
        self._board = run.board
        self._logdirs = [str(one.board) for one in runs]
        self._scratch = scratch
        self._readers: dict[Path, FrameReader] = {}
        self._files: dict[Path, RecordFile] = {}

    def advance(self) -> None:
        for path in sorted(self._board.rglob("*vdlrecords*")):
            try:
                self._copy(path)
            except OSError as error:
                log.warning("%s does not reach TensorBoard: %s", path, error)

    def _copy(self, path: Path) -> None:
        reader = self._readers.setdefault(path, FrameReader(str(path)))
        frames = bytearray()
        for message in reader.get_remain():
            try:
                frames += b"".join(frame for value in values_of(message) for frame in event_frames(value))
            except (DecodeError, ValueError, TypeError, KeyError, IndexError) as error:
                log.warning("a record in %s is left out: %s", path.parent.name, error)
        if frames:
            self._file(path).append(bytes(frames))

    def _file(self, path: Path) -> RecordFile:
        folder = self._scratch / _KIND.sub("", curve_name(str(path.parent), self._logdirs))
        if folder not in self._files:
            file = RecordFile(make_private(folder) / FILE_NAME)
            file.append(first_frame())
            self._files[folder] = file
        return self._files[folder]
