"""What nbdist says of programs before they start: each rule where it applies, and silence elsewhere."""

from __future__ import annotations

import json
import string
import time
from pathlib import Path

import pytest

from nbdist.preflight import Build, Holding, Situation, check
from nbdist.preflight.finding import rules as all_rules
from tests.diagnosis.recordings import RECORDED, program_of

ROOT = Path(__file__).parents[2]
TORCH = (
    "import os, torch\n"
    "import torch.distributed as dist\n"
    "from torch.nn.parallel import DistributedDataParallel\n"
)
PADDLE = "import paddle\nimport paddle.distributed as dist\nfrom paddle.distributed import fleet\n"
BUILDS = {"torch": Build(version="2.13.0"), "paddle": Build(version="3.3.1")}
NO_APEX = {"installed": lambda name: name != "apex"}
INIT = "dist.init_process_group()\n"
GPUS = {"gpus": (0, 1)}


ON_GPUS = {**GPUS, "build": lambda _: None}
PARSER = "import argparse\np = argparse.ArgumentParser()\n"


def rules(cell: str, **situation: object) -> list[tuple[str, int | None]]:
    known = {"build": BUILDS.get, "version": {"torch": "2.13"}.get} | situation
    return [(found.rule.name, found.line) for found in check(cell, Situation(**known))]


@pytest.mark.parametrize(
    ("cell", "situation", "expected"),
    [
        pytest.param("import paddle.fluid as fluid", {}, ("removed", 1), id="fluid"),
        pytest.param("place = fluid.CPUPlace()", {}, ("removed", 1), id="fluid of another cell"),
        pytest.param("from apex import amp", NO_APEX, ("apex", 1), id="apex"),
        pytest.param("import torch\nfrom torch._six import inf", {}, ("removed", 2), id="torch._six"),
        pytest.param(
            PADDLE + "net.scale_loss(1)\nnet = 1", {"world_size": 1}, ("name-too-early", 4), id="early"
        ),
        pytest.param(TORCH + "torch.ones(1).cuda()", {}, ("cuda-on-cpu-ranks", 4), id="cuda"),
        pytest.param(TORCH + "torch.ones(1, device='cuda:0')", {}, ("cuda-on-cpu-ranks", 4), id="device="),
        pytest.param(TORCH + "d = 'cuda'\ntorch.ones(1).to(d)", {}, ("cuda-on-cpu-ranks", 5), id="to"),
        pytest.param(PADDLE + "paddle.set_device('gpu')", {}, ("cuda-on-cpu-ranks", 4), id="set_device"),
        pytest.param(TORCH + "dist.init_process_group('nccl')", {}, ("nccl-on-cpu-ranks", 4), id="nccl"),
        pytest.param(
            TORCH + "dist.init_process_group('gloo', world_size=4)",
            {},
            ("world-size-differs", 4),
            id="world size",
        ),
        pytest.param(
            TORCH + "dist.init_process_group(world_size=torch.cuda.device_count())",
            {},
            ("world-size-of-gpus", 4),
            id="world size of GPUs",
        ),
        pytest.param(TORCH + "dist.init_process_group(rank=0)", {}, ("rank-fixed", 4), id="rank"),
        pytest.param(
            TORCH + "dist.init_process_group(init_method=f'tcp://localhost:2222')",
            {},
            ("address-fixed", 4),
            id="tcp",
        ),
        pytest.param(TORCH + "os.environ['MASTER_PORT'] = '8888'", {}, ("address-fixed", 4), id="port"),
        pytest.param(
            TORCH + "os.environ['MASTER_ADDR'] = '10.57.23.164'", {}, ("address-elsewhere", 4), id="address"
        ),
        pytest.param(
            TORCH + "os.environ.update({'RANK': '0'})", {}, ("rank-variable-fixed", 4), id="rank variable"
        ),
        pytest.param(
            TORCH + "os.environ['CUDA_VISIABLE_DEVICES'] = '0'", {}, ("visible-misspelt", 4), id="misspelt"
        ),
        pytest.param(
            "pass", {"environment": {"CUDA_VISIABLE_DEVICES": "0"}}, ("visible-misspelt", None), id="in --env"
        ),
        pytest.param(
            TORCH + "os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'", {}, ("visible-in-cell", 4), id="visible"
        ),
        pytest.param(
            "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)",
            {},
            ("spawn-in-ranks", 2),
            id="mp.spawn",
        ),
        pytest.param(PADDLE + "dist.spawn(print)", {}, ("spawn-in-ranks", 4), id="dist.spawn"),
        pytest.param(
            "from accelerate import notebook_launcher\nnotebook_launcher(train, (1,), num_processes=2)\n"
            "def train(): ...",
            {},
            ("launches-in-ranks", 2),
            id="notebook_launcher",
        ),
        pytest.param(
            "import ignite.distributed as idist\nwith idist.Parallel(nproc_per_node=2) as p:\n    p.run(f)",
            {},
            ("launches-in-ranks", 2),
            id="idist.Parallel",
        ),
        pytest.param(
            "import lightning as L\nL.Trainer(devices=2, strategy='ddp_notebook')",
            {},
            ("launches-in-ranks", 2),
            id="ddp_notebook",
        ),
        pytest.param(
            "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=8)",
            {"world_size": 1, "gpus": (3,)},
            ("more-processes-than-gpus", 2),
            id="more processes than GPUs",
        ),
        pytest.param(
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--local_rank', type=int)\n"
            "args = p.parse_args()\nprint(args.local_rank)",
            {},
            ("local-rank-argument", 3),
            id="local_rank",
        ),
        pytest.param(
            TORCH + INIT + "torch.ones(1).cuda()", GPUS, ("one-gpu-for-all", 5), id="one GPU for all"
        ),
        pytest.param(
            TORCH + INIT + "torch.device('cuda', 0)",
            GPUS,
            ("one-gpu-for-all", 5),
            id="torch.device('cuda', 0)",
        ),
        pytest.param(
            "import torch, wandb\nfrom somelib import init_weights\nwandb.init()\n"
            "init_weights(torch.nn.Linear(1, 1).cuda())",
            GPUS,
            ("one-gpu-for-all", 4),
            id="one GPU for all, with a tracker",
        ),
        pytest.param(
            "import torch\nimport torch.multiprocessing as mp\nn = torch.cuda.device_count()\n"
            "if n > 1:\n    mp.spawn(print, nprocs=n)",
            GPUS,
            ("spawn-in-ranks", 5),
            id="a spawn where there are several GPUs",
        ),
        pytest.param(TORCH + INIT + "torch.ones(1).cuda(2)", GPUS, ("gpu-beyond", 5), id="a GPU too many"),
        pytest.param(TORCH + "DistributedDataParallel(print)", {}, ("no-group", 4), id="no group"),
        pytest.param(
            TORCH + "rank = int(os.environ['RANK'])\nif rank == 0:\n    dist.init_process_group()",
            {},
            ("group-on-one-rank", 6),
            id="group on one rank",
        ),
        pytest.param(
            TORCH + INIT + "if dist.get_rank() == 0:\n    dist.barrier()",
            {},
            ("collective-on-one-rank", 6),
            id="barrier",
        ),
        pytest.param(
            TORCH + INIT + "DistributedDataParallel(print)\ntorch.utils.data.DataLoader([], shuffle=True)",
            {},
            ("data-not-divided", 6),
            id="data not divided",
        ),
        pytest.param(
            TORCH + "torch.utils.data.DataLoader([], shuffle=True, sampler=torch.Sampler())",
            {},
            ("shuffle-and-sampler", 4),
            id="shuffle and sampler",
        ),
        pytest.param(
            PADDLE + "fleet.init()\nfleet.distributed_model(print)",
            {"world_size": 1},
            ("fleet-with-one-rank", 5),
            id="fleet",
        ),
        pytest.param("n = input()", {}, ("input", 1), id="input"),
        pytest.param("breakpoint()", {}, ("debugger", 1), id="breakpoint"),
        pytest.param("import pdb\npdb.set_trace()", {}, ("debugger", 2), id="pdb"),
        pytest.param(
            TORCH + "torch.utils.data.DataLoader([], num_workers=4)",
            {"shared_memory": 64 << 20},
            ("shared-memory-small", 4),
            id="shared memory",
        ),
        pytest.param("import torch", GPUS, ("cpu-build", 1), id="CPU build"),
        pytest.param(
            "import torch",
            {**GPUS, "build": lambda _: Build(version="2.13", cuda="13.0"), "driver_cuda": "12.4"},
            ("driver-too-old", 1),
            id="old driver",
        ),
        pytest.param(
            "pass",
            {**GPUS, "held": (Holding(gpu=1, memory=30, total=80, holder="eva"),)},
            ("gpu-held", None),
            id="GPU held",
        ),
    ],
)
def test_what_goes_wrong_is_said_with_its_line(
    cell: str, situation: dict[str, object], expected: tuple[str, int | None]
) -> None:
    assert expected in rules(cell, **situation)


@pytest.mark.parametrize(
    ("cell", "situation"),
    [
        pytest.param(
            TORCH + "if torch.cuda.is_available():\n    torch.ones(1).cuda()",
            {},
            id="a program that asks for CUDA",
        ),
        pytest.param(
            TORCH + "dist.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')",
            {},
            id="chosen backend",
        ),
        pytest.param(
            TORCH + "dist.init_process_group('nccl')", {**GPUS, "build": lambda _: None}, id="nccl on GPUs"
        ),
        pytest.param(TORCH + "dist.init_process_group(world_size=2)", {}, id="the right world size"),
        pytest.param(TORCH + "os.environ.setdefault('MASTER_PORT', '8888')", {}, id="setdefault"),
        pytest.param(TORCH + "os.environ['MASTER_ADDR'] = 'localhost'", {}, id="this machine"),
        pytest.param(TORCH + "os.environ['CUDA_VISIBLE_DEVICES'] = ''", {}, id="no GPU"),
        pytest.param(
            "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)",
            {"world_size": 1},
            id="spawn in one rank",
        ),
        pytest.param(
            TORCH
            + INIT
            + "r = dist.get_rank()\nif r != 0:\n    dist.barrier()\nprint()\nif r == 0:\n    dist.barrier()",
            {},
            id="the others wait for rank 0",
        ),
        pytest.param(
            TORCH
            + INIT
            + "if dist.get_rank() == 0:\n    dist.broadcast(1, 0)\nelse:\n    dist.broadcast(2, 0)",
            {},
            id="both branches",
        ),
        pytest.param(
            "from my_code import setup, DDP\nsetup()\nDDP(print)", {}, id="the group is started elsewhere"
        ),
        pytest.param(
            TORCH + INIT + "DistributedDataParallel(print)\n"
            "sampler = torch.utils.data.DistributedSampler([])\n"
            "torch.utils.data.DataLoader([], sampler=sampler)",
            {},
            id="divided data",
        ),
        pytest.param(
            TORCH + INIT + "DistributedDataParallel(print)\ndata = torch.load(f'part{dist.get_rank()}')\n"
            "rank = dist.get_rank()\ndata = data[rank]\ntorch.utils.data.DataLoader(data, shuffle=True)",
            {},
            id="data chosen by rank",
        ),
        pytest.param(
            "p.add_argument('--local_rank')\nimport os\nos.environ['LOCAL_RANK']\np = None\n".replace(
                "p.add", "print.add", 1
            ),
            {},
            id="LOCAL_RANK is read",
        ),
        pytest.param(
            PARSER + "p.add_argument('--local_rank')\np.parse_args()", {}, id="--local_rank is not used"
        ),
        pytest.param(
            PARSER + "p.add_argument('--local_rank')\nargs = p.parse_args()\nargs.local_rank = 0\n"
            "print(args.local_rank)",
            {},
            id="--local_rank is overwritten",
        ),
        pytest.param(
            PARSER + "import json as utils\np.add_argument('--local-rank')\nargs = p.parse_args()\n"
            "utils.init_device(args)\nprint(args.local_rank)",
            {},
            id="--local-rank is given by a function that gets all arguments",
        ),
        pytest.param(
            PARSER + "import torch.multiprocessing as mp\np.add_argument('--many', action='store_true')\n"
            "args = p.parse_args()\nif args.many:\n    mp.spawn(print, nprocs=2)",
            {},
            id="a spawn behind an option that is off",
        ),
        pytest.param(
            "import torch, json as misc\nmisc.init_distributed_mode(0)\ntorch.nn.Linear(1, 1).to('cuda')",
            {**GPUS, "build": lambda _: None},
            id="a library's function sets the ranks up",
        ),
        pytest.param("print(input)", {}, id="input is not called"),
        pytest.param(
            TORCH + INIT + "DistributedDataParallel(print)\ndata = torch.randn(8, 2)\n"
            "torch.utils.data.DataLoader(data, shuffle=True)",
            {},
            id="data drawn on each rank",
        ),
        pytest.param(
            TORCH
            + INIT
            + "torch.manual_seed(dist.get_rank())\nrank = dist.get_rank()\ntorch.manual_seed(rank)\n"
            "DistributedDataParallel(print)\ntorch.utils.data.DataLoader(torch.randn(8), shuffle=True)",
            {},
            id="a seed for each rank",
        ),
        pytest.param(
            TORCH + INIT + "part = dist.new_group([0])\nif dist.get_rank() == 0:\n"
            "    dist.all_reduce(torch.ones(1), dist.ReduceOp.SUM, part)",
            {},
            id="a group of some ranks",
        ),
        pytest.param("pass", {**GPUS, "held": (Holding(gpu=1, memory=1, total=80),)}, id="a little is held"),
        pytest.param(
            TORCH + INIT + "d = torch.device('cuda', dist.get_rank())\ntorch.ones(1).to(d)",
            ON_GPUS,
            id="a device by the rank",
        ),
        pytest.param(
            "import torch, somelib\nsomelib.launch_from_torch()\ntorch.nn.Linear(1, 1).cuda()",
            ON_GPUS,
            id="a library starts the ranks",
        ),
        pytest.param(
            "import torch\nfrom somelib import LoopTrainer\nLoopTrainer().fit(torch.nn.Linear(1, 1).cuda())",
            ON_GPUS,
            id="a library's trainer",
        ),
        pytest.param("import torch\nloss = torch.nn.MSELoss().cuda()", {}, id="a loss has nothing to move"),
        pytest.param("import torch\ntorch.device('cpu', 0)", {}, id="an index of the CPU"),
        pytest.param("import torch\nloss = torch.nn.MSELoss().cuda()", ON_GPUS, id="nor on GPUs"),
        pytest.param(
            PARSER + "import torch.multiprocessing as mp\np.add_argument('--n', type=int, default=1)\n"
            "n = p.parse_args().n\nif n == 1:\n    print()\nelse:\n    mp.spawn(print, nprocs=n)",
            {},
            id="a spawn if an option says several",
        ),
        pytest.param(
            "import torch\nimport torch.multiprocessing as mp\nn = torch.cuda.device_count()\n"
            "if n > 1:\n    mp.spawn(print, nprocs=n)",
            {},
            id="a spawn if there are several GPUs, on the CPU",
        ),
        pytest.param(
            "import sys\ndef f(s):\n    if sys.version_info[0] < 3:\n        return unicode(s)\n    return s",
            {},
            id="a name of Python 2 for Python 2",
        ),
        pytest.param(
            "import sys\ndef whole(n):\n    if sys.version > '3':\n        return isinstance(n, int)\n"
            "    return isinstance(n, (int, long))",
            {},
            id="a name of Python 2, after the other way out",
        ),
        pytest.param(
            "try:\n    from torch import inf\nexcept ImportError:\n"
            "    from torch._six import inf\nprint(inf)",
            {},
            id="what an older torch has elsewhere",
        ),
        pytest.param(
            "from torch._six import inf", {"version": {"torch": "1.13"}.get}, id="torch._six of torch 1.13"
        ),
        pytest.param(
            TORCH + "os.environ['CUDA_VISIBLE_DEVICES'] = os.environ.get('CUDA_VISIBLE_DEVICES', '0')",
            ON_GPUS,
            id="what nbdist has set is kept",
        ),
        pytest.param(
            TORCH + INIT + "def third(t, many=False):\n    return t.to('cuda:2') if many else t",
            ON_GPUS,
            id="a GPU that only more have",
        ),
        pytest.param(
            "import six\ndef text(s):\n    return str(s) if six.PY3 else unicode(s)",
            {},
            id="a name of Python 2, by six",
        ),
        pytest.param(
            PARSER + "import torch.distributed as dist\np.add_argument('--local_rank', default=-1)\n"
            "n = p.parse_args().local_rank\nif n == -1:\n    n = dist.get_rank()",
            {},
            id="--local_rank is replaced where it was not given",
        ),
    ],
)
def test_what_is_right_gets_no_word(cell: str, situation: dict[str, object]) -> None:
    assert rules(cell, **situation) == []


def healthy_cells() -> list[object]:
    names = sorted(path.stem for path in RECORDED.glob("healthy_*.json"))
    cells = [pytest.param(program_of(name), id=name) for name in names]
    notebook = json.loads((ROOT / "notebooks/01-quickstart.ipynb").read_text())
    for number, cell in enumerate(notebook["cells"]):
        magic, _, source = "".join(cell["source"]).partition("\n")
        if magic.startswith("%%distributed"):
            cells.append(pytest.param(source, id=f"quickstart, cell {number}"))
    return cells


@pytest.mark.parametrize("cell", healthy_cells())
def test_healthy_programs_get_no_word(cell: str) -> None:
    assert rules(cell) == []


def test_only_what_the_text_alone_shows_keeps_a_run_from_starting() -> None:
    certain = {
        found.rule.name
        for cell in (
            "import paddle.fluid",
            "from apex import amp",
            "input()",
            "breakpoint()",
            "x",
            TORCH + "torch.ones(1).cuda()",
        )
        for found in check(cell, Situation(build=BUILDS.get, installed=lambda name: name != "apex"))
        if found.certain
    }

    assert certain == {"removed", "apex", "input", "name-unknown"}


@pytest.mark.parametrize("rule", all_rules().values(), ids=all_rules())
def test_both_languages_of_a_rule_speak_of_the_same(rule) -> None:
    def fields(text: str) -> set[str]:
        return {name.removesuffix("_zh") for _, name, _, _ in string.Formatter().parse(text) if name}

    assert fields(rule.what) == fields(rule.what_zh)
    assert fields(rule.instead) == fields(rule.instead_zh)


def test_the_check_of_a_cell_takes_no_more_than_its_length() -> None:
    function = "def f(a, b=1):\n    c = [a + b for a in range(b)]\n    return torch.ones(len(c))\n\n"

    def spent(count: int) -> float:
        """Seconds of a processor, the least of three times."""
        cell = "import torch\n" + function * count
        times = []
        for _ in range(3):
            started = time.process_time()
            check(cell, Situation())
            times.append(time.process_time() - started)
        return min(times)

    # with the square of the length it would be 64 times
    assert spent(800) < 32 * spent(100)


def test_a_module_of_the_user_s_may_choose_the_device(tmp_path: Path) -> None:
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "misc.py").write_text(
        "import torch\n\ndef start(gpu):\n    torch.cuda.set_device(gpu)\n"
    )
    cell = "import torch\nfrom utils import misc\nmisc.start(0)\ntorch.nn.Linear(1, 1).to('cuda')"
    situation = Situation(**GPUS)

    assert [one.rule.name for one in check(cell, situation)] == ["one-gpu-for-all"]
    assert check(cell, situation, [str(tmp_path)]) == []


def test_a_spawn_behind_an_option_that_was_passed_is_warned_of() -> None:
    cell = PARSER + (
        "import torch.multiprocessing as mp\np.add_argument('--many', action='store_true')\n"
        "args = p.parse_args()\nif args.many:\n    mp.spawn(print, nprocs=2)"
    )

    assert rules(cell, args=("--many",)) == [("spawn-in-ranks", 7)]
