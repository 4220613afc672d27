"""Messages of Slurm, without a Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.engines.ending import conclude
from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.slurm import Partition, Slurm, finished, refusal, scrubbed, waiting
from nbdist.errors import UsageMistake
from nbdist.model import Event, Reason, Run, RunState
from nbdist.options import parse
from nbdist.text import reason_text
from tests.fakes.runs import STARTED, exited, on_two_nodes, queued, run_ended

MAIN = Partition(name="main", total=2, unusable=0, up=True, limit="1:00:00")
DRAINED = Partition(name="main", total=2, unusable=2, up=True, limit="infinite")
OVER = JobStatus(phase=Phase.OVER)


@pytest.mark.parametrize(
    ("reason", "nodes", "partition", "words", "for_ever"),
    [
        pytest.param(
            "PartitionConfig", 3, MAIN, "it asks for 3 nodes, and partition main has 2", True, id="few"
        ),
        pytest.param(
            "Resources", 2, MAIN, "next in the queue, waiting for free nodes or cores", False, id="busy"
        ),
        pytest.param("Priority", 2, MAIN, "jobs of higher priority come first", False, id="others first"),
        pytest.param("Resources", 1, DRAINED, "asks for 1 node, and 2 of 2", False, id="drained"),
        pytest.param("PartitionTimeLimit", 1, MAIN, "asks for more time", True, id="too long"),
        pytest.param("ReqNodeNotAvail, UnavailableNodes:n1", 1, MAIN, "reserved: n1", False, id="down"),
        pytest.param("QOSMaxNodePerUserLimit", 1, MAIN, "(QOSMaxNodePerUserLimit)", False, id="a limit"),
        pytest.param("SomethingNew", 1, None, "SomethingNew", False, id="of a newer Slurm"),
    ],
)
def test_why_a_job_waits_is_said_in_words(
    reason: str, nodes: int, partition: Partition | None, words: str, for_ever: bool
) -> None:
    why, hopeless = waiting(reason, nodes, partition)

    assert words in reason_text(why)
    assert hopeless is for_ever


@pytest.mark.parametrize("text", ["0/2/0/2|up|infinite\n", "1/1/0/2|up|1-00:00:00"])
def test_a_partition_is_read(text: str) -> None:
    partition = Partition.read("main", text)

    assert (partition.total, partition.up) == (2, True)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("CANCELLED", RunState.STOPPED),
        ("TIMEOUT", RunState.FAILED),
        ("NODE_FAIL", RunState.FAILED),
        ("COMPLETED", None),
        ("FAILED", None),
    ],
)
def test_only_an_end_from_outside_is_an_outcome(state: str, outcome: RunState | None) -> None:
    assert finished(state, "None", "n1", "7")[0] is outcome


@pytest.mark.parametrize(
    ("recorded", "phase", "outcome", "words"),
    [
        pytest.param("CANCELLED by 0|0:0|n[1-2]", Phase.OVER, RunState.STOPPED, "was stopped", id="stopped"),
        pytest.param("FAILED|3:0|n1", Phase.OVER, None, "exit code 3:0", id="failed"),
        pytest.param("COMPLETED|0:0|n1", Phase.OVER, None, "the job finished", id="completed"),
        pytest.param("RUNNING|0:0|n1", Phase.UNKNOWN, None, "", id="not written down yet"),
        pytest.param("", Phase.FORGOTTEN, None, "", id="nor does the accounting know"),
        pytest.param(None, Phase.FORGOTTEN, None, "", id="no accounting"),
    ],
)
def test_what_the_controller_has_forgotten_sacct_knows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: str | None,
    phase: Phase,
    outcome: RunState | None,
    words: str,
) -> None:
    """Both answer as Slurm 22.05 did."""
    answers = {"squeue": "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1"}
    if recorded is not None:
        answers["sacct"] = f"echo '{recorded}'"
    for name, answer in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    status = Slurm().status("7", SPEC)

    assert (status.phase, status.outcome) == (phase, outcome)
    assert words in reason_text(status.reason)


def test_a_refusal_says_what_to_type() -> None:
    errors = (
        "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: no\n"
    )

    assert refusal(errors, ["partition=nope"], lambda: ["main"]).endswith("--slurm partition=main")


def test_a_job_inherits_nothing_of_the_job_that_submits_it() -> None:
    inside = {"SLURM_JOB_ID": "1", "SBATCH_PARTITION": "x", "PMI_RANK": "0", "SLURM_CONF": "/c", "HOME": "/h"}

    assert scrubbed(inside) == {"SLURM_CONF": "/c", "HOME": "/h"}


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("partition=gpu,time=1:00:00", ("partition=gpu", "time=1:00:00")),
        ("nodelist=n1,n2,exclusive", ("nodelist=n1,n2", "exclusive")),
        ("gres=gpu:2,tmpfs:1,account=lab", ("gres=gpu:2,tmpfs:1", "account=lab")),
    ],
)
def test_options_of_sbatch_are_told_apart(line: str, options: tuple[str, ...]) -> None:
    assert parse(f"--on slurm -n 2 --slurm {line}").slurm == options


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        pytest.param("--on slurm", "--gpus 2  or, on the CPU,  -n 2", id="nothing a node"),
        pytest.param("--on slurm --gpus 0,1", "how many each node gives", id="which GPUs"),
        pytest.param("--on slurm -n 2 --node-rank 1", "leave it out", id="which node"),
        pytest.param("--on slurm -n 2 --slurm nodes=2", "--nodes 2", id="nodes"),
        pytest.param("--on slurm -n 2 --slurm output=x", "leave it out", id="output"),
        pytest.param("--on slurm -n 2 --slurm gpu", "partition=gpu,time=1:00:00", id="no option"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_type(line: str, instead: str) -> None:
    with pytest.raises(UsageMistake, match=instead):
        parse(line)


SPEC = on_two_nodes("slurm")


def run_after(*events: Event) -> Run:
    return Run.of(SPEC, [queued("in the queue"), *events])


def test_the_node_of_the_first_failure_says_why() -> None:
    run = run_after(*STARTED, exited(1, 3))
    reasons = ("rank 1 on node 1 failed", "rank 1 failed")
    other, first = (run_ended(RunState.FAILED, reason) for reason in reasons)

    assert conclude(run, {0: other, 1: first}, OVER, stop=None).reason == first.reason


def test_what_slurm_ended_is_no_failure_of_a_rank() -> None:
    run = run_after(*STARTED, exited(0, -15), exited(1, -15))
    ends = {0: run_ended(RunState.FAILED, "rank 0 failed")}
    job = JobStatus(phase=Phase.OVER, outcome=RunState.FAILED, reason=Reason.said("the job's time is over"))

    assert conclude(run, ends, job, stop=None).reason == job.reason


def test_a_failure_before_the_stop_stays_a_failure() -> None:
    run = run_after(*STARTED, exited(1, 3))
    ends = {1: run_ended(RunState.FAILED, "rank 1 failed")}

    assert conclude(run, ends, OVER, stop="stopped from Python").state is RunState.FAILED


@pytest.mark.parametrize(
    ("job", "suffix"),
    [
        pytest.param(
            JobStatus(phase=Phase.UNKNOWN, reason=Reason("ray-looks")),
            " (Ray is looking for nodes)",
            id="gone",
        ),
        pytest.param(JobStatus(phase=Phase.FORGOTTEN), " (slurm no longer knows job 7)", id="forgetful"),
        pytest.param(JobStatus(phase=Phase.RUNNING), "", id="there"),
    ],
)
def test_a_run_that_was_ended_from_outside_tells_of_its_engine(job: JobStatus, suffix: str) -> None:
    ends = {node: run_ended(RunState.STOPPED, "its line was cut") for node in range(2)}

    outcome = conclude(run_after(*STARTED), ends, job, stop=None)

    assert outcome.state is RunState.FAILED
    assert reason_text(outcome.reason) == f"ended from outside nbdist: its line was cut{suffix}"


def test_a_job_that_nobody_knows_any_more_is_lost() -> None:
    outcome = conclude(run_after(), {}, JobStatus(phase=Phase.FORGOTTEN), stop=None)

    assert outcome.state is RunState.LOST
    assert "no longer knows job 7" in reason_text(outcome.reason)


def test_a_job_that_ended_before_its_ranks_says_its_last_words() -> None:
    outcome = conclude(run_after(), {}, OVER, stop=None, last_words="no such python")

    assert reason_text(outcome.reason) == "the job ended before its ranks started: no such python"
