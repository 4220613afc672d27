"""``nbdist.log``: the numbers of a rank, appended to its metrics file at once.

Each line is one ``write`` without a lock: a killed rank loses nothing, and lines of forked children, threads
and signal handlers do not mix. A line is Python's JSON, with ``NaN`` and ``Infinity``:

    {"t": 1763712345.1234, "step": 3, "total": 100, "v": {"loss": 0.5}}

``step`` and ``total`` are optional; a line of ``log_hparams`` also has ``hparams`` and ``metrics``.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from math import isfinite

from nbdist.worker.files import say_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_INT64 = 1 << 63
_MOST_HEADS = 10_000


class MetricsFile:
    """A file of lines, opened for the first of them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None
        self._torn = b""
        self._said = False

    def append(self, line: bytes) -> None:
        """Append one line. A full disk costs this line and no other."""
        try:
            if self._handle is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._handle = os.open(self._path, flags, 0o600)
            data = self._torn + line
            if os.write(self._handle, data) == len(data):
                self._torn = b""
            else:
                # ends the half line, so that the next one is whole
                self._torn = b"\n"
                self._say("no space left")
        except OSError as error:
            # training must not stop for a lost point
            self._say(error.strerror or str(error))

    def _say(self, reason: str) -> None:
        if not self._said:
            self._said = True
            say_once(f"metrics are not written ({reason}): {self._path}")


_file: MetricsFile | None = None
_heads: dict[str, str] = {}


def log(
    values: Mapping[str, object] | int | None = None,
    /,
    *steps: object,
    step: object = None,
    total: object = None,
    **scalars: object,
) -> None:
    """Record scalars of this rank: ``nbdist.log(step=3, loss=0.5)``.

    Pass tags that are no names in a mapping: ``nbdist.log({"train/loss": 0.5}, step=3)``. A value is a
    number, or a tensor or array of one element; any other raises a TypeError that names it. ``step`` is a
    whole number, of ``total`` where that is known; without it nbdist counts the points of a tag. Outside a
    run this does nothing, so that the same program also works by itself.
    """
    if steps:
        if isinstance(values, Mapping) and len(steps) == 1 and step is None:
            (step,) = steps
        else:
            raise TypeError(_to_write(values, *steps, step=step))
    file = rank_file()
    if file is None:
        return
    if isinstance(values, Mapping):
        scalars = {**values, **scalars} if scalars else values  # type: ignore[assignment]
    elif values is not None:
        if step is not None:
            raise TypeError(_to_write(values, step=step))
        step = values
    file.append(_line(time.time(), step, total, scalars))


def _to_write(tag: object, value: object = None, *_: object, step: object) -> str:
    """Return the message about ``nbdist.log("acc", 0.5, step=1)``, the call of other libraries."""
    name, number = tag if isinstance(tag, str) else "loss", value if isinstance(value, int | float) else 0.5
    values = f"{name}={number}" if name.isidentifier() else f"{{{name!r}: {number}}}"
    at = step if isinstance(step, int) else 3
    return f"nbdist.log(…): metrics have names, or are a dict: write  nbdist.log({values}, step={at})"


def log_at(seconds: float | None, step: object, scalars: Mapping[str, object]) -> None:
    """Record a mapping as ``log`` does, at a moment that the caller knows (Unix seconds)."""
    if (file := rank_file()) is not None:
        file.append(_line(time.time() if seconds is None else float(seconds), step, None, scalars))


def log_hparams(
    hparams: object, metrics: Mapping[str, object] | Iterable[str] = (), *, step: object = None
) -> None:
    """Record the hyperparameters of this run: ``nbdist.log_hparams({"lr": 0.1}, metrics=["loss"])``.

    ``hparams`` is a mapping or a namespace (of argparse). ``metrics`` are tags of ``nbdist.log`` to compare
    runs by, or a mapping from them to values, which it records, too.
    """
    file = rank_file()
    if file is None:
        return
    if not isinstance(hparams, Mapping):
        if not hasattr(hparams, "__dict__"):
            kind = type(hparams).__name__
            raise TypeError(f"nbdist.log_hparams(…): {kind} is neither a dict nor a namespace")
        hparams = vars(hparams)
    values = metrics if isinstance(metrics, Mapping) else {}
    extra = {
        "hparams": {str(name): _setting(value) for name, value in hparams.items() if value is not None},
        "metrics": [metrics] if isinstance(metrics, str) else [str(tag) for tag in metrics],
    }
    line = _line(time.time(), step, None, values).decode()
    file.append(f"{line.rstrip()[:-1]}, {json.dumps(extra)[1:]}\n".encode())


def board_dir() -> str:
    """Return this rank's directory for a program's own VisualDL writers, outside a run ``./vdl_log``:
    ``paddle.callbacks.VisualDL(nbdist.board_dir())``."""
    run, rank = os.environ.get("NBDIST_RUN_DIR"), os.environ.get("NBDIST_RANK")
    if run is None or rank is None:
        return os.path.abspath("vdl_log")
    path = os.path.join(run, "board", f"rank{rank}.own")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


_places: dict[str, str] = {}


def prefix_of(place: str) -> str:
    """Return the prefix of a writer's tags, empty for the first ``place`` of a process: programs give two
    writers with the same tags different directories ("runs/train", "runs/val")."""
    if place not in _places:
        names = [name for name in (part.strip("._ ") for part in place.split("/")) if name]
        # as much of the end of its path as no other place has
        ends = ("/".join([*names[-length:], ""]) for length in range(1, len(names) + 1))
        free = next((end for end in ends if end not in _places.values()), "")
        _places[place] = free if _places else ""
    return _places[place]


def rank_file() -> MetricsFile | None:
    """Return the metrics file of this rank; None outside a run."""
    global _file
    directory = os.environ.get("NBDIST_RANK_DIR")
    if _file is None and directory is not None:
        _file = MetricsFile(os.path.join(directory, "metrics.jsonl"))
    return _file


def whole_number(name: str, value: object) -> int:
    """Return ``value`` as an int. Raises TypeError, with the argument's name, when it is none."""
    number = _item(name, value)
    if isinstance(number, (int, float)) and isfinite(number) and int(number) == number:
        return int(number)
    kind = type(value).__name__
    raise TypeError(f"nbdist.log({name}=…): {kind} is not a whole number: {_shown(value)}")


def _line(seconds: float, step: object, total: object, scalars: Mapping[str, object]) -> bytes:
    # by hand: half the time that json.dumps takes
    points = ", ".join(
        [
            (_heads.get(tag) or _head(tag))
            + (repr(value) if type(value) is float and isfinite(value) else _number(tag, value))
            for tag, value in scalars.items()
        ]
    )
    at = "" if step is None else f'"step": {step if type(step) is int else whole_number("step", step)}, '
    if total is not None:
        at += f'"total": {total if type(total) is int else whole_number("total", total)}, '
    return f'{{"t": {seconds:.4f}, {at}"v": {{{points}}}}}\n'.encode()


def _head(tag: object) -> str:
    """Return the tag as JSON, with its colon."""
    if not isinstance(tag, str) or not tag:
        raise TypeError(f"nbdist.log(…): a tag is a text that is not empty, not {tag!r}")
    if len(_heads) >= _MOST_HEADS:
        _heads.clear()
    head = _heads[tag] = f"{json.dumps(tag)}: "
    return head


def _number(tag: str, value: object) -> str:
    """Return the value as JSON. Raises TypeError for what is no number."""
    number = _item(tag, value)
    if isinstance(number, int) and -_INT64 <= number < _INT64:
        return str(int(number))
    if isinstance(number, (str, bytes, complex)) or not hasattr(number, "__float__"):
        raise TypeError(
            f"nbdist.log({tag}=…): {type(value).__name__} is not a number: {_shown(value)}; "
            "give a float or a tensor of one element"
        )
    try:
        return json.dumps(float(number))
    except OverflowError:  # an int or a fraction beyond what a double holds
        return "Infinity" if number > 0 else "-Infinity"  # type: ignore[operator]


def _item(name: str, value: object) -> object:
    """Return the one element of a tensor or an array; anything else as it is."""
    item = getattr(value, "item", None)
    if item is None:
        return value
    try:
        return item()
    except (ValueError, RuntimeError, TypeError, IndexError):
        shape = tuple(getattr(value, "shape", ()))
        if math.prod(shape) == 1:
            raise  # another problem, such as one of the device
        kind = type(value).__name__
        raise TypeError(
            f"nbdist.log({name}=…): a {kind} of shape {shape} is not one number; "
            "log its mean(), or the whole of it with nbdist.log_histogram"
        ) from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _setting(value: object) -> bool | int | float | str:
    """Return a hyperparameter as a number or text, which VisualDL can show."""
    if isinstance(value, (bool, int, float, str)):
        return value
    try:
        number = _item("hparams", value)
    except TypeError:
        return str(value)
    return number if isinstance(number, (bool, int, float)) else str(value)
