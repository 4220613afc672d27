"""TensorBoard reads what nbdist logged: by its own reader, and in its own application."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdist.worker import records
from nbdist.worker.records import FILE_NAME

if TYPE_CHECKING:
    from nbdist.store import RunDirectory
    from tests.board.conftest import Home, Visitor


def data(visitor: Visitor, run: RunDirectory, path: str) -> Any:
    answer = visitor.get(f"tensorboard/{run.run_id}/data/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json


def test_tensorboard_s_own_reader_reads_the_events(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from nbdist.board import tensorboard

    values = [1.5, -math.inf, 1e-30]
    frames = [tensorboard.first_frame()]
    for step, value in enumerate(values):
        frame = records.encode_scalar(
            tag="train/loss", step=step, value=value, milliseconds=1_763_712_345_125
        )
        for one in tensorboard.values_of(frame[8:]):
            frames += tensorboard.event_frames(one)
    (tmp_path / tensorboard.FILE_NAME).write_bytes(b"".join(frames))

    # it checks both checksums of each frame
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()

    events = accumulator.Scalars("train/loss")
    assert [(event.step, event.wall_time) for event in events] == [(n, 1_763_712_345.125) for n in range(3)]
    assert [event.value for event in events[:2]] == values[:2]
    assert math.isclose(events[2].value, values[2], rel_tol=1e-6)


def test_tensorboard_shows_the_points_of_each_rank(visitor: Visitor, home: Home) -> None:
    run = home.run()
    for rank in (0, 1):
        home.log(run, *(home.point(step, loss=step + rank) for step in range(5)), rank=rank)

    tags = data(visitor, run, "plugin/scalars/tags")

    assert {"rank0", "rank1"} <= set(tags)
    assert "loss" in tags["rank1"]
    points = data(visitor, run, "plugin/scalars/scalars?run=rank1&tag=loss")
    assert [(step, value) for _, step, value in points] == [(n, n + 1.0) for n in range(5)]


def test_what_ranks_show_is_with_their_scalars(visitor: Visitor, home: Home) -> None:
    run = home.run()
    home.log(
        run, home.point(0, loss=1), {"t": 1, "v": {"loss": 2}, "hparams": {"lr": 0.1}, "metrics": ["loss"]}
    )
    counts = [[3, 2], [1, 0], [0, 1], [0, 1]]
    shown = {
        "image": records.encode("i", 1, 1, records.image(b"\x89PNG\r\n\x1a\n" + bytes(16))),
        "text": records.encode("t", 1, 1, records.text("hello")),
        "histogram": records.encode("h", 1, 1, records.histogram(counts=[1, 2], edges=[0, 1, 2])),
        "pr_curve": records.encode("p", 1, 1, records.pr_curve(counts=counts, rates=[[1, 0.5], [1, 0]])),
    }
    for kind, frame in shown.items():
        folder = run.board / f"rank0.{kind}"
        folder.mkdir(parents=True)
        (folder / FILE_NAME).write_bytes(records.encode_name(kind, milliseconds=1) + frame)

    for plugin, tag in (("images", "i"), ("text", "t"), ("histograms", "h"), ("pr_curves", "p")):
        assert tag in data(visitor, run, f"plugin/{plugin}/tags")["rank0"], plugin
    assert data(visitor, run, "runs") == ["rank0"]


def test_points_that_come_later_are_shown(visitor: Visitor, home: Home) -> None:
    from tests.board.test_board_patches import eventually

    run = home.run()
    home.log(run, home.point(0, loss=1))
    data(visitor, run, "runs")

    home.log(run, home.point(1, loss=2))

    path = "plugin/scalars/scalars?run=rank0&tag=loss"
    eventually(lambda: [step for _, step, _ in data(visitor, run, path)], [0, 1])


def test_no_directory_is_shown(visitor: Visitor, home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1))

    assert str(home.path) not in visitor.get(f"tensorboard/{run.run_id}/data/environment").text


def test_tensorboard_is_behind_the_token_like_visualdl(visitor: Visitor, home: Home) -> None:
    run = home.run()

    answer = visitor.get(f"tensorboard/{run.run_id}/", host="example.org")

    assert answer.status_code == 403
    assert visitor.get("tensorboard/nothing/").status_code == 404
