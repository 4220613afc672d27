"""Runs a notebook in a real kernel, as "Run all" would, and shows its output while it comes.

Exits 0 only when every cell succeeded and every training in it reached its goal.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import nbdist
from nbdist.runner import RunHandle, reach_board

GOAL = 0.97


class Runner(NotebookClient):
    """A notebook client that also writes to the terminal what the cells write."""

    def output(self, outs: list[Any], msg: dict[str, Any], display_id: str, cell_index: int) -> Any:
        content = msg["content"]
        if msg["msg_type"] == "stream":
            sys.stdout.write(content["text"])
        elif "data" in content and "text/plain" in content["data"]:
            sys.stdout.write(content["data"]["text/plain"] + "\n")
        elif msg["msg_type"] == "error":
            sys.stdout.write("\n".join(content["traceback"]) + "\n")
        sys.stdout.flush()
        return super().output(outs, msg, display_id, cell_index)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build"), help="where the result is saved")
    asked = parser.parse_args()
    notebook = nbformat.read(asked.notebook, as_version=4)
    leave_out(notebook, "paddle", there=importlib.util.find_spec("paddle") is not None)
    leave_out(notebook, "slurm", there=slurm_answers())
    trainings = sum("accuracy" in tags(cell) for cell in notebook.cells)
    before = {run.run_id for run in nbdist.runs()}
    # as in JupyterLab: the data sets lie beside the notebooks
    where = {"metadata": {"path": str(asked.notebook.parent)}}
    client = Runner(notebook, timeout=600, kernel_name="python3", resources=where)
    failed = False
    try:
        client.execute()
    except CellExecutionError:
        failed = True
    asked.out.mkdir(exist_ok=True)
    result = asked.out / asked.notebook.name
    nbformat.write(notebook, result)
    return conclude(result, before, trainings, failed=failed)


def leave_out(notebook: Any, name: str, *, there: bool) -> None:
    """Drop the cells that need what is not there, and say so."""
    kept = [cell for cell in notebook.cells if there or f"needs-{name}" not in tags(cell)]
    if len(kept) < len(notebook.cells):
        print(f"*** there is no {name} here: its cells are left out ***")
        notebook.cells = kept


def slurm_answers() -> bool:
    """Tell whether a cell can be sent to a Slurm from here."""
    try:
        return subprocess.run(["squeue", "-h", "--me"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def conclude(result: Path, before: set[str], trainings: int, *, failed: bool) -> int:
    """Say what came out and where to look; the exit status."""
    runs = [run for run in reversed(nbdist.runs()) if run.run_id not in before]
    print()
    reached = 0
    for run in runs:
        accuracy = run.metrics().get("accuracy")
        shown = last_point(run, "accuracy")
        reached += run.status == "finished" and min(accuracy or 0, shown or 0) >= GOAL
        print(f"{run.run.label}: {run.status}, accuracy {percent(accuracy)}, in VisualDL {percent(shown)}")
        print(f"  logs     {run.directory.path}")
        print(f"  curves   {reach_board([run]).url}")
    print(f"the notebook with its output: {result}")
    print("the same in JupyterLab: make lab")
    verdict = f"{reached} of {trainings} trainings reached {GOAL:.0%}" if trainings else "every cell was run"
    if failed or reached < trainings:
        print(f"FAILED: {verdict}")
        return 1
    print(verdict)
    return 0


def last_point(run: RunHandle, tag: str) -> float | None:
    """The last value of a curve of rank 0, as VisualDL gives it to its page; None without a curve."""
    base = reach_board([run]).url.removesuffix("/scalar")
    query = urllib.parse.urlencode({"run": "rank0", "tag": tag})
    with urllib.request.urlopen(f"{base}/api/scalar/list?{query}", timeout=60) as answer:
        points = json.load(answer).get("data") or []
    return float(points[-1][2]) if points else None


def percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.2%}"


if __name__ == "__main__":
    sys.exit(main())
