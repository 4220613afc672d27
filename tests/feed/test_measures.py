"""A run's metrics and figures besides its logs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from nbdist.feed.charts import Charts
from nbdist.feed.measures import FailureWatch, Measures, Prints
from nbdist.feed.view import view_of
from nbdist.model import RunState
from nbdist.store.step_records import PARTS
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, run_ended

TRAINING = "Epoch [1/1], Step [10/40], Loss: 0.5\nEpoch [1/1], Step [20/40], Loss: 0.25\n"


def tags(run: WrittenRun) -> list[str]:
    charts = Charts(created=CREATED, ranks=(0, 1))
    Measures(run.directory, charts).look(run.run, [], CREATED + 10)
    return [chart.tag for chart in charts.all()]


def test_what_a_rank_only_prints_is_a_chart(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED).printed(0, TRAINING)

    assert tags(run) == ["loss"]


def test_what_a_rank_records_is_not_read_from_its_prints_too(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED).recorded(0, loss=0.4996).printed(0, TRAINING)
    charts = Charts(created=CREATED, ranks=(0, 1))
    Measures(run.directory, charts).look(run.run, [], CREATED + 10)

    (loss,) = charts.all()

    assert [float(value) for value in loss.columns[2]] == [pytest.approx(0.4996)]


def test_a_log_that_is_all_numbers_takes_a_small_part_of_a_core(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED)
    prints = Prints(itertools.count(0.0, 0.01).__next__)
    prints.begin({0: run.directory.rank(0)})
    run.printed(0, TRAINING)
    assert [rank for rank, _ in prints.next(CREATED)] == [0]

    run.printed(0, "Epoch [1/1], Step [30/40], Loss: 0.2\n")

    assert list(prints.next(CREATED + 0.1)) == [], "0.01 s of a core were used: 0.2 s are to pass"
    assert [rank for rank, _ in prints.next(CREATED + 0.3)] == [0]


def test_prints_of_many_ranks_are_read_in_turns_so_that_their_lines_need_not_wait(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, a_spec(ranks=3))
    prints = Prints(itertools.count(0.0, 0.02).__next__)
    prints.begin({rank: run.directory.rank(rank) for rank in range(3)})
    for rank in range(3):
        run.printed(rank, TRAINING)

    turns = []
    for look in range(3):
        turns.append([rank for rank, _ in prints.next(CREATED + look / 10)])
        assert prints.begun == (look < 2)

    assert turns == [[0], [1], [2]]
    assert list(prints.next(CREATED + 0.3)) == [], "all three turns count"


def test_a_run_may_ask_that_its_prints_are_left_alone(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, a_spec(scrape=False)).happened(*STARTED).printed(0, TRAINING)

    assert tags(run) == []


def test_a_run_that_has_ended_is_measured_on_the_whole(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED)
    files = run.directory.rank(0)
    used = [(2e9, 50.0, 10.0), (8e9, 150.0, 30.0), (1e9, 100.0, 20.0)]
    files.system.write_text(
        "".join(
            json.dumps({"t": CREATED + at, "v": {"memory": memory, "cpu": cpu, "wait": wait}}) + "\n"
            for at, (memory, cpu, wait) in enumerate(used)
        )
    )
    files.metrics.write_text(
        "".join(
            json.dumps({"t": CREATED + at / 2, "step": at, "v": {"loss": 1.0}}) + "\n" for at in range(11)
        )
    )
    run.happened(exited(0), exited(1), run_ended(RunState.FINISHED))
    measures = Measures(run.directory)

    while True:
        measures.look(run.run, [], CREATED + 600)
        if not measures.behind:
            break

    ended = view_of(
        run.run, now=CREATED + 600, system=measures.system, rates=measures.rates(CREATED + 600)
    ).ranks
    assert [(rank.memory, rank.cpu, rank.wait, rank.rate) for rank in ended] == [
        (8_000_000_000, 100.0, 20.0, 2.0),
        (None, None, None, None),
    ]


def test_one_sample_of_what_a_rank_waits_is_not_believed_at_once(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED)
    used = ({"wait": 20.0}, {"wait": 70.0}, {"cpu": 1.0})
    points = (json.dumps({"t": CREATED + at, "v": values}) + "\n" for at, values in enumerate(used))
    run.directory.rank(0).system.write_text("".join(points))
    measures = Measures(run.directory)

    measures.look(run.run, [], CREATED + 4)

    assert measures.system[0].values == {"wait": 30.0, "cpu": 1.0}


@pytest.mark.parametrize("ended", [False, True])
def test_ranks_that_record_their_steps_wait_as_long_as_the_bar_says(tmp_path: Path, ended: bool) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED)
    for rank, wait in enumerate((1.5, 0.1)):
        files = run.directory.rank(rank)
        parts = dict.fromkeys(PARTS, 0.0) | {"wait": wait, "forward": 2.0 - wait}
        counts = {"steps": 40, "samples": 40, "fetches": 40, "backwards": 40}
        division = counts | {"seconds": 2.0, "parts": parts}
        record = {"time": CREATED + 8, "total": division, "recent": division, "facts": {"device": "cpu"}}
        files.steps.write_text(json.dumps(record))
        imports = {"t": CREATED + 4, "v": {"wait": 0.0, "memory": 1e9}}
        files.system.write_text(json.dumps(imports) + "\n")
    if ended:
        run.happened(exited(0), exited(1), run_ended(RunState.FINISHED))
    measures = Measures(run.directory)
    now = CREATED + (60 if ended else 9)

    measures.look(run.run, [], now)
    rates, training = measures.rates(now), measures.training
    view = view_of(run.run, now=now, system=measures.system, rates=rates, training=training)

    assert [(rank.rate, rank.wait) for rank in view.ranks] == [(20.0, 75.0), (20.0, 5.0)]


def test_a_failure_comes_with_its_exception_its_cause_and_its_fix(tmp_path: Path) -> None:
    frames = [(a_spec().program, 3, "<module>", "batch = iter(loader)")]
    values = [(a_spec().program, 3, "loader", "None")]
    run = WrittenRun(tmp_path).raised(
        1,
        "torch.OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
        frames=frames,
        operands=values,
    )

    failure = FailureWatch(run.directory).look(run.happened(*STARTED, errored(1), exited(1, 1)).run)

    assert failure is not None
    assert failure.message.startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert failure.headline.startswith("rank 1 failed first: OutOfMemoryError")
    assert failure.headline_zh.startswith("进程 1 最先失败：OutOfMemoryError")
    assert all([failure.cause, failure.cause_zh, failure.fix, failure.fix_zh])
    assert [note.text for note in failure.notes] == ["values at line 3: loader = None"]


def test_a_failure_in_a_module_comes_with_the_calls_that_led_there(tmp_path: Path) -> None:
    helpers = tmp_path / "helpers.py"
    helpers.write_text("".join(f"line_{number}()\n" for number in range(1, 12)))
    torch = "/usr/lib/python3/site-packages/torch/nn.py"
    frames = [(a_spec().program, 3, "<module>", "train()"), (str(helpers), 9, "train", "line_9()")]
    frames += [(torch, 99, "call", "fn()"), *[(str(helpers), 5, "step", "line_5()")] * 3]
    run = WrittenRun(tmp_path / "runs").raised(1, "ValueError", "bad batch", frames=frames)

    failure = FailureWatch(run.directory).look(run.happened(*STARTED, errored(1), exited(1, 1)).run)

    assert failure is not None
    assert [(call.path, call.line, call.first, call.source.count("\n")) for call in failure.calls] == [
        ("", 3, 3, 0),
        (str(helpers), 9, 7, 4),
        (str(helpers), 5, 3, 4),
    ]
