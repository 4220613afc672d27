"""Runs inside an allocation of a real Slurm: job steps, which wait in no queue."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nbdist.engines.engine import Phase, is_step
from nbdist.engines.slurm_step import SlurmStep, allocation_of
from nbdist.model import RunState
from nbdist.store import RunStore
from nbdist.text import reason_text
from tests.engines.conftest import Login, running, until
from tests.engines.programs import SAVES
from tests.engines.test_slurm import PLAIN, SLEEP, TORCH, WHERE
from tests.fakes.runs import a_spec

pytestmark = pytest.mark.cluster

CELL = "%%distributed --on slurm --nodes 2 -n 1 --framework none --no-panel"


class Allocation:
    """Both nodes of the cluster, as ``salloc`` gives them: ``environment`` is that of a shell inside."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self.end = login.folder / "end"
        lasts = f"while [ ! -e {self.end} ]; do sleep 0.2; done"
        words = ("--parsable", "--exclusive", "-N2", "--gpus-per-node=2", "--output=/dev/null")
        self.job = login.cluster.call("sbatch", *words, "--wrap", lasts)
        until(lambda: f"{self.job}|RUNNING" in login.jobs())

    @property
    def environment(self) -> Mapping[str, str]:
        return {"SLURM_JOB_ID": self.job, "SLURM_NTASKS": "7"}

    @property
    def steps(self) -> list[str]:
        """Return its steps, without the one that holds it."""
        listed = self._login.cluster.call("squeue", "-s", "-h", "-j", self.job, "-o", "%i").split()
        return [step for step in listed if step.rpartition(".")[2].isdigit()]


@pytest.fixture
def inside(login: Login) -> Iterator[Allocation]:
    allocation = Allocation(login)
    yield allocation
    until(lambda: not allocation.steps)
    login.cluster.call("scancel", "--user", str(os.getuid()))


def test_a_step_begins_on_both_nodes_while_the_queue_is_full(login: Login, inside: Allocation) -> None:
    login.script(TORCH)
    login.cluster.call("sbatch", "--exclusive", "-N2", "--output=/dev/null", "--wrap", "sleep 600")
    until(lambda: "PENDING" in login.jobs())

    code, output = login.run("--nodes", "2", "-n", "2", "train.py", **inside.environment)

    assert code == 0, output
    assert f"a step of Slurm's job {inside.job}, without the queue" in output
    assert "queued" not in output
    lines = [login.handle.logs(rank).splitlines()[0].split() for rank in range(4)]
    assert [line[:2] for line in lines] == [["sum", "10.0"]] * 4
    assert [line[6:] for line in lines] == [[node, "None", "None"] for node in ("n1", "n1", "n2", "n2")]
    assert login.job.startswith(f"{inside.job}.")


def test_a_step_has_the_gpus_that_it_asks_for(login: Login, inside: Allocation) -> None:
    login.script(WHERE)

    code, output = login.run("--gpus", "2", "--framework", "none", "train.py", **inside.environment)

    assert code == 0, output
    assert [login.handle.logs(rank).split()[0] for rank in range(2)] == ["0,1", "0,1"]


def test_a_step_that_is_stopped_may_save_its_work_and_leaves_the_allocation(
    login: Login, inside: Allocation
) -> None:
    login.script(SAVES)
    command = login.begin(*PLAIN, "train.py", **inside.environment)
    login.until_ready()

    command.send_signal(signal.SIGINT)
    code, output = login.finish(command)

    assert code == 130, output
    assert reason_text(login.handle.run.reason) == "interrupted"
    assert ["saved" in login.handle.logs(rank) for rank in range(2)] == [True, True]
    until(lambda: not inside.steps and not login.left())
    assert f"{inside.job}|RUNNING" in login.jobs()
    until(lambda: not running(login.handle.directory.run_id))


def test_a_step_ends_with_the_process_that_waits_for_it(login: Login, inside: Allocation) -> None:
    login.script(SLEEP)
    command = login.begin(*PLAIN, "train.py", **inside.environment)
    login.until_ready()

    command.kill()
    command.wait()

    assert login.handle.wait(90) == "stopped"
    assert reason_text(login.handle.run.reason) == "the process that started it ended"
    until(lambda: not inside.steps and not running(login.handle.directory.run_id))


def test_a_detached_step_outlives_its_kernel(login: Login, inside: Allocation) -> None:
    notebook = login.notebook(**inside.environment)
    go = login.folder / "go"
    waits = (
        f"import os, time\nprint('ready', flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)"
    )
    notebook.run(f"{CELL} -d\n{waits}")
    login.until_ready()

    notebook.kill()
    go.touch()

    assert login.handle.wait(90) == "finished"
    assert login.handle.run.job.startswith(f"{inside.job}.")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        pytest.param("given back", "the allocation (Slurm's job {job}) in which it ran has ended", id="back"),
        pytest.param("stopped", "Slurm job {job} was stopped outside nbdist", id="stopped"),
    ],
)
def test_the_end_of_the_allocation_is_told(login: Login, inside: Allocation, end: str, reason: str) -> None:
    login.script(SLEEP)
    command = login.begin(*PLAIN, "train.py", **inside.environment)
    login.until_ready()

    if end == "stopped":
        login.cluster.call("scancel", inside.job)
    else:
        inside.end.touch()
    output = login.finish(command)[1]

    assert login.handle.run.state is RunState.STOPPED, output
    assert reason_text(login.handle.run.reason) == reason.format(job=inside.job)


@pytest.mark.parametrize(
    ("words", "environment", "says"),
    [
        pytest.param(
            ("--nodes", "3", "-n", "1"),
            {},
            "--nodes 3: the allocation {job} has 2: write  --nodes 2 , or  --slurm time=1:00:00",
            id="more nodes",
        ),
        pytest.param(
            ("--nodes", "1", "--gpus", "3"), {}, "Invalid generic resource (gres) specification", id="GPUs"
        ),
        pytest.param(
            ("-n", "1"), {"SLURM_JOB_ID": "999999"}, "Invalid job id specified", id="an old allocation"
        ),
    ],
)
def test_what_the_allocation_has_not_leaves_no_run(
    login: Login, inside: Allocation, words: tuple[str, ...], environment: Mapping[str, str], says: str
) -> None:
    login.script(SLEEP)

    code, output = login.run(
        *words, "--framework", "none", "train.py", **{**inside.environment, **environment}
    )

    assert code == 1
    assert says.format(job=inside.job) in output
    assert "for a job of its own in the queue" in output
    assert not RunStore(login.home).directories()


def test_options_of_sbatch_ask_for_a_job_of_its_own() -> None:
    inside = {"SLURM_JOB_ID": "7"}

    assert allocation_of(a_spec(engine="slurm"), inside) == "7"
    assert allocation_of(a_spec(engine="slurm", engine_options=("time=1",)), inside) == ""
    assert allocation_of(a_spec(engine="slurm"), {}) == ""
    assert allocation_of(a_spec(), inside) == ""


def test_a_point_in_the_name_of_a_job_of_ray_makes_no_step() -> None:
    assert is_step(a_spec(engine="slurm"), "7.1")
    assert not is_step(a_spec(engine="slurm"), "7")
    assert not is_step(a_spec(engine="ray"), "nbdist-20261120-141503-v1.5-k3f9")


def test_a_step_that_ended_with_the_time_of_its_allocation_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    answers = (
        'case "$*" in *--steps*) ;; *%r*) echo "TIMEOUT|TimeLimit|n1|1:00|main|1";; *) echo TIMEOUT;; esac'
    )
    squeue.write_text(f"#!/bin/sh\n{answers}\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    status = SlurmStep().status("7.1", a_spec(engine="slurm"))

    assert (status.phase, status.outcome, status.reason.code) == (Phase.OVER, RunState.FAILED, "slurm-time")
