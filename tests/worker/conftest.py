"""Programs run as a rank of a run, without a supervisor: what they left can be looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from visualdl.proto.record_pb2 import Record

from nbdist.board.record_files import split
from nbdist.store import RunDirectory
from nbdist.worker.records import FILE_NAME

ROOT = Path(__file__).parents[2]


class Rank:
    """A rank of a run, which executes programs one after the other."""

    def __init__(self, path: Path, *, rank: int = 0, attempt: int = 1) -> None:
        self.run = RunDirectory(path)
        self.files = self.run.rank(rank, attempt)
        self.files.path.mkdir(parents=True, exist_ok=True)
        self.run.board.mkdir(exist_ok=True)
        self.environment = {
            **os.environ,
            "NBDIST_RUN_DIR": str(path),
            "NBDIST_RANK_DIR": str(self.files.path),
            "NBDIST_RANK": str(rank),
            "PYTHONPATH": str(ROOT),
        }

    python = (sys.executable, "-u", "-c")

    def start(self, program: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *options, "-c", f"import nbdist\n{program}"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.run.path,
        )

    def does(self, program: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, which must succeed."""
        process = self.start(program, *options)
        output, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
        return subprocess.CompletedProcess(program, 0, output, errors)

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of its metrics file; every line must be JSON."""
        return [json.loads(line) for line in self.files.metrics.read_text().splitlines()]

    def points(self) -> list[tuple[int | None, dict[str, float]]]:
        return [(line.get("step"), line["v"]) for line in self.lines()]

    def directories(self) -> list[str]:
        return sorted(path.name for path in self.run.board.iterdir())

    def records(self, directory: str) -> list[Record.Value]:
        """Return the records of a directory after the first, which must be its name."""
        values = [
            Record.FromString(message).values[0]
            for message, _ in split((self.run.board / directory / FILE_NAME).read_bytes())
        ]
        assert values[0].meta_data.display_name == directory
        return values[1:]


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    return Rank(tmp_path / "run")
