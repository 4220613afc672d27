"""What a program writes with VisualDL's own ``LogWriter`` (``paddle.callbacks.VisualDL`` does), in a rank.

Its files are written where the program says, as ever. Besides, the run has a copy: scalars go the
way of ``nbdist.log``, and so to the panel, and the rest becomes records under the run's board. So a
program shows its curves without a changed line.

And three things are mended in it, of visualdl 2.5.3: records are written as they come, where its
thread would lose up to 120 of them when the program does not close the writer, and would block for ever in a
forked child; and two ranks may make the same directory at the same time.
"""

from __future__ import annotations

import functools
import os
import struct

from nbdist.worker import media, metrics, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def install(writer: ModuleType) -> None:
    """Change ``visualdl.writer.writer`` in this process. A version that lacks a name keeps its own way."""
    log_writer: Any = getattr(writer, "LogWriter", None)
    file_writer: Any = getattr(writer, "RecordFileWriter", None)
    local: Any = getattr(getattr(writer, "bfile", None), "LocalFileSystem", None)
    if None in (log_writer, file_writer, local):
        return
    local.makedirs = staticmethod(functools.partial(os.makedirs, exist_ok=True))
    scope = file_writer.__init__.__globals__
    if "_AsyncWriter" in scope:
        scope["_AsyncWriter"] = _direct_if_local(scope["_AsyncWriter"], local)
    file_writer.add_record = _copying_records(file_writer.add_record)
    log_writer.add_scalar = _copying_scalars(log_writer.add_scalar)
    log_writer.add_hparams = _copying_hparams(log_writer.add_hparams)


class DirectWriter:
    """Stands for ``_AsyncWriter``: every record is in its file when ``write`` returns. It has no thread."""

    def __init__(self, record_writer: Any, *_: object, **__: object) -> None:
        self._record_writer = record_writer
        self._closed = False

    def write(self, bytestring: bytes) -> None:
        if self._closed:
            raise OSError("Writer is closed.")
        try:
            self._record_writer.write(bytestring)
        except OSError as error:
            # as theirs: a full disk does not stop the training
            media.say_once(f"VisualDL's records are not written: {error}")

    def flush(self) -> None:
        if self._closed:
            raise OSError("Writer is closed.")
        self._record_writer.flush()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._record_writer.flush()
            self._record_writer.close()


def _direct_if_local(async_writer: Callable[..., Any], local: Any) -> Callable[..., Any]:
    def make(record_writer: Any, *arguments: Any, **named: Any) -> Any:
        # a store on another machine takes too long for each record
        is_local = isinstance(getattr(record_writer._writer, "fs", None), local)
        return (DirectWriter if is_local else async_writer)(record_writer, *arguments, **named)

    return make


def _copying_scalars(add_scalar: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(add_scalar)
    def add_and_copy(writer: Any, tag: str, value: Any, step: object, walltime: float | None = None) -> None:
        add_scalar(writer, tag, value, step, walltime)
        if _is_elsewhere(writer.logdir):
            metrics.log_at(_seconds(walltime), step, {_prefix(writer.logdir) + tag: float(value)})

    return add_and_copy


def _copying_hparams(add_hparams: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(add_hparams)
    def add_and_copy(
        writer: Any, hparams_dict: Any, metrics_list: Any, walltime: float | None = None
    ) -> None:
        add_hparams(writer, hparams_dict, metrics_list, walltime)
        if _is_elsewhere(writer.logdir):
            prefix = _prefix(writer.logdir)
            metrics.log_hparams(hparams_dict, [prefix + tag for tag in metrics_list])

    return add_and_copy


def _copying_records(add_record: Callable[..., None]) -> Callable[..., None]:
    """What is neither a scalar nor hyperparameters, which are copied with their full precision."""

    @functools.wraps(add_record)
    def add_and_copy(writer: Any, record: Any) -> None:
        add_record(writer, record)
        kind = record.values[0].WhichOneof("one_value")
        directory = writer.get_logdir()
        if kind in ("value", "meta_data", "hparam") or not _is_elsewhere(directory):
            return
        message: bytes = record.SerializeToString()
        try:
            frame = struct.pack("<Q", len(message)) + message
            records.append_record(_prefix(directory).replace("/", ".") + kind, frame)
        except OSError as error:
            media.say_once(f"{kind} is not copied to the run: {error.strerror or error}")

    return add_and_copy


def _prefix(directory: str) -> str:
    return metrics.prefix_of(os.path.abspath(directory))


def _seconds(walltime: float | None) -> float | None:
    """VisualDL takes milliseconds, and seconds where the number is a small one (``server/lib.py``)."""
    return walltime if walltime is None or walltime < 2_000_000_000 else walltime / 1000


def _is_elsewhere(directory: str) -> bool:
    """Whether VisualDL's own files are not already where the board looks."""
    run = os.environ.get("NBDIST_RUN_DIR")
    return run is not None and not os.path.abspath(directory).startswith(os.path.join(run, "board") + os.sep)
