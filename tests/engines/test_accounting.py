"""A Slurm with accounting: what the controller has forgotten, sacct knows."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.model import RunState
from nbdist.text import reason_text
from tests.engines.accounting import AccountedCluster
from tests.engines.cluster import NoSlurm, running
from tests.engines.conftest import Login, until, watchers_of

pytestmark = pytest.mark.cluster

SLEEP = "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def accounted() -> Iterator[AccountedCluster]:
    try:
        with running(AccountedCluster) as up:
            yield up
    except NoSlurm as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def login(accounted: AccountedCluster, tmp_path: Path) -> Iterator[Login]:
    there = Login(accounted, tmp_path)
    yield there
    there.close()
    until(lambda: not there.left() and not there.jobs())


def test_the_end_of_a_job_that_the_controller_forgot_is_in_the_accounting(
    login: Login, accounted: AccountedCluster
) -> None:
    login.script(SLEEP)
    login.run("--nodes", "2", "-n", "1", "--framework", "none", "-d", "train.py")
    login.until_ready()
    job, watchers = login.job, watchers_of(login.handle.run)
    processes.send_all(watchers, signal.SIGKILL)
    until(lambda: not any(map(processes.alive, watchers)))

    accounted.call("scancel", job)
    until(lambda: "CANCELLED" in accounted.call("sacct", "-nPX", "-j", job, "-o", "State"))
    accounted.forget()
    assert login.handle.wait(90) == "cancelled"

    run = login.handle.run
    assert run.state is RunState.CANCELLED
    assert reason_text(run.reason) == f"Slurm's job {job} was cancelled, and not from here"


def test_a_run_on_a_slurm_with_accounting_ends_as_on_any(login: Login) -> None:
    login.script("print('done')")

    code, said = login.run("--nodes", "2", "-n", "1", "--framework", "none", "train.py")

    assert code == 0, said
