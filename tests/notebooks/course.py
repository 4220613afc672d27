"""The notebooks as "Run all" runs them: each once, in a real kernel with a home of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from filelock import FileLock
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from nbdist import processes
from nbdist.board import stop_board
from nbdist.runner import RunHandle
from nbdist.store import RunStore
from tests.engines.ports import free_ports

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
    "09-in-and-out",
    "10-live-ranks",
    "11-is-it-worth-it",
)
LIMIT = 120.0
"""Seconds that a notebook may take; on two free cores each takes less than 40."""
PATIENCE = 900
"""Seconds that a test may take which runs a notebook on a machine that is busy with other things."""
FIXED_PORTS = ("22222", "29531", "29535")
"""The ports that the notebooks' programs name, as those of the tutorials do."""


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


@dataclass(frozen=True, kw_only=True)
class Executed:
    """A notebook with its output. ``crowd`` is how many wanted each core meanwhile, 1 when they were free;
    ``left`` are the processes of its runs that outlived it."""

    cells: list[Any]
    error: str
    seconds: float
    crowd: float
    left: list[str]
    path: Path

    @property
    def runs(self) -> dict[str, RunHandle]:
        """Return the runs by name."""
        directories = RunStore(self.path / "home").directories()
        return {handle.run.spec.name: handle for handle in map(RunHandle, directories)}

    def shown(self, cell: Any) -> str:
        """Return the text that a cell wrote, its error included."""
        parts = []
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                parts += output.traceback
            else:
                parts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
        return "\n".join(parts)

    def cell_of(self, words: str) -> Any:
        """Return the first code cell that contains these words."""
        return next(c for c in self.cells if c.cell_type == "code" and words in c.source)


Executing = Callable[[str], Executed]
"""Takes the name of a notebook."""


def executed(name: str, root: Path) -> Executed:
    """Run a notebook in a copy of its folder under ``root``, once for all processes that share ``root``."""
    path = root / name
    with FileLock(root / f"{name}.lock"):
        if not (path / "executed.json").exists():
            _execute(name, path)
    notebook = nbformat.read(path / "executed.ipynb", as_version=4)
    return Executed(cells=notebook.cells, path=path, **json.loads((path / "executed.json").read_text()))


def _execute(name: str, folder: Path) -> None:
    """Run a notebook, without the cells of a framework that is missing, and those for a cluster."""
    folder.mkdir()
    for module in FOLDER.glob("*.py"):
        shutil.copy(module, folder)
    home = folder / "home"
    notebook = _on_free_ports(read(name))
    if importlib.util.find_spec("paddle") is None:
        notebook.cells = [cell for cell in notebook.cells if "needs-paddle" not in tags(cell)]
    # on a Slurm that it brings up itself, make cluster-demo runs those
    notebook.cells = [cell for cell in notebook.cells if "needs-slurm" not in tags(cell)]
    client = NotebookClient(
        notebook, timeout=PATIENCE, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    begin, error = time.monotonic(), ""
    try:
        client.execute(env=os.environ | {"NBDIST_HOME": str(home), "XDG_CONFIG_HOME": str(home), "LANG": "en_US.UTF-8"})
    except CellExecutionError as failed:
        error = str(failed)
    seconds = time.monotonic() - begin
    stop_board(home)
    nbformat.write(notebook, folder / "executed.ipynb")
    outcome = {
        "error": error,
        "seconds": seconds,
        "crowd": max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)),
        "left": _left(home),
    }
    (folder / "executed.json").write_text(json.dumps(outcome))


def _on_free_ports(notebook: Any) -> Any:
    """Replace the ports in a notebook by free ones: other tests name the same."""
    # the system may give one from its own range, and the one after it, to another process before they are used
    for port, free in zip(FIXED_PORTS, free_ports(len(FIXED_PORTS)), strict=True):
        for cell in notebook.cells:
            cell.source = re.sub(rf"\b{port}\b", str(free), cell.source)
    return notebook


def _left(home: Path, limit: float = 10.0) -> list[str]:
    """Kill the processes of the runs that outlive the kernel by some time; return them."""
    paths = [str(directory.path) for directory in RunStore(home).directories()]
    deadline = time.monotonic() + limit
    while left := [process for path in paths for process in processes.marked("NBDIST_RUN_DIR", path)]:
        if time.monotonic() > deadline:
            processes.send_all(left, 9)
            return [str(process) for process in left]
        time.sleep(0.05)
    return []
