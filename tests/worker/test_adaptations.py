"""Libraries that a program uses in a rank: their numbers become curves, their bars text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nbdist.worker import bootstrap
from nbdist.worker.adaptations import ADAPTED

if TYPE_CHECKING:
    from tests.worker.conftest import Rank

AS_IN_A_RANK = """
from nbdist.worker import adaptations
from nbdist.worker.framework_hooks import after_import
for name in adaptations.ADAPTED:
    after_import(name, adaptations.adapt)
"""

# packages with the surface of those that they stand for: what they were told they print
WANDB = """
class Run:
    def __init__(self):
        self._local_step = 0
    def log(self, data, step=None, commit=None):
        self._local_step = max(self._local_step, step or 0) + (commit is not False)
        print("wandb", data, step)
"""
SWANLAB = """
class Run:
    class _ctx:
        _global_step = 6
    def log(self, data, step=None): pass
"""
TRACKIO = "class Run:\n    _next_step = 7\n    def log(self, metrics, step=None): pass"
MLFLOW = """
class TrackingServiceClient:
    def log_metric(self, run_id, key, value, timestamp=None, step=None, synchronous=True):
        print("mlflow", key, value, step)
    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=True):
        print("mlflow", len(metrics))
"""
TQDM = """
class std_tqdm:
    def __init__(self, iterable, total=None):
        self.iterable, self.total = iterable, total
    def __iter__(self):
        yield from self.iterable
        print("as text")
"""
TQDM_NOTEBOOK = """
from tqdm import std_tqdm
class tqdm_notebook(std_tqdm):
    def __iter__(self):
        print("as a widget")
def tnrange(*given, **named):
    return tqdm_notebook(range(*given), **named)
tqdm, trange = tqdm_notebook, tnrange
"""


@pytest.fixture
def stand_ins(rank: Rank) -> Path:
    """Return the directory where a program of the rank finds the packages."""
    for name, code in {
        "wandb/sdk/wandb_run.py": WANDB,
        "swanlab/sdk/internal/run.py": SWANLAB,
        "trackio/run.py": TRACKIO,
        "mlflow/tracking/_tracking_service/client.py": MLFLOW,
        "tqdm/__init__.py": TQDM,
        "tqdm/notebook.py": TQDM_NOTEBOOK,
    }.items():
        file = rank.run.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    return rank.run.path


def test_the_names_that_a_rank_looks_for_are_those_that_are_adapted() -> None:
    assert set(bootstrap._ADAPTED) == set(ADAPTED)


@pytest.mark.usefixtures("stand_ins")
def test_numbers_for_wandb_become_points_and_nothing_else_does(rank: Rank) -> None:
    done = rank.does(
        AS_IN_A_RANK
        + """
from wandb.sdk.wandb_run import Run
run = Run()
run.log({"loss": 0.5, "sample": "text", "flag": True, "nested": {"acc": 1}})
run.log({"loss": 0.25}, commit=False)
run.log({"val_loss": 0.75})
run.log({"loss": 0.125}, step=10)
run.log({"train_loss": 0.5, "trainer/global_step": 70})
"""
    )

    assert rank.points() == [
        (0, {"loss": 0.5, "nested.acc": 1.0}),
        (1, {"loss": 0.25}),
        (1, {"val_loss": 0.75}),
        (10, {"loss": 0.125}),
        (70, {"train_loss": 0.5}),
    ]
    assert done.stdout.count("wandb") == 5


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize(
    ("module", "data"), [("swanlab.sdk.internal.run", "data"), ("trackio.run", "metrics")]
)
def test_numbers_for_swanlab_and_trackio_become_points(rank: Rank, module: str, data: str) -> None:
    code = f"run.log({data}={{'loss': 0.5, 'nested': {{'acc': 1}}}})\nrun.log({{'loss': 0.25}}, 9)"
    rank.does(f"{AS_IN_A_RANK}\nfrom {module} import Run\nrun = Run()\n{code}")

    assert rank.points() == [(7, {"loss": 0.5, "nested/acc": 1.0}), (9, {"loss": 0.25})]


@pytest.mark.usefixtures("stand_ins")
def test_metrics_for_mlflow_become_points_and_one_that_two_libraries_are_told_is_one(rank: Rank) -> None:
    rank.does(
        AS_IN_A_RANK
        + """
from types import SimpleNamespace as Metric
from mlflow.tracking._tracking_service.client import TrackingServiceClient
from wandb.sdk.wandb_run import Run
client = TrackingServiceClient()
client.log_metric("run", "loss", 0.5, timestamp=1763712345500, step=3)
client.log_batch("run", metrics=[
    Metric(key="acc", value=0.75, timestamp=1763712345500, step=4),
    Metric(key="system/cpu", value=90, timestamp=1763712345500, step=4),
])
Run().log({"loss": 0.5, "other": 1.0}, step=3)
client.log_metric("run", "other", 1.0, step=3)
"""
    )

    assert rank.points() == [(3, {"loss": 0.5}), (4, {"acc": 0.75}), (3, {"other": 1.0})]
    assert rank.lines()[0]["t"] == 1763712345.5


@pytest.mark.usefixtures("stand_ins")
def test_an_error_of_the_library_is_the_program_s_and_makes_no_point(rank: Rank) -> None:
    done = rank.does(
        AS_IN_A_RANK
        + """
from wandb.sdk.wandb_run import Run
try:
    Run().log({"loss": 0.5}, step="three")
except TypeError as error:
    print(error)
print(Run.log.__name__)
"""
    )

    assert "not supported" in done.stdout
    assert done.stdout.endswith("log\n")
    assert not rank.files.metrics.exists()


def test_scalars_of_torch_s_summary_writer_are_in_its_own_file_and_in_the_run(rank: Rank) -> None:
    rank.does(
        AS_IN_A_RANK
        + """
import torch
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("runs/a") as writer:
    writer.add_scalar("loss", torch.tensor(0.5), 1, walltime=1763712345.5)
    writer.add_scalars("both", {"train": 0.5, "val": 0.75}, 1)
    writer.add_hparams({"lr": 0.1}, {"best": 0.5})
with SummaryWriter("runs/val") as other:
    other.add_scalar("loss", 0.25, 2)
"""
    )

    assert rank.points() == [
        (1, {"loss": 0.5}),
        (1, {"both/train": 0.5, "both/val": 0.75}),
        (None, {"best": 0.5}),
        (2, {"val/loss": 0.25}),
    ]
    assert rank.lines()[0]["t"] == 1763712345.5
    assert rank.lines()[2]["hparams"] == {"lr": 0.1}
    assert list((rank.run.path / "runs" / "a").glob("events*"))


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("bar", ["tqdm(range(3), display=False)", "trange(3, total=3)"])
def test_bars_of_a_notebook_are_text_in_a_rank(rank: Rank, bar: str) -> None:
    done = rank.does(f"{AS_IN_A_RANK}\nfrom tqdm.notebook import tqdm, trange\nprint(*{bar})")

    assert done.stdout == "as text\n0 1 2\n"
