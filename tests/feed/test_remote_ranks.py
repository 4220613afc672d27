"""What is shown of ranks on other machines."""

from __future__ import annotations

from dataclasses import replace

from nbdist.feed.view import RankView, view_of
from nbdist.model import RankSpec, RankState, Run
from tests.fakes import runs

HOSTS = ("10.0.0.1", "10.0.0.2")
SPEC = replace(
    runs.a_spec(), ranks=tuple(RankSpec(rank=n, local_rank=0, node_rank=n) for n in range(2)), nodes=2
)


def shown(*events: object, rank: int) -> RankView:
    run = Run.of(SPEC, [runs.supervisor_started(), *events])  # type: ignore[list-item]
    return view_of(run, now=runs.CREATED + 9, last_lines={0: "step 3"}).ranks[rank]


def test_a_rank_of_this_machine_is_shown_as_ever() -> None:
    view = shown(runs.nodes_awaited(hosts=HOSTS), runs.attempt_started(1), runs.rank_started(0), rank=0)

    assert (view.node, view.device, view.last_line, view.state) == (0, "CPU", "step 3", "running")


def test_of_a_rank_elsewhere_it_is_said_where_it_is_and_that_its_log_is_there() -> None:
    remote = runs.remote_rank(1, RankState.RUNNING)

    view = shown(runs.nodes_awaited(hosts=HOSTS), runs.attempt_started(1), remote, rank=1)

    assert (view.node, view.device, view.state) == (1, "CPU · node 1", "running")
    assert view.last_line == "its log is on node 1 (10.0.0.2)"
    assert view.pid is None


def test_a_machine_that_is_awaited_is_named() -> None:
    assert shown(runs.nodes_awaited(1), rank=1).last_line == "node 1 has not come yet"


def test_a_run_runs_when_the_ranks_of_this_machine_do_and_how_the_others_ended_is_kept() -> None:
    events = [
        runs.supervisor_started(),
        runs.attempt_started(1),
        runs.rank_started(0),
        runs.remote_rank(1, RankState.RUNNING),
        runs.remote_rank(1, RankState.FAILED, 3),
    ]

    run = Run.of(SPEC, events)

    assert run.state.value == "running"
    assert (run.ranks[1].state, run.ranks[1].code, run.ranks[1].process) == (RankState.FAILED, 3, None)
