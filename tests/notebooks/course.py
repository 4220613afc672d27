"""The notebooks as "Run all" runs them: each once per session, in a real kernel with a home of its own."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from nbdist import processes
from nbdist.board import stop_board
from nbdist.runner import RunHandle
from nbdist.store import RunStore

FOLDER = Path(__file__).parents[2] / "notebooks"
CHINESE = ".zh-CN"
COURSE = (
    "02-from-torchrun",
    "03-from-paddle-launch",
    "04-fleet",
    "05-ddp-in-depth",
    "06-when-it-goes-wrong",
    "07-several-machines",
    "08-beyond-data-parallel",
)
LIMIT = 120.0
"""Seconds that a notebook may take; on two free cores each takes less than 40."""
PATIENCE = 900
"""Seconds that a test may take which runs a notebook on a machine that is busy with other things."""


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


@dataclass(frozen=True, kw_only=True)
class Executed:
    """A notebook with its output. ``crowd`` is how many wanted each core meanwhile, 1 when they were free."""

    cells: list[Any]
    error: str
    seconds: float
    crowd: float
    runs: dict[str, RunHandle]
    left: list[processes.ProcessId]
    folder: tempfile.TemporaryDirectory[str]

    @property
    def path(self) -> Path:
        return Path(self.folder.name)

    def shown(self, cell: Any) -> str:
        """The text that a cell wrote, its error included."""
        parts = []
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                parts += output.traceback
            else:
                parts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
        return "\n".join(parts)

    def cell_of(self, words: str) -> Any:
        """The first code cell that has these words in it."""
        return next(c for c in self.cells if c.cell_type == "code" and words in c.source)


@functools.cache
def executed(name: str) -> Executed:
    """Run a notebook in a copy of its folder, without the cells of a framework that is missing."""
    folder: tempfile.TemporaryDirectory[str] = tempfile.TemporaryDirectory(prefix="nbdist-course-")
    for module in FOLDER.glob("*.py"):
        shutil.copy(module, folder.name)
    home = Path(folder.name, "home")
    notebook = read(name)
    if importlib.util.find_spec("paddle") is None:
        notebook.cells = [cell for cell in notebook.cells if "needs-paddle" not in tags(cell)]
    client = NotebookClient(
        notebook, timeout=PATIENCE, kernel_name="python3", resources={"metadata": {"path": folder.name}}
    )
    begin, error = time.monotonic(), ""
    try:
        client.execute(env=os.environ | {"NBDIST_HOME": str(home), "LANG": "en_US.UTF-8"})
    except CellExecutionError as failed:
        error = str(failed)
    seconds = time.monotonic() - begin
    stop_board(home)
    handles = {handle.run.spec.name: handle for handle in map(RunHandle, RunStore(home).directories())}
    return Executed(
        cells=notebook.cells,
        error=error,
        seconds=seconds,
        crowd=max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)),
        runs=handles,
        left=_left(handles),
        folder=folder,
    )


def _left(handles: dict[str, RunHandle], limit: float = 10.0) -> list[processes.ProcessId]:
    """The processes of the runs that are still there some time after the kernel has ended."""
    paths = [str(handle.directory.path) for handle in handles.values()]
    deadline = time.monotonic() + limit
    while left := [process for path in paths for process in processes.marked("NBDIST_RUN_DIR", path)]:
        if time.monotonic() > deadline:
            processes.send_all(left, 9)
            return left
        time.sleep(0.05)
    return []
