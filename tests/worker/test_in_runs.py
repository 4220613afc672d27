"""Whole programs of two ranks, and what VisualDL's own reader finds of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from visualdl.reader.reader import LogReader

from nbdist.board.scalars import Feed

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def needs(framework: str) -> pytest.MarkDecorator:
    # looked for, not imported: this process is to stay one without frameworks
    missing = importlib.util.find_spec(framework) is None
    return pytest.mark.skipif(missing, reason=f"{framework} is not installed")


def read(directory: Path, kind: str, tag: str) -> list[tuple[int, float]]:
    """Return steps and values (zero for none) in the only file of a directory."""
    (file,) = directory.glob("vdlrecords.*")
    return [(value.id, value.value) for value in LogReader(file_path=str(file)).get_data(kind, tag)]


@needs("torch")
def test_a_program_for_tensorboard_shows_its_curves_with_one_changed_line(run_cell) -> None:
    cell = """
import torch, torch.distributed as dist
from nbdist import SummaryWriter
dist.init_process_group()
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
writer = SummaryWriter("runs/ours")
for step in range(5):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    writer.add_scalar("train/loss", loss, step)
    writer.add_scalar("rank", torch.tensor([[dist.get_rank()]]), step)
    writer.add_histogram("weights", model.module.weight, step)
writer.add_image("picture", torch.rand(3, 5, 7), 4)
writer.add_hparams({"lr": 0.1}, {"rank": 0.0})
writer.close()
dist.destroy_process_group()
"""

    handle = run_cell("-n 2", cell, limit=120)

    assert handle.status == "finished", handle.logs(0) + handle.logs(1)
    Feed().advance(handle.directory)
    board = handle.directory.board
    names = {"mean", "min", "max"} | {
        f"rank{r}{kind}" for r in (0, 1) for kind in ("", ".histogram", ".image")
    }
    assert {path.name for path in board.iterdir()} == names
    for rank in (0, 1):
        assert [step for step, _ in read(board / f"rank{rank}", "scalar", "train/loss")] == list(range(5))
        assert len(read(board / f"rank{rank}.histogram", "histogram", "weights")) == 5
        assert len(read(board / f"rank{rank}.image", "image", "picture")) == 1
        assert len(read(board / f"rank{rank}", "hyper_parameters", "hparam")) == 1
    assert read(board / "mean", "scalar", "rank")[:5] == [(step, 0.5) for step in range(5)]
    assert [step for step, _ in read(board / "max", "scalar", "system/step_time")] == [1, 2, 3, 4]


@needs("paddle")
def test_a_program_of_paddle_shows_its_curves_without_a_changed_line(run_cell) -> None:
    cell = """
import numpy as np, paddle
class Digits(paddle.io.Dataset):
    def __getitem__(self, i): return np.ones([4], "float32") * i, np.array([i % 2])
    def __len__(self): return 32
paddle.distributed.init_parallel_env()
model = paddle.Model(paddle.nn.Linear(4, 2))
model.prepare(paddle.optimizer.Adam(parameters=model.parameters()),
              paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
callback = paddle.callbacks.VisualDL(log_dir="visualdl_log")
model.fit(Digits(), epochs=1, batch_size=4, verbose=0, callbacks=callback)
"""

    handle = run_cell("-n 2", cell, limit=120)

    assert handle.status == "finished", handle.logs(0) + handle.logs(1)
    Feed().advance(handle.directory)
    # its own file is where it said, and paddle writes it on rank 0 alone
    own = read(Path(handle.run.spec.cwd) / "visualdl_log", "scalar", "train/loss")
    copy = read(handle.directory.board / "rank0", "scalar", "train/loss")
    assert own == copy
    assert len(copy) == 4
    assert handle.metrics()["train/loss"] == pytest.approx(copy[-1][1])
    assert not handle.directory.rank(1).metrics.exists()


def test_a_framework_is_named_while_it_is_imported(run_cell, tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text(
        "import os\nseen = open(os.environ['NBDIST_RANK_DIR'] + '/importing').read()"
    )
    cell = f"import os, sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport jax\n"
    cell += "print(jax.seen, os.path.exists(os.environ['NBDIST_RANK_DIR'] + '/importing'))"

    handle = run_cell("-n 1 --framework none", cell)

    assert handle.logs(0) == "jax False\n"
