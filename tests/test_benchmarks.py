"""Each benchmark starts: its modules find each other, and what they need of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if "ArgumentParser" in path.read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_says_how_it_is_used(program: Path) -> None:
    done = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
