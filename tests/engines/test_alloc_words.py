"""What allocations, and jobs of several lives, come to: without a Slurm."""

from __future__ import annotations

import json
import selectors
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.engines.ending import EngineTimeout, last_line
from nbdist.engines.engine import Phase
from nbdist.engines.merged_journal import NodeJournals, NodeRequests
from nbdist.engines.node_agent import environment_of
from nbdist.engines.slurm import Slurm
from nbdist.errors import LaunchError
from nbdist.launch.machines.connections import QuestionListener
from nbdist.launch.machines.link import call
from nbdist.model import Device, RankSpec, Reason, Run, RunSpec, RunState
from nbdist.runner.allocations import mismatch
from nbdist.store.allocations import Allocation, allocations, make_allocation
from nbdist.store.control import StacksRequest, take_requests
from nbdist.store.paths import NodeDirectory, RunDirectory, make_private, write_private
from nbdist.store.reports import RankAnswer, TakenStacks, read_stacks, write_stacks
from tests.fakes.runs import a_spec

HELD = Allocation(
    engine="slurm",
    nodes=2,
    per_node=2,
    gpus=True,
    idle=900.0,
    python="/usr/bin/python3",
    created=0.0,
    options=("partition=gpu", "account=lab"),
)


def on_nodes(nodes: int, per_node: int, kind: str = "cpu", **changes: object) -> RunSpec:
    ranks = tuple(
        RankSpec(rank=n * per_node + r, local_rank=r, node_rank=n, device=Device(kind=kind, index=r))
        for n in range(nodes)
        for r in range(per_node)
    )
    return replace(a_spec(ranks=1, engine="slurm", nodes=nodes), ranks=ranks, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param(on_nodes(2, 2, "gpu"), "", id="all of it"),
        pytest.param(on_nodes(1, 1), "", id="less"),
        pytest.param(on_nodes(2, 1, engine_options=("partition=gpu",)), "", id="as it was asked for"),
        pytest.param(on_nodes(3, 1), "--nodes 2 fits", id="more nodes"),
        pytest.param(on_nodes(1, 4, "gpu"), "--gpus 2 fits", id="more GPUs"),
        pytest.param(on_nodes(1, 4), "-n 2 fits", id="more ranks"),
        pytest.param(
            on_nodes(1, 1, engine_options=("partition=big",)), "--slurm partition=big", id="elsewhere"
        ),
        pytest.param(on_nodes(1, 1, python="/opt/python"), "/opt/python", id="another Python"),
    ],
)
def test_a_run_that_does_not_fit_says_what_does(spec: RunSpec, problem: str) -> None:
    said = mismatch(HELD, spec)

    assert problem in said
    assert bool(said) is bool(problem)


def test_a_run_on_gpus_does_not_fit_where_there_are_none() -> None:
    assert "-n instead of --gpus" in mismatch(replace(HELD, gpus=False), on_nodes(1, 1, "gpu"))


def test_what_was_asked_for_is_read_again(tmp_path: Path) -> None:
    directory = make_allocation(tmp_path, "20261121-120000-1", HELD)
    directory.put_job("7", {"SLURM_CONF": "/c"})

    directory.end(Reason.said("off"))
    directory.end(Reason.said("later"))

    assert [each.read() for each in allocations(tmp_path)] == [HELD]
    assert (directory.number(), directory.environment()) == ("7", {"SLURM_CONF": "/c"})
    assert directory.why_over() == Reason.said("off")


def test_a_run_gets_as_many_gpus_of_the_node_as_it_asks_for() -> None:
    order = {"environment": {"A": "1", "SLURM_X": "0"}, "link_key": "k", "gpus": 1}
    own = {"SLURM_X": "1", "CUDA_VISIBLE_DEVICES": "4,5", "HOME": "/root"}

    found = environment_of(order, own)

    assert found == {"A": "1", "SLURM_X": "1", "CUDA_VISIBLE_DEVICES": "4", "NBDIST_LINK_KEY": "k"}


LIVES = """\
nbdist: job 7 on n1, n2, life 0, meeting at 10.0.0.1:20014
srun: error: n1: task 0: the disk is full
"""
SECOND = "nbdist: job 7 on n1, n2, life 1, meeting at 10.0.0.1:20014\n"


@pytest.mark.parametrize(
    ("text", "life", "words"),
    [
        pytest.param("sh: 1: python: not found\n", 0, "sh: 1: python: not found", id="before it could speak"),
        pytest.param(LIVES, 0, "srun: error: n1: task 0: the disk is full", id="its own"),
        pytest.param(LIVES, 1, "", id="those of the life before"),
        pytest.param(LIVES + SECOND, 1, "", id="nothing in this life"),
        pytest.param(LIVES + SECOND + "srun: gone\n", 1, "srun: gone", id="those of the second"),
    ],
)
def test_the_last_words_are_those_of_this_life(text: str, life: int, words: str) -> None:
    assert last_line(text, life) == words


@pytest.mark.parametrize(
    ("said", "phase", "outcome"),
    [
        ("COMPLETED|0:0|n[1-2]\n", Phase.OVER, None),
        ("FAILED|1:0|n[1-2]\n", Phase.OVER, None),
        ("CANCELLED by 1000|0:15|n1\n", Phase.OVER, RunState.CANCELLED),
        ("TIMEOUT|0:0|n[1-2]\n", Phase.OVER, RunState.FAILED),
        ("NODE_FAIL|1:0|n2\nCOMPLETED|0:0|n[1-2]\n", Phase.OVER, None),
        ("OUT_OF_MEMORY|0:125|n1\n", Phase.OVER, RunState.FAILED),
        ("RUNNING|0:0|n[1-2]\n", Phase.UNKNOWN, None),
        ("", Phase.FORGOTTEN, None),
    ],
)
def test_the_accounting_says_how_a_job_ended(said: str, phase: Phase, outcome: RunState | None) -> None:
    status = Slurm().recorded(said, "7")

    assert (status.phase, status.outcome) == (phase, outcome)


class Nodes(NodeJournals):
    """Of a run whose nodes have begun, or not."""

    def __init__(self, run: RunDirectory, spec: RunSpec) -> None:
        super().__init__(run, run=lambda: Run.of(spec), record=lambda _: None)


def begin(run: RunDirectory, name: str) -> NodeDirectory:
    node = NodeDirectory(run.path, name)
    make_private(node.own)
    make_private(node.control)
    write_private(node.journal, "")
    return node


@pytest.mark.parametrize(
    ("begun", "asked", "limit"),
    [(True, False, 100.0), (False, False, 600.0), (True, True, 10.0)],
    ids=["it runs", "it is queued", "it is to end"],
)
def test_a_run_of_which_nothing_is_heard_is_given_up(
    tmp_path: Path, begun: bool, asked: bool, limit: float
) -> None:
    run, spec = RunDirectory(tmp_path), on_nodes(2, 1)
    nodes = Nodes(run, spec)
    if begun:
        begin(run, "0-0")
        nodes.find()
        nodes.poll()
    silence = EngineTimeout(run, nodes, limit=100.0)

    lasted = [silence.lasts_too_long(Run.of(spec), at, asked=asked) for at in (0.0, limit - 1.0, limit)]

    assert lasted == [False, False, True]


def test_a_run_whose_ranks_leave_traces_is_not_given_up(tmp_path: Path) -> None:
    run, spec = RunDirectory(tmp_path), on_nodes(1, 1)
    make_private(run.rank(0).path)
    nodes = Nodes(run, spec)
    begin(run, "0-0")
    nodes.find()
    nodes.poll()
    silence = EngineTimeout(run, nodes, limit=100.0)
    silence.lasts_too_long(Run.of(spec), 0.0, asked=False)

    write_private(run.rank(0).system, "{}\n")
    lasted = [silence.lasts_too_long(Run.of(spec), at, asked=False) for at in (99.0, 150.0, 199.0)]
    silence.broken()
    again = silence.lasts_too_long(Run.of(spec), 250.0, asked=False)

    assert lasted == [False, False, True]
    assert not again


def taken(rank: int, name: str, attempt: int = 1) -> TakenStacks:
    return TakenStacks(
        time=5.0 + rank, attempt=attempt, ranks=(RankAnswer(rank=rank, text="x"),), asked=(name,)
    )


def test_the_stacks_of_all_nodes_become_one_answer(tmp_path: Path) -> None:
    run, spec = RunDirectory(tmp_path), on_nodes(2, 1)
    nodes = Nodes(run, spec)
    here = [begin(run, f"0-{number}") for number in range(2)]
    nodes.find()
    nodes.poll()
    requests = NodeRequests(run, spec, nodes)

    requests.stacks("somebody", 0.0)
    requests.tick(0.1)
    names = [
        request.name for node in here for request in take_requests(node) if isinstance(request, StacksRequest)
    ]
    write_stacks(here[0], taken(0, names[0]))
    requests.tick(0.2)
    early = read_stacks(run)
    write_stacks(here[1], taken(1, names[1]))
    requests.tick(0.3)

    found = read_stacks(run)
    assert early is None
    assert found is not None
    assert (found.asked, found.time) == (("somebody",), 5.0)
    assert [answer.text for answer in found.ranks] == ["x", "x"]


def test_a_node_that_does_not_answer_holds_nobody_up(tmp_path: Path) -> None:
    run, spec = RunDirectory(tmp_path), on_nodes(2, 1)
    nodes = Nodes(run, spec)
    here = begin(run, "0-0")
    begin(run, "0-1")
    nodes.find()
    nodes.poll()
    requests = NodeRequests(run, spec, nodes)

    requests.stacks("somebody", 0.0)
    requests.tick(0.1)
    (asked,) = take_requests(here)
    assert isinstance(asked, StacksRequest)
    write_stacks(here, taken(0, asked.name))
    requests.tick(60.0)

    found = read_stacks(run)
    assert found is not None
    assert [answer.problem for answer in found.ranks] == ["", "silent"]


@pytest.fixture
def door() -> Iterator[int]:
    """The port of somebody who says how long the question was, to holders of the key ``right``."""
    over = threading.Event()
    with selectors.DefaultSelector() as selector:
        reception = QuestionListener(
            "127.0.0.1", "right", selector, lambda question: {"length": len(json.dumps(question))}
        )

        def serve() -> None:
            while not over.is_set():
                for key, _ in selector.select(0.05):
                    key.data()

        thread = threading.Thread(target=serve)
        thread.start()
        yield reception.port
        over.set()
        thread.join()
        reception.forget()


def test_a_question_may_be_long(door: int) -> None:
    question = {"environment": {"PATH": "ä" * 100_000}}

    assert call("127.0.0.1", door, "right", question) == {"length": len(json.dumps(question))}


def test_who_has_not_the_key_gets_no_answer(door: int) -> None:
    with pytest.raises(LaunchError, match="does not answer"):
        call("127.0.0.1", door, "wrong", {"kind": "hosted"})
