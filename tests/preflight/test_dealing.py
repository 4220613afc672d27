"""Programs that divide data between ranks, in many ways, get no warning; those that only print, log or choose
a device by the rank do."""

from __future__ import annotations

import pytest

from nbdist.preflight import Situation, check

TORCH = """\
import os
import glob
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, TensorDataset

files = sorted(glob.glob("data/*.npy"))
{deal}
dist.init_process_group()
net = DDP(torch.nn.Linear(4, 1))
loader = DataLoader({dataset}, batch_size=8, shuffle=True)
"""
PADDLE = """\
import os
import glob
import numpy as np
import paddle
import paddle.distributed as dist
from paddle.distributed import fleet
from paddle.io import DataLoader, Dataset, TensorDataset

files = sorted(glob.glob("data/*.npy"))
{deal}
dist.init_parallel_env()
net = paddle.DataParallel(paddle.nn.Linear(4, 1))
loader = DataLoader({dataset}, batch_size=8, shuffle=True)
"""
FRAMEWORKS = pytest.mark.parametrize("program", [TORCH, PADDLE], ids=["torch", "paddle"])

DEALS = {
    "a slice": "rank = dist.get_rank()\nmine = files[rank :: dist.get_world_size()]",
    "a slice in a helper": (
        "def part(items):\n    return items[dist.get_rank()::dist.get_world_size()]\nmine = part(files)"
    ),
    "a chunk in a helper": (
        "def span(n):\n    size = n // dist.get_world_size()\n    start = dist.get_rank() * size\n"
        "    return start, start + size\nlow, high = span(len(files))\nmine = files[low:high]"
    ),
    "array_split": "mine = np.array_split(files, dist.get_world_size())[dist.get_rank()]",
    "the environment by get": "n = int(os.environ.get('LOCAL_RANK', 0))\nmine = np.array_split(files, 2)[n]",
    "getenv": "me = int(os.getenv('PADDLE_TRAINER_ID', '0'))\nmine = files[me::2]",
    "an alias": "me = dist.get_rank()\nnumber = me\nmine = files[number::2]",
    "an attribute": (
        "import argparse\nargs = argparse.Namespace()\nargs.rank = int(os.environ['RANK'])\n"
        "mine = files[args.rank::2]"
    ),
    "a loop": (
        "rank, mine = dist.get_rank(), []\nfor i, f in enumerate(files):\n"
        "    if i % dist.get_world_size() == rank:\n        mine.append(f)"
    ),
    "a loop that skips": (
        "mine = []\nfor i, f in enumerate(files):\n    if i % 2 != dist.get_rank():\n        continue\n"
        "    mine.append(f)"
    ),
    "a comprehension": "mine = [f for i, f in enumerate(files) if i % 2 == dist.get_rank()]",
    "a file of the rank's, formatted": "mine = np.load(f'part-{dist.get_rank()}.npy')",
    "a file of the rank's, joined": "mine = np.load(os.path.join('data', 'part' + str(dist.get_rank())))",
    "two files": "if dist.get_rank() == 0:\n    mine = files[:9]\nelse:\n    mine = files[9:]",
    "either file": "mine = files[:9] if dist.get_rank() == 0 else files[9:]",
    "another seed": "rank = dist.get_rank()\nnp.random.seed(rank)\nmine = np.random.permutation(files)[:9]",
    "a table": "mine = {0: files[:9], 1: files[9:]}[dist.get_rank()]",
}

HARMLESS = {
    "nothing": "mine = files",
    "a line": "rank = dist.get_rank()\nprint(f'rank {rank} of {dist.get_world_size()}')\nmine = files",
    "a line of one rank": "mine = files\nif dist.get_rank() == 0:\n    print(len(mine))",
    "the last rank": "mine = files\nif dist.get_rank() == dist.get_world_size() - 1:\n    print('last')",
}
TORCH_HARMLESS = {"a device": "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\nmine = files"}


def rules(program: str, deal: str, dataset: str) -> list[str]:
    cell = program.format(deal=deal, dataset=dataset)
    return [finding.rule.name for finding in check(cell, Situation(installed=lambda _: True))]


@FRAMEWORKS
@pytest.mark.parametrize("deal", DEALS.values(), ids=DEALS)
@pytest.mark.parametrize("dataset", ["mine", "TensorDataset([np.load(f) for f in mine])"])
def test_ranks_that_get_data_of_their_own_are_divided(program: str, deal: str, dataset: str) -> None:
    assert rules(program, deal, dataset) == []


@FRAMEWORKS
@pytest.mark.parametrize("deal", HARMLESS.values(), ids=HARMLESS)
def test_a_rank_that_is_only_asked_for_divides_nothing(program: str, deal: str) -> None:
    assert rules(program, deal, "mine") == ["data-not-divided"]


@pytest.mark.parametrize("deal", TORCH_HARMLESS.values(), ids=TORCH_HARMLESS)
def test_a_rank_that_chooses_a_device_or_a_text_divides_nothing(deal: str) -> None:
    assert "data-not-divided" in rules(TORCH, deal, "mine")


@FRAMEWORKS
def test_a_data_set_may_deal_itself_out(program: str) -> None:
    deal = (
        "class Mine(Dataset):\n    def __init__(self, paths):\n        self.rank = dist.get_rank()\n"
        "        self.paths = paths[self.rank::2]\n    def __len__(self):\n        return len(self.paths)"
    )

    assert rules(program, deal, "Mine(files)") == []


def test_a_loader_of_each_rank_s_own_is_divided() -> None:
    cell = TORCH.format(deal="", dataset="files").replace(
        "loader =", "if dist.get_rank() == 0:\n    loader ="
    )
    cell += "else:\n    loader = DataLoader(files[9:], shuffle=True)\n"

    assert check(cell, Situation()) == []


def test_a_model_on_several_gpus_of_one_process_has_no_group_to_divide_by() -> None:
    cell = (
        "import torch\nnet = torch.nn.DataParallel(torch.nn.Linear(1, 1))\n"
        "loader = torch.utils.data.DataLoader([], shuffle=True)"
    )

    assert check(cell, Situation()) == []


def test_a_parallel_model_that_is_only_imported_says_nothing() -> None:
    cell = TORCH.format(deal="", dataset="files").replace(
        "DDP(torch.nn.Linear(4, 1))", "torch.nn.Linear(4, 1)"
    )

    assert check(cell, Situation()) == []
