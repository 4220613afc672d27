"""The prints of many kinds of programs, and the curves that they make, all and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdist.store.metrics import MetricPoint
from nbdist.store.scraped.log import ScrapedMetrics

LATER = 4e9  # long after any of these logs was written

Curves = dict[str, list[tuple[int | None, float]]]


def curves_of(log: Path, text: str, size: int) -> Curves:
    """Return the curves of a log that grows by ``size`` bytes at a time."""
    data, now = text.encode(), 0.0
    log.write_bytes(b"")
    scraped = ScrapedMetrics(log, clock=lambda: now)
    points: list[MetricPoint] = []
    with log.open("ab", buffering=0) as file:
        for at in range(0, len(data), size):
            file.write(data[at : at + size])
            points += scraped.read()
    now = LATER
    for _ in range(3):
        while more := scraped.read():
            points += more
    curves: Curves = {}
    for point in points:
        for tag, value in point.values.items():
            curves.setdefault(tag, []).append((point.step, value))
    return curves


UP = "\r\x1b[2K\x1b[1A\x1b[2K"
WRAPPED = " " * 60 + "\x1b[3mval_loss: {}  \x1b[0m"


def rich(at: int, postfix: str) -> str:
    """Return Lightning's bar in rich, after ``at`` of two batches of the first epoch of two."""
    time = "\x1b[2m0:00:00 • 0:00:01\x1b[0m \x1b[2;4m80.25it/s\x1b[0m"
    return f"Epoch 0/1  \x1b[35m━━━━━\x1b[0m {at}/2 {time} \x1b[3m{postfix}\x1b[0m"


FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "timm": (
        "Train: 0 [   0/4 ( 25%)]  Loss: 2.31 (2.31)  Time: 0.512s,   62.50/s  (0.512s,   62.50/s)  "
        "LR: 1.000e-05  Data: 0.101 (0.101)\n"
        "Train: 0 [   3/4 (100%)]  Loss: 2.12 (2.20)  Time: 0.112s,  262.50/s  (0.212s,  162.50/s)  "
        "LR: 1.000e-05  Data: 0.001 (0.026)\n"
        "Test: [   0/1]  Time: 0.210 (0.210)  Loss:   2.250 ( 2.250)  Acc@1:  12.500 ( 12.500)\n"
        "Test: [   1/1]  Time: 0.110 (0.160)  Loss:   2.150 ( 2.200)  Acc@1:  25.000 ( 18.750)\n"
        "*** Best metric: 18.75 (epoch 0)\n"
        "Train: 1 [   0/4 ( 25%)]  Loss: 2.01 (2.01)  Time: 0.112s,  262.50/s  (0.112s,  262.50/s)  "
        "LR: 1.000e-03  Data: 0.001 (0.001)\n",
        {
            "loss": [(0, 2.31), (3, 2.12), (4, 2.01)],
            "lr": [(0, 1e-5), (3, 1e-5), (4, 1e-3)],
            "test_loss": [(3, 2.2)],
            "test_acc_1": [(3, 18.75)],
        },
    ),
    "pytorch's imagenet": (
        "Epoch: [0][ 1/20]\tTime  0.512 ( 0.512)\tData  0.1 (  0.1)\tLoss 6.91e+00 (6.91e+00)\t"
        "Acc@1   0.00 (  0.00)\tAcc@5   6.25 (  6.25)\n"
        "Epoch: [0][11/20]\tTime  0.112 ( 0.212)\tData  0.0 (  0.0)\tLoss 6.81e+00 (6.85e+00)\t"
        "Acc@1   6.25 (  1.00)\tAcc@5  12.50 (  7.00)\n"
        "Test: [ 1/10]\tTime  0.210 ( 0.210)\tLoss 6.71e+00 (6.71e+00)\tAcc@1  12.50 ( 12.50)\t"
        "Acc@5  25.00 ( 25.00)\n"
        " *   Acc@1 4.500 Acc@5 19.250\n"
        "Epoch: [1][ 1/20]\tTime  0.112 ( 0.212)\tData  0.0 (  0.0)\tLoss 6.61e+00 (6.61e+00)\t"
        "Acc@1   9.25 (  9.25)\tAcc@5  18.50 ( 18.50)\n",
        {
            "loss": [(1, 6.91), (11, 6.81), (21, 6.61)],
            "acc_1": [(1, 0.0), (11, 6.25), (21, 9.25)],
            "acc_5": [(1, 6.25), (11, 12.5), (21, 18.5)],
            "test_acc_1": [(11, 4.5)],
            "test_acc_5": [(11, 19.25)],
        },
    ),
    "an evaluation's star alone": (
        " * Acc@1 71.25 Acc@5 90.5\n",
        {"val_acc_1": [(0, 71.25)], "val_acc_5": [(0, 90.5)]},
    ),
    "pytorch's mnist": (
        "Train Epoch: 1 [0/640 (0%)]\tLoss: 2.300024\nTrain Epoch: 1 [320/640 (50%)]\tLoss: 1.200024\n"
        "\nTest set: Average loss: 0.0512, Accuracy: 98/100 (98%)\n\n",
        {
            "loss": [(0, 2.300024), (320, 1.200024)],
            "test_average_loss": [(320, 0.0512)],
            "test_accuracy": [(320, 0.98)],
        },
    ),
    "pytorch's language model": (
        "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 50.11 | loss  7.62 | ppl  2041.05\n"
        "| epoch   1 |   400/ 2983 batches | lr 20.00 | ms/batch 50.11 | loss  6.62 | ppl   750.25\n"
        "| end of epoch   1 | time: 150.10s | valid loss  5.50 | valid ppl   244.70\n"
        "| End of training | test loss  5.40 | test ppl   221.40\n",
        {
            "lr": [(200, 20.0), (400, 20.0)],
            "loss": [(200, 7.62), (400, 6.62)],
            "ppl": [(200, 2041.05), (400, 750.25)],
            "valid_loss": [(400, 5.5)],
            "valid_ppl": [(400, 244.7)],
            "test_loss": [(400, 5.4)],
            "test_ppl": [(400, 221.4)],
        },
    ),
    "pytorch's DCGAN": (
        "[0/2][0/30] Loss_D: 1.5 Loss_G: 4.25 D(x): 0.6 D(G(z)): 0.5 / 0.01\n"
        "[0/2][20/30] Loss_D: 1.0 Loss_G: 4.0 D(x): 0.6 D(G(z)): 0.5 / 0.01\n"
        "[1/2][10/30] Loss_D: 0.5 Loss_G: 3.25 D(x): 0.8 D(G(z)): 0.1 / 0.05\n",
        {"loss_d": [(0, 1.5), (20, 1.0), (40, 0.5)], "loss_g": [(0, 4.25), (20, 4.0), (40, 3.25)]},
    ),
    "pytorch's reinforcement learning": (
        "Episode 10\tLast reward: 25.00\tAverage reward: 14.50\n"
        "Episode 20\tLast reward: 35.00\tAverage reward: 16.50\n",
        {"reward": [(10, 25.0), (20, 35.0)], "average_reward": [(10, 14.5), (20, 16.5)]},
    ),
    "pytorch's transfer learning": (
        "Epoch 0/1\n----------\ntrain Loss: 0.5500 Acc: 0.7200\nval Loss: 0.3500 Acc: 0.8500\n\n"
        "Epoch 1/1\n----------\ntrain Loss: 0.4500 Acc: 0.8200\nval Loss: 0.2500 Acc: 0.9500\n",
        {
            "train_loss": [(0, 0.55), (1, 0.45)],
            "train_acc": [(0, 0.72), (1, 0.82)],
            "val_loss": [(0, 0.35), (1, 0.25)],
            "val_acc": [(0, 0.85), (1, 0.95)],
        },
    ),
    "torchvision's detection": (
        "Epoch: [0]  [ 0/60]  eta: 0:01:00  lr: 0.000090  loss: 4.5000 (4.5000)  loss_mask: 3.5000 (3.5000)"
        "  time: 1.0000  data: 0.1000  max mem: 3000\n"
        "Epoch: [0]  [10/60]  eta: 0:00:30  lr: 0.000900  loss: 1.5000 (2.5000)  loss_mask: 0.5000 (1.5000)"
        "  time: 0.5000  data: 0.0100  max mem: 3000\n"
        "Test:  [ 0/50]  eta: 0:00:10  model_time: 0.2000 (0.2000)  evaluator_time: 0.0100 (0.0100)\n",
        {
            "lr": [(0, 9e-5), (10, 9e-4)],
            "loss": [(0, 4.5), (10, 1.5)],
            "loss_mask": [(0, 3.5), (10, 0.5)],
        },
    ),
    "minGPT": (
        "iter_dt 0.00ms; iter 0: train loss 10.83125\niter_dt 21.33ms; iter 100: train loss 5.25125\n",
        {"train_loss": [(0, 10.83125), (100, 5.25125)]},
    ),
    "nanoGPT": (
        "step 0: train loss 4.2874, val loss 4.2823\niter 0: loss 4.2600, time 3250.12ms, mfu -100.00%\n"
        "iter 10: loss 3.1450, time 25.12ms, mfu 3.25%\n",
        {
            "train_loss": [(0, 4.2874)],
            "val_loss": [(0, 4.2823)],
            "loss": [(0, 4.26), (10, 3.145)],
            "mfu": [(0, -100.0), (10, 3.25)],
        },
    ),
    "DeepSpeed's CIFAR": (
        "[ 1,    20] loss: 2.303\n[ 1,    40] loss: 2.203\n[ 2,    20] loss: 1.903\n",
        {"loss": [(20, 2.303), (40, 2.203), (60, 1.903)]},
    ),
    "DeepSpeed's engine": (
        "[2026-11-21 10:00:00,123] [INFO] [logging.py:128:log_dist] [Rank 0] step=10, skipped=0, "
        "lr=[0.001], mom=[(0.9, 0.999)]\n"
        "steps: 10 loss: 2.3125 iter time (s): 0.125 samples/sec: 300.5\n"
        "[2026-11-21 10:00:01,123] [INFO] [timer.py:264:stop] "
        "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=1300.1, "
        "CurrSamplesPerSec=1310.2, MemAllocated=0.1GB, MaxMemAllocated=0.2GB\n",
        {"lr": [(10, 0.001)], "loss": [(10, 2.3125)], "samples/sec": [(10, 300.5)]},
    ),
    "DeepSpeed-Chat": (
        "***** Running training *****\n***** Evaluating perplexity, Epoch 0/2 *****\nppl: 4305.5, loss: "
        "8.375\n"
        "Beginning of Epoch 1/2, Total Micro Batches 20\n"
        "Epoch: 0, Step: 0, Rank: 0, loss = 8.25\nEpoch: 0, Step: 1, Rank: 0, loss = 7.75\n"
        "***** Evaluating perplexity, Epoch 1/2 *****\nppl: 1305.5, loss: 7.125\n",
        {
            "eval_ppl": [(0, 4305.5), (1, 1305.5)],
            "eval_loss": [(0, 8.375), (1, 7.125)],
            "loss": [(0, 8.25), (1, 7.75)],
        },
    ),
    "XGBoost": (
        "[0]\ttrain-rmse:1.25\ttest-rmse:1.375\n[1]\ttrain-rmse:1.125\ttest-rmse:1.25\n",
        {"train_rmse": [(0, 1.25), (1, 1.125)], "test_rmse": [(0, 1.375), (1, 1.25)]},
    ),
    "scikit-learn's network": (
        "Iteration 1, loss = 0.69314718\nIteration 2, loss = 0.58314718\n"
        "Training loss did not improve more than tol=0.000100 for 10 consecutive epochs. Stopping.\n",
        {"loss": [(1, 0.69314718), (2, 0.58314718)]},
    ),
    "PaddleClas": (
        "[2026/11/21 10:00:00] ppcls INFO: [Train][Epoch 1/2][Iter: 0/4]lr(LinearWarmup): 0.00100000, "
        "top1: 0.125, top5: 0.5, CELoss: 2.25, loss: 2.25, batch_cost: 0.51234s, reader_cost: 0.1, ips: "
        "64.5 samples/s, "
        "eta: 0:00:04\n"
        "[2026/11/21 10:00:01] ppcls INFO: [Train][Epoch 1/2][Iter: 3/4]lr(LinearWarmup): 0.00200000, "
        "top1: 0.25, top5: 0.625, CELoss: 2.125, loss: 2.125, batch_cost: 0.31234s, reader_cost: 0.1, "
        "ips: 94.5 samples/s, "
        "eta: 0:00:02\n"
        "[2026/11/21 10:00:01] ppcls INFO: [Train][Epoch 1/2][Avg]top1: 0.19, top5: 0.56, CELoss: 2.19, "
        "loss: 2.19\n"
        "[2026/11/21 10:00:02] ppcls INFO: [Eval][Epoch 1][Iter: 0/2]CELoss: 2.5, loss: 2.5, top1: 0.1, "
        "top5: 0.5, "
        "batch_cost: 0.1s, reader_cost: 0.05, ips: 300.1 images/sec\n"
        "[2026/11/21 10:00:02] ppcls INFO: [Eval][Epoch 1][Avg]CELoss: 2.375, loss: 2.375, top1: 0.15, "
        "top5: 0.55\n"
        "[2026/11/21 10:00:02] ppcls INFO: [Eval][Epoch 1][best metric: 0.15000000596046448]\n",
        {
            "lr": [(0, 0.001), (3, 0.002)],
            "top1": [(0, 0.125), (3, 0.25)],
            "top5": [(0, 0.5), (3, 0.625)],
            "celoss": [(0, 2.25), (3, 2.125)],
            "loss": [(0, 2.25), (3, 2.125)],
            "ips": [(0, 64.5), (3, 94.5)],
            "eval_celoss": [(3, 2.375)],
            "eval_loss": [(3, 2.375)],
            "eval_top1": [(3, 0.15)],
            "eval_top5": [(3, 0.55)],
        },
    ),
    "PaddleOCR": (
        "[2026/11/21 10:00:00] ppocr INFO: epoch: [1/10], global_step: 10, lr: 0.001000, acc: 0.0, "
        "loss: 5.25, "
        "avg_reader_cost: 0.1 s, avg_batch_cost: 0.5 s, avg_samples: 64.0, ips: 128.5 samples/s, eta: "
        "0:01:00\n"
        "[2026/11/21 10:00:01] ppocr INFO: cur metric, acc: 0.5, norm_edit_dis: 0.625, fps: 1000.5\n"
        "[2026/11/21 10:00:01] ppocr INFO: best metric, acc: 0.5, is_float16: False, norm_edit_dis: 0.625, "
        "best_epoch: 1\n",
        {
            "lr": [(10, 0.001)],
            "acc": [(10, 0.0)],
            "loss": [(10, 5.25)],
            "ips": [(10, 128.5)],
            "eval_acc": [(10, 0.5)],
        },
    ),
    "PaddleSeg": (
        "2026-11-21 10:00:00 [INFO]\t[TRAIN] epoch: 1, iter: 10/100, loss: 1.2500, lr: 0.010000, "
        "batch_cost: 0.5, "
        "reader_cost: 0.01, ips: 8.0000 samples/sec | ETA 00:00:45\n"
        "2026-11-21 10:00:09 [INFO]\t[EVAL] #Images: 50, mIoU: 0.5125, Acc: 0.8125, Kappa: 0.7, "
        "Dice: 0.6125\n",
        {
            "loss": [(10, 1.25)],
            "lr": [(10, 0.01)],
            "ips": [(10, 8.0)],
            "eval_miou": [(10, 0.5125)],
            "eval_acc": [(10, 0.8125)],
            "dice": [(10, 0.6125)],
        },
    ),
    "PaddleNLP": (
        "global step 10, epoch: 1, batch: 10, loss: 0.69315, accu: 0.50000, speed: 3.21 step/s\n"
        "global step 20, epoch: 1, batch: 20, loss: 0.59315, accu: 0.62500, speed: 3.31 step/s\n"
        "eval loss: 0.55, accu: 0.75\n",
        {
            "loss": [(10, 0.69315), (20, 0.59315)],
            "accu": [(10, 0.5), (20, 0.625)],
            "eval_loss": [(20, 0.55)],
            "eval_accu": [(20, 0.75)],
        },
    ),
    "Lightning's bar of rich": (
        f"\x1b[?25l\r\x1b[2K{rich(1, 'train_loss: 3.250')}\n{WRAPPED.format('8.250')}"
        f"{UP}{rich(2, 'train_loss: 2.250')}\n{WRAPPED.format('8.250')}\n"
        f"Validation ━━━━━ 1/4   0:00:00 • -:--:-- 0.00it/s                   "
        f"{UP}\x1b[1A\x1b[2K{rich(2, 'train_loss: 2.250')}\n{WRAPPED.format('0.220')}\n\x1b[?25h",
        {"train_loss": [(1, 3.25), (2, 2.25)], "val_loss": [(1, 8.25), (2, 0.22)]},
    ),
    "ignite's bars": (
        "\rEpoch [1/2]: [1/4]  25%|██▌       , loss=1.5 [00:00<?]"
        "\rEpoch [1/2]: [4/4] 100%|██████████, loss=0.25 [00:00<00:00]\r        \r"
        "\rEpoch [2/2]: [1/4]  25%|██▌       , loss=0.5 [00:00<?]"
        "\rEpoch [2/2]: [4/4] 100%|██████████, loss=0.125 [00:00<00:00]\r        \r",
        {"loss": [(1, 1.5), (4, 0.25), (5, 0.5), (8, 0.125)]},
    ),
    "ignite's log": (
        "Epoch[1] Iteration[10/20] Loss: 0.5000\nTraining Results - Epoch: 1  Avg accuracy: 0.90 Avg "
        "loss: 0.30\n"
        "Validation Results - Epoch: 1  Avg accuracy: 0.85 Avg loss: 0.35\n",
        {
            "loss": [(10, 0.5)],
            "avg_accuracy": [(10, 0.9)],
            "avg_loss": [(10, 0.3)],
            "val_avg_accuracy": [(10, 0.85)],
            "val_avg_loss": [(10, 0.35)],
        },
    ),
    "Accelerate": (
        "epoch 0: {'accuracy': 0.6875, 'f1': 0.8125}\nepoch 1: {'accuracy': 0.75, 'f1': 0.875}\n",
        {"accuracy": [(0, 0.6875), (1, 0.75)], "f1": [(0, 0.8125), (1, 0.875)]},
    ),
    "LLaMA-Factory": (
        "[INFO|2026-11-21 10:00:00] llamafactory.train.callbacks:143 >> {'loss': 1.25, 'learning_rate': "
        "4e-05, "
        "'epoch': 0.1, 'throughput': 512.5}\n",
        {"loss": [(0, 1.25)], "learning_rate": [(0, 4e-5)], "throughput": [(0, 512.5)]},
    ),
    "fairseq": (
        "2026-11-21 10:00:00 | INFO | train_inner | epoch 001:     10 / 100 loss=5.25, ppl=38.05, "
        "wps=1000.5, "
        "ups=1.25, wpb=800, bsz=8, num_updates=10, lr=0.0001, gnorm=1.25, train_wall=8, wall=10\n"
        "2026-11-21 10:00:09 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 5.125 | ppl 34.9 | "
        "wps 3000 | wpb 400 | bsz 4 | num_updates 100\n",
        {
            "loss": [(10, 5.25)],
            "ppl": [(10, 38.05)],
            "lr": [(10, 0.0001)],
            "gnorm": [(10, 1.25)],
            "wps": [(10, 1000.5)],
            "ups": [(10, 1.25)],
            "wpb": [(10, 800.0)],
            "bsz": [(10, 8.0)],
            "train_wall": [(10, 8.0)],
            "wall": [(10, 10.0)],
            "val_loss": [(10, 5.125)],
            "val_ppl": [(10, 34.9)],
        },
    ),
    "mmengine": (
        "2026/11/21 10:00:00 - mmengine - INFO - Epoch(train)  [1][10/100]  lr: 1.0000e-03  eta: 0:01:00  "
        "time: 0.5000  data_time: 0.1000  memory: 500  loss: 2.2500\n"
        "2026/11/21 10:00:09 - mmengine - INFO - Epoch(val) [1][5/5]    accuracy/top1: 45.5000  "
        "data_time: 0.1  "
        "time: 0.2\n",
        {"lr": [(10, 0.001)], "loss": [(10, 2.25)], "val_accuracy/top1": [(10, 45.5)]},
    ),
    "Detectron2": (
        "[11/21 10:00:00 d2.utils.events]:  eta: 0:01:00  iter: 19  total_loss: 2.25  loss_cls: 1.25  "
        "time: 0.5  last_time: 0.5  data_time: 0.1  lr: 0.0010  max_mem: 2000M\n",
        {"total_loss": [(19, 2.25)], "loss_cls": [(19, 1.25)], "lr": [(19, 0.001)]},
    ),
    "SpeechBrain": (
        "epoch: 1, lr: 1.00e-03 - train loss: 2.25 - valid loss: 2.125\n"
        "epoch: 2, lr: 1.00e-03 - train loss: 1.25 - valid loss: 1.125\n",
        {
            "lr": [(1, 0.001), (2, 0.001)],
            "train_loss": [(1, 2.25), (2, 1.25)],
            "valid_loss": [(1, 2.125), (2, 1.125)],
        },
    ),
    "OpenNMT": (
        "[2026-11-21 10:00:00,123 INFO] Step 50/ 1000; acc: 10.5; ppl: 5000.25; xent: 8.5; lr: 0.0001; "
        "3000/3200 tok/s;      10 sec;\n",
        {"acc": [(50, 10.5)], "ppl": [(50, 5000.25)], "lr": [(50, 0.0001)]},
    ),
    "TensorFlow's estimators": (
        "INFO:tensorflow:loss = 2.25, step = 0\nINFO:tensorflow:loss = 1.25, step = 100 (1.234 sec)\n",
        {"loss": [(0, 2.25), (100, 1.25)]},
    ),
    "nnU-Net": (
        "2026-11-21 10:00:00.123: Epoch 0\n2026-11-21 10:00:09.123: train_loss -0.1250\n"
        "2026-11-21 10:00:09.124: val_loss -0.2500\n2026-11-21 10:00:10.123: Epoch 1\n"
        "2026-11-21 10:00:19.123: train_loss -0.3750\n",
        {"train_loss": [(0, -0.125), (1, -0.375)], "val_loss": [(0, -0.25)]},
    ),
}


@pytest.mark.parametrize("size", [1 << 20, 90, 7], ids=["at once", "in large pieces", "in small pieces"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_curves_are_those_that_were_printed(tmp_path: Path, name: str, size: int) -> None:
    text, expected = FORMATS[name]

    curves = curves_of(tmp_path / "log", text, size)

    assert {tag: [step for step, _ in curve] for tag, curve in curves.items()} == {
        tag: [step for step, _ in curve] for tag, curve in expected.items()
    }
    for tag, curve in expected.items():
        assert [value for _, value in curves[tag]] == pytest.approx([value for _, value in curve])
