"""Doctor on a real Slurm of two nodes: entries, words, and no remains."""

from __future__ import annotations

import os
import signal

import pytest

from nbdist.store import RunStore
from tests.engines.conftest import Login, until

pytestmark = pytest.mark.cluster


def test_nodes_that_are_well_have_nothing_red_and_no_run_stays(login: Login) -> None:
    code, entries = login.examine()

    assert code == 0, entries
    fine = ["job", "shared directory", "ports", "Python there", "nbdist there", "torch there"]
    assert [entries[name]["level"] for name in fine] == ["ok"] * len(fine), entries
    assert "on n1, n2" in entries["job"]["what"]
    assert not RunStore(login.home).directories()


def test_a_job_that_slurm_refuses_is_said_in_its_words(login: Login) -> None:
    code, entries = login.examine("--slurm", "constraint=fast")

    assert code == 1
    assert "Invalid feature specification" in entries["job"]["what"]


def test_a_queue_that_does_not_start_the_look_is_not_waited_for(login: Login) -> None:
    login.cluster.call("sbatch", "--exclusive", "-N2", "--output=/dev/null", "--wrap", "sleep 600")
    until(lambda: "RUNNING" in login.jobs())

    code, entries = login.examine("--wait", "1s")

    assert code == 1
    assert "next in the queue, waiting for free nodes" in entries["job"]["what"]
    assert "--wait 10m" in entries["job"]["fix"]
    until(lambda: len(login.jobs().splitlines()) == 1)
    login.cluster.call("scancel", "--user", str(os.getuid()))


def test_an_interrupt_takes_the_job_back(login: Login) -> None:
    login.cluster.call("sbatch", "--exclusive", "-N2", "--output=/dev/null", "--wrap", "sleep 600")
    until(lambda: "RUNNING" in login.jobs())
    asking = login.start("doctor", "--on", "slurm", "--wait", "10m")
    until(lambda: "PENDING" in login.jobs())

    asking.send_signal(signal.SIGINT)
    asking.communicate(timeout=60)

    until(lambda: "PENDING" not in login.jobs())
    login.cluster.call("scancel", "--user", str(os.getuid()))
