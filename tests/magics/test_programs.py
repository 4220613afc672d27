"""Whole programs of others, each pasted into one cell as it stands.

A folder of programs with an ``expected.json`` beside them is named by NBDIST_PROGRAMS: for each, the
framework, the number of ranks, the arguments, and what each rank, any rank, or rank 0 alone must print.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("NBDIST_PROGRAMS", ""))
if not (FOLDER / "expected.json").is_file():
    pytest.skip("NBDIST_PROGRAMS names no folder of programs", allow_module_level=True)
PROGRAMS = json.loads((FOLDER / "expected.json").read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["file"])
def test_a_program_runs_unchanged_in_a_cell(kernel, program: dict[str, Any]) -> None:
    if importlib.util.find_spec(program["framework"]) is None:
        pytest.skip(f"{program['framework']} is not installed")
    ranks = program["ranks"]
    line = f"%%distributed -n {ranks} --args {shlex.quote(shlex.join(program['args']))}"

    reply = kernel.run(f"{line}\n{(FOLDER / program['file']).read_text()}", limit=170)

    assert reply.status == "ok", reply.traceback
    logs = [_log_of(rank, reply.stdout) for rank in range(ranks)]
    for pattern in program["each_rank"]:
        for rank, log in enumerate(logs):
            assert re.search(pattern.replace("{r}", str(rank)), log), (pattern, log)
    for pattern in program["anywhere"]:
        assert any(re.search(pattern, log) for log in logs), pattern
    for pattern in program["rank0_only"]:
        assert re.search(pattern, logs[0]), pattern
        assert not any(re.search(pattern, log) for log in logs[1:]), pattern


def _log_of(rank: int, shown: str) -> str:
    """Return the lines of one rank in the output of the cell."""
    mark = f"[{rank}] "
    return "\n".join(line.removeprefix(mark) for line in shown.splitlines() if line.startswith(mark))
