"""The checks of programs before they start: each rule where it applies, and silence elsewhere, also about
code that this run does not reach: uncalled functions, options that are off, other launchers' variables."""

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
INIT = "dist.init_process_group()\n"
PADDLE = "import paddle\nimport paddle.distributed as dist\nfrom paddle.distributed import fleet\n"
PARSER = "import argparse, os\np = argparse.ArgumentParser()\n"
SPAWN = "import torch\nimport torch.multiprocessing as mp\n"
NCCL = "import os\nimport torch.distributed as dist\ndef setup():\n    dist.init_process_group('nccl')\n"
PORT = "import os\ndef meet():\n    os.environ['MASTER_PORT'] = '10638'\n"
LIBRARY = "import torch\nimport lightning as L\n"
IGNITE = "import ignite.distributed as idist\n"
BUILDS = {"torch": Build(version="2.13.0", cuda="12.8"), "paddle": Build(version="3.3.1", cuda="12.6")}
GPUS = {"gpus": (0, 1)}
ONE_RANK = {"world_size": 1}


def rules(cell: str, path: tuple[str, ...] = (), **situation: object) -> list[tuple[str, int | None]]:
    known = {"build": BUILDS.get, "version": {"torch": "2.13"}.get} | situation
    return [(finding.rule.name, finding.line) for finding in check(cell, Situation(**known), path)]


WRONG_ON_CPU = {
    "fluid": ("import paddle.fluid as fluid", "removed", 1),
    "fluid of another cell": ("place = fluid.CPUPlace()", "removed", 1),
    "torch._six": ("import torch\nfrom torch._six import inf", "removed", 2),
    "cuda": (TORCH + "torch.ones(1).cuda()", "cuda-on-cpu-ranks", 4),
    "device=": (TORCH + "torch.ones(1, device='cuda:0')", "cuda-on-cpu-ranks", 4),
    "to": (TORCH + "d = 'cuda'\ntorch.ones(1).to(d)", "cuda-on-cpu-ranks", 5),
    "set_device": (PADDLE + "paddle.set_device('gpu')", "cuda-on-cpu-ranks", 4),
    "nccl": (TORCH + "dist.init_process_group('nccl')", "nccl-on-cpu-ranks", 4),
    "world size": (TORCH + "dist.init_process_group('gloo', world_size=4)", "world-size-differs", 4),
    "world size of GPUs": (
        TORCH + "dist.init_process_group(world_size=torch.cuda.device_count())",
        "world-size-of-gpus",
        4,
    ),
    "rank": (TORCH + "dist.init_process_group(rank=0)", "rank-fixed", 4),
    "tcp": (TORCH + "dist.init_process_group(init_method=f'tcp://localhost:2222')", "address-fixed", 4),
    "port": (TORCH + "os.environ['MASTER_PORT'] = '8888'", "address-fixed", 4),
    "address": (TORCH + "os.environ['MASTER_ADDR'] = '10.57.23.164'", "address-elsewhere", 4),
    "rank variable": (TORCH + "os.environ.update({'RANK': '0'})", "rank-variable-fixed", 4),
    "misspelt": (TORCH + "os.environ['CUDA_VISIABLE_DEVICES'] = '0'", "visible-misspelt", 4),
    "visible": (TORCH + "os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'", "visible-in-cell", 4),
    "mp.spawn": ("import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)", "spawn-in-ranks", 2),
    "dist.spawn": (PADDLE + "dist.spawn(print)", "spawn-in-ranks", 4),
    "notebook_launcher": (
        "from accelerate import notebook_launcher\nnotebook_launcher(train, (1,), num_processes=2)\n"
        "def train(): ...",
        "launches-in-ranks",
        2,
    ),
    "idist.Parallel": (
        IGNITE + "with idist.Parallel(nproc_per_node=2) as p:\n    p.run(f)",
        "launches-in-ranks",
        2,
    ),
    "ddp_notebook": (
        "import lightning as L\nL.Trainer(devices=2, strategy='ddp_notebook')",
        "launches-in-ranks",
        2,
    ),
    "a command": ("import os\nos.system('/bin/torchrun --nnodes 1 t.py')", "launches-in-ranks", 2),
    "a module as a command": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'torch.distributed.run', 't.py'])",
        "launches-in-ranks",
        2,
    ),
    "local_rank": (
        PARSER + "p.add_argument('--local_rank', type=int)\nargs = p.parse_args()\nprint(args.local_rank)",
        "local-rank-argument",
        3,
    ),
    "no group": (TORCH + "DistributedDataParallel(print)", "no-group", 4),
    "group on one rank": (
        TORCH + "rank = int(os.environ['RANK'])\nif rank == 0:\n    dist.init_process_group()",
        "group-on-one-rank",
        6,
    ),
    "barrier": (TORCH + INIT + "if dist.get_rank() == 0:\n    dist.barrier()", "collective-on-one-rank", 6),
    "data not divided": (
        TORCH + INIT + "DistributedDataParallel(print)\ntorch.utils.data.DataLoader([], shuffle=True)",
        "data-not-divided",
        6,
    ),
    "input": ("n = input()", "input", 1),
    "breakpoint": ("breakpoint()", "debugger", 1),
    "a function that is called by its name": (
        SPAWN + "def many():\n    mp.spawn(print, nprocs=2)\nif __name__ == '__main__':\n"
        "    globals()['many']()",
        "spawn-in-ranks",
        4,
    ),
    "nccl in a function": (NCCL + "if __name__ == '__main__':\n    setup()", "nccl-on-cpu-ranks", 4),
    "without the other launcher": (
        NCCL + "if 'SLURM_PROCID' not in os.environ:\n    setup()",
        "nccl-on-cpu-ranks",
        4,
    ),
    "a port": (PORT + "if 'RANK' in os.environ:\n    meet()", "address-fixed", 3),
    "processes of ignite's own": (
        IGNITE + "n = 2\nwith idist.Parallel(nproc_per_node=n) as p:\n    p.run(print)",
        "launches-in-ranks",
        3,
    ),
}
WRONG_ON_GPUS = {
    "one GPU for all": (TORCH + INIT + "torch.ones(1).cuda()", "one-gpu-for-all", 5),
    "torch.device('cuda', 0)": (TORCH + INIT + "torch.device('cuda', 0)", "one-gpu-for-all", 5),
    "one GPU for all, with a tracker": (
        "import torch, wandb\nfrom somelib import init_weights\nwandb.init()\n"
        "init_weights(torch.nn.Linear(1, 1).cuda())",
        "one-gpu-for-all",
        4,
    ),
    "a spawn where there are several GPUs": (
        SPAWN + "n = torch.cuda.device_count()\nif n > 1:\n    mp.spawn(print, nprocs=n)",
        "spawn-in-ranks",
        5,
    ),
    "a GPU too many": (TORCH + INIT + "torch.ones(1).cuda(2)", "gpu-beyond", 5),
    "outside of what a library calls": (
        LIBRARY + "class Model(L.LightningModule): ...\nModel().cuda()",
        "one-gpu-for-all",
        4,
    ),
    "a method that torch calls": (
        LIBRARY + "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x.cuda()",
        "one-gpu-for-all",
        5,
    ),
}
WRONG_ELSEWHERE = {
    "apex": ("from apex import amp", {"installed": lambda name: name != "apex"}, "apex", 1),
    "early": (PADDLE + "net.scale_loss(1)\nnet = 1", ONE_RANK, "name-too-early", 4),
    "in --env": ("pass", {"environment": {"CUDA_VISIABLE_DEVICES": "0"}}, "visible-misspelt", None),
    "more processes than GPUs": (
        SPAWN + "mp.spawn(print, nprocs=8)",
        {**ONE_RANK, "gpus": (3,)},
        "more-processes-than-gpus",
        3,
    ),
    "fleet": (PADDLE + "fleet.init()\nfleet.distributed_model(print)", ONE_RANK, "fleet-with-one-rank", 5),
    "shared memory": (
        TORCH + "torch.utils.data.DataLoader([], num_workers=4)",
        {"shared_memory": 64 << 20},
        "shared-memory-small",
        4,
    ),
    "CPU build": ("import torch", {**GPUS, "build": lambda _: Build(version="2.13")}, "cpu-build", 1),
    "old driver": ("import torch", {**GPUS, "driver_cuda": "11.4"}, "driver-too-old", 1),
    "GPU held": (
        "pass",
        {**GPUS, "held": (Holding(gpu=1, memory=30, total=80, holder="eva"),)},
        "gpu-held",
        None,
    ),
    "a spawn behind an option that was passed": (
        PARSER + "import torch.multiprocessing as mp\np.add_argument('--many', action='store_true')\n"
        "args = p.parse_args()\nif args.many:\n    mp.spawn(print, nprocs=2)",
        {"args": ("--many",)},
        "spawn-in-ranks",
        7,
    ),
}


@pytest.mark.parametrize(("cell", "rule", "line"), WRONG_ON_CPU.values(), ids=WRONG_ON_CPU)
def test_what_goes_wrong_on_the_cpu_is_said_with_its_line(cell: str, rule: str, line: int) -> None:
    assert (rule, line) in rules(cell)


@pytest.mark.parametrize(("cell", "rule", "line"), WRONG_ON_GPUS.values(), ids=WRONG_ON_GPUS)
def test_what_goes_wrong_on_gpus_is_said_with_its_line(cell: str, rule: str, line: int) -> None:
    assert rules(cell, **GPUS) == [(rule, line)]


@pytest.mark.parametrize(("cell", "situation", "rule", "line"), WRONG_ELSEWHERE.values(), ids=WRONG_ELSEWHERE)
def test_what_goes_wrong_in_a_situation_is_said(
    cell: str, situation: dict[str, object], rule: str, line: int | None
) -> None:
    assert (rule, line) in rules(cell, **situation)


RIGHT_ON_CPU = {
    "a program that asks for CUDA": TORCH + "if torch.cuda.is_available():\n    torch.ones(1).cuda()",
    "chosen backend": TORCH + "dist.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')",
    "the right world size": TORCH + "dist.init_process_group(world_size=2)",
    "setdefault": TORCH + "os.environ.setdefault('MASTER_PORT', '8888')",
    "this machine": TORCH + "os.environ['MASTER_ADDR'] = 'localhost'",
    "no GPU": TORCH + "os.environ['CUDA_VISIBLE_DEVICES'] = ''",
    "the others wait for rank 0": (
        TORCH
        + INIT
        + "r = dist.get_rank()\nif r != 0:\n    dist.barrier()\nprint()\nif r == 0:\n    dist.barrier()"
    ),
    "both branches": (
        TORCH + INIT + "if dist.get_rank() == 0:\n    dist.broadcast(1, 0)\nelse:\n    dist.broadcast(2, 0)"
    ),
    "the group is started elsewhere": "from my_code import setup, DDP\nsetup()\nDDP(print)",
    "divided data": (
        TORCH + INIT + "DistributedDataParallel(print)\nsampler = torch.utils.data.DistributedSampler([])\n"
        "torch.utils.data.DataLoader([], sampler=sampler)"
    ),
    "data chosen by rank": (
        TORCH + INIT + "DistributedDataParallel(print)\ndata = torch.load(f'part{dist.get_rank()}')\n"
        "rank = dist.get_rank()\ndata = data[rank]\ntorch.utils.data.DataLoader(data, shuffle=True)"
    ),
    "LOCAL_RANK is read": (
        "print.add_argument('--local_rank')\nimport os\nos.environ['LOCAL_RANK']\np = None\n"
    ),
    "--local_rank is not used": PARSER + "p.add_argument('--local_rank')\np.parse_args()",
    "--local_rank is overwritten": (
        PARSER + "p.add_argument('--local_rank')\nargs = p.parse_args()\nargs.local_rank = 0\n"
        "print(args.local_rank)"
    ),
    "--local-rank is given by a function that gets all arguments": (
        PARSER + "import json as utils\np.add_argument('--local-rank')\nargs = p.parse_args()\n"
        "utils.init_device(args)\nprint(args.local_rank)"
    ),
    "a spawn behind an option that is off": (
        PARSER + "import torch.multiprocessing as mp\np.add_argument('--many', action='store_true')\n"
        "args = p.parse_args()\nif args.many:\n    mp.spawn(print, nprocs=2)"
    ),
    "input is not called": "print(input)",
    "data drawn on each rank": (
        TORCH + INIT + "DistributedDataParallel(print)\ndata = torch.randn(8, 2)\n"
        "torch.utils.data.DataLoader(data, shuffle=True)"
    ),
    "a seed for each rank": (
        TORCH + INIT + "torch.manual_seed(dist.get_rank())\nrank = dist.get_rank()\ntorch.manual_seed(rank)\n"
        "DistributedDataParallel(print)\ntorch.utils.data.DataLoader(torch.randn(8), shuffle=True)"
    ),
    "a group of some ranks": (
        TORCH + INIT + "part = dist.new_group([0])\nif dist.get_rank() == 0:\n"
        "    dist.all_reduce(torch.ones(1), dist.ReduceOp.SUM, part)"
    ),
    "a loss has nothing to move": "import torch\nloss = torch.nn.MSELoss().cuda()",
    "an index of the CPU": "import torch\ntorch.device('cpu', 0)",
    "a spawn if an option says several": (
        PARSER + "import torch.multiprocessing as mp\np.add_argument('--n', type=int, default=1)\n"
        "n = p.parse_args().n\nif n == 1:\n    print()\nelse:\n    mp.spawn(print, nprocs=n)"
    ),
    "a spawn if there are several GPUs, on the CPU": (
        SPAWN + "n = torch.cuda.device_count()\nif n > 1:\n    mp.spawn(print, nprocs=n)"
    ),
    "a name of Python 2 for Python 2": (
        "import sys\ndef f(s):\n    if sys.version_info[0] < 3:\n        return unicode(s)\n    return s"
    ),
    "what an older torch has elsewhere": (
        "try:\n    from torch import inf\nexcept ImportError:\n    from torch._six import inf\nprint(inf)"
    ),
    "a name of Python 2, by six": "import six\ndef text(s):\n    return str(s) if six.PY3 else unicode(s)",
    "a spawn in a function that nothing calls": (
        SPAWN + "def many():\n    mp.spawn(print, nprocs=2)\ndef one():\n    print()\n"
        "if __name__ == '__main__':\n    one()"
    ),
    "nccl under another launcher": NCCL + "if 'SLURM_PROCID' in os.environ:\n    setup()",
    "a lambda under a condition": (
        "import torch\ndef load(path):\n    if path:\n"
        "        return torch.load(path, map_location=lambda storage, _: storage.cuda())"
    ),
    "no processes of ignite's own": (
        IGNITE + "n = None\nwith idist.Parallel(backend='gloo', nproc_per_node=n) as p:\n    p.run(print)"
    ),
    "a fake group": "import torch.distributed as dist\ndist.init_process_group('fake', rank=0, world_size=8)",
}
RIGHT_ON_CPU |= json.loads((Path(__file__).parent / "unseen_calls.json").read_text())
RIGHT_ON_GPUS = {
    "nccl on GPUs": TORCH + "dist.init_process_group('nccl')",
    "a library's function sets the ranks up": (
        "import torch, json as misc\nmisc.init_distributed_mode(0)\ntorch.nn.Linear(1, 1).to('cuda')"
    ),
    "a device by the rank": TORCH + INIT + "d = torch.device('cuda', dist.get_rank())\ntorch.ones(1).to(d)",
    "a library starts the ranks": (
        "import torch, somelib\nsomelib.launch_from_torch()\ntorch.nn.Linear(1, 1).cuda()"
    ),
    "a library's trainer": (
        "import torch\nfrom somelib import LoopTrainer\nLoopTrainer().fit(torch.nn.Linear(1, 1).cuda())"
    ),
    "what nbdist has set is kept": (
        TORCH + "os.environ['CUDA_VISIBLE_DEVICES'] = os.environ.get('CUDA_VISIBLE_DEVICES', '0')"
    ),
    "a GPU that only more have": (
        TORCH + INIT + "def third(t, many=False):\n    return t.to('cuda:2') if many else t"
    ),
    "a method that a library calls": (
        LIBRARY + "class Model(L.LightningModule):\n    def training_step(self, batch):\n"
        "        return batch.cuda()"
    ),
}
RIGHT_ELSEWHERE = {
    "spawn in one rank": (SPAWN + "mp.spawn(print, nprocs=2)", ONE_RANK),
    "a little is held": ("pass", {**GPUS, "held": (Holding(gpu=1, memory=1, total=80),)}),
    "torch._six of torch 1.13": ("from torch._six import inf", {"version": {"torch": "1.13"}.get}),
}


@pytest.mark.parametrize("cell", RIGHT_ON_CPU.values(), ids=RIGHT_ON_CPU)
def test_what_is_right_on_the_cpu_gets_no_word(cell: str) -> None:
    assert rules(cell) == []


@pytest.mark.parametrize("cell", RIGHT_ON_GPUS.values(), ids=RIGHT_ON_GPUS)
def test_what_is_right_on_gpus_gets_no_word(cell: str) -> None:
    assert rules(cell, **GPUS) == []


@pytest.mark.parametrize(("cell", "situation"), RIGHT_ELSEWHERE.values(), ids=RIGHT_ELSEWHERE)
def test_what_is_right_in_a_situation_gets_no_word(cell: str, situation: dict[str, object]) -> None:
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
        finding.rule.name
        for cell in (
            "import paddle.fluid",
            "from apex import amp",
            "input()",
            "breakpoint()",
            "x",
            TORCH + "torch.ones(1).cuda()",
        )
        for finding in check(cell, Situation(build=BUILDS.get, installed=lambda name: name != "apex"))
        if finding.certain
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
        """Return seconds of a processor, the least of three times."""
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

    assert [finding.rule.name for finding in check(cell, situation)] == ["one-gpu-for-all"]
    assert check(cell, situation, [str(tmp_path)]) == []


@pytest.mark.parametrize(
    "imported",
    [
        "from .gpu import Backend",
        "from . import gpu",
        "from .gpu import (\n    Backend,\n)",
        "import backends.gpu",
        "from backends import cpu, gpu as other",
    ],
)
def test_a_module_that_the_user_s_modules_import_may_choose_the_device(tmp_path: Path, imported: str) -> None:
    package = tmp_path / "backends"
    package.mkdir()
    (package / "__init__.py").write_text("from .choice import backend\n")
    (package / "choice.py").write_text(f"{imported}\nfrom . import choice, missing\n")
    program = "import torch\nfrom backends import backend\nbackend.start()\ntorch.nn.Linear(1, 1).cuda()"
    device = package / "gpu.py"

    device.write_text("import torch\n\nclass Backend: ...\n")
    assert rules(program, (str(tmp_path),), **GPUS) == [("one-gpu-for-all", 4)]

    device.write_text(
        "import torch\n\nclass Backend:\n    def start(self):\n        torch.cuda.set_device(1)\n"
    )
    assert rules(program, (str(tmp_path),), **GPUS) == []


def test_a_module_of_python_that_is_not_imported_is_no_misspelt_name() -> None:
    [finding] = check("warnings.warn('apex may not be installed')", Situation())

    assert finding.rule.name == "name-not-imported"
    assert "import warnings" in finding.text()


def lines(cell: str) -> list[int | None]:
    return [
        finding.line
        for finding in check("import os\n" + cell, Situation())
        if finding.rule.name == "rank-is-text"
    ]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param("rank = os.environ['RANK']\nif rank == 0: print()", [3], id="a name"),
        pytest.param("if os.environ['LOCAL_RANK'] == 0: print()", [2], id="itself"),
        pytest.param("r = os.getenv('PADDLE_TRAINER_ID', 0)\nprint(0 != r)", [3], id="the number first"),
        pytest.param("r = os.environ.get('RANK')\nprint(r in (0, 1))", [3], id="one of several"),
        pytest.param("rank = int(os.environ['RANK'])\nprint(rank == 0)", [], id="made a number"),
        pytest.param("rank = os.environ['RANK']\nprint(rank == '0')", [], id="with a text"),
        pytest.param(
            "rank = os.environ['RANK']\nrank = int(rank)\nprint(rank == 0)", [], id="made a number later"
        ),
        pytest.param(
            "rank = os.environ['RANK']\ndef f(rank):\n    return rank == 0",
            [],
            id="an argument of a function",
        ),
        pytest.param("flag = os.environ['DEBUG']\nprint(flag == 0)", [], id="another variable"),
    ],
)
def test_a_text_that_is_compared_with_a_number_is_told(cell: str, expected: list[int]) -> None:
    assert lines(cell) == expected
