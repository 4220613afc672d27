"""The environment of a rank is that of torchrun's ranks, except for the differences in docs/reference.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist.panel import summary_text
from tests.conftest import RunCell

pytestmark = pytest.mark.usefixtures("leaves_nothing")

WRITES = """
import json, os, sys
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    json.dump(dict(os.environ), file)
"""
# each is explained in docs/reference.md
ON_PURPOSE = {"CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "ACCELERATE_USE_CPU", "TTY_COMPATIBLE"}
ON_PURPOSE |= {f"TORCHELASTIC_{name}" for name in ("ERROR_FILE", "SIGNALS_TO_HANDLE", "USE_AGENT_STORE")}
# of these each run has a value of its own
ANEW = {"MASTER_PORT", "TORCHELASTIC_RUN_ID", "_"}
OURS = ("NBDIST_", "PADDLE_", "JAX_COORDINATOR_ADDRESS", "PYTEST_")


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_rank_has_the_variables_of_torchruns(run_cell: RunCell, tmp_path: Path) -> None:
    script, theirs, ours = tmp_path / "writes.py", tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    script.write_text(WRITES)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", script, theirs]
    subprocess.run(torchrun, check=True, timeout=120, capture_output=True, env=dict(os.environ))

    handle = run_cell(f"-n 2 --args {ours}", WRITES)

    assert handle.status == "finished", handle.logs(0)
    for rank in ("0", "1"):
        theirs_of, ours_of = (json.loads((folder / rank).read_text()) for folder in (theirs, ours))
        differing = {name for name in theirs_of | ours_of if theirs_of.get(name) != ours_of.get(name)}
        assert {n for n in differing if not n.startswith(OURS)} - ON_PURPOSE - ANEW == set()
        assert ANEW - {"_"} <= ours_of.keys()


def test_what_differs_on_purpose_is_written_down() -> None:
    reference = (Path(__file__).parents[2] / "docs/reference.md").read_text(encoding="utf-8")

    assert {name for name in ON_PURPOSE if f"`{name}`" not in reference} == set()


def test_a_program_that_is_started_again_sees_how_often(run_cell: RunCell) -> None:
    tries = """
import os
assert os.environ["TORCHELASTIC_MAX_RESTARTS"] == "2"
assert int(os.environ["TORCHELASTIC_RESTART_COUNT"]) >= 2, "not yet"
print(os.environ["TORCHELASTIC_RUN_ID"])
"""

    handle = run_cell("-n 2 --retries 2", tries)

    assert handle.status == "finished"
    assert [handle.logs(rank) for rank in (0, 1)] == [f"{handle.run_id}\n"] * 2


@pytest.mark.parametrize(
    ("line", "cell", "noted"),
    [
        pytest.param("-n 2", "total = sum(range(9))", True, id="each does everything"),
        pytest.param("-n 1", "total = sum(range(9))", False, id="one rank"),
        pytest.param("-n 2", "import os\nprint(os.environ['RANK'])", False, id="the program asks which rank"),
        pytest.param("-n 2", "import nothing_such", False, id="it failed"),
    ],
)
def test_ranks_that_never_joined_are_asked_about(
    run_cell: RunCell, line: str, cell: str, noted: bool
) -> None:
    handle = run_cell(f"--no-check {line}", cell)

    text = summary_text(handle.run, handle.directory, "en")

    assert ("2 ranks ran without a process group: each may have done all the work" in text) is noted


# of torch and paddle test_torch and test_paddle tell it
@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed")
def test_ranks_that_met_by_way_of_a_library_are_known_to_have_joined(run_cell: RunCell) -> None:
    cell = "from accelerate import Accelerator\nassert Accelerator().num_processes == 2"

    handle = run_cell("-n 2", cell)

    assert handle.status == "finished", handle.logs(0)
    assert all(rank.joined for rank in handle.run.ranks)
