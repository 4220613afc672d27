"""The notebook about several machines, on the Slurm that this process finds: for ``make cluster-demo``.

``python -m tests.engines.demo`` exits 0 when every cell went well and every run on the cluster succeeded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from nbdist.board import stop_board
from nbdist.runner import RunHandle
from nbdist.store import RunStore

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "07-several-machines.ipynb"
ON_SLURM = {"on-slurm", "overnight"}
"""The runs of the notebook's cells that are tagged ``needs-slurm``."""


def main() -> int:
    folder = ROOT / "build" / "cluster-demo"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(NOTEBOOK.parent, folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "data"))
    home = folder / "home"
    words = [sys.executable, "run.py", NOTEBOOK.name, "--out", str(folder / "executed")]
    done = subprocess.run(words, cwd=folder, env=os.environ | {"NBDIST_HOME": str(home)})
    stop_board(home)
    runs = [RunHandle(directory).run for directory in RunStore(home).directories()]
    ended = {run.spec.name: run.state.value for run in runs if run.spec.engine == "slurm"}
    print(f"on Slurm: {', '.join(f'{name} {state}' for name, state in sorted(ended.items())) or 'nothing'}")
    well = set(ended) >= ON_SLURM and set(ended.values()) == {"finished"}
    return 0 if done.returncode == 0 and well else 1


if __name__ == "__main__":
    sys.exit(main())
