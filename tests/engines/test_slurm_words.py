"""What Slurm says, and what becomes of it: pure, without a Slurm."""

from __future__ import annotations

import pytest

from nbdist.engines.ending import conclude
from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.slurm import Partition, finished, refusal, scrubbed, waiting
from nbdist.errors import UsageMistake
from nbdist.model import (
    Event,
    Queued,
    RankExited,
    RankSpec,
    RankStarted,
    Reason,
    Run,
    RunEnded,
    RunSpec,
    RunState,
)
from nbdist.options import parse
from nbdist.text import reason_text

MAIN = Partition(name="main", total=2, unusable=0, up=True, limit="1:00:00")
DRAINED = Partition(name="main", total=2, unusable=2, up=True, limit="infinite")
OVER = JobStatus(phase=Phase.OVER)


@pytest.mark.parametrize(
    ("reason", "nodes", "partition", "words", "for_ever"),
    [
        pytest.param(
            "PartitionConfig", 3, MAIN, "asks for 3 nodes, the partition main has 2", True, id="few"
        ),
        pytest.param("Resources", 2, MAIN, "it is next, and waits for nodes or cores", False, id="busy"),
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
    said, hopeless = waiting(reason, nodes, partition)

    assert words in reason_text(said)
    assert hopeless is for_ever


@pytest.mark.parametrize("text", ["0/2/0/2|up|infinite\n", "1/1/0/2|up|1-00:00:00"])
def test_a_partition_is_read(text: str) -> None:
    partition = Partition.read("main", text)

    assert partition is not None
    assert (partition.total, partition.up) == (2, True)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("CANCELLED", RunState.CANCELLED),
        ("TIMEOUT", RunState.FAILED),
        ("NODE_FAIL", RunState.FAILED),
        ("COMPLETED", None),
        ("FAILED", None),
    ],
)
def test_only_an_end_from_outside_is_an_outcome(state: str, outcome: RunState | None) -> None:
    assert finished(state, "None", "n1", "7")[0] is outcome


def test_a_refusal_says_what_to_type() -> None:
    said = (
        "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: no\n"
    )

    assert refusal(said, ["partition=nope"], lambda: ["main"]).endswith("--slurm partition=main")


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
        pytest.param("--on slurm", "--gpus 2  or, for CPU ranks,  -n 2", id="nothing a node"),
        pytest.param("--on slurm --gpus 0,1", "how many of them on each node", id="which GPUs"),
        pytest.param("--on slurm -n 2 --node-rank 1", "leave it out", id="which node"),
        pytest.param("--on slurm -n 2 --slurm nodes=2", "--nodes 2", id="nodes"),
        pytest.param("--on slurm -n 2 --slurm output=x", "leave it out", id="output"),
        pytest.param("--on slurm -n 2 --slurm gpu", "partition=gpu,time=1:00:00", id="no option"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_type(line: str, instead: str) -> None:
    with pytest.raises(UsageMistake, match=instead):
        parse(line)


def run_after(*events: Event, nodes: int = 2) -> Run:
    ranks = tuple(RankSpec(rank=node, local_rank=0, node_rank=node) for node in range(nodes))
    spec = RunSpec(
        run_id="20261121-120000-x-abcd",
        name="x",
        created=0.0,
        program="x.py",
        python="python",
        cwd="/",
        ranks=ranks,
        framework="none",
        backend="auto",
        nodes=nodes,
        engine="slurm",
    )
    return Run.of(spec, [Queued(time=0.0, job="7", reason=Reason.said("")), *events])


def started(rank: int) -> RankStarted:
    return RankStarted(time=1.0, rank=rank, pid=9, start_time=1, boot_id="")


def exited(rank: int, code: int) -> RankExited:
    return RankExited(time=2.0 + rank, rank=rank, code=code, ended=False)


def ended(state: RunState, reason: str) -> RunEnded:
    return RunEnded(time=3.0, state=state, reason=Reason.said(reason))


def test_the_node_of_the_first_failure_says_why() -> None:
    run = run_after(started(0), started(1), exited(1, 3))
    ends = {0: ended(RunState.FAILED, "rank 1 on node 1 failed"), 1: ended(RunState.FAILED, "rank 1 failed")}

    assert conclude(run, ends, OVER, asked=None).reason == Reason.said("rank 1 failed")


def test_what_slurm_ended_is_no_failure_of_a_rank() -> None:
    run = run_after(started(0), started(1), exited(0, -15), exited(1, -15))
    ends = {0: ended(RunState.FAILED, "rank 0 failed")}
    job = JobStatus(phase=Phase.OVER, outcome=RunState.FAILED, reason=Reason.said("the job's time is over"))

    assert conclude(run, ends, job, asked=None).reason == job.reason


def test_a_failure_before_the_stop_stays_a_failure() -> None:
    run = run_after(started(0), started(1), exited(1, 3))
    ends = {1: ended(RunState.FAILED, "rank 1 failed")}

    assert conclude(run, ends, OVER, asked="stopped from Python").state is RunState.FAILED


@pytest.mark.parametrize(
    ("job", "said"),
    [
        pytest.param(
            JobStatus(phase=Phase.UNKNOWN, reason=Reason("ray-looks")),
            "; Ray looks for nodes",
            id="gone",
        ),
        pytest.param(JobStatus(phase=Phase.FORGOTTEN), "; slurm no longer knows the job 7", id="forgetful"),
        pytest.param(JobStatus(phase=Phase.RUNNING), "", id="there"),
    ],
)
def test_a_run_that_was_ended_from_outside_tells_of_its_engine(job: JobStatus, said: str) -> None:
    ends = {node: ended(RunState.CANCELLED, "its line was cut") for node in range(2)}

    outcome = conclude(run_after(started(0), started(1)), ends, job, asked=None)

    assert outcome.state is RunState.FAILED
    assert reason_text(outcome.reason) == f"it was ended from outside: its line was cut{said}"


def test_a_job_that_nobody_knows_any_more_is_lost() -> None:
    outcome = conclude(run_after(), {}, JobStatus(phase=Phase.FORGOTTEN), asked=None)

    assert outcome.state is RunState.LOST
    assert "no longer knows the job 7" in reason_text(outcome.reason)


def test_a_job_that_ended_before_its_ranks_says_its_last_words() -> None:
    outcome = conclude(run_after(), {}, OVER, asked=None, last_words="no such python")

    assert reason_text(outcome.reason) == "the job ended before its ranks had started: no such python"
