"""TensorBoard over some runs, under one address: the second viewer, where it is installed.

It is TensorBoard's WSGI application in the board's own process, and not its command: so it has the board's
token, listens nowhere itself, and ends with the board. Its files lie in the board's directory and are a
copy of what VisualDL reads, made when a page asks.

Imported only when somebody asks for it: it takes seconds.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorboard import assets, default, program
from tensorboard.backend import application
from tensorboard.backend.event_processing.data_ingester import (
    DEFAULT_SIZE_GUIDANCE,
    DEFAULT_TENSOR_SIZE_GUIDANCE,
)
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

from nbdist.board.curve_names import curve_name
from nbdist.board.event_files import FILE_NAME, event_frames, first_frame, values_of
from nbdist.board.feed import Feed
from nbdist.board.frame_reader import FrameReader
from nbdist.board.records import RecordFile
from nbdist.store import RunDirectory
from nbdist.store.paths import make_private

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_SHOWN = "nbdist"  # in the place of a directory, which is nobody's business
_KIND = re.compile(r"\.(?:image|audio|text|histogram|pr_curve)(?:-\d+)?$")
_LOOK_SECONDS = 1.0  # between two looks at what is new, while somebody asks

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
