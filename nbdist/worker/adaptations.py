"""Changes to other people's libraries in a rank, made once a program has imported them. A version that lacks
a name stays as it is.

TensorBoard, VisualDL, Weights & Biases, SwanLab, Trackio and MLflow still write where the program wants. In
addition nbdist records their numbers as ``nbdist.log`` does, and VisualDL's other records under the run's
board. A tag belongs to the writer that uses it first, since programs often log the same to several.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from nbdist.worker import metrics_log, records
from nbdist.worker.files import say_once


def write_bars_as_text(notebook: ModuleType) -> None:
    """Replace the bars of ``tqdm.notebook``, which are widgets: a rank has no page to show them on."""
    bar: Any = getattr(notebook, "tqdm_notebook", None)
    if bar is None:
        return
    text_bar: Any = bar.__bases__[0]

    class tqdm_notebook(text_bar):  # type: ignore[misc]  # noqa: N801 - the name that programs see
        def __init__(self, *given: Any, display: bool = True, **named: Any) -> None:
            super().__init__(*given, **named)

    vars(notebook).update(tqdm_notebook=tqdm_notebook, tqdm=tqdm_notebook)


def copy_summaries(writer: ModuleType) -> None:
    """Record the scalars and hyperparameters of a ``SummaryWriter``."""
    kind: Any = getattr(writer, "SummaryWriter", None)
    _copy_after(kind, "add_scalar", _scalar)
    _copy_after(kind, "add_scalars", _scalars)
    _copy_after(kind, "add_hparams", _hparams, _silence)


def copy_visualdl(writer: ModuleType) -> None:
    """Record what a ``LogWriter`` logs (``paddle.callbacks.VisualDL`` has one), and mend visualdl 2.5.3.

    Its thread loses up to 120 records when the program does not close the writer, and blocks for ever in a
    forked child; two ranks that make the same directory at once fail.
    """
    log_writer: Any = getattr(writer, "LogWriter", None)
    file_writer: Any = getattr(writer, "RecordFileWriter", None)
    local: Any = getattr(getattr(writer, "bfile", None), "LocalFileSystem", None)
    if None in (log_writer, file_writer, local):
        return
    local.makedirs = staticmethod(functools.partial(os.makedirs, exist_ok=True))
    scope = file_writer.__init__.__globals__
    if "_AsyncWriter" in scope:
        scope["_AsyncWriter"] = _direct_if_local(scope["_AsyncWriter"], local)
    _copy_after(file_writer, "add_record", _visualdl_record)
    _copy_after(log_writer, "add_scalar", _visualdl_scalar)
    _copy_after(log_writer, "add_hparams", _visualdl_hparams)


class _DirectWriter:
    """A stand-in for ``_AsyncWriter`` without a thread: ``write`` returns with the record in its file."""

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
            say_once(f"VisualDL's records are not written: {error}")

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
    def make(record_writer: Any, *given: Any, **named: Any) -> Any:
        # a store on another machine takes too long for each record
        is_local = isinstance(getattr(record_writer._writer, "fs", None), local)
        return (_DirectWriter if is_local else async_writer)(record_writer, *given, **named)

    return make


def _follow(writer: str, next_step: Callable[[Any], Any], between: str, module: ModuleType) -> None:
    """Record the values of a run's method ``log``, also those that the library drops. ``next_step`` counts
    those without a step; ``between`` parts the names of nested dicts."""
    kind: Any = getattr(module, "Run", None) or getattr(module, "SwanLabRun", None)
    original: Callable[..., Any] | None = getattr(kind, "log", None)
    if original is None:
        return

    @functools.wraps(original)
    def log(run: Any, *given: Any, **named: Any) -> Any:
        values = dict(zip(("data", "step"), given, strict=False)) | named
        counted = None
        with contextlib.suppress(AttributeError):
            counted = next_step(run)
        result = original(run, *given, **named)
        data, step = values.get("metrics", values.get("data")), values.get("step")
        if isinstance(data, dict):
            _copy(writer, dict(_flat(data, between)), counted if step is None else step)
        return result

    kind.log = log


def copy_mlflow(client: ModuleType) -> None:
    """Record what ``mlflow.log_metric``, ``log_metrics`` and clients of a tracking server log."""
    kind: Any = getattr(client, "TrackingServiceClient", None)
    _copy_after(kind, "log_metric", _metric)
    _copy_after(kind, "log_batch", _batch)


def _copy_after(
    kind: Any, name: str, copy: Callable[..., None], within: Callable[[], Any] = contextlib.nullcontext
) -> None:
    """Call ``copy`` with a method's arguments after each call of it, which runs ``within`` a context."""
    original = getattr(kind, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def write_and_copy(self: Any, *given: Any, **named: Any) -> Any:
        with within():
            result = original(self, *given, **named)
        _try(copy, self, *given, **named)
        return result

    setattr(kind, name, write_and_copy)


def _hparams(_: Any, hparam_dict: Any, metric_dict: Mapping[Any, Any], *__: Any, **___: Any) -> None:
    metrics_log.log_hparams(hparam_dict, {str(tag): _number(value) for tag, value in metric_dict.items()})


def _scalar(
    writer: Any,
    tag: str,
    scalar_value: Any,
    global_step: Any = None,
    walltime: Any = None,
    *_: Any,
    **__: Any,
) -> None:
    _copy("summary", {_prefix(writer) + tag: scalar_value}, global_step, walltime)


def _scalars(
    writer: Any,
    main_tag: str,
    tag_scalar_dict: Mapping[str, Any],
    global_step: Any = None,
    walltime: Any = None,
) -> None:
    values = {f"{_prefix(writer)}{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}
    _copy("summary", values, global_step, walltime)


def _visualdl_scalar(writer: Any, tag: str, value: Any, step: Any, walltime: float | None = None) -> None:
    if walltime is not None and walltime >= 2_000_000_000:
        walltime /= 1000  # it takes milliseconds, and seconds where the number is small (``server/lib.py``)
    if _is_elsewhere(writer.logdir):
        _copy("visualdl", {_prefix(writer) + tag: value}, step, walltime)


def _visualdl_hparams(writer: Any, hparams_dict: Any, metrics_list: Any, *_: Any, **__: Any) -> None:
    if _is_elsewhere(writer.logdir):
        prefix = _prefix(writer)
        metrics_log.log_hparams(hparams_dict, [prefix + tag for tag in metrics_list])


def _visualdl_record(writer: Any, record: Any) -> None:
    """Copy a record. Scalars and hyperparameters are copied elsewhere, with their full precision."""
    kind = record.values[0].WhichOneof("one_value")
    directory = os.path.abspath(writer.get_logdir())
    if kind in ("value", "meta_data", "hparam") or not _is_elsewhere(directory):
        return
    message: bytes = record.SerializeToString()
    try:
        frame = struct.pack("<Q", len(message)) + message
        records.append_record(metrics_log.prefix_of(directory).replace("/", ".") + kind, frame)
    except OSError as error:
        say_once(f"{kind} is not copied to the run: {error.strerror or error}")


def _is_elsewhere(directory: str) -> bool:
    """Return whether VisualDL writes its own files outside the run's board."""
    run = os.environ.get("NBDIST_RUN_DIR")
    return run is not None and not os.path.abspath(directory).startswith(os.path.join(run, "board") + os.sep)


def _metric(
    _: Any,
    run_id: str,
    key: str,
    value: object,
    timestamp: Any = None,
    step: Any = None,
    *__: Any,
    **___: Any,
) -> None:
    _copy("mlflow", {key: value}, step, timestamp and timestamp / 1000)


def _batch(_: Any, run_id: str, metrics: Iterable[Any] = (), *__: Any, **___: Any) -> None:
    for metric in metrics:
        # measurements of the machine are no curve of the program
        if not metric.key.startswith("system/"):
            _copy("mlflow", {metric.key: metric.value}, metric.step, metric.timestamp / 1000)


_STEPS = ("trainer/global_step", "train/global_step", "global_step", "_step")
"""Counters that Lightning and Hugging Face log to W&B beside the numbers."""
_owners: dict[str, str] = {}
_silent = 0


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Copy no scalars meanwhile: ``add_hparams`` writes its metrics with a writer of its own."""
    global _silent
    _silent += 1
    try:
        yield
    finally:
        _silent -= 1


def _copy(writer: str, values: Mapping[str, object], step: Any, walltime: float | None = None) -> None:
    """Record the numbers among ``values``; leave out a value that is none."""
    if _silent or metrics_log.rank_file() is None:
        return
    at = next((values[name] for name in _STEPS if isinstance(values.get(name), int)), step)
    numbers = {tag: _number(value) for tag, value in values.items() if tag not in _STEPS}
    scalars = {tag: number for tag, number in numbers.items() if number is not None}
    own = {tag: number for tag, number in scalars.items() if _owners.setdefault(tag, writer) == writer}
    if own:
        _try(metrics_log.log_at, walltime, at, own)


def _number(value: Any) -> float | None:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None  # a tensor of several elements, or one without a value


def _flat(data: Mapping[Any, Any], between: str, before: str = "") -> Iterable[tuple[str, object]]:
    """Yield the items of nested dicts under the library's names for them."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, between, f"{before}{key}{between}")
        else:
            yield f"{before}{key}", value


def _prefix(writer: Any) -> str:
    return metrics_log.prefix_of(os.path.abspath(getattr(writer, "log_dir", None) or writer.logdir))


def _try(call: Callable[..., None], *given: Any, **named: Any) -> None:
    try:
        call(*given, **named)
    except (TypeError, ValueError, AttributeError, OSError):
        return  # the program's own library has logged it, which counts


ADAPTED: Mapping[str, Callable[[ModuleType], None]] = {
    "tqdm.notebook": write_bars_as_text,
    "torch.utils.tensorboard.writer": copy_summaries,
    "tensorboardX.writer": copy_summaries,
    "visualdl.writer.writer": copy_visualdl,
    # its property ``step`` asks another process
    "wandb.sdk.wandb_run": functools.partial(_follow, "wandb", lambda r: r._local_step, "."),
    "swanlab.data.run.main": functools.partial(_follow, "swanlab", lambda _: None, "."),
    "swanlab.sdk.internal.run": functools.partial(_follow, "swanlab", lambda r: r._ctx._global_step + 1, "/"),
    "trackio.run": functools.partial(_follow, "trackio", lambda r: r._next_step, "/"),
    "mlflow.tracking._tracking_service.client": copy_mlflow,
}
"""The function that changes each library; a rank's bootstrap has a copy of the names."""


def adapt(library: ModuleType) -> None:
    """Change a library that has just been imported."""
    ADAPTED[library.__name__](library)
