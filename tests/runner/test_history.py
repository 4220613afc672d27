"""Every point of a run's metrics in one table, which agrees with the other views of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import nbdist
from nbdist.feed.charts import Charts
from nbdist.feed.measures import Measures
from nbdist.runner import RunHandle

pytestmark = pytest.mark.usefixtures("leaves_nothing")

LOGGING = """
import os, nbdist
rank = int(os.environ["RANK"])
for step in range(3):
    nbdist.log(step=10 * step, loss=1 / (1 + step) + rank)
    nbdist.log(lr=0.5)
    print(f"step {step}/3 val_acc: {0.25 * step + rank} loss: 99.0")
"""


def charted(handle: RunHandle) -> dict[str, Any]:
    """The last value of each chart of the run, as a panel shows it."""
    run = handle.run
    charts = Charts(created=run.spec.created, ranks=[rank.rank for rank in run.ranks])
    measures = Measures(handle.directory, charts)
    measures.look(run, (), run.ended or 0.0)
    measures.finish(run)
    return {chart.tag: chart for chart in charts.all() if chart.group == "metric"}


def test_every_point_is_a_row_of_its_rank(run_cell) -> None:
    handle = run_cell("-n 2", LOGGING)

    history = handle.history()

    assert list(history.columns) == ["rank", "step", "tag", "value", "time"]
    rows = {(row.rank, row.tag): [] for row in history.itertuples()}
    for row in history.itertuples():
        rows[row.rank, row.tag].append((row.step, row.value))
    assert rows[0, "loss"] == [(0, 1.0), (10, 0.5), (20, pytest.approx(1 / 3))]
    assert rows[1, "lr"] == [(0, 0.5), (1, 0.5), (2, 0.5)]
    assert rows[1, "val_acc"] == [(0, 1.0), (1, 1.25), (2, 1.5)]
    assert len(rows) == 6
    assert history.time.between(handle.run.spec.created, handle.run.ended).all()


def test_history_metrics_and_charts_agree(run_cell) -> None:
    handle = run_cell("-n 2", LOGGING)

    history, charts = handle.history(), charted(handle)
    last = history.groupby(["tag", "rank"], sort=False).value.last().groupby("tag").mean().to_dict()

    assert handle.metrics() == pytest.approx(last)
    assert {tag: chart.last[0] for tag, chart in charts.items()} == pytest.approx(last)
    for tag, chart in charts.items():
        steps = sorted(set(history[history.tag == tag].step))
        assert list(chart.columns[0]) == steps


def test_some_tags_alone_and_a_run_without_any(run_cell) -> None:
    handle = run_cell("-n 1", LOGGING)
    silent = run_cell("-n 1 --no-scrape", "print('loss: 0.5')")

    assert set(handle.history("loss", "lr").tag) == {"loss", "lr"}
    assert len(handle.history("no such")) == 0
    assert len(silent.history()) == 0
    assert str(silent.history().dtypes["step"]) == "int64"


def test_several_runs_are_one_table(run_cell) -> None:
    first, second = (
        run_cell("-n 1", f"import nbdist\nnbdist.log(step=3, loss={loss})") for loss in (0.5, 0.25)
    )

    both = nbdist.history([first, second.run_id], "loss")

    assert list(both.columns) == ["run", "rank", "step", "tag", "value", "time"]
    rows = both[["run", "step", "value"]].itertuples(index=False, name=None)
    assert list(rows) == [(first.run.label, 3, 0.5), (second.run.label, 3, 0.25)]
    assert {first.run.spec.versions["nbdist"], nbdist.__version__} == {nbdist.__version__}


def test_without_pandas_it_says_what_to_install(run_cell) -> None:
    handle = run_cell("-n 1", LOGGING)

    program = f"""
import sys, nbdist
run = nbdist.attach({handle.run_id!r})
run.metrics(), run.results
assert "pandas" not in sys.modules
sys.modules["pandas"] = None
try: run.history()
except Exception as error: print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("UsageMistake run.history() makes a DataFrame, and pandas is not installed")
