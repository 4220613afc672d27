"""What is read of a run besides its logs."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from nbdist.panel.charts import Charts
from nbdist.panel.measures import Measures, Prints
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec

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
