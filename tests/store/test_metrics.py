"""The last values that ranks recorded, read back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nbdist.feed.curves import read_curves
from nbdist.store import MetricPoint, MetricsReader
from nbdist.store.metrics import spread
from tests.fakes.directories import WrittenRun


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path / "home")


def values(written: WrittenRun) -> dict[str, float]:
    return {curve.tag: curve.last for curve in read_curves(written.run, written.directory)}


def test_the_last_value_of_each_metric_counts(written: WrittenRun) -> None:
    written.recorded(0, loss=2.0, acc=0.1).recorded(0, loss=1.0).recorded(0, lr=0.01)

    assert values(written) == {"loss": 1.0, "acc": 0.1, "lr": 0.01}


def test_what_ranks_only_print_is_a_metric_too(written: WrittenRun) -> None:
    written.recorded(0, loss=1.0)
    written.printed(0, "step 1 loss: 7.0 acc: 0.25\n").printed(1, "step 1 loss: 3.0 acc: 0.75\n")

    assert values(written) == {"loss": 2.0, "acc": 0.5}


def test_a_rank_that_is_behind_counts_with_its_last_value(written: WrittenRun) -> None:
    written.printed(0, "step 9 loss: 7.0\n").printed(1, "step 4 loss: 3.0\n")

    assert values(written) == {"loss": 5.0}
    assert spread([]) == ()


def test_what_is_no_number_yet_is_kept_as_it_is(written: WrittenRun) -> None:
    written.recorded(0, loss=math.nan, grad=math.inf)

    last = values(written)

    assert math.isnan(last["loss"])
    assert last["grad"] == math.inf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def write(file: Path, *lines: bytes) -> None:
    with file.open("ab") as metrics:
        metrics.write(b"".join(lines))


def test_a_point_says_all_that_its_line_says(file: Path) -> None:
    write(
        file,
        b'{"t": 5.5, "step": 3, "total": 100, "v": {"loss": 0.5, "acc": 1}}\n',
        b'{"t": 6, "v": {"cpu": 99.0}}\n',
    )

    assert MetricsReader(file).read() == [
        MetricPoint(time=5.5, step=3, total=100, values={"loss": 0.5, "acc": 1.0}),
        MetricPoint(time=6.0, step=None, values={"cpu": 99.0}),
    ]


def test_every_point_is_read_once_and_as_soon_as_its_line_is_whole(file: Path) -> None:
    reader = MetricsReader(file)
    assert reader.read() == []

    write(file, b'{"t": 1, "v": {"a": 1}}\n{"t": 2, "v": {"a": 2}}\n')
    assert [point.time for point in reader.read()] == [1, 2]
    assert reader.read() == []

    write(file, b'{"t": 3, "v": {"a": 3}}\n{"t": 4, "v"')
    assert [point.time for point in reader.read()] == [3]

    write(file, b': {"a": 4}}\n')
    assert [point.time for point in reader.read()] == [4]


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b'{"t": 1, "v": {"lo', id="torn"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"null", id="no point"),
        pytest.param(b"5", id="a number"),
        pytest.param(b'{"t": 1}', id="no values"),
        pytest.param(b'{"t": 1, "v": [1, 2]}', id="values without names"),
        pytest.param(b'{"t": 1, "v": {"loss": "low"}}', id="a value that is a word"),
        pytest.param(b'{"t": 1, "v": {"loss": null}}', id="a value that is none"),
        pytest.param(b"{},{}", id="two on a line"),
        pytest.param(b"[" * 100_000, id="nested too deep"),
        pytest.param(b'{"t": "noon", "v": {"a": 1}}', id="no time"),
        pytest.param(b'{"t": 1, "v": {"a": 1' + b"0" * 400 + b"}}", id="a number that is too large"),
        pytest.param(b'{"t": 1, "step": "first", "v": {"a": 1}}', id="a step that is a word"),
        pytest.param(b'{"t": 1, "step": Infinity, "v": {"a": 1}}', id="a step without end"),
    ],
)
def test_what_is_no_point_is_passed_over(file: Path, noise: bytes) -> None:
    write(file, b'{"t": 1, "v": {"a": 1}}\n', noise, b'\n{"t": 2, "v": {"a": 2}}\n')

    assert [point.time for point in MetricsReader(file).read()] == [1, 2]


def test_a_line_that_is_too_long_costs_only_itself(file: Path) -> None:
    # no piece of the file but the first and the last has a point
    write(file, b'{"t": 1, "v": {"a": 1}}\n', b"x" * 1000, b"\nx" * 999, b'\n{"t": 2, "v": {"a": 2}}\n')
    reader = MetricsReader(file)

    assert [point.time for point in (*reader.read(100), *reader.read(100))] == [1, 2]


def test_much_is_read_in_pieces_of_the_size_that_was_asked_for(file: Path) -> None:
    write(file, *(b'{"t": %d, "v": {"a": 1}}\n' % number for number in range(10_000)))
    reader = MetricsReader(file)

    pieces = list(iter(lambda: reader.read(4096), []))

    assert [point.time for piece in pieces for point in piece] == list(range(10_000))
    assert max(map(len, pieces)) < 200
