"""Sweeps: what is refused, in which order points are started, what ends them, and what remains."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nbdist import options, processes, runner
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.feed.comparison import ranking
from nbdist.model import Reason, RunState
from nbdist.runner.sweeper import Place, Sweeper
from nbdist.runner.sweeps import SweepHandle, SweepPlan, start_sweep
from nbdist.verbs import runs as verbs
from nbdist.verbs.verb import TERMINAL, Frontend
from tests.programs import until

READS = "import nbdist\nprint(nbdist.params.lr)"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NBDIST_WARM", "off")
    return tmp_path / "home"


def planned(line: str, cell: str) -> SweepPlan:
    return planned_as(options.parse(line), cell)


def planned_as(chosen: options.Options, cell: str) -> SweepPlan:
    return runner.plan_sweep(chosen, partial(runner.plan, cell=cell, cwd="/tmp", python_path=sys.path))


@pytest.mark.parametrize(
    ("line", "cell", "words"),
    [
        ("-n 2 --each 3", READS, "write  --each 2  or less"),
        (
            '-n 2 --args "--width {width}"',
            READS,
            "the sweep has no width for {width}, only lr: add  --sweep width",
        ),
        ("-n 2", "print(1)", "so all runs would be the same"),
        ("--on slurm -n 2", READS, "on this machine: leave it out"),
        ("-n 2 --pull acc", READS, "for run in nbdist.sweep().runs]"),
        ("-n 2 --log-dir logs", READS, "does not work with a sweep of several runs"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    home: Path, line: str, cell: str, words: str
) -> None:
    with pytest.raises(UsageMistake) as refused:
        planned(f"--sweep lr=0.1,0.01 {line}", cell)

    assert words in str(refused.value)
    assert not home.exists()


def test_what_a_point_lacks_is_no_argument() -> None:
    listed = options.parse_keywords(
        {"sweep": [{"lr": 0.1, "width": 64}, {"lr": 0.2}], "nproc": 1, "args": "--width {width}"}
    )

    with pytest.raises(UsageMistake, match=r"point 2 of the sweep has no width for \{width\}"):
        planned_as(listed, READS)


def test_the_ranks_are_shared_among_as_many_points_as_there_is_room_for() -> None:
    pairs, whole = planned("--sweep lr=1,2,3 -n 5 --each 2", READS), planned("--sweep lr=1,2,3 -n 2", READS)

    assert [len(slot) for slot in pairs.sweep.slots] == [2, 2]
    assert [len(slot) for slot in whole.sweep.slots] == [2]
    assert {rank.environment["WORLD_SIZE"] for slot in pairs.sweep.slots for rank in slot} == {"2"}
    assert len(set(pairs.sweep.runs)) == 3


@dataclass
class FakePlace(Place):
    """A place whose runs end on request."""

    started: list[Any] = field(default_factory=list)
    going: bool = False
    stops: list[Reason] = field(default_factory=list)
    refuses: bool = False
    left: bool = False

    def start(self, plan: Any, *, more: bool) -> None:
        if self.refuses:
            raise LaunchError("the disk is full")
        self.started.append(plan)
        self.going = True

    def busy(self) -> bool:
        return self.going

    def stop(self, reason: Reason) -> None:
        self.stops.append(reason)
        self.going = False

    def leave(self) -> None:
        self.left = True


Step = Callable[[], Sequence[Reason]]


def swept(places: Sequence[FakePlace], points: int, steps: Sequence[Step]) -> Reason:
    sweep = planned(f"--sweep lr={','.join(map(str, range(points)))} -n 1", READS).sweep
    left = list(steps)
    plan: Any = lambda number, slot: (number, slot)  # noqa: E731
    return Sweeper(sweep, places, plan=plan, listen=lambda: left.pop(0)()).run()


def test_a_place_gets_the_next_point_as_soon_as_its_run_has_ended() -> None:
    first, second = FakePlace(), FakePlace()

    def end(*places: FakePlace) -> Step:
        def step() -> Sequence[Reason]:
            for place in places:
                place.going = False
            return ()

        return step

    reason = swept([first, second], 4, [end(first), end(first), end(first, second)])

    assert not reason
    assert first.started == [(0, 0), (2, 0), (3, 0)]
    assert second.started == [(1, 1)]
    assert first.left
    assert second.left


def test_a_stop_reaches_all_that_go_on_and_starts_no_other() -> None:
    places = [FakePlace(), FakePlace()]
    reason = Reason("stopped-from-python")

    assert swept(places, 5, [lambda: [reason]]) == reason
    assert [place.stops for place in places] == [[reason], [reason]]
    assert sum(len(place.started) for place in places) == 2


def test_where_a_point_cannot_be_started_those_that_go_on_come_to_their_end() -> None:
    good, bad = FakePlace(), FakePlace(refuses=True)

    def end() -> Sequence[Reason]:
        good.going = False
        return ()

    reason = swept([good, bad], 5, [end])

    assert reason == Reason("sweep-stuck", point=2, problem="the disk is full")
    assert good.started == [(0, 0)]
    assert not good.stops


def test_points_fail_alone_and_the_best_is_found() -> None:
    cell = "import nbdist\nlr = nbdist.params.lr\nnbdist.log(0, loss=-lr)\nassert lr < 3, 'diverged'"

    handle = start_sweep(planned("--sweep lr=1,2,3 -n 2 --each 1", cell))
    try:
        until(lambda: not handle.look().live, 60)
    finally:
        handle.request_stop(Reason())

    view = handle.look()
    assert view.state is RunState.FAILED
    assert [run.state.value for run, _ in view.runs] == ["finished", "finished", "failed"]
    assert handle.best("loss").params == {"lr": 2}
    assert ranking(view.compare(), "loss") == [1, 0, 2]
    assert runner.sweep(handle.label[-4:]).sweep_id == handle.sweep_id
    terminal = Frontend(TERMINAL, lambda _: None)
    assert len(verbs.status(terminal, run=[handle.label]).directories()) == 3
    assert len(verbs.compare(terminal, run=[handle.label], all=False, step=None).comparison.runs) == 3
    assert verbs.attach(terminal, run=handle.label) is not None
    with pytest.raises(UsageMistake, match="has already ended: failed"):
        verbs.stop(terminal, run=handle.label, all=False)
    with pytest.raises(UnknownRun, match=r"is a sweep of 3 runs: name one of them, such as  run-1-\w{4}"):
        verbs.logs(terminal, run=handle.label, rank=None, tail=None, grep=None)
    with pytest.raises(UsageMistake, match="has a metric acc yet"):
        handle.best("acc")


def test_no_rank_remains_of_a_detached_sweep_whose_process_is_killed() -> None:
    cell = "import nbdist, time\nprint(nbdist.params.lr)\ntime.sleep(600)"
    handle = start_sweep(planned("--sweep lr=1,2,3 -n 2 --each 1 -d", cell))
    until(lambda: handle.look().counts["running"] == 2, 60)
    owner = next(run.spec.owner for run, _ in handle.look().runs if run.spec.owner is not None)
    marks = [str(directory.path) for _, directory in handle.look().runs]

    os.kill(owner.pid, signal.SIGKILL)

    until(lambda: not any(processes.marked("NBDIST_RUN_DIR", mark) for mark in marks), 60)
    until(lambda: all(run.state.terminal for run, _ in SweepHandle(handle.directory).look().runs), 60)
    view = handle.look()
    assert view.state is RunState.LOST
    assert {run.reason.code for run, _ in view.runs} == {"sweep-ended"}
