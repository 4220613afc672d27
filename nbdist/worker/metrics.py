"""``nbdist.log``: the numbers of a rank, appended to its metrics file as they come.

One line, one ``write``: nothing is buffered, so a killed rank has lost nothing, and the lines of
forked children and of threads do not mix (the file is opened to append).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping


class MetricsFile:
    """Appends points to one file, which is opened with the first point."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None

    def log(self, step: int | None, values: Mapping[str, object]) -> None:
        """Append one point. Raises TypeError for what is not a number; a full disk costs the point."""
        point: dict[str, object] = {"t": round(time.time(), 3)}
        if step is not None:
            point["step"] = int(step)
        point["v"] = {tag: _number(tag, value) for tag, value in values.items()}
        line = json.dumps(point).encode() + b"\n"
        try:
            if self._handle is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._handle = os.open(self._path, flags, 0o600)
            os.write(self._handle, line)
        except OSError as error:
            # training must not stop because a point cannot be kept
            print(f"nbdist: a metric was not written: {error}", file=sys.stderr)


_file: MetricsFile | None = None


def log(step: int | None = None, **values: object) -> None:
    """Record scalars of this rank: ``nbdist.log(step=3, loss=0.5, acc=0.91)``.

    A value is anything that ``float()`` takes, or a tensor or array of one element. ``step`` is an
    integer; without it the points of a tag are counted. Outside a run this does nothing, so that the
    same program also works by itself.
    """
    global _file
    if _file is None:
        directory = os.environ.get("NBDIST_RANK_DIR")
        if directory is None:
            return
        _file = MetricsFile(os.path.join(directory, "metrics.jsonl"))
    _file.log(step, values)


def board_dir() -> str:
    """A directory of this rank's own that VisualDL shows: for programs that write its records.

    ``paddle.callbacks.VisualDL(nbdist.board_dir())``. Outside a run it is ``./vdl_log``.
    """
    run, rank = os.environ.get("NBDIST_RUN_DIR"), os.environ.get("NBDIST_RANK")
    if run is None or rank is None:
        return os.path.abspath("vdl_log")
    path = os.path.join(run, "board", f"rank{rank}.own")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def _number(tag: str, value: object) -> float:
    if isinstance(value, float):
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        item = getattr(value, "item", None)
        if item is None:
            raise TypeError(
                f"nbdist.log({tag}=…): {type(value).__name__} is not a number; give a float or a "
                "tensor of one element"
            ) from None
        return float(item())
