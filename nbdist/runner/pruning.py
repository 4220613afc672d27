"""The removal of old ended runs, by number and by size, which is always reported.

No cell waits for it: a thread removes runs for a few seconds beside the new one, and leaves the rest to a
process of low priority. One rename takes a run out of the list before its files are deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist import config
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.launch import local
from nbdist.model import RunEnded, RunLost, decode_event
from nbdist.model.decoding import MALFORMED, as_int
from nbdist.store import RunDirectory, RunStore, look
from nbdist.store.journal import read_object
from nbdist.store.marks import read_marks
from nbdist.store.paths import make_private, open_to_append, write_private
from nbdist.store.run_store import SweepStore, is_run_locked, read_spec, read_sweep
from nbdist.text import say

KEEP_RUNS = 300
KEEP_GB = 20.0

PRUNING = 5.0  # seconds for old runs beside a new one
_LAST_LINE = 4096
_BEGINS = 600.0  # seconds in which a sweep starts its first run


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The removed runs, with their bytes and the ``limits``; where it ``goes_on``, a process removes more."""

    runs: tuple[str, ...]
    size: int
    limits: tuple[int, float]
    goes_on: bool = False

    def __str__(self) -> str:
        return say(
            "runs.pruning-goes-on" if self.goes_on else "runs.pruned",
            config.language(),
            count=len(self.runs),
            size=self.size / 1e6,
            runs=self.limits[0],
            room=self.limits[1],
        )


def keeping(environ: Mapping[str, str] = os.environ) -> tuple[int, float]:
    """Return the number of runs to keep, and their GB. Raises UsageMistake for an invalid variable."""
    runs = _number(environ, "NBDIST_KEEP_RUNS", KEEP_RUNS)
    return int(runs), _number(environ, "NBDIST_KEEP_GB", KEEP_GB)


def start_process(store: RunStore, limits: tuple[int, float]) -> None:
    """Start a process, which outlives this one, to remove old runs beyond ``limits``."""
    words = [str(store.home), *map(str, limits)]
    with contextlib.suppress(LaunchError):
        local.collect(local.spawn([sys.executable, str(local.ENTRY), "runner.pruning", *words]))


class Pruner:
    """A thread that removes old runs. ``pause`` receives the seconds of each removal, to leave the processor
    and the disk to the new run for as long. ``hand_over`` starts a process that removes the rest."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        hand_over: Callable[[RunStore, tuple[int, float]], None] = start_process,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._hand_over = hand_over
        self._thread: threading.Thread | None = None
        self._limits = (KEEP_RUNS, KEEP_GB)
        self._removed: list[tuple[str, int]] = []
        self._goes_on = False

    def begin(self, store: RunStore, limits: tuple[int, float], *, most: float = PRUNING) -> None:
        """Remove the oldest ended runs beyond ``limits`` (``keeping``) for ``most`` seconds."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._limits = limits
        arguments = (store, most)
        self._thread = threading.Thread(target=self._work, args=arguments, name="nbdist pruner", daemon=True)
        self._thread.start()

    def removed(self, *, wait: float = 0.0) -> Pruned | None:
        """Return the runs removed since the last call, or None; wait at most ``wait`` seconds for more."""
        if wait and self._thread is not None:
            self._thread.join(wait)
        removed, self._removed = self._removed, []
        goes_on, self._goes_on = self._goes_on, False
        if not removed and not goes_on:
            return None
        return Pruned(
            runs=tuple(run for run, _ in removed),
            size=sum(size for _, size in removed),
            limits=self._limits,
            goes_on=goes_on,
        )

    def _work(self, store: RunStore, most: float) -> None:
        deadline = self._clock() + most
        began = self._clock()
        some = False
        for removed in prune(store, self._limits, over=lambda: self._clock() >= deadline):
            some = True
            self._removed.append(removed)
            self._pause(self._clock() - began)
            began = self._clock()
        # a slow disk takes that long even with nothing to remove
        if self._clock() >= deadline and (some or len(store.directories()) > self._limits[0]):
            self._hand_over(store, self._limits)
            self._goes_on = True


pruner = Pruner()


def prune(
    store: RunStore, limits: tuple[int, float], *, over: Callable[[], bool] = lambda: False
) -> Iterator[tuple[str, int]]:
    """Remove the oldest ended runs beyond ``limits`` until time is ``over``; yield their ids and bytes."""
    keep_runs, keep_gb = limits
    kept_size = 0
    # a process may have ended in the middle of a removal
    with contextlib.suppress(OSError):
        for name in os.listdir(store.removed):
            if over():
                break
            shutil.rmtree(store.removed / name, ignore_errors=True)
    with _Sizes(store) as sizes:
        for position, directory in enumerate(store.directories()):
            if over():
                return
            size, ended = sizes.of(directory)
            if position < keep_runs and kept_size + size <= keep_gb * 1e9:
                kept_size += size
            elif ended and not read_marks(directory).pinned:
                # another process may be faster, or the disk refuse
                with contextlib.suppress(OSError):
                    moved = directory.path.rename(make_private(store.removed) / directory.run_id)
                    yield directory.run_id, size
                    shutil.rmtree(moved, ignore_errors=True)
    _forget_sweeps(store)


def main(arguments: Sequence[str]) -> int:
    """Run the process, unless another one is at work: ``HOME RUNS GB``."""
    home, runs, gb = arguments
    store = RunStore(Path(home))
    store.check()
    os.nice(19)
    import psutil  # only here, and only some systems have its ionice

    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
    try:
        # until this process ends
        fcntl.flock(open_to_append(store.pruning), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    except OSError:
        pass  # a file system without locks: two do no harm
    for _ in prune(store, (int(runs), float(gb))):
        pass
    return 0


class _Sizes:
    """Sizes of runs in bytes. A run that has ended does not change: a file keeps its size."""

    def __init__(self, store: RunStore) -> None:
        self._file = store.sizes
        self._runs = store.runs
        self._known: dict[str, int] = {}
        self._learned: dict[str, int] = {}

    def __enter__(self) -> _Sizes:
        for run, size in read_object(self._file).items():
            with contextlib.suppress(*MALFORMED):
                self._known[run] = as_int(size)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            names = set(os.listdir(self._runs))
            left = {run: size for run, size in (self._known | self._learned).items() if run in names}
            if left != self._known:
                write_private(self._file, json.dumps(left))

    def of(self, directory: RunDirectory) -> tuple[int, bool]:
        """Return the size of a run, and whether it has ended."""
        run = directory.run_id
        if run in self._known:
            return self._known[run], True
        # before the measuring: a run that ends meanwhile may still grow
        ended = _has_ended(directory)
        size = _size(directory.path)
        if ended:
            self._learned[run] = size
            # a killed supervisor did not delete them, nor a killed rank the socket of its debugger
            with contextlib.suppress(OSError, UnknownRun):
                for prompt in directory.path.glob("ranks/**/pdb"):
                    prompt.unlink()
                inputs = os.lstat(directory.inputs).st_size
                if not read_spec(directory).keep_inputs:
                    directory.delete_inputs()
                    self._learned[run] = size - inputs
        return size, ended


def _forget_sweeps(store: RunStore) -> None:
    """Remove the ended sweeps whose runs are all removed."""
    for directory in SweepStore(store.home).sweeps():
        with contextlib.suppress(UnknownRun):
            sweep = read_sweep(directory)
            begins = time.time() - sweep.created < _BEGINS
            if begins or is_run_locked(directory):
                continue
            if not any(os.path.lexists(store.runs / run) for run in sweep.runs):
                shutil.rmtree(directory.path, ignore_errors=True)


def _has_ended(directory: RunDirectory) -> bool:
    """Return whether a run has ended, nearly always by the last line of its journal."""
    try:
        with directory.journal.open("rb") as journal:
            journal.seek(max(0, os.fstat(journal.fileno()).st_size - _LAST_LINE))
            last = decode_event(journal.read().rstrip(b"\n").rpartition(b"\n")[2].decode())
    except (OSError, ValueError):
        last = None
    if isinstance(last, (RunEnded, RunLost)):
        return True
    run = look(directory)
    return run is not None and run.state.terminal


def _size(path: Path) -> int:
    """Return the bytes of the files below ``path``; a file that disappears meanwhile counts nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(folder, name))
                # the gap of a long log takes no room
                total += min(status.st_size, status.st_blocks * 512)
    return total


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name) or str(default)
    value = 0.0
    with contextlib.suppress(ValueError):
        value = float(text)
    if value <= 0:
        raise UsageMistake(f"{name}={text}: write a number above 0, for example  %env {name}={default:g}")
    return value
