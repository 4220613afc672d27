"""Nodes that are kept for the next cells, on a real Slurm."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.engines.conftest import Login, until

pytestmark = pytest.mark.cluster

KEEP = "%dist_alloc --on slurm --nodes 2 -n 1"
CELL = "%%distributed --on slurm --nodes 2 -n 1 --framework none --no-panel"
WHERE = "import os; print('job', os.environ['SLURM_JOB_ID'], os.environ['SLURMD_NODENAME'])"
WAITS = "import time; print('ready', flush=True); time.sleep(600)"


def number_of(said: str) -> str:
    found = re.search(r"allocation (\d+): 2 nodes of 1 CPU rank \(n\[1-2\]\) since", said)
    assert found is not None, said
    return found[1]


def test_cells_begin_in_an_allocation_and_leave_it_as_it_was(login: Login) -> None:
    notebook = login.notebook()

    job = number_of(notebook.run(KEEP))
    first = notebook.run(f"{CELL}\n{WHERE}")
    failed = notebook.run(f"{CELL}\nimport os; assert os.environ['RANK'] == '0'")
    timed_out = notebook.run(f"{CELL} --timeout 1s\n{WAITS}")
    notebook.run(f"{CELL}\nimport subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)")
    left = login.left()
    too_large = notebook.run(f"{CELL.replace('-n 1', '-n 2')}\n{WHERE}")
    status = notebook.run("%dist_status")
    released = notebook.run("%dist_alloc off")

    assert f"begins in the allocation {job}" in first
    assert f"[0] job {job} n1" in first
    assert f"[1] job {job} n2" in first
    assert "rank 1 failed first: AssertionError" in failed
    assert "the time limit of 1 s was reached" in timed_out
    assert f"not in the allocation {job}: it asks for 2 ranks on each node" in too_large
    assert f"[3] job {int(job) + 1} n2" in too_large
    assert left == []
    assert number_of(status) == job
    assert f"allocation {job} is released: 2 nodes given back" in released
    assert "no nodes are kept" in notebook.run("%dist_alloc")


def test_a_run_in_an_allocation_is_looked_into_and_stopped_alone(login: Login) -> None:
    notebook = login.notebook()
    job = number_of(notebook.run(KEEP))
    notebook.run(f"{CELL} -d --name first\n{WAITS}")
    login.until_ready()

    busy = notebook.run(f"{CELL} --name second\n{WHERE}")
    stacks = notebook.run("%dist_stacks first")
    stopped = notebook.run("%dist_stop first")
    again = notebook.run(f"{CELL}\n{WHERE}")

    assert f"not in the allocation {job}: it is busy with first-" in busy
    assert f"[0] job {int(job) + 1} n1" in busy
    assert "ranks 0, 1 are in time.sleep" in stacks
    assert "cancelled" in stopped
    assert f"[1] job {job} n2" in again


def test_an_allocation_ends_with_its_kernel(login: Login) -> None:
    notebook = login.notebook()
    number_of(notebook.run(KEEP))

    notebook.kill()

    until(lambda: not login.jobs())


def test_a_detached_run_outlives_the_kernel_of_its_allocation(login: Login) -> None:
    login.script("")
    notebook = login.notebook()
    job = number_of(notebook.run(KEEP))
    go = login.folder / "go"
    notebook.run(
        f"{CELL} -d\nimport os, time\nprint('ready', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.1)"
    )
    login.until_ready()

    notebook.kill()
    go.touch()

    assert login.handle.wait(90) == "succeeded"
    assert login.handle.run.job == job
    until(lambda: not login.jobs())


def test_an_allocation_that_is_kept_serves_another_kernel(login: Login) -> None:
    first, second = login.notebook(), login.notebook()
    job = number_of(first.run(f"{KEEP} --keep"))
    first.kill()

    said = second.run(f"{CELL}\n{WHERE}")
    second.run("%dist_alloc off")

    assert f"[0] job {job} n1" in said
    until(lambda: not login.jobs())


@pytest.mark.more
def test_nodes_that_a_terminal_keeps_serve_runs_and_cells(login: Login) -> None:
    login.script(WHERE)
    two = ("--nodes", "2", "-n", "1")

    asked, said = login.finish(login.start("alloc", *two))
    job = number_of(said)
    code, ran = login.run(*two, "--framework", "none", "train.py")
    cell = login.notebook().run(f"{CELL}\n{WHERE}")
    _, status = login.finish(login.start("alloc", "--json"))
    _, off = login.finish(login.start("alloc", "off"))

    assert (asked, code) == (0, 0), said + ran
    assert f"begins in the allocation {job}" in ran
    assert [f"[{rank}] job {job} n{rank + 1}" in ran + cell for rank in range(2)] == [True, True]
    assert f"[0] job {job} n1" in cell
    view = json.loads(status)[-1]
    assert (view["allocation"], view["state"], view["hosts"]) == (job, "ready", "n[1-2]")
    assert f"allocation {job} is released: 2 nodes given back" in off
    until(lambda: not login.jobs())


def test_an_allocation_in_which_nothing_runs_is_released(login: Login) -> None:
    notebook = login.notebook()

    notebook.run(f"{KEEP} --idle 1s --keep")

    until(lambda: not login.jobs())
    assert "has ended" in notebook.run("%dist_alloc") or "no nodes are kept" in notebook.run("%dist_alloc")


def test_an_allocation_that_waits_says_why_and_goes_with_its_kernel(login: Login) -> None:
    login.cluster.call("sbatch", "--exclusive", "-N2", "--output=/dev/null", "--wrap", "sleep 600")
    until(lambda: "RUNNING" in login.jobs())
    notebook = login.notebook()

    asked = notebook.run(f"{KEEP} --wait 3s")
    until(lambda: "it is next, and waits for nodes" in notebook.run("%dist_alloc"))
    notebook.kill()
    until(lambda: "PENDING" not in login.jobs())
    login.cluster.call("scancel", "--state=RUNNING", "--user", str(os.getuid()))

    assert "is still in the queue" in asked


def test_an_allocation_that_will_never_be_is_not_waited_for(login: Login) -> None:
    said = login.notebook().run("%dist_alloc --on slurm --nodes 3 -n 1")

    assert "asks for 3 nodes, the partition main has 2" in said
    assert not login.jobs()
