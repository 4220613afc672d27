"""Causes of less accuracy that a comparison of one rank with two names first.

    python benchmarks/accuracy.py [--only WORD] [--function] [--programs FILE]

Each of the programs of ``accuracy_programs.toml`` runs with one rank and with two. A planted cause is to be
named first, and of a program that is right nothing is to be named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbdist.feed.comparison import compare
from nbdist.store import RunDirectory, snapshot
from nbdist.tables import read_table

HERE = Path(__file__)
RANKS = (1, 2)


def train(home: Path, program: Path, framework: str) -> list[Any]:
    """Run the program with each number of ranks; return the runs with their directories."""
    environment = os.environ | {"NBDIST_HOME": str(home), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    before, runs = set(home.glob("runs/*")), []
    for ranks in RANKS:
        command = [sys.executable, "-m", "nbdist", "run", "-n", str(ranks), "--framework", framework]
        done = subprocess.run([*command, str(program)], capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        (path,) = set(home.glob("runs/*")) - before
        before.add(path)
        directory = RunDirectory(path)
        runs.append((snapshot(directory), directory))
    return runs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a word in the names of the programs")
    parser.add_argument("--function", action="store_true", help="train in a function of the program")
    parser.add_argument("--programs", type=Path, default=HERE.with_name("accuracy_programs.toml"))
    options = parser.parse_args(arguments)
    table: Any = read_table(str(options.programs), options.programs.stem)
    right, planted = [0, 0], [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(table["program"]):
            if options.only not in case["name"]:
                continue
            framework = case.get("framework", "torch")
            program = Path(folder) / f"program{number}.py"
            text = case["text"]
            if options.function:
                # its objects are gone when the rank ends
                text = "def main():\n    " + text.replace("\n", "\n    ") + "\nmain()\n"
            program.write_text(table["prelude"][case.get("prelude", framework)] + text)
            runs = train(Path(folder), program, framework)
            changes = [change for run in compare(runs).runs for change in run.changes]
            holds = (changes[0].code if changes else "") == case["cause"]
            counts = planted if case["cause"] else right
            counts[0], counts[1] = counts[0] + holds, counts[1] + 1
            print("ok  " if holds else "MISS", case["name"], flush=True)
            for change in changes:
                print(
                    f"       {change.code}: {change.text.en}", *change.fixes, sep="\n          ", flush=True
                )
    print(f"named first {planted[0]} of {planted[1]}, nothing said of {right[0]} of {right[1]} right ones")


if __name__ == "__main__":
    main()
