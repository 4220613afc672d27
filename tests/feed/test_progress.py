"""A run's progress and pace, from the logs and prints of its ranks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from nbdist.feed.progress import Progress, RankProgress, furthest_behind
from nbdist.store import MetricPoint

NOW = 1_000.0


def points(
    steps: Iterable[int], *, total: int | None = None, every: float = 1.0, begin: float = NOW
) -> list[MetricPoint]:
    return [
        MetricPoint(time=begin + number * every, step=step, values={"loss": 0.5}, total=total)
        for number, step in enumerate(steps)
    ]


def after_lines(*lines: str, every: float = 1.0) -> RankProgress:
    """Return the progress of a rank that printed these lines, the last of them now."""
    progress = RankProgress()
    for number, line in enumerate(lines):
        progress.printed([line], "", NOW + (number - len(lines) + 1) * every)
    return progress


@pytest.mark.parametrize(
    ("steps", "total", "fraction", "text"),
    [
        pytest.param(range(10), 40, 0.25, "step 10/40", id="counted from 0"),
        pytest.param(range(1, 11), 40, 0.25, "step 10/40", id="counted from 1"),
        pytest.param(range(100, 201, 100), 400, 0.5, "step 200/400", id="every hundredth"),
        pytest.param(range(40), 40, 1.0, "step 40/40", id="all of them"),
        pytest.param(range(1, 50), 40, 1.0, "step 40/40", id="more than all"),
        pytest.param([1, 2, 3, 4, 1], 8, 0.5, "step 4/8", id="another series counts epochs"),
    ],
)
def test_steps_that_are_logged_say_how_far_it_is(
    steps: Iterable[int], total: int, fraction: float, text: str
) -> None:
    progress = RankProgress()

    progress.logged(points(steps, total=total))

    shown = progress.progress(NOW)
    assert shown is not None
    assert (shown.fraction, shown.text) == (fraction, text)


def test_the_total_need_be_said_only_once() -> None:
    progress = RankProgress()
    progress.logged(points([0], total=100))

    progress.logged(points(range(1, 50), begin=NOW + 1))

    shown = progress.progress(NOW + 49)
    assert shown is not None
    assert shown.fraction == 0.5


def test_steps_without_a_total_give_a_rate_and_no_progress() -> None:
    progress = RankProgress()

    progress.logged(points(range(0, 100, 10), every=2.0))

    assert progress.progress(NOW + 18) is None
    assert progress.rate(NOW + 18) == pytest.approx(5.0)


def test_nothing_is_known_of_a_rank_that_says_nothing() -> None:
    progress = RankProgress()

    progress.logged([MetricPoint(time=NOW, step=None, values={"loss": 0.5})])
    progress.printed(["loading data from /data/train"], "", NOW)

    assert progress.progress(NOW) is None
    assert progress.rate(NOW) is None


def test_the_time_left_is_not_told_before_it_can_be() -> None:
    progress = RankProgress()

    progress.logged(points(range(2), total=100, every=0.5))
    early = progress.progress(NOW + 0.5)
    progress.logged(points(range(2, 21), total=100, every=0.5, begin=NOW + 1))
    later = progress.progress(NOW + 10)

    assert early is not None
    assert early.remaining is None
    assert later is not None
    assert later.remaining == pytest.approx(39.0, abs=1.0)


def test_at_the_end_nothing_is_left_however_long_ago_that_was() -> None:
    progress = after_lines("100%|██████████| 10/10 [00:05<00:00,  2.0it/s]")

    shown = progress.progress(NOW + 7200)

    assert shown is not None
    assert shown.remaining == 0.0


def test_the_time_left_follows_the_recent_past() -> None:
    progress = RankProgress()
    progress.logged(points(range(100), total=1000, every=0.1))

    progress.logged(points(range(100, 300), total=1000, every=1.0, begin=NOW + 10))

    shown = progress.progress(NOW + 209)
    assert shown is not None
    assert shown.remaining == pytest.approx(700, rel=0.05)


def test_the_time_left_runs_down_between_two_steps_and_is_taken_back_when_it_was_wrong() -> None:
    progress = RankProgress()
    progress.logged(points(range(11), total=13, every=5.0))

    left = [shown.remaining for age in (0, 4, 9, 11) if (shown := progress.progress(NOW + 50 + age))]

    assert left == [10.0, 6.0, 1.0, None]


def test_a_rank_that_has_long_done_nothing_has_no_rate() -> None:
    progress = RankProgress()
    progress.logged(points(range(10)))

    assert progress.rate(NOW + 18) == pytest.approx(1.0)
    assert progress.rate(NOW + 60) is None


PRINTED: dict[str, tuple[list[str], tuple[object, ...]]] = {
    "a bar of tqdm": (
        [" 48%|████▊     | 129/268 [00:16<00:17,  7.9it/s, loss=0.06]"],
        (129 / 268, 17, "step 129/268", 7.9),
    ),
    "in ASCII, seconds for each step, hours left": (
        ["train:  48%|####8     | 129/268 [00:16<01:02:03,  1.25s/it]"],
        (129 / 268, 3723, "step 129/268", 0.8),
    ),
    "just begun": (["  0%|          | 0/268 [00:00<?, ?it/s]"], (0.0, None, "step 0/268", None)),
    "with scaled numbers": (
        [" 50%|█████     | 1.50k/3.00k [00:10<00:10, 1.20kit/s]"],
        (0.5, 10, "step 1500/3000", 1200.0),
    ),
    "in colour, in batches": (
        ["\x1b[32m 50%|█████     | 5/10 [00:10<00:10, 2.0batch/s]\x1b[0m"],
        (0.5, 10, "step 5/10", 2.0),
    ),
    "a bar for each epoch: the epochs to come take as long": (
        ["epoch 3/4:  50%|█████     | 100/200 [00:10<00:10,  10.0it/s, loss=0.06]"],
        (2.5 / 4, 30, "epoch 3/4", 10.0),
    ),
    "a bar within a bar over epochs": (
        [
            "Epochs:  25%|██▌       | 1/4 [00:20<01:00, 20.0s/it]",
            " 50%|█████     | 5/10 [00:10<00:10, 0.5it/s]",
        ],
        (1.5 / 4, 50, "epoch 2/4", 0.5),
    ),
    "the bar over epochs moves on": (
        [
            " 90%|█████████ | 9/10 [00:18<00:02, 0.5it/s]",
            "Epochs:  50%|█████     | 2/4 [00:40<00:40, 20.0s/it]",
        ],
        (0.5, 40, "epoch 3/4", None),
    ),
    "paddle": (["Epoch 2/4", "step 10/40 - loss: 0.5 - 100ms/step"], (1.25 / 4, None, "epoch 2/4", 10.0)),
    "Keras": (
        ["Epoch 1/2", "400/800 ━━━━━━━━━━━━━━━━━━━━ 12s 50ms/step - loss: 0.3"],
        (0.25, None, "epoch 1/2", 20.0),
    ),
    "both in one line": (["Epoch [1/2], Step [10/40], Loss: 0.51"], (0.125, None, "epoch 1/2", None)),
    "the next epoch": (["Epoch 1/2, Step 39/40", "Epoch 2/2, Step 10/40"], (0.625, None, "epoch 2/2", None)),
    "epochs that are named at their end": (
        ["Epoch 1/4 loss 0.5", "Epoch 2/4 loss 0.4"],
        (0.5, None, "epoch 2/4", None),
    ),
    "epochs that are named at their start": (["epoch 2 of 4"], (0.25, None, "epoch 2/4", None)),
    "epochs from 0": (["Epoch 0/4", "batch 5/10"], (0.125, None, "epoch 0/4", None)),
    "a line after all batches": (["batch 40/40", "epoch 1/4 loss 0.3"], (0.25, None, "epoch 1/4", None)),
    "a heading with a number": (["Epoch 1/4 lr 0.1", "step 20/40"], (0.125, None, "epoch 1/4", None)),
    "Lightning, which does not tell how many epochs": (
        ["Epoch 1:  75%|███████▌  | 15/20 [00:15<00:05, 1.0it/s, v_num=0, train_loss=0.25]"],
        (0.75, None, "epoch 1, step 15/20", 1.0),
    ),
    "Lightning's validation": (
        [
            "Epoch 1: 100%|██████████| 20/20 [00:15<00:00, 1.0it/s, v_num=0]",
            "Validation DataLoader 0:  25%|██▌       | 1/4 [00:01<00:03, 1.0it/s]",
        ],
        (1.0, None, "epoch 1, step 20/20", 1.0),
    ),
    "Lightning with rich, the second of two epochs": (
        [
            "\x1b[2KEpoch 1/1 \x1b[35m━━━━━╸━━━━\x1b[0m 10/20 0:00:10 • 0:00:10 1.00it/s v_num: 0",
            "Validation ━━━━━╸━━━━ 1/4   0:00:00 • -:--:-- 0.00it/s",
        ],
        (0.75, 9, "epoch 1/1", 1.0),
    ),
    "ignite": (
        ["Epoch [1/2]: [10/20]  50%|█████     , loss=0.06 [00:01<00:01]"],
        (0.25, None, "epoch 1/2", None),
    ),
    "epochs from 0 to the last": (
        ["Epoch 0/1", "batch 5/10", "Epoch 1/1", "batch 5/10"],
        (0.75, 1.0, "epoch 1/1", None),
    ),
    "another loop after the steps of an epoch": (
        [
            "Epochs:  25%|██▌       | 1/4 [00:20<01:00, 20.0s/it]",
            "100%|██████████| 10/10 [00:10<00:00, 1.0it/s]",
            " 50%|█████     | 1/2 [00:01<00:01, 1.0it/s]",
        ],
        (0.5, 20, "epoch 2/4", 1.0),
    ),
    "Hugging Face's evaluation among its steps": (
        [
            " 50%|█████     | 100/200 [00:10<00:10, 10.0it/s]",
            "100%|██████████| 13/13 [00:01<00:00, 13.0it/s]",
            " 50%|█████     | 101/200 [00:10<00:10, 10.0it/s]",
            "  8%|▊         | 1/13 [00:00<00:01, 13.0it/s]",
            " 15%|█▌        | 2/13 [00:00<00:01, 13.0it/s]",
        ],
        (101 / 200, 10, "step 101/200", 10.0),
    ),
    "a test alone": (["Testing:  50%|█████     | 5/10 [00:05<00:05, 1.0it/s]"], (0.5, 5, "step 5/10", 1.0)),
    "training after an evaluation": (
        [
            "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:01<00:00, 2.0it/s]",
            "train:  50%|█████     | 5/10 [00:05<00:05, 1.0it/s]",
        ],
        (0.5, 5, "step 5/10", 1.0),
    ),
    "a bar that tells what the last validation gave": (
        ["Epoch 1/2 val loss 0.25:  50%|█████     | 5/10 [00:05<00:05, 1.0it/s]"],
        (0.25, 15, "epoch 1/2", 1.0),
    ),
    "iterations": (["iteration 30 of 60"], (0.5, None, "step 30/60", None)),
}
"""Lines, and what they say: the part that is done, the seconds that are left, the words, steps a second."""


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_says_how_far_it_is(name: str) -> None:
    lines, expected = PRINTED[name]
    progress = after_lines(*lines)

    shown = progress.progress(NOW)

    assert shown is not None
    assert (shown.fraction, shown.remaining, shown.text, progress.rate(NOW)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("model.bin:  48%|████▊     | 129M/268M [00:16<00:17, 7.9MB/s]", id="a download"),
        pytest.param("Map: 100%|██████████| 1000/1000 [00:01<00:00, 800.51 examples/s]", id="datasets.map"),
        pytest.param("Tokenizing:  50%|█████     | 5/10 [00:05<00:05, 1.0it/s]", id="what prepares data"),
        pytest.param(
            "Loading checkpoint shards: 100%|██████████| 3/3 [00:05<00:00, 1.7s/it]", id="a network"
        ),
        pytest.param("see /data/2026/11", id="a path"),
        pytest.param("accuracy 8712/10000", id="a share"),
        pytest.param("step 3/0", id="of nothing"),
        pytest.param("12it [00:01,  9.9it/s]", id="a bar without an end"),
    ],
)
def test_not_everything_that_counts_is_progress(line: str) -> None:
    assert after_lines(line).progress(NOW) is None


def test_a_bar_that_begins_again_and_again_does_not_tell_when_the_run_ends() -> None:
    progress = after_lines(
        "100%|██████████| 10/10 [00:20<00:00, 2.0it/s]", " 50%|█████     | 5/10 [00:10<00:10, 2.0it/s]"
    )

    shown = progress.progress(NOW)

    assert shown is not None
    assert (shown.fraction, shown.remaining) == (0.5, None)


def test_without_a_figure_of_its_own_the_time_left_of_a_bar_is_measured() -> None:
    progress = after_lines(*(f"step {step}/100" for step in range(1, 21)), every=2.0)

    shown = progress.progress(NOW)

    assert shown is not None
    assert shown.remaining == pytest.approx(160.0, abs=1.0)


def test_a_bar_is_seen_while_it_grows_and_among_other_lines() -> None:
    progress = RankProgress()

    progress.printed(["saved to out/model.pt"], " 50%|█████     | 5/10 [00:10<00:10, 2.0it/s]", NOW)

    shown = progress.progress(NOW)
    assert shown is not None
    assert shown.fraction == 0.5


def test_what_is_logged_counts_more_than_what_is_printed() -> None:
    progress = after_lines(" 50%|█████     | 5/10 [00:10<00:10, 2.0it/s]")

    progress.logged(points(range(1, 11), total=100, begin=NOW - 9))

    shown = progress.progress(NOW)
    assert shown is not None
    assert shown.text == "step 10/100"
    assert progress.rate(NOW) == pytest.approx(1.0)


def test_a_run_is_as_far_as_its_slowest_rank() -> None:
    near, far = (Progress(fraction=fraction, remaining=1.0, text="") for fraction in (0.25, 0.5))

    assert furthest_behind([far, None, near]) == near
    assert furthest_behind([None]) is None


def test_a_bar_that_was_given_up_does_not_stand_for_the_run_for_ever() -> None:
    progress = after_lines(
        "  5%|▌         | 10/200 [00:10<03:10, 1.0it/s]",
        *(f" 50%|█████     | {done}/20 [00:10<00:10, 1.0it/s]" for done in (10, 20, 10)),
    )

    shown = progress.progress(NOW)

    assert shown is not None
    assert (shown.text, shown.remaining) == ("step 10/20", None)


def test_rows_of_nested_bars_are_read_together() -> None:
    progress = RankProgress()

    rows = (
        "Epochs:  25%|██▌       | 1/4 [00:20<01:00, 20.0s/it]\n 50%|█████     | 5/10 [00:10<00:10, 0.5it/s]"
    )
    progress.printed([], rows, NOW)

    shown = progress.progress(NOW)
    assert shown is not None
    assert (shown.fraction, shown.text) == (1.5 / 4, "epoch 2/4")
