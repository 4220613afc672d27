"""How the curves of runs are called on the board, and the directories that they are read from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any


class Boards(list[str]):
    """The directories that VisualDL reads, and may be more later. ``named`` are those among which their
    curves have names."""

    def __init__(self, *, named: list[str]) -> None:
        super().__init__()
        self.named = named
        self.changed = False  # since it was last read
        self.reader: Any = None  # VisualDL's, which reads them
        self.behind = False  # whether more is known to be there than it has read

    def add(self, directory: str) -> None:
        if directory not in self:
            self.append(directory)
            self.changed = True


def curve_name(directory: str, logdirs: list[str]) -> str:
    """How the curves of a directory are called: ``rank0``, and with several runs ``lenet-k3f9/rank0``.

    ``logdirs`` are the boards of the runs, ``…/<run_id>/board``. Names differ whenever directories
    do; what a program called itself would not, and VisualDL merges what has the same name.
    """
    logdir = next(d for d in logdirs if directory == d or directory.startswith(d + os.sep))
    below = os.path.relpath(directory, logdir)
    run_ids = [Path(d).parent.name for d in logdirs]
    run_id = Path(logdir).parent.name
    if len(logdirs) == 1:
        return run_id if below == os.curdir else below
    short = _without_time(run_id)
    run = short if [_without_time(other) for other in run_ids].count(short) == 1 else run_id
    return run if below == os.curdir else f"{run}/{below}"


def natural(path: str) -> list[tuple[int, str]]:
    """Sorts rank2 before rank10; VisualDL shows curves in the order in which it met them."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path)]


def _without_time(run_id: str) -> str:
    date, _, rest = run_id.partition("-")
    clock, _, name = rest.partition("-")
    return name if name and date.isdigit() and clock.isdigit() else run_id
