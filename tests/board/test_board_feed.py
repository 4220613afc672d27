"""Lines of ranks turned into VisualDL's records, each once, whatever the file looks like."""

from __future__ import annotations

import json
import math
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from visualdl.proto.record_pb2 import Record

from nbdist.board.readers import sources
from nbdist.board.record_files import split
from nbdist.board.scalars import Feed
from nbdist.model import RunState
from nbdist.worker.records import FILE_NAME
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, exited, run_ended

if TYPE_CHECKING:
    from tests.board.conftest import Home


def records(writer: Path) -> list[Record.Value]:
    content = (writer / FILE_NAME).read_bytes()
    return [Record.FromString(message).values[0] for message, _ in split(content)]


def points(writer: Path) -> list[tuple[str, int, float]]:
    return [(v.tag, v.id, v.value) for v in records(writer)[1:]]


def tag_points(writer: Path, tag: str) -> list[tuple[int, float]]:
    return [(step, value) for name, step, value in points(writer) if name == tag]


def test_points_become_records_of_the_rank(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1.5), home.point(3, loss=0.5, acc=0.25))
    home.log(run, home.point(0, loss=2.0), rank=11)

    Feed().advance(run)

    assert points(run.board / "rank0") == [("loss", 0, 1.5), ("loss", 3, 0.5), ("acc", 3, 0.25)]
    assert points(run.board / "rank11") == [("loss", 0, 2.0)]
    assert {v.timestamp for v in records(run.board / "rank0")} == {1763712345125}


def test_the_points_of_all_ranks_come_before_what_they_print(home: Home) -> None:
    run = home.run()
    for rank in range(12):
        home.log(run, home.point(0, loss=1.5), rank=rank)
    listed = sources(run, printed=True)

    assert [source.rank for source in listed[:12]] == list(range(12))
    assert not any(source.printed or source.system for source in listed[:12])
    assert len(listed) == 36


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
    assert len({records(w)[0].meta_data.display_name for w in writers}) == len(writers) == 12


def test_a_torn_last_line_waits_for_its_end(home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1), '{"t": 1, "step": 1, "v": {"lo')
    feed = Feed()
    feed.advance(run)
    assert points(run.board / "rank0") == [("loss", 0, 1)]
    before = (run.board / "rank0" / FILE_NAME).read_bytes()

    home.log(run, 'ss": 2}}\n')
    feed.advance(run)

    assert (run.board / "rank0" / FILE_NAME).read_bytes().startswith(before)
    assert points(run.board / "rank0") == [("loss", 0, 1), ("loss", 1, 2)]


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


def test_a_later_attempt_has_curves_of_its_own(home: Home) -> None:
    run = home.run()
    for attempt, losses in ((1, (1, 2)), (2, (3,))):
        for rank in (0, 1):
            lines = (home.point(step, loss=loss) for step, loss in enumerate(losses))
            home.log(run, *lines, rank=rank, attempt=attempt)

    Feed().advance(run)

    for curve in ("rank0", "mean"):
        assert points(run.board / curve) == [("loss", 0, 1), ("loss", 1, 2)]
        assert points(run.board / f"{curve}.attempt-2") == [("loss", 0, 3)]


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


def test_seconds_a_step_are_reckoned_from_the_times_of_the_points(home: Home) -> None:
    run = home.run()
    home.log(
        run,
        home.point(10, t=100.0, loss=1),
        home.point(10, t=100.5, acc=1),  # the same step
        home.point(14, t=102.0, loss=1),
        home.point(1, t=103.0, val=1),  # an evaluation counts epochs
        home.point(15, t=106.0, loss=1),
    )

    Feed().advance(run)

    assert tag_points(run.board / "rank0", "system/step_time") == [(14, 0.5), (15, 4.0)]


def test_what_the_supervisor_measured_is_shown_with_the_rank(home: Home) -> None:
    run = home.run()
    metrics = home.log(run, home.point(0, loss=1))
    lines = [home.point(None, t=100.0 + 2.1 * n, cpu=50 + n, gpu=None, memory_total=9) for n in range(3)]
    (metrics.parent / "system.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    Feed().advance(run)

    assert tag_points(run.board / "rank0", "system/cpu") == [(0, 50), (2, 51), (4, 52)]
    assert tag_points(run.board / "rank0", "loss") == [(0, 1)]
    assert {tag for tag, _, _ in points(run.board / "rank0")} == {"loss", "system/cpu"}


def test_the_ranks_together_have_a_mean_a_lowest_and_a_highest(home: Home) -> None:
    run = home.run()
    for rank in range(3):
        home.log(run, *(home.point(step, loss=step + rank, only=0) for step in range(5)), rank=rank)
    home.log(run, home.point(9, lr=0.5), rank=1)

    Feed().advance(run)

    expected = {"mean": 1, "min": 0, "max": 2}
    for name, offset in expected.items():
        assert tag_points(run.board / name, "loss") == [(step, step + offset) for step in range(5)]
        assert tag_points(run.board / name, "lr") == []


def test_a_live_run_waits_for_ranks_that_may_still_begin(home: Home) -> None:
    run, now = home.run(), 1000.0
    for rank in range(2):
        home.log(run, home.point(0, t=now, loss=rank), rank=rank)
    feed = Feed(clock=lambda: now)

    feed.advance(run)
    assert not (run.board / "mean").exists()

    now += 60
    feed.advance(run)
    assert tag_points(run.board / "mean", "loss") == [(0, 0.5)]


def test_an_ended_run_is_told_at_once(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED)
    for rank in range(2):
        written.recorded(rank, loss=rank)
    written.recorded(0, loss=7)
    feed = Feed(clock=lambda: CREATED)
    feed.advance(written.directory)

    # both ranks have begun, so nobody else is waited for; but the second point is that of one rank
    assert tag_points(written.directory.board / "mean", "loss") == [(0, 0.5)]
    written.recorded(1, loss=9)
    written.happened(exited(0), exited(1), run_ended(RunState.FINISHED))
    feed.advance(written.directory)
    assert tag_points(written.directory.board / "mean", "loss") == [(0, 0.5), (1, 8.0)]


def test_a_run_of_one_rank_has_that_rank_alone(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path, a_spec(ranks=1)).recorded(0, loss=1)

    Feed().advance(written.directory)

    assert [path.name for path in written.directory.board.iterdir()] == ["rank0"]


def test_hyperparameters_stand_beside_the_scalars_they_are_judged_by(home: Home) -> None:
    run = home.run()
    home.log(
        run,
        {"t": 1, "v": {}, "hparams": {"lr": 0.1, "name": "net"}, "metrics": ["loss"]},
        home.point(0, loss=1),
        {"t": 2, "v": {"loss": 5}, "hparams": {"lr": 0.2}, "metrics": ["loss"]},
    )

    Feed().advance(run)

    (first,) = (v.hparam for v in records(run.board / "rank0") if v.WhichOneof("one_value") == "hparam")
    assert [info.name for info in first.hparamInfos] == ["lr", "name"]
    assert [info.name for info in first.metricInfos] == ["loss"]
    further = records(run.board / "rank0.hparams-2")
    assert further[1].hparam.hparamInfos[0].float_value == 0.2
    assert [(v.tag, v.value) for v in further[2:]] == [("loss", 5)]


TRAINING = "Epoch [1/1], Step [10/40], Loss: 0.5\nloading data\nEpoch [1/1], Step [20/40], Loss: 0.25\n"


def test_what_a_rank_only_prints_becomes_records(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED).printed(0, TRAINING)

    feed = Feed()
    feed.advance(run.directory)
    run.printed(0, "Epoch [1/1], Step [30/40], Loss: 0.125\n")
    feed.advance(run.directory)

    assert points(run.directory.board / "rank0") == [
        ("loss", 10, 0.5),
        ("loss", 20, 0.25),
        ("loss", 30, 0.125),
    ]


def test_what_a_rank_records_is_not_read_from_its_prints_too(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path).happened(*STARTED).recorded(0, loss=0.4996)
    run.printed(0, TRAINING.replace("\n", " acc: 0.9\n"))

    Feed().advance(run.directory)

    assert points(run.directory.board / "rank0") == [("loss", 0, pytest.approx(0.4996))] + [
        ("acc", step, pytest.approx(0.9)) for step in (10, 20)
    ]


def test_a_run_may_ask_that_its_prints_are_left_alone(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, a_spec(scrape=False)).happened(*STARTED).printed(0, TRAINING)

    Feed().advance(run.directory)

    assert not (run.directory.board / "rank0").exists()
