"""A run on two nodes of Slurm hangs when nothing happens on either."""

from __future__ import annotations

import pytest

from nbdist.diagnosis.stacks import last_stacks
from nbdist.diagnosis.stalls import sentence
from tests.schedulers.conftest import Login, until

pytestmark = pytest.mark.cluster

# rank 0 waits from the beginning, rank 1 works for longer than the limit first
SCRIPT = """
import os, threading, time
print("ready", flush=True)
if os.environ["RANK"] == "0":
    threading.Event().wait()
end = time.time() + 6
while time.time() < end:
    sum(range(10_000))
open("worked", "w").write(str(time.time()))
time.sleep(600)
"""
SAID = "rank 0 is in wait at line 5 of train.py; rank 1 is in time.sleep at line 10 of train.py"


def test_a_run_that_hangs_on_both_nodes_says_where_all_ranks_are(login: Login) -> None:
    login.script(SCRIPT)
    words = ("--nodes", "2", "-n", "1", "--framework", "none", "--hang-after", "3s")
    login.begin(*words, "train.py")
    login.until_ready()
    handle = login.handle

    until(lambda: handle.run.stalled is not None, 120)
    worked = float((login.folder / "worked").read_text())

    def said() -> str:
        report = last_stacks(handle.run, handle.directory)
        return "" if report is None else sentence(report)

    until(lambda: said() == SAID)
    assert (handle.run.stalled or 0.0) > worked - 2
    assert handle.directory.journal.read_text().count('"Stalled"') == 1
    handle.stop("seen")
