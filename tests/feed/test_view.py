"""The view of a run that every surface draws."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from nbdist.feed.progress import Progress
from nbdist.feed.view import FailureView, RankUsage, RankView, RunView, bytes_text, duration, view_of
from nbdist.model import Device, Event, RankSpec, RankState, Run, RunState
from nbdist.model.decoding import build
from nbdist.store import MetricPoint
from tests.fakes.runs import (
    CREATED,
    RUN_ID,
    STARTED,
    a_spec,
    attempt_started,
    errored,
    exited,
    imports_awaited,
    nodes_awaited,
    rank_started,
    remote_rank,
    run_ended,
    run_lost,
    stop_requested,
    supervisor_started,
)

USAGE = {rank: RankUsage(memory=500_000_000 + rank) for rank in (0, 1)}


def test_a_view_says_everything_that_is_drawn() -> None:
    devices = (Device(kind="gpu", index=3), Device(kind="gpu", index=5))
    run = Run.of(a_spec(devices=devices), [*STARTED, exited(1, -9)])

    view = view_of(run, now=CREATED + 47.1, usage=USAGE, last_lines={0: "step 3", 1: "step 2"})

    assert view == RunView(
        run_id=RUN_ID,
        label="lenet-k3f9",
        state="running",
        live=True,
        reason="",
        elapsed=pytest.approx(47.0),
        ranks=(
            RankView(
                rank=0,
                state="running",
                device="GPU 3",
                pid=4001,
                memory=500_000_000,
                gpu_memory=None,
                exit="",
                elapsed=pytest.approx(46.9),
                last_line="step 3",
            ),
            RankView(
                rank=1,
                state="failed",
                device="GPU 5",
                pid=None,
                memory=None,
                gpu_memory=None,
                exit="SIGKILL (killed from outside, often by the out-of-memory killer)",
                exit_zh="SIGKILL（被外部强制结束，常因内存不足）",
                elapsed=pytest.approx(10.8),
                last_line="step 2",
            ),
        ),
    )


@pytest.mark.parametrize(
    ("events", "state", "live", "reason"),
    [
        pytest.param([], "pending", True, "", id="queued"),
        pytest.param(STARTED[:2], "starting", True, "", id="starting"),
        pytest.param(STARTED, "running", True, "", id="running"),
        pytest.param(
            [*STARTED, imports_awaited(0)],
            "running",
            True,
            "waiting for ranks that are still importing torch",
            id="importing",
        ),
        pytest.param([*STARTED, imports_awaited(0), imports_awaited()], "running", True, "", id="imported"),
        pytest.param([*STARTED, stop_requested("enough")], "stopping", True, "enough", id="stopping"),
        pytest.param(
            [*STARTED, errored(0), exited(0, 1), exited(1), run_ended(RunState.FAILED, "rank 0 failed")],
            "failed",
            False,
            "rank 0 failed",
            id="failed",
        ),
        pytest.param([*STARTED, run_lost("gone")], "lost", False, "gone", id="lost"),
    ],
)
def test_a_view_says_how_a_run_stands(events: Sequence[Event], state: str, live: bool, reason: str) -> None:
    view = view_of(Run.of(a_spec(), events), now=CREATED)

    assert (view.state, view.live, view.reason) == (state, live, reason)


MEASURED = MetricPoint(
    time=CREATED + 40,
    step=None,
    values={
        "cpu": 103.5,
        "memory": 6e8,
        "memory_total": 6.4e10,
        "gpu": 87.0,
        "gpu_memory": 1.5e10,
        "gpu_memory_total": 8e10,
        "power": 250.0,
        "temperature": 61.0,
        "wait": 21.0,
    },
)


def test_what_the_supervisor_measured_counts_more_than_what_is_seen_from_here() -> None:
    view = view_of(
        Run.of(a_spec(), STARTED), now=CREATED + 41, usage=USAGE, system={0: MEASURED}, rates={0: 2.5}
    )

    first, second = view.ranks
    assert (first.memory, first.memory_total) == (600_000_000, 64_000_000_000)
    assert (first.gpu_memory, first.gpu_memory_total) == (15_000_000_000, 80_000_000_000)
    assert (first.cpu, first.gpu, first.rate, first.wait) == (103.5, 87.0, 2.5, 21.0)
    assert (second.memory, second.cpu, second.rate) == (500_000_001, None, None)


@pytest.mark.parametrize(
    ("age", "memory"), [(10.0, 600_000_000), (10.5, None)], ids=["ten seconds ago", "before that"]
)
def test_what_was_measured_is_true_for_a_while(age: float, memory: int | None) -> None:
    view = view_of(Run.of(a_spec(), STARTED), now=CREATED + 40 + age, usage=USAGE, system={0: MEASURED})

    assert view.ranks[0].memory == memory


def test_an_exit_at_the_memory_limit_is_said_in_both_languages() -> None:
    limited = replace(exited(1, -9), limit=2_000_000_000, memory=2_100_000_000)
    (_, rank) = view_of(Run.of(a_spec(), [*STARTED, limited]), now=CREATED + 41).ranks

    assert rank.exit == "SIGKILL (over its memory limit of 2.0 GB, it used 2.1 GB)"
    assert rank.exit_zh == "SIGKILL（超出 2.0 GB 的内存限制，当时已用 2.1 GB）"


def test_a_rank_that_has_ended_uses_nothing() -> None:
    run = Run.of(a_spec(), [*STARTED, exited(0)])

    view = view_of(run, now=CREATED + 41, usage=USAGE, system={0: MEASURED}, rates={0: 2.5})

    rank = view.ranks[0]
    assert (rank.memory, rank.cpu, rank.gpu, rank.gpu_memory, rank.rate, rank.wait) == (None,) * 6


def test_a_run_that_has_ended_is_as_far_as_it_came_and_has_no_time_left() -> None:
    run = Run.of(a_spec(), [*STARTED, exited(0, 1), exited(1), run_ended(RunState.FAILED)])

    view = view_of(run, now=CREATED + 41, progress=Progress(fraction=0.5, remaining=9.0, text="step 1/2"))

    assert view.progress == Progress(fraction=0.5, remaining=None, text="step 1/2")


def test_a_measure_that_is_no_number_is_unknown() -> None:
    point = MetricPoint(time=CREATED, step=None, values={"memory": math.nan, "cpu": math.inf})

    rank = view_of(Run.of(a_spec(), STARTED), now=CREATED, system={0: point}).ranks[0]

    assert (rank.memory, rank.cpu) == (None, None)


def test_a_long_line_does_not_widen_the_strip() -> None:
    view = view_of(Run.of(a_spec(), STARTED), now=CREATED, last_lines={0: "x" * 10_000})

    assert view.ranks[0].last_line == "x" * 200


def test_a_view_travels_as_json() -> None:
    view = view_of(
        Run.of(a_spec(), STARTED),
        now=CREATED,
        usage=USAGE,
        progress=Progress(fraction=0.5, remaining=None, text="step 1/2"),
        failure=FailureView(rank=0, headline="exit 1", message="", line=None),
    )

    travelled = json.loads(json.dumps(view.to_dict()))

    assert travelled["ranks"][1]["memory"] == 500_000_001
    assert build(RunView, travelled) == view


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0, "0:00", id="nothing"),
        pytest.param(0.9, "0:00", id="less than a second"),
        pytest.param(47, "0:47", id="seconds"),
        pytest.param(59.99, "0:59", id="not yet a minute"),
        pytest.param(60, "1:00", id="a minute"),
        pytest.param(725, "12:05", id="minutes"),
        pytest.param(3599, "59:59", id="not yet an hour"),
        pytest.param(3600, "1:00:00", id="an hour"),
        pytest.param(10_930, "3:02:10", id="hours"),
        pytest.param(360_000, "100:00:00", id="days are hours"),
    ],
)
def test_a_duration_reads_as_on_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(None, "", id="unknown"),
        pytest.param(0, "0 MB", id="nothing"),
        pytest.param(312_400_000, "312 MB", id="megabytes"),
        pytest.param(999_000_000, "999 MB", id="not yet a gigabyte"),
        pytest.param(1_000_000_000, "1.0 GB", id="a gigabyte"),
        pytest.param(1_440_000_000, "1.4 GB", id="gigabytes"),
    ],
)
def test_bytes_read_as_people_say_them(count: int | None, text: str) -> None:
    assert bytes_text(count) == text


HOSTS = ("10.0.0.1", "10.0.0.2")
SPEC = replace(a_spec(), ranks=tuple(RankSpec(rank=n, local_rank=0, node_rank=n) for n in range(2)), nodes=2)


def shown(*events: object, rank: int) -> RankView:
    run = Run.of(SPEC, [supervisor_started(), *events])  # type: ignore[list-item]
    return view_of(run, now=CREATED + 9, last_lines={0: "step 3"}).ranks[rank]


def test_a_rank_of_this_machine_is_shown_as_ever() -> None:
    view = shown(nodes_awaited(hosts=HOSTS), attempt_started(1), rank_started(0), rank=0)

    assert (view.node, view.device, view.last_line, view.state) == (0, "CPU", "step 3", "running")


def test_of_a_rank_elsewhere_it_is_said_where_it_is_and_that_its_log_is_there() -> None:
    remote = remote_rank(1, RankState.RUNNING)

    view = shown(nodes_awaited(hosts=HOSTS), attempt_started(1), remote, rank=1)

    assert (view.node, view.device, view.state) == (1, "CPU · node 1", "running")
    assert view.last_line == "its log is on node 1 (10.0.0.2)"
    assert view.pid is None


def test_a_machine_that_is_awaited_is_named() -> None:
    assert shown(nodes_awaited(1), rank=1).last_line == "node 1 has not joined yet"


def test_a_run_runs_when_the_ranks_of_this_machine_do_and_how_the_others_ended_is_kept() -> None:
    events = [
        supervisor_started(),
        attempt_started(1),
        rank_started(0),
        remote_rank(1, RankState.RUNNING),
        remote_rank(1, RankState.FAILED, 3),
    ]

    run = Run.of(SPEC, events)

    assert run.state.value == "running"
    assert (run.ranks[1].state, run.ranks[1].code, run.ranks[1].process) == (RankState.FAILED, 3, None)
