"""Runs a notebook in a real kernel, as "Run all" would, and shows its output while it comes.

Exits 0 only when every cell succeeded and every training in it reached its goal.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import nbdist

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
    leave_out(notebook, "paddle")
    trainings = sum("accuracy" in tags(cell) for cell in notebook.cells)
    before = {run.run_id for run in nbdist.runs()}
    client = Runner(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": "."}})
    failed = False
    try:
        client.execute()
    except CellExecutionError:
        failed = True
    asked.out.mkdir(exist_ok=True)
    result = asked.out / asked.notebook.name
    nbformat.write(notebook, result)
    return conclude(result, before, trainings, failed=failed)


def leave_out(notebook: Any, framework: str) -> None:
    """Drop the cells that need a framework which is not installed, and say so."""
    if importlib.util.find_spec(framework) is None:
        print(f"*** {framework} is not installed: its cells are left out ***")
        notebook.cells = [c for c in notebook.cells if f"needs-{framework}" not in tags(c)]


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def conclude(result: Path, before: set[str], trainings: int, *, failed: bool) -> int:
    """Say what came out and where to look; the exit status."""
    runs = [run for run in reversed(nbdist.runs()) if run.run_id not in before]
    print()
    reached = 0
    for run in runs:
        accuracy = run.metrics().get("accuracy")
        reached += run.status == "succeeded" and accuracy is not None and accuracy >= GOAL
        shown = f"accuracy {accuracy:.2%}" if accuracy is not None else "no accuracy"
        print(f"{run.run.label}: {run.status}, {shown}; logs and curves in {run.directory.path}")
    print(f"the notebook with its output: {result}")
    print("the same in JupyterLab: make lab")
    if failed or reached < trainings:
        print(f"FAILED: {reached} of {trainings} trainings reached {GOAL:.0%}")
        return 1
    print(f"{reached} of {trainings} trainings reached {GOAL:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
