"""Old runs make room for new ones: by number and by size, never one that goes on, never in silence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import UsageMistake
from nbdist.store import RunDirectory, RunStore, snapshot

KEEP_RUNS = 300
KEEP_GB = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed. ``size`` in bytes."""

    runs: tuple[str, ...]
    size: int
    keep_runs: int
    keep_gb: float

    def __str__(self) -> str:
        plural = "s" if len(self.runs) > 1 else ""
        return (
            f"removed {len(self.runs)} old run{plural} ({self.size / 1e6:.0f} MB): the latest "
            f"{self.keep_runs} runs and {self.keep_gb:g} GB are kept (NBDIST_KEEP_RUNS, NBDIST_KEEP_GB)"
        )


def keeping(environ: Mapping[str, str] = os.environ) -> tuple[int, float]:
    """How many runs are kept, and how many GB of them. Raises UsageMistake when NBDIST_KEEP_RUNS or
    NBDIST_KEEP_GB is no number."""
    runs = _number(environ, "NBDIST_KEEP_RUNS", KEEP_RUNS)
    return int(runs), _number(environ, "NBDIST_KEEP_GB", KEEP_GB)


def prune(store: RunStore, limits: tuple[int, float]) -> Pruned | None:
    """Remove the oldest ended runs beyond ``limits`` (``keeping``); None when nothing had to go."""
    keep_runs, keep_gb = limits
    removed: list[str] = []
    freed, kept_size = 0, 0
    for position, directory in enumerate(store.directories()):
        size = _size(directory.path)
        if position < keep_runs and kept_size + size <= keep_gb * 1e9:
            kept_size += size
        elif _has_ended(directory):
            shutil.rmtree(directory.path, ignore_errors=True)
            removed.append(directory.run_id)
            freed += size
    if not removed:
        return None
    return Pruned(runs=tuple(removed), size=freed, keep_runs=keep_runs, keep_gb=keep_gb)


def _has_ended(directory: RunDirectory) -> bool:
    run = snapshot(directory)
    return run is not None and run.state.terminal


def _size(path: Path) -> int:
    """Bytes of the files below ``path``; what disappears meanwhile counts nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if value <= 0:
        raise UsageMistake(f"{name}={text}: write a number above 0, for example  %env {name}={default:g}")
    return value
