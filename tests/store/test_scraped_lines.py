"""The metrics in lines of training logs, and lines without any."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nbdist.store.scraped.line_metrics import Progress, lines_with_cues, read_line
from nbdist.store.scraped.names import tag_of

SAMPLES = Path(__file__).parent / "samples"

# a line, its values, and where it says that training stands
SAID: dict[str, tuple[str, dict[str, float], str]] = {
    "arrays of one element": (
        "epoch: 0, batch_id: 400, loss is: [0.05], acc is: [1.]",
        {"loss": 0.05, "acc": 1.0},
        "epoch 0 at 400",
    ),
    "an array's mean": ("epoch: 1, batch_id: 5, loss is: [0.5 1.5]", {"loss": 1.0}, "epoch 1 at 5"),
    "a word that qualifies": (
        "Epoch 0 step 10, Loss = [2.3] , Avg Loss = 2.1",
        {"loss": 2.3, "avg_loss": 2.1},
        "epoch 0 at 10",
    ),
    "paddle's fit": (
        "step 400/938 - loss: 0.0555 - acc_top1: 0.9217 - acc_top5: 0.99 - 50ms/step",
        {"loss": 0.0555, "acc_top1": 0.9217, "acc_top5": 0.99},
        "at 400/938",
    ),
    "paddle's bar": (
        "step  5/20 [======>.......] - loss: 5.0046 - acc_top1: 0.1313 - ETA: 0s - 35ms/step",
        {"loss": 5.0046, "acc_top1": 0.1313},
        "at 5/20",
    ),
    "Keras' bar": (
        "20/20 ━━━━━━━━━━━━ 0s 3ms/step - accuracy: 0.4984 - loss: 0.8960 - val_loss: 0.7691",
        {"accuracy": 0.4984, "loss": 0.896, "val_loss": 0.7691},
        "at 20/20",
    ),
    "colours": (
        "\x1b[1m20/20\x1b[0m \x1b[32m━━━━\x1b[0m \x1b[1m0s\x1b[0m 3ms/step - loss: 1.0762",
        {"loss": 1.0762},
        "at 20/20",
    ),
    "brackets": ("Epoch [1/2], Step [10/40], Loss: 0.1234", {"loss": 0.1234}, "epoch 1/2 at 10/40"),
    "tqdm": (
        " 48%|████▊ | 129/268 [00:16<00:17, 7.9it/s, loss=0.0612, acc=0.97]",
        {"loss": 0.0612, "acc": 0.97},
        "at 129/268",
    ),
    "tqdm, described, with a name nobody knows": (
        "train:  48%|████▊ | 129/268 [00:16<00:17,  1.9s/it, loss=0.0612, gain=3]",
        {"loss": 0.0612, "gain": 3.0},
        "at 129/268",
    ),
    "tqdm, described by its loss": (
        "loss 0.0612:  93%|█████████▎| 28/30 [00:00<00:00, 31.38it/s]",
        {"loss": 0.0612},
        "at 28/30",
    ),
    "tqdm without a total": ("129it [00:16,  7.9it/s, loss=0.0612]", {"loss": 0.0612}, "at 129"),
    "Lightning": (
        "Epoch 0:  50%|███ | 5/10 [00:00<00:00, 52.1it/s, v_num=0, train_loss=2.300]",
        {"train_loss": 2.3},
        "epoch 0 at 5/10",
    ),
    "Hugging Face": (
        "{'loss': 1.23, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.5}",
        {"loss": 1.23, "grad_norm": 0.5, "learning_rate": 5e-05},
        "epoch 0.5",
    ),
    "Hugging Face's end, numbers in quotes": (
        "{'train_runtime': '1.2', 'train_samples_per_second': '259.3', 'train_loss': '0.69', 'epoch': '2'}",
        {"train_samples_per_second": 259.3, "train_loss": 0.69},
        "epoch 2",
    ),
    "JSON": ('{"step": 12, "loss": 0.5, "lr": 1e-4}', {"loss": 0.5, "lr": 1e-4}, "at 12"),
    "NumPy's scalars": ("{'loss': [0.15], 'acc_top1': np.float64(1.0)}", {"loss": 0.15, "acc_top1": 1.0}, ""),
    "an epoch": (
        "Epoch: 3 | train_loss=0.51 val_loss=0.49 lr=1e-3",
        {"train_loss": 0.51, "val_loss": 0.49, "lr": 1e-3},
        "epoch 3",
    ),
    "spaces between": ("[epoch 2/4] loss 0.0982  acc 0.9701", {"loss": 0.0982, "acc": 0.9701}, "epoch 2/4"),
    "the prefix of logging": ("INFO:root:step=3 loss=0.1", {"loss": 0.1}, "at 3"),
    "date, file and rank": (
        "2026-11-21 11:54:44,828 INFO train.py:12 [rank0]: step=10 loss=0.25",
        {"loss": 0.25},
        "at 10",
    ),
    "tabs between": ("rank:0\tstep:3\tloss:1.2345", {"loss": 1.2345}, "at 3"),
    "a tensor": (
        "step 0 loss tensor(7.8927e-07, device='cuda:0', grad_fn=<MeanBackward0>)",
        {"loss": 7.8927e-07},
        "at 0",
    ),
    "no step": ("loss: 7.892668349995802e-07", {"loss": 7.892668349995802e-07}, ""),
    "samples behind": ("loss: 2.303494  [   64/60000]", {"loss": 2.303494}, "at 64/60000"),
    "a sentence of many tutorials": (
        "Accuracy of the network on the 10000 test images: 54 %",
        {"test_accuracy": 54.0},
        "",
    ),
    "a list with bars between": (
        " iteration 100/ 500000 | consumed samples: 800 | elapsed time per iteration (ms): 300.1 |"
        " learning rate: 1.500E-04 | lm loss: 7.01E+00 | loss scale: 1.0 | grad norm: 2.3 |",
        {"learning_rate": 1.5e-4, "lm_loss": 7.01, "grad_norm": 2.3},
        "at 100/500000",
    ),
    "a date in brackets is no counter": (
        "[11/21 10:00:01] engine INFO: Epoch: [0] [70/700] learning_rate: 0.000025 loss: 4.5",
        {"learning_rate": 2.5e-5, "loss": 4.5},
        "epoch 0 at 70/700",
    ),
    "a comma between thousands": (
        "step:  1  loss:  8.2012  grad_norm:  1.2  memory:  0.50GiB(1.10%)  tps: 1,000",
        {"loss": 8.2012, "grad_norm": 1.2, "tps": 1000.0},
        "at 1",
    ),
    "Chinese": (
        "轮次 3\uff0c训练损失\uff1a0.51\uff0c验证损失\uff1a0.49\uff0c学习率\uff1a0.01",
        {"train_loss": 0.51, "val_loss": 0.49, "lr": 0.01},
        "epoch 3",
    ),
    "a last word": ("DP rank 0/2 params_equal=True acc=0.984", {"acc": 0.984}, ""),
}


@pytest.mark.parametrize("name", SAID)
def test_a_line_of_training_is_understood(name: str) -> None:
    line, values, place = SAID[name]
    data = f"before\n{line}\nafter".encode()

    reading = read_line(line)

    assert dict(reading.values) == pytest.approx(values)
    assert place_text(reading.progress) == place
    assert lines_with_cues(data) == [(7, len(data) - 6)], "it is looked at"


def place_text(progress: Progress) -> str:
    counts = (("epoch", progress.epoch, progress.epochs), ("at", progress.at, progress.of))
    return " ".join(
        f"{word} {count:g}{'' if of is None else f'/{of}'}" for word, count, of in counts if count is not None
    )


def test_what_is_no_number_yet_is_a_value() -> None:
    reading = read_line("[rank0]: step 3 loss nan lr inf")

    assert math.isnan(reading.values["loss"])
    assert reading.values["lr"] == math.inf


def test_other_lines_and_what_libraries_print_say_nothing() -> None:
    ordinary = (SAMPLES / "ordinary.log").read_text().splitlines()

    readings = {line: reading for line in ordinary if (reading := read_line(line)) is not None}

    assert len(ordinary) > 500
    assert [line for line, reading in readings.items() if reading.values] == []


def test_a_very_long_line_is_not_looked_at() -> None:
    assert read_line("loss: 0.5 " + "x" * 5000) is None


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        pytest.param("Avg Loss", "avg_loss", id="a space"),
        pytest.param("Acc@1", "acc_1", id="a sign"),
        pytest.param("train/loss", "train/loss", id="a slash"),
        pytest.param("val_loss", "val_loss", id="one already"),
    ],
)
def test_a_name_becomes_a_tag(name: str, tag: str) -> None:
    assert tag_of(name) == tag
