"""Arguments and lines of ``nbdist.log``, and the failures that it survives."""

from __future__ import annotations

import signal
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Rank


POINTS: dict[str, tuple[int | None, dict[str, float]]] = {
    "step=3, loss=0.5": (3, {"loss": 0.5}),
    "3, loss=0.5, total=100": (3, {"loss": 0.5}),
    "{'train/loss': 0.5}, step=3": (3, {"train/loss": 0.5}),
    "{'train/loss': 0.5}, 3, acc=1": (3, {"train/loss": 0.5, "acc": 1}),
    "loss=0.5": (None, {"loss": 0.5}),
    "step=-2, loss=0.5": (-2, {"loss": 0.5}),
    "step=3.0, loss=0.5": (3, {"loss": 0.5}),
    "step=numpy.int64(3), loss=0.5": (3, {"loss": 0.5}),
    "values=1, step=2": (2, {"values": 1}),
    "{'step': 1, 'total': 2}": (None, {"step": 1, "total": 2}),
    "{'损失 \"%\\n': 1}": (None, {'损失 "%\n': 1}),
}


def test_a_point_is_written_as_it_was_given(rank: Rank) -> None:
    before = time.time()

    rank.does("\n".join(["import numpy", *(f"nbdist.log({call})" for call in POINTS)]))

    assert dict(zip(POINTS, rank.points(), strict=True)) == POINTS
    for call, line in zip(POINTS, rank.lines(), strict=True):
        assert before - 0.001 <= line["t"] <= time.time()
        assert line.get("total") == (100 if "total=" in call else None)


NUMBERS: dict[str, float] = {
    "1 / 3": 1 / 3,
    "5e-324": 5e-324,
    "7": 7,
    "True": 1,
    "2 ** 62": 2**62,
    "10 ** 400": float("inf"),
    "-10 ** 400": float("-inf"),
    "float('inf')": float("inf"),
    "float('-inf')": float("-inf"),
    "Fraction(1, 4)": 0.25,
    "Decimal('0.25')": 0.25,
    "numpy.float32(0.1)": 0.10000000149011612,
    "numpy.float64(0.1)": 0.1,
    "numpy.int16(-3)": -3,
    "numpy.bool_(True)": 1,
    "numpy.array(0.5)": 0.5,
    "numpy.array([[0.5]])": 0.5,
}


def test_a_value_is_whatever_is_one_number_to_its_last_bit(rank: Rank) -> None:
    calls = "".join(f"nbdist.log(x={value})\n" for value in NUMBERS)

    rank.does(
        f"import numpy\nfrom decimal import Decimal\nfrom fractions import Fraction\n{calls}"
        "nbdist.log(x=float('nan'))",
        "-Werror",
    )

    values: list[Any] = [line["v"]["x"] for line in rank.lines()]
    assert dict(zip(NUMBERS, values, strict=False)) == NUMBERS
    assert values[-1] != values[-1]
    assert rank.files.metrics.read_text().endswith('"v": {"x": NaN}}\n')


@pytest.mark.parametrize(
    ("framework", "values"),
    [
        (
            "torch",
            "x=torch.tensor(0.5), y=torch.tensor([[0.25]], requires_grad=True),"
            " z=torch.tensor(0.125, dtype=torch.bfloat16)",
        ),
        ("paddle", "x=paddle.to_tensor(0.5), y=paddle.to_tensor([[0.25]]), z=paddle.to_tensor(0.125)"),
    ],
    ids=["torch", "paddle"],
)
def test_a_tensor_of_one_element_is_its_number(rank: Rank, framework: str, values: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")

    rank.does(f"import {framework}\nnbdist.log(step={framework}.ones([1]), {values})")

    assert rank.points() == [(1, {"x": 0.5, "y": 0.25, "z": 0.125})]


NO_POINTS = {
    "loss='0.5'": "nbdist.log(loss=…): str is not a number: '0.5'",
    "loss=None": "nbdist.log(loss=…): NoneType is not a number: None",
    "loss=[1.0]": "nbdist.log(loss=…): list is not a number: [1.0]",
    "train={'loss': 1.0}": "nbdist.log(train=…): dict is not a number: {'loss': 1.0}",
    "loss=1j": "nbdist.log(loss=…): complex is not a number: 1j",
    "grads=numpy.ones((2, 3))": "a ndarray of shape (2, 3) is not one number; log its mean()",
    "{1: 0.5}": "a tag is a text that is not empty, not 1",
    "{'': 0.5}": "a tag is a text that is not empty, not ''",
    "step=2.5, loss=1": "nbdist.log(step=…): float is not a whole number: 2.5",
    "step='3', loss=1": "nbdist.log(step=…): str is not a whole number: '3'",
    "total=float('nan')": "nbdist.log(total=…): float is not a whole number: nan",
    "3, 4": "write  nbdist.log(loss=4, step=3)",
    "'accuracy', 0.5, step=1": "write  nbdist.log(accuracy=0.5, step=1)",
    "'val/acc', 0.25, 7": "nbdist.log({'val/acc': 0.25}, step=3)",
    "{'loss': 1}, 3, step=4": "metrics have names",
}


def test_what_is_no_point_is_said_by_its_name(rank: Rank) -> None:
    calls = [f"try: nbdist.log({call})\nexcept TypeError as error: print(error)" for call in NO_POINTS]

    done = rank.does("\n".join(["import numpy", *calls, "nbdist.log(good=1)"]))

    lines = done.stdout.splitlines()
    assert len(lines) == len(NO_POINTS)
    assert [line for line, part in zip(lines, NO_POINTS.values(), strict=True) if part not in line] == []
    assert rank.points() == [(None, {"good": 1})]


def test_outside_a_run_nothing_happens(rank: Rank) -> None:
    rank.environment = {k: v for k, v in rank.environment.items() if not k.startswith("NBDIST_")}

    done = rank.does(
        """
nbdist.log(step=1, loss='low')
nbdist.log_hparams(7)
nbdist.log_text('note', 'hello')
nbdist.result(x=1)
with nbdist.SummaryWriter("logs") as writer:
    writer.add_scalar("loss", 1.0); writer.add_text("a", "b"); writer.add_graph(None)
    writer.add_figure("f", [None]); writer.add_image_with_boxes("b", None, None)
"""
    )

    assert (done.stdout, done.stderr) == ("", "")
    assert list(rank.files.path.iterdir()) == rank.directories() == []
    assert not (rank.run.path / "logs").exists()


def test_a_killed_rank_has_lost_nothing(rank: Rank) -> None:
    process = rank.start(
        "import itertools\nfor i in itertools.count(): nbdist.log(step=i, loss=i); print(i, flush=True)"
    )
    assert process.stdout is not None
    last = ""
    for _ in range(2000):
        last = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0].splitlines()

    logged = int(([last, *rest][-1] or last).strip())
    text = rank.files.metrics.read_bytes()
    assert text.endswith(b"\n")
    assert len(text.splitlines()) >= logged + 1


def test_threads_forks_and_signal_handlers_do_not_mix_lines(rank: Rank) -> None:
    rank.does(
        """
import os, signal, threading
nbdist.log(begin=1)  # a rank has imported it before the program begins
signal.signal(signal.SIGALRM, lambda *_: nbdist.log({"signal": 1}))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
def work(name):
    for step in range(2000):
        nbdist.log({name: step / 7, "long" * 20: step}, step=step)
threads = [threading.Thread(target=work, args=(f"thread{n}",)) for n in range(4)]
for thread in threads: thread.start()
children = []
for n in range(3):
    if (pid := os.fork()) == 0:
        work(f"child{n}")
        os._exit(0)
    children.append(pid)
for thread in threads: thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
for pid in children: assert os.waitpid(pid, 0)[1] == 0
"""
    )

    points = [values for _, values in rank.points()]
    for name in [f"thread{n}" for n in range(4)] + [f"child{n}" for n in range(3)]:
        assert [values[name] for values in points if name in values] == [step / 7 for step in range(2000)]
    assert {"signal": 1} in points


def test_a_full_disk_costs_the_points_that_have_no_room_and_no_other(rank: Rank) -> None:
    done = rank.does(
        """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
nbdist.log(step=0, loss=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (70, hard))
for step in range(1, 50): nbdist.log(step=step, loss=step)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
for step in range(50, 53): nbdist.log(step=step, loss=step)
"""
    )

    lines = rank.files.metrics.read_text().splitlines()
    whole = [line for line in lines if line.startswith("{") and line.endswith("}}")]
    assert [line.partition('"loss": ')[2] for line in whole] == ["0}}", "50}}", "51}}", "52}}"]
    assert done.stderr.count("metrics are not written") == 1


def test_a_run_whose_directory_is_gone_goes_on(rank: Rank) -> None:
    done = rank.does(
        "import shutil, os\nshutil.rmtree(os.environ['NBDIST_RUN_DIR'])\nfor _ in range(9): nbdist.log(x=1)"
    )

    assert done.stderr.count("\n") == 1
    assert "metrics are not written (No such file or directory)" in done.stderr


def test_hyperparameters_are_a_line_of_the_metrics_which_are_private(rank: Rank) -> None:
    rank.does(
        """
import argparse, numpy
args = argparse.Namespace(lr=0.1, layers=3, name="net", debug=False, seed=None, sizes=[1, 2])
nbdist.log_hparams(args, metrics=["val/acc"])
nbdist.log_hparams({"lr": numpy.float64(0.2)}, {"val/acc": 0.9}, step=4)
"""
    )

    first, second = rank.lines()
    assert first["v"] == {}
    assert first["hparams"] == {"lr": 0.1, "layers": 3, "name": "net", "debug": False, "sizes": "[1, 2]"}
    assert first["metrics"] == ["val/acc"]
    assert (second["step"], second["v"], second["hparams"]) == (4, {"val/acc": 0.9}, {"lr": 0.2})
    assert rank.files.metrics.stat().st_mode & 0o077 == 0


def test_logging_imports_no_framework_and_no_numpy(rank: Rank) -> None:
    done = rank.does(
        "import sys\nnbdist.log(loss=0.5)\nnbdist.log_hparams({'lr': 1})\nnbdist.log_text('a', 'b')\n"
        "nbdist.SummaryWriter().add_scalar('a', 1.0)\nprint(*sys.modules)"
    )

    assert {"numpy", "torch", "paddle", "visualdl", "google.protobuf"}.isdisjoint(done.stdout.split())
