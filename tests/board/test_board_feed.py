"""What ranks log reaches VisualDL's records once, whatever the file looks like."""

from __future__ import annotations

import math
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from visualdl.proto.record_pb2 import Record

from nbdist.board.feed import Feed
from nbdist.board.records import FILE_NAME, split

if TYPE_CHECKING:
    from tests.board.conftest import Home


def records(writer: Path) -> list[Record.Value]:
    content = (writer / FILE_NAME).read_bytes()
    return [Record.FromString(message).values[0] for message, _ in split(content)]


def points(writer: Path) -> list[tuple[str, int, float]]:
    return [(v.tag, v.id, v.value) for v in records(writer)[1:]]


def test_points_become_records_of_the_rank(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1.5), home.point(3, loss=0.5, acc=0.25))
    home.log(run, home.point(0, loss=2.0), rank=11)

    Feed().advance(run)

    assert points(run.board / "rank0") == [("loss", 0, 1.5), ("loss", 3, 0.5), ("acc", 3, 0.25)]
    assert points(run.board / "rank11") == [("loss", 0, 2.0)]
    assert {v.timestamp for v in records(run.board / "rank0")} == {1763712345125}


def test_every_writer_has_a_name_of_its_own(home: Home) -> None:
    runs = [home.run("20261120-141503-lenet-k3f9"), home.run("20261120-141504-lenet-p2x7")]
    for run in runs:
        for rank in (0, 1):
            home.log(run, home.point(0, loss=1), rank=rank)
        home.log(run, home.point(0, loss=1), attempt=2)

    feed = Feed()
    for run in runs:
        feed.advance(run)

    writers = [writer for run in runs for writer in run.board.iterdir()]
    assert len({records(w)[0].meta_data.display_name for w in writers}) == len(writers) == 6


def test_what_is_logged_later_is_appended(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1))
    feed = Feed()
    feed.advance(run)
    before = (run.board / "rank0" / FILE_NAME).read_bytes()

    home.log(run, home.point(1, loss=2))
    feed.advance(run)

    after = (run.board / "rank0" / FILE_NAME).read_bytes()
    assert after.startswith(before)
    assert points(run.board / "rank0") == [("loss", 0, 1), ("loss", 1, 2)]


def test_a_torn_last_line_waits_for_its_end(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1), '{"t": 1, "step": 1, "v": {"lo')
    feed = Feed()
    feed.advance(run)
    assert points(run.board / "rank0") == [("loss", 0, 1)]

    home.log(run, 'ss": 2}}\n')
    feed.advance(run)

    assert points(run.board / "rank0") == [("loss", 0, 1), ("loss", 1, 2)]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("\n", id="empty"),
        pytest.param("Traceback (most recent call last):\n", id="no JSON"),
        pytest.param("[1, 2]\n", id="a list"),
        pytest.param('{"step": 1, "v": {"loss": 1}}\n', id="no time"),
        pytest.param('{"t": NaN, "step": 1, "v": {"loss": 1}}\n', id="no such time"),
        pytest.param('{"t": 1, "step": 1, "v": 7}\n', id="values that are none"),
        pytest.param('{"t": 1, "step": 1, "v": {"loss": "low", "acc": null}}\n', id="no number"),
        pytest.param('{"t": 1, "step": 1, "v": {"": 1}}\n', id="no name"),
        pytest.param("\0" * 4096 + "\n", id="zeros after a crash"),
        pytest.param("[" * 100_000 + "\n", id="nested without end"),
        pytest.param("x" * 3_000_000 + "\n", id="longer than what is read at once"),
    ],
)
def test_a_line_that_is_no_metric_is_left_out(home: Home, line: str) -> None:
    run = home.run()
    home.log(run, line, home.point(5, loss=1), line, home.point(6, loss=2))

    Feed().advance(run)

    assert points(run.board / "rank0") == [("loss", 5, 1), ("loss", 6, 2)]
    assert records(run.board / "rank0")[0].WhichOneof("one_value") == "meta_data"


def test_a_new_feed_writes_the_same_bytes_again(home: Home) -> None:
    run = home.run()
    home.log(run, *(home.point(step, loss=step) for step in range(1000)), home.point(None, acc=1))
    Feed().advance(run)
    before = (run.board / "rank0" / FILE_NAME).read_bytes()

    Feed().advance(run)

    assert (run.board / "rank0" / FILE_NAME).read_bytes() == before
    assert [p.name for p in (run.board / "rank0").iterdir()] == [FILE_NAME]


def test_points_without_a_step_are_counted_for_each_tag(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(None, loss=1), home.point(None, loss=2, acc=3), home.point(9, loss=4))
    feed = Feed()
    feed.advance(run)

    home.log(run, home.point(None, loss=5, acc=6))
    feed.advance(run)

    assert points(run.board / "rank0") == [
        ("loss", 0, 1),
        ("loss", 1, 2),
        ("acc", 0, 3),
        ("loss", 9, 4),
        ("loss", 10, 5),
        ("acc", 1, 6),
    ]


def test_values_that_no_float_holds_become_infinite(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, a=math.inf, b=-math.inf, c=1e300, d=-(10**400)), home.point(1, a=math.nan))

    Feed().advance(run)

    values = [value for _, _, value in points(run.board / "rank0")]
    assert values[:4] == [math.inf, -math.inf, math.inf, -math.inf]
    assert math.isnan(values[4])


def test_a_percent_sign_is_kept_out_of_tags(home: Home) -> None:
    run = home.run()
    home.log(run, {"t": 1, "step": 0, "v": {"eval/acc%": 1}})

    Feed().advance(run)

    assert points(run.board / "rank0") == [("eval/acc_", 0, 1)]


def test_a_later_attempt_has_curves_of_its_own(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1), home.point(1, loss=2))
    home.log(run, home.point(0, loss=3), attempt=2)

    Feed().advance(run)

    assert points(run.board / "rank0") == [("loss", 0, 1), ("loss", 1, 2)]
    assert points(run.board / "rank0.attempt-2") == [("loss", 0, 3)]


def test_a_deleted_run_stays_deleted(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1))
    feed = Feed()
    feed.advance(run)
    shutil.rmtree(run.path)

    feed.advance(run)

    assert not run.path.exists()


def test_deleted_records_are_made_again(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1))
    feed = Feed()
    feed.advance(run)
    shutil.rmtree(run.board)
    home.log(run, home.point(1, loss=2))

    feed.advance(run)
    feed.advance(run)

    assert points(run.board / "rank0") == [("loss", 0, 1), ("loss", 1, 2)]


def test_after_a_full_disk_no_point_is_missing_or_twice(home: Home) -> None:
    run = home.run()
    home.log(run, *(home.point(None, loss=i) for i in range(100)))
    feed = Feed()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        feed.advance(run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (run.board / "rank0" / FILE_NAME).stat().st_size == 1000

    feed.advance(run)

    assert points(run.board / "rank0") == [("loss", i, i) for i in range(100)]
