"""A run on two nodes of Slurm hangs when nothing happens on either."""

from __future__ import annotations

import pytest

from nbdist.diagnosis.stack_text import sentence
from nbdist.diagnosis.stacks import last_stacks
from tests.engines.conftest import Login, until
from tests.engines.programs import HANGS, HANGS_AT

# tests/nodes/test_stalls.py goes the same way without Slurm
pytestmark = [pytest.mark.cluster, pytest.mark.more]


def test_a_run_that_hangs_on_both_nodes_says_where_all_ranks_are(login: Login) -> None:
    login.script(HANGS)
    words = ("--nodes", "2", "-n", "1", "--framework", "none", "--hang-after", "6s")
    login.begin(*words, "train.py")
    login.until_ready()
    handle = login.handle

    until(lambda: handle.run.stalled is not None, 120)
    worked = float((login.folder / "worked").read_text())

    def said() -> str:
        report = last_stacks(handle.run, handle.directory)
        return "" if report is None else sentence(report)

    until(lambda: said() == HANGS_AT)
    assert (handle.run.stalled or 0.0) > worked - 2
    assert handle.directory.journal.read_text().count('"Stalled"') == 1
    handle.stop("seen")
