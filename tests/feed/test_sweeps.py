"""A sweep as it stands, read from the directories of its points."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from nbdist.feed.comparison import main_metric, ranking
from nbdist.feed.sweep_state import SweepReader, SweepTable, SweepView
from nbdist.model import Reason, RunState
from nbdist.model.spec import SweepPoint
from nbdist.model.sweep import MOST, Sweep, grid
from nbdist.panel.comparison_view import SweepLines, sweep_bundle, sweep_failures, sweep_text
from nbdist.store.paths import SweepDirectory
from nbdist.store.run_store import SweepStore, take_run_lock
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, run_ended

FIXTURE = Path(__file__).parents[1] / "fixtures/sweep.json"
SWEEP = "20261120-141503-lenet-k3f9"


def a_sweep(home: Path, *losses: float | None) -> tuple[SweepDirectory, Sweep]:
    """Return a sweep with an ended run for each of the losses (None: a failed one), and one more point."""
    ids = tuple(f"20261120-141503-lenet-{number + 1}-aaa{letter}" for number, letter in enumerate("abcd"))
    points = grid([({"lr": "0.1"}, {"lr": "0.01"}), ({"width": "64"}, {"width": "128"})])
    spec = a_spec(ranks=1)
    sweep = Sweep(
        sweep_id=SWEEP, name="lenet", created=CREATED, spec=spec, runs=ids, points=points, slots=(spec.ranks,)
    )
    for number, loss in enumerate(losses):
        changes = {"run_id": ids[number], "name": f"lenet-{number + 1}"}
        point = SweepPoint(sweep=SWEEP, number=number, values=points[number])
        run = WrittenRun(home, a_spec(ranks=1, sweep=point, **changes))
        line = {"t": CREATED + 1, "step": 3, "v": {"loss": loss or -5.0}}
        run.directory.rank(0).metrics.write_text(json.dumps(line) + "\n")
        state = RunState.FAILED if loss is None else RunState.FINISHED
        reason = Reason("time-limit", seconds=60.0) if loss is None else Reason()
        run.happened(*STARTED, run_ended(state, reason))
    directory = SweepStore(home).begin(sweep, "pass", None)
    return directory, sweep


@pytest.fixture
def view(home: Path) -> SweepView:
    """Return a view of two points that have ended, one that has failed, and one that waits."""
    directory, _ = a_sweep(home, 0.5, 0.25, None)
    lock = take_run_lock(directory)
    try:
        return SweepReader(directory).look()
    finally:
        os.close(lock)


def test_points_are_counted_and_sorted_with_those_that_failed_last(view: SweepView) -> None:
    points = view.compare()
    row, descending = main_metric(points)

    assert dict(view.counts) == {"points": 4, "ended": 3, "failed": 1, "running": 0, "waiting": 1}
    assert view.state is RunState.RUNNING
    assert row is not None
    assert (row.group, row.name, descending) == ("best", "loss", False)
    assert ranking(points) == [1, 0, 2, 3]


def test_the_page_gets_what_its_tests_draw(view: SweepView) -> None:
    data = json.loads(json.dumps(SweepTable("en").data(view)))

    assert data == json.loads(FIXTURE.read_text())
    assert len(data["runs"]) <= MOST


def test_text_and_html_say_the_same(view: SweepView) -> None:
    text, bundle = sweep_text(view, "en"), sweep_bundle(view, "zh")
    lines: list[str] = []
    SweepLines(lines.append, "en").show(view)

    assert text.startswith("Sweep lenet-k3f9 · Running · 3 of 4 points · 1 failed · 1 waiting")
    assert [line.split()[0] for line in text.splitlines()[4:]] == ["B", "A", "C", "D"]
    assert "failed: " in sweep_failures(view, "en").partition("the time limit of 60 s was reached")[0]
    assert not sweep_failures(view, "zh").partition("\n")[0].endswith("：")
    assert "<script" not in bundle["text/html"]
    assert "lenet-2-aaab" in bundle["text/html"]
    assert "3/4 个点" in bundle["text/plain"]
    values = ["lr=0.1 width=64", "lr=0.1 width=128", "lr=0.01 width=64"]
    assert [line.split(" · ")[1] for line in lines] == values


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (Reason(), RunState.FINISHED),
        (Reason("kernel-ended"), RunState.STOPPED),
        (Reason("sweep-stuck", point=2, problem="full"), RunState.FAILED),
        (None, RunState.LOST),
    ],
)
def test_a_sweep_that_has_ended_says_how(home: Path, reason: Reason | None, state: RunState) -> None:
    every = state is RunState.FINISHED
    directory, sweep = a_sweep(home, 0.5, 0.25, *((0.5, 0.5) if every else ()))
    if reason is not None:
        directory.ended.write_text(json.dumps({"reason": reason.encode()}))

    view = SweepReader(directory).look()

    assert (view.state, view.live) == (state, False)
    assert asdict(view.sweep) == asdict(sweep)
