"""The points of a rank's log, each of them once, at their steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.store import LogTimes
from nbdist.store.logs import RECORD
from nbdist.store.metrics import MetricPoint
from nbdist.store.scraped.log import ScrapedMetrics, merge_points

SAMPLES = Path(__file__).parent / "samples"
LATER = 4e9  # long after any of these logs was written


def all_points(scraped: ScrapedMetrics) -> list[MetricPoint]:
    """Read to the end, and until the last states have been left alone for long enough."""
    points: list[MetricPoint] = []
    for _ in range(3):
        while more := scraped.read():
            points += more
    return points


def points_of(log: Path) -> list[MetricPoint]:
    return all_points(ScrapedMetrics(log, clock=lambda: LATER))


def curve(points: list[MetricPoint], tag: str) -> list[tuple[int | None, float]]:
    return [(point.step, point.values[tag]) for point in points if tag in point.values]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def printed(log: Path, text: str) -> list[MetricPoint]:
    log.write_text(text, newline="")
    return points_of(log)


FIT = {
    "loss": list(
        zip(range(5, 45, 5), (5.0046, 2.0787, 1.7778, 1.6014, 0.8448, 0.4917, 0.2611, 0.1247), strict=True)
    ),
    "eval_loss": [(20, 1.319), (40, 0.1534)],
    "eval_acc_top1": [(20, 0.7812), (40, 1.0)],
}
LIGHTNING = {
    "train_loss": list(
        zip(range(2, 22, 2), (3.49, 1.41, 1.87, 1.2, 1.17, 1.55, 0.635, 0.833, 0.539, 0.532), strict=True)
    ),
    "val_loss": [(10, 1.33), (20, 0.609), (21, 0.6248418688774109)],
}


@pytest.mark.parametrize(
    ("sample", "curves"),
    [
        pytest.param("paddle-fit-lines", FIT, id="paddle's fit, a line each time"),
        pytest.param("paddle-fit-bars", FIT, id="paddle's fit, a bar"),
        pytest.param(
            "paddle-launch",
            {"loss": [(5, 4.5388), (10, 2.2435), (15, 1.8455), (20, 1.2492)]},
            id="behind paddle's launcher",
        ),
        pytest.param("lightning", LIGHTNING, id="Lightning"),
        pytest.param(
            "transformers",
            {
                "loss": [(3, 0.6933), (6, 0.6927), (9, 0.6932), (12, 0.6926), (15, 0.693), (18, 0.693)],
                "eval_loss": [(10, 0.6934), (20, 0.6931)],
                "train_loss": [(20, 0.693)],
            },
            id="Hugging Face, whose steps stand in its bar",
        ),
        pytest.param("keras", {"val_loss": [(20, 0.8934), (40, 0.7691)]}, id="Keras"),
    ],
)
def test_the_curves_of_a_library_come_out(sample: str, curves: dict[str, list[tuple[int, float]]]) -> None:
    points = points_of(SAMPLES / f"{sample}.log")

    for tag, expected in curves.items():
        assert curve(points, tag) == expected


def test_the_steps_of_bars_count_on_from_one_to_the_next() -> None:
    points = points_of(SAMPLES / "tqdm.log")

    steps = [step for step, _ in curve(points, "loss")]
    assert steps == sorted(set(steps), key=lambda step: step or 0)
    assert {60, 120} <= set(steps)
    assert curve(points, "acc")[-1] == (120, 0.795)
    assert curve(points, "val_loss")[-1][0] == 190


def test_libraries_and_configurations_make_no_points() -> None:
    assert points_of(SAMPLES / "ordinary.log") == []


@pytest.mark.parametrize(
    "sample", ["paddle-fit-bars", "lightning", "transformers", "keras", "tqdm", "torch-prints"]
)
@pytest.mark.parametrize("size", [1, 7, 300])
def test_the_points_do_not_depend_on_how_the_log_is_cut(log: Path, sample: str, size: int) -> None:
    data = (SAMPLES / f"{sample}.log").read_bytes()[:6000]
    log.write_bytes(data)
    whole = points_of(log)
    log.write_bytes(b"")
    scraped = ScrapedMetrics(log, clock=lambda: 0.0)

    points: list[MetricPoint] = []
    with log.open("ab", buffering=0) as file:
        for at in range(0, len(data), size):
            file.write(data[at : at + size])
            while more := scraped.read():
                points += more
    scraped._clock = lambda: LATER
    points += all_points(scraped)

    assert [(p.step, p.values, p.total) for p in points] == [(p.step, p.values, p.total) for p in whole]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        pytest.param("step 3 loss 1.0\nstep 9 loss 0.5\n", [3, 9], id="as they are told"),
        pytest.param("loss 1.0\nloss 0.5\nloss 0.2\n", [0, 1, 2], id="counted where none is told"),
        pytest.param(
            "".join(f"epoch {e} batch {b} loss 0.{e}{b}\n" for e in (0, 1) for b in (0, 40, 80)),
            [0, 40, 80, 120, 160, 200],
            id="epochs of unknown length, from 0",
        ),
        pytest.param(
            "".join(f"epoch: {e}, batch_id: {b}, loss is: 0.{e}{b}\n" for e in (0, 1) for b in (10, 20, 30)),
            [10, 20, 30, 40, 50, 60],
            id="epochs of unknown length, from their first line",
        ),
        pytest.param(
            "".join(f"Epoch [{e}/3], Step [{b}/938], Loss: 0.{e}{b}\n" for e in (2, 3) for b in (400, 800)),
            [1338, 1738, 2276, 2676],
            id="resumed in the second epoch",
        ),
        pytest.param(
            "".join(f"epoch: {e}, iter: {i}/40, loss: 0.{i}\n" for e, i in ((1, 10), (1, 20), (2, 30))),
            [10, 20, 30],
            id="a counter that epochs do not reset",
        ),
        pytest.param(
            "".join(f"Epoch {e}/3 train_loss=0.{e}\n" for e in (1, 2, 3)), [1, 2, 3], id="epochs alone"
        ),
        pytest.param("step 10 loss 0.5\nstep 10 loss 0.4\nstep 20 loss 0.3\n", [10, 10, 20], id="told twice"),
        pytest.param(
            "step 10/20 loss 0.5\nstep 20/20 loss 0.4\nstep 10/20 loss 0.3\n",
            [10, 20, 30],
            id="begun again without a word",
        ),
    ],
)
def test_steps_increase_over_epochs(log: Path, text: str, steps: list[int]) -> None:
    points = printed(log, text)

    assert [point.step for point in points] == steps


@pytest.mark.parametrize(
    ("text", "total"),
    [
        pytest.param("Epoch [1/3], Step [10/40], Loss: 0.5\n", 120, id="in the line"),
        pytest.param("Epoch 1/3\nstep 10/40 - loss: 0.5\n", 120, id="in a line before it"),
        pytest.param("step 10/40 loss 0.5\n", 40, id="no epochs"),
        pytest.param("Epoch 1/3 loss 0.5\n", 3, id="epochs alone"),
        pytest.param("epoch 1 step 10/40 loss 0.5\n", None, id="nobody knows how many epochs"),
        pytest.param("step 10 loss 0.5\n", None, id="untold"),
    ],
)
def test_the_total_is_what_the_program_told(log: Path, text: str, total: int | None) -> None:
    (point,) = printed(log, text)

    assert point.total == total


def test_an_evaluation_stands_where_training_stands(log: Path) -> None:
    points = printed(
        log,
        "".join(f"Train Epoch: {e} [{n}/640 (0%)]\tLoss: 0.{e}{n}\n" for e in (1,) for n in (0, 320))
        + "\nTest set: Average loss: 0.05, Accuracy: 987/1000 (99%)\n",
    )

    assert curve(points, "loss") == [(0, 0.10), (320, 0.1320)]
    assert curve(points, "test_accuracy") == [(320, 0.987)]


def test_an_evaluation_ends_with_the_next_epoch(log: Path) -> None:
    points = printed(
        log,
        "epoch 0 step 5 loss 0.5\nEval begin...\nstep 1/2 - loss: 0.7\nstep 2/2 - loss: 0.6\n"
        "Eval samples: 9\nacc 0.75\nepoch 1 step 5 loss 0.4\n",
    )

    assert curve(points, "loss") == [(5, 0.5), (10, 0.4)]
    assert curve(points, "eval_loss") == [(5, 0.6)]
    assert curve(points, "eval_acc") == [(5, 0.75)]


def test_a_bar_is_sampled_each_second_and_at_its_end(log: Path, tmp_path: Path) -> None:
    data = b""
    with (tmp_path / "log.times").open("wb") as index:
        for n in range(1, 41):
            data += f"\r{n * 2}%|█| {n}/40 [00:00<00:01, 9.9it/s, loss=0.{n:02}]".encode()
            index.write(RECORD.pack(1000.0 + n / 10, len(data)))
    log.write_bytes(data + b"\n")

    points = all_points(ScrapedMetrics(log, LogTimes(tmp_path / "log.times"), clock=lambda: LATER))

    assert [step for step, _ in curve(points, "loss")] == [1, 11, 21, 31, 40]
    assert [point.time for point in points] == pytest.approx([1000.1, 1001.1, 1002.1, 1003.1, 1004.0])


def test_each_whole_line_is_a_point_however_fast_they_come(log: Path, tmp_path: Path) -> None:
    log.write_text("".join(f"step {n} loss 0.5{n}\n" for n in range(50)))
    (tmp_path / "log.times").write_bytes(RECORD.pack(1000.0, log.stat().st_size))

    points = all_points(ScrapedMetrics(log, LogTimes(tmp_path / "log.times")))

    assert len(points) == 50
    assert {point.time for point in points} == {1000.0}


def test_without_an_index_a_point_has_the_time_of_the_log(log: Path) -> None:
    (point,) = printed(log, "step 1 loss 0.5\n")

    assert point.time == log.stat().st_mtime


def test_half_a_line_waits(log: Path) -> None:
    log.write_text("step 1 loss 0.")
    scraped = ScrapedMetrics(log, clock=lambda: 0.0)

    early = scraped.read() + scraped.read() + scraped.read()
    with log.open("a") as file:
        file.write("125\n")

    assert early == []
    assert curve(scraped.read(), "loss") == [(1, 0.125)]


def test_a_last_line_that_nothing_ends_counts_when_the_program_has_gone(log: Path) -> None:
    assert curve(printed(log, "step 1 loss 0.125"), "loss") == [(1, 0.125)]


def test_a_log_that_is_not_there_yet_has_no_points(log: Path) -> None:
    scraped = ScrapedMetrics(log)

    assert scraped.read() == []
    log.write_text("loss: 0.5\n")
    assert len(scraped.read()) == 1
    assert scraped.read() == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xfe loss: \xff 0.5 \n", id="no text"),
        pytest.param(b"loss: 0.5" * 100_000, id="a line without end"),
        pytest.param(b"\0" * 1000 + b"loss: 0.5\0\n", id="zeros"),
        pytest.param(b"loss: " + b"9" * 4000 + b"\n", id="a number without end"),
        pytest.param(b"epoch " + b"9" * 4000 + b" loss: 0.5\n", id="an epoch without end"),
        pytest.param(b"step 5/0 acc 5/0 loss [] [ ] {'loss': [,]}\n", id="nothing of nothing"),
        pytest.param(b"epoch nan step inf loss 0.5\n", id="no numbers"),
    ],
)
def test_no_log_breaks_it(log: Path, data: bytes) -> None:
    log.write_bytes(data + b"\nstep 7 loss 0.25\n")

    assert curve(points_of(log), "loss")[-1] == (7, 0.25)


def a_point(time: float, **values: float) -> MetricPoint:
    return MetricPoint(time=time, step=None, values=values)


@pytest.mark.parametrize(
    ("recorded", "printed_", "tags", "merged"),
    [
        pytest.param([], [a_point(1, loss=1)], (), [a_point(1, loss=1)], id="only printed"),
        pytest.param(
            [a_point(2, loss=2)],
            [a_point(1, loss=1, acc=0.5), a_point(3, acc=0.6)],
            (),
            [a_point(1, acc=0.5), a_point(2, loss=2), a_point(3, acc=0.6)],
            id="a tag that is recorded is not printed",
        ),
        pytest.param([], [a_point(1, loss=1)], ("Loss",), [], id="recorded before"),
        pytest.param(
            [a_point(1, **{"Train Loss": 1})],
            [a_point(1, train_loss=1)],
            (),
            [a_point(1, **{"Train Loss": 1})],
            id="recorded under a name that was printed",
        ),
    ],
)
def test_what_a_rank_records_is_not_read_from_its_log(
    recorded: list[MetricPoint], printed_: list[MetricPoint], tags: tuple[str, ...], merged: list[MetricPoint]
) -> None:
    assert merge_points(recorded, printed_, tags=tags) == merged
