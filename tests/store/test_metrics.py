"""The last values that ranks recorded, read back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nbdist.store import last_values
from tests.fakes.directories import WrittenRun


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path / "home")


def values(written: WrittenRun) -> dict[str, float]:
    return last_values(written.run, written.directory)


def test_a_run_that_recorded_nothing_has_no_values(written: WrittenRun) -> None:
    assert values(written) == {}


def test_the_last_value_of_each_metric_counts(written: WrittenRun) -> None:
    written.recorded(0, loss=2.0, acc=0.1).recorded(0, loss=1.0).recorded(0, lr=0.01)

    assert values(written) == {"loss": 1.0, "acc": 0.1, "lr": 0.01}


def test_the_lowest_rank_that_recorded_a_metric_is_heard(written: WrittenRun) -> None:
    written.recorded(1, loss=9.0, only_of_rank_1=5.0).recorded(0, loss=1.0)

    assert values(written) == {"loss": 1.0, "only_of_rank_1": 5.0}


def test_what_is_no_number_yet_is_kept_as_it_is(written: WrittenRun) -> None:
    written.recorded(0, loss=math.nan, grad=math.inf)

    found = values(written)

    assert math.isnan(found["loss"])
    assert found["grad"] == math.inf


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"t": 1, "v": {"lo', id="torn"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"5", id="a number"),
        pytest.param(b'{"t": 1}', id="no values"),
        pytest.param(b'{"v": [1, 2]}', id="values without names"),
        pytest.param(b'{"v": {"loss": "low"}}', id="a value that is a word"),
        pytest.param(b'{"v": {"loss": null}}', id="a value that is none"),
    ],
)
def test_a_damaged_line_costs_only_itself(written: WrittenRun, line: bytes) -> None:
    written.recorded(0, loss=1.0, acc=0.5)
    with written.directory.rank(0).metrics.open("ab") as metrics:
        metrics.write(line + b"\n")
    written.recorded(0, acc=0.75)

    assert values(written) == {"loss": 1.0, "acc": 0.75}


def test_a_long_run_is_read_from_its_end(written: WrittenRun) -> None:
    with written.directory.rank(0).metrics.open("w") as metrics:
        metrics.writelines(f'{{"t": {n}, "v": {{"loss": {n}}}}}\n' for n in range(20_000))

    assert values(written) == {"loss": 19_999.0}
