"""From the metrics that ranks write to the records that VisualDL reads.

A rank appends lines to ``ranks/<rank>/metrics.jsonl`` (a later attempt: ``…/attempt-<n>/…``); here
they become scalars in ``board/rank<rank>/`` (``board/rank<rank>.attempt-<n>/``: its steps begin
again, and two rows of steps in one curve would be a zigzag).

The records are a copy that can always be made again, so a feed remembers nothing across processes:
the first time it meets a metrics file it writes that record file anew, from the first line. The
same lines give the same bytes, hence no point is ever there twice, whatever ended the feed before.
One feed at a time may work on a home; the board server's lock sees to that.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from nbdist.board.records import FILE_NAME, RecordFile, encode_name, encode_scalar
from nbdist.store import RunDirectory

_CHUNK = 1 << 20  # bytes of metrics that become records in one go
_INT64 = 1 << 63
_ATTEMPT = re.compile(r"attempt-\d+")

log = logging.getLogger("nbdist.board")


class Feed:
    """Brings the records of runs up to date, when asked to. Threads may share it."""

    def __init__(self) -> None:
        self._followers: dict[Path, _Follower] = {}
        self._stuck: set[Path] = set()  # those of which the log knows
        self._lock = threading.Lock()

    def advance(self, run: RunDirectory) -> None:
        """Append what the ranks of ``run`` have logged since the last call.

        What cannot be read or written now (a full disk, a directory that has gone) is left for the
        next call; the curves that are there stay.
        """
        with self._lock:
            for metrics, writer in _sources(run):
                try:
                    follower = self._followers.get(metrics)
                    if follower is None and metrics.stat().st_size:
                        follower = _Follower(metrics, writer, f"{run.run_id}/{writer.name}")
                        self._followers[metrics] = follower
                    if follower is not None:
                        follower.advance()
                    self._stuck.discard(metrics)
                except FileNotFoundError:
                    self._followers.pop(metrics, None)
                except OSError as error:
                    if metrics not in self._stuck:
                        log.warning("%s does not reach VisualDL: %s", metrics, error)
                    self._stuck.add(metrics)


class _Follower:
    """One metrics file and the record file it becomes."""

    def __init__(self, metrics: Path, writer: Path, name: str) -> None:
        self._metrics = metrics
        self._name = name
        self._offset = 0  # of the first byte that is not in the records yet
        self._next_steps: dict[str, int] = {}
        writer.parent.mkdir(mode=0o700, exist_ok=True)  # not its parents: a run may be deleted
        writer.mkdir(mode=0o700, exist_ok=True)
        self._records = RecordFile(writer / FILE_NAME)

    def advance(self) -> None:
        if self._metrics.stat().st_size <= self._offset:
            return
        with self._metrics.open("rb") as file:
            file.seek(self._offset)
            while chunk := file.read(_CHUNK):
                end = chunk.rfind(b"\n") + 1
                if end == 0:
                    if len(chunk) < _CHUNK:
                        return  # a line that is still being written
                    end = len(chunk)  # a line without end is no metric; what follows it may be
                self._append(chunk[:end])
                file.seek(self._offset)

    def _append(self, chunk: bytes) -> None:
        next_steps = dict(self._next_steps)
        frames = bytearray()
        for line in chunk.splitlines():
            for milliseconds, tag, step, value in _points(line, next_steps):
                if not frames and not self._records.size:
                    frames += encode_name(self._name, milliseconds=milliseconds)
                frames += encode_scalar(tag=tag, step=step, value=value, milliseconds=milliseconds)
        self._records.append(bytes(frames))
        # only now: after a failed write the same chunk comes again
        self._next_steps = next_steps
        self._offset += len(chunk)


def _sources(run: RunDirectory) -> Iterator[tuple[Path, Path]]:
    """Every metrics file that may be there, and the directory its records go to."""
    ranks = run.path / "ranks"
    for rank in _names(ranks):
        if not rank.isdigit():
            continue
        yield ranks / rank / "metrics.jsonl", run.board / f"rank{rank}"
        for attempt in _names(ranks / rank):
            if _ATTEMPT.fullmatch(attempt):
                metrics = ranks / rank / attempt / "metrics.jsonl"
                yield metrics, run.board / f"rank{rank}.{attempt}"


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _points(line: bytes, next_steps: dict[str, int]) -> Iterator[tuple[int, str, int, float]]:
    """The points of one line: milliseconds, tag, step, value. A line that is none has none.

    Where the step was left out, each tag counts its own, onwards from its last step.
    """
    try:
        entry = json.loads(line)
        milliseconds = round(float(entry["t"]) * 1000)
        values = entry["v"].items()
        step = _as_step(entry.get("step"))
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return
    for name, given in values:
        value = _as_value(given)
        if name and value is not None:
            tag = name.replace("%", "_")  # inside VisualDL a % is the / of a tag
            at = next_steps.get(tag, 0) if step is None else step
            next_steps[tag] = at + 1
            yield milliseconds, tag, at, value


def _as_step(given: object) -> int | None:
    """Steps are whole numbers in VisualDL (int64); None is a step that was left out."""
    if isinstance(given, (int, float)) and -_INT64 <= given < _INT64:  # NaN is not
        return int(given)
    return None


def _as_value(given: object) -> float | None:
    if not isinstance(given, (int, float)):
        return None
    try:
        return float(given)
    except OverflowError:  # an integer beyond what a double holds
        return math.inf if given > 0 else -math.inf
