from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.charts import Charts
from nbdist.feed.measures import Measures
from nbdist.model import ProcessId, Reason, RunState
from nbdist.model.events import RunEnded, StopRequested
from nbdist.panel import summary_text
from nbdist.runner import RunHandle
from nbdist.server.handlers import detail_of
from nbdist.server.run_list import RunList
from nbdist.store import RunStore
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, exited, run_ended, supervisor_started

Ask = Callable[..., Any]
ENDED = (*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))


def run_id(number: int, name: str = "lenet") -> str:
    return f"20261120-{number:06}-{name}-k3f9"


def written(home: Path, number: int, name: str = "lenet", **more: Any) -> WrittenRun:
    return WrittenRun(home, a_spec(run_id=run_id(number, name), name=name, **more))


@pytest.fixture
def runs(home: Path) -> RunList:
    return RunList(RunStore(home), clock=lambda: CREATED + 100)


def ids(page: Any) -> list[str]:
    return [row.run_id for row in page.rows]


def test_the_newest_come_first_page_by_page(home: Path, runs: RunList) -> None:
    for number in range(10):
        written(home, number).happened(*ENDED)

    first = runs.page(limit=4)
    second = runs.page(limit=4, before=first.next)
    last = runs.page(limit=4, before=second.next)

    assert ids(first) == [run_id(number) for number in (9, 8, 7, 6)]
    assert ids(second) == [run_id(number) for number in (5, 4, 3, 2)]
    assert (ids(last), last.next) == ([run_id(1), run_id(0)], None)


def test_what_goes_on_is_on_the_first_page_alone(home: Path, runs: RunList) -> None:
    written(home, 0, "old").happened(*STARTED)
    for number in range(1, 6):
        written(home, number).happened(*ENDED)

    first = runs.page(limit=2)
    second = runs.page(limit=10, before=first.next)

    assert ids(first) == [run_id(0, "old"), run_id(5), run_id(4)]
    assert first.live == second.live == 1
    assert ids(second) == [run_id(3), run_id(2), run_id(1)]


@pytest.mark.parametrize(
    ("search", "numbers"),
    [
        ("lenet", [2, 0]),
        ("LENET 000000", [0]),
        ("resnet", [1]),
        ("vision.ipynb", [1]),
        ("finished", [2, 1, 0]),
        ("no", []),
    ],
)
def test_a_search_wants_all_its_words(home: Path, runs: RunList, search: str, numbers: list[int]) -> None:
    names = ["lenet", "resnet", "lenet"]
    for number, name in enumerate(names):
        notebook = "/home/ada/vision.ipynb" if name == "resnet" else ""
        written(home, number, name, notebook=notebook).happened(*ENDED)

    assert ids(runs.page(limit=10, search=search)) == [run_id(number, names[number]) for number in numbers]


def test_a_run_that_ends_is_seen(home: Path, runs: RunList) -> None:
    run = written(home, 0).happened(*STARTED)
    before = runs.page(limit=5)
    run.happened(exited(0), exited(1), run_ended(RunState.FINISHED))

    after = runs.page(limit=5)

    assert (before.rows[0].state, before.live) == ("running", 1)
    assert (after.rows[0].state, after.live) == ("finished", 0)


def test_a_run_that_was_lost_is_found_out(home: Path, runs: RunList) -> None:
    gone = ProcessId(pid=2**22 - 1, start_time=1, boot_id="of another boot")
    written(home, 0).happened(supervisor_started(gone, host=os.uname().nodename), *STARTED[1:])

    page = runs.page(limit=5)

    assert (page.rows[0].state, page.live) == ("lost", 0)


def test_a_run_that_cannot_be_read_is_a_row_that_says_so(home: Path, runs: RunList) -> None:
    written(home, 0).happened(*ENDED)
    written(home, 1).directory.spec.write_text("{")
    (RunStore(home).runs / "not-a-run").mkdir()

    page = runs.page(limit=5)

    assert ids(page) == [run_id(1), run_id(0)]
    assert (page.rows[0].state, page.rows[0].headline) == ("lost", "cannot be read: spec.json is damaged")


def test_a_row_says_how_the_run_stands(home: Path, runs: RunList) -> None:
    run = written(home, 0)
    run.happened(*STARTED)
    with run.directory.rank(0).metrics.open("w") as metrics:
        for step in range(1000):
            values = {"accuracy": step / 1000, "loss": 1 / (step + 1)}
            metrics.write(json.dumps({"t": CREATED + step, "step": step, "v": values}) + "\n")

    (row,) = runs.page(limit=5).rows

    assert (row.spark.tag, len(row.spark.values)) == ("loss", 40)
    assert row.spark.values[0] > 0.05
    assert row.spark.values[-1] == 0.001
    assert row.headline == "loss 0.001"
    assert row.devices == ("CPU",)


@pytest.mark.parametrize("origin", ["recorded", "printed"])
def test_a_metric_is_one_number_wherever_it_is_shown(home: Path, runs: RunList, origin: str) -> None:
    run = written(home, 0).happened(*ENDED)
    for rank, loss in enumerate((0.0639, 0.0231)):
        if origin == "recorded":
            run.recorded(rank, loss=4.0).recorded(rank, loss=loss)
        else:
            run.printed(rank, f"step 1 loss: 4.0\nstep 2 loss: {loss}\n")
    charts = Charts(created=CREATED, ranks=(0, 1))
    Measures(run.directory, charts).look(run.run, [], CREATED + 100)

    (row,) = runs.page(limit=1).rows
    chart = charts.all()[0]

    assert row.headline == "loss 0.0435"
    assert "loss=0.0435" in summary_text(run.run, run.directory, "en")
    assert RunHandle(run.directory).metrics() == {"loss": pytest.approx(0.0435)}
    assert chart.last == pytest.approx((0.0435, 0.0231, 0.0639))
    assert chart.columns[2][-1] == pytest.approx(0.0435)


def test_the_numbers_of_a_long_log_are_drawn_from_its_start(home: Path, runs: RunList) -> None:
    run = written(home, 0).happened(*ENDED)
    run.printed(0, "".join(f"step {step} loss: {1 / (step + 1):.6f}\n" for step in range(5_000)))

    (row,) = runs.page(limit=1).rows

    assert (row.spark.values[0], row.headline) == (1.0, "loss 0.0002")
    assert list(row.spark.values) == sorted(row.spark.values, reverse=True)


def test_the_first_failure_is_the_headline(home: Path, runs: RunList) -> None:
    run = written(home, 0)
    run.raised(1, "ValueError", "no such label", time=CREATED + 5)
    run.happened(
        *STARTED, exited(1, 1), exited(0, -15, ended=True), run_ended(RunState.FAILED, "rank 1 failed")
    )

    (row,) = runs.page(limit=5).rows

    assert "ValueError" in row.headline


async def test_a_page_of_the_list_over_http(ask: Ask, home: Path) -> None:
    for number in range(3):
        written(home, number).happened(*ENDED)

    first = json.loads((await ask("api/runs", params={"limit": "2"})).body)
    second = json.loads((await ask("api/runs", params={"before": first["next"]})).body)
    wrong = [
        (await ask("api/runs", params=params)).code
        for params in ({"limit": "0"}, {"limit": "x"}, {"before": "../.."}, {"search": "x" * 201})
    ]

    assert [row["run_id"] for row in (*first["runs"], *second["runs"])] == [run_id(n) for n in (2, 1, 0)]
    assert wrong == [400] * 4


def test_what_is_asked_for_is_told_to_a_page_without_secrets(home: Path) -> None:
    run = written(home, 0, args=("--api-key", "hush", "--lr", "1"), environment={"DB_PASS": "hush"})

    detail = detail_of(run.directory, CREATED)

    assert detail["spec"]["args"] == ("--api-key", "•••", "--lr", "1")
    assert detail["spec"]["environment"] == {"DB_PASS": "•••"}
    assert "hush" in run.directory.spec.read_text()


async def test_the_summary_of_a_run_is_what_a_notebook_keeps_of_it(ask: Ask, home: Path) -> None:
    written(home, 1).happened(*ENDED)
    written(home, 2).happened(*STARTED)

    ended = await ask(f"api/runs/{run_id(1)}/summary", params={"language": "zh"})
    live = await ask(f"api/runs/{run_id(2)}/summary")
    unknown = await ask(f"api/runs/{run_id(1)}/summary", params={"language": "fr"})

    summary = json.loads(ended.body)
    data = summary["data"]
    assert summary["notes"] == []
    assert "nbdist-summary" in data["text/html"]
    assert "已完成" in data["text/plain"]
    assert (live.code, unknown.code) == (409, 400)


@pytest.mark.parametrize("requested", [True, False], ids=["asked for", "its kernel ended"])
def test_a_row_says_whether_a_stop_was_asked_for(home: Path, runs: RunList, requested: bool) -> None:
    ended = RunEnded(time=CREATED + 9, state=RunState.STOPPED, reason=Reason.said("stopped"), leftover=0)
    request = StopRequested(time=CREATED + 8, reason=Reason.said("stopped"), requested=requested)
    written(home, 1, cell_id="a1").happened(*STARTED, request, exited(0), exited(1), ended)

    (row,) = runs.page(limit=1).rows

    assert (row.stopped_as_asked, row.cell_id) == (requested, "a1")


async def test_a_pin_tags_and_a_note_stay_and_bring_an_old_run_to_the_front(ask: Ask, home: Path) -> None:
    for number in range(3):
        written(home, number).happened(*ENDED)
    path, marks = f"api/runs/{run_id(0)}", home / "runs" / run_id(0) / "marks.json"
    await ask("api/runs")

    row = json.loads((await ask(path, "PATCH", {"pinned": True, "tags": ["base line"]})).body)
    again = json.loads((await ask(path, "PATCH", {"note": "warm-up of 500"})).body)
    first = json.loads((await ask("api/runs", params={"limit": "1"})).body)["runs"]
    found = json.loads((await ask("api/runs", params={"search": "WARM-UP base"})).body)["runs"]

    assert (row["pinned"], row["tags"], row["note"]) == (True, ["base line"], "")
    assert (again["tags"], again["note"]) == (["base line"], "warm-up of 500")
    assert [each["run_id"] for each in (*first, *found)] == [run_id(0), run_id(2), run_id(0)]
    assert stat.S_IMODE(marks.stat().st_mode) == 0o600
    for refused in ({"pinned": 1}, {"tags": [""]}, {"tags": "x"}, {"note": "x" * 1001}, {"name": "x"}):
        assert (await ask(path, "PATCH", refused)).code == 400
