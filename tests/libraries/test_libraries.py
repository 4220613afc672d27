"""Small programs of the shape that other people's have, library by library, unchanged under nbdist.

The head of each says how it is run (``# line:``), what it needs beside its framework (``# needs:``), and what
stands in the log of each rank, or of the first (``# each:``, ``# first:``: patterns). With NBDIST_WARM=always
they run on ranks that have waited.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.panel import summary_text
from nbdist.text import reason_text
from tests.conftest import RunCell

PROGRAMS = {path.stem: path for path in sorted((Path(__file__).parent / "programs").glob("*.py"))}
pytestmark = pytest.mark.usefixtures("leaves_nothing")


def head(source: str, key: str) -> list[str]:
    return re.findall(rf"^# {key}: (.+)$", source, re.MULTILINE)


def skip_without(source: str, name: str) -> None:
    needed = head(source, "needs") or [name.partition("_")[0]]
    for module in needed:
        if find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"{module} is not installed")


def problem(handle: runner.RunHandle) -> str:
    ends = [f"rank {rank.rank}: {handle.logs(rank.rank)[-1500:]}" for rank in handle.run.ranks]
    return "\n".join([reason_text(handle.run.reason), *ends])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_unchanged(run_cell: RunCell, name: str) -> None:
    source = PROGRAMS[name].read_text(encoding="utf-8")
    skip_without(source, name)
    [line] = head(source, "line")

    handle = run_cell(line, source, limit=200)

    assert handle.status == "finished", problem(handle)
    for pattern in head(source, "each"):
        for rank in handle.run.ranks:
            assert re.search(pattern, handle.logs(rank.rank)), f"{pattern}\n{problem(handle)}"
    for pattern in head(source, "first"):
        assert re.search(pattern, handle.logs(0)), f"{pattern}\n{problem(handle)}"
    assert "none joined" not in summary_text(handle.run, handle.directory, "en")
