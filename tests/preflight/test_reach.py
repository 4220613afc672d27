"""Code that this run does not reach gets no word: a function that nothing calls, an option that is off,
another launcher's variables; and the same code where it is reached.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.preflight import Build, Situation, check

PARSER = "import argparse, os\np = argparse.ArgumentParser()\n"
BUILDS = {"torch": Build(version="2.13.0", cuda="12.8"), "paddle": Build(version="3.3.1", cuda="12.6")}
GPUS = {"gpus": (0, 1)}
SPAWN = "import torch\nimport torch.multiprocessing as mp\n"
MAIN = 'if __name__ == "__main__":\n'
NCCL = "import os\nimport torch.distributed as dist\ndef setup():\n    dist.init_process_group('nccl')\n"
PORT = "import os\ndef meet():\n    os.environ['MASTER_PORT'] = '10638'\n"
LIBRARY = "import torch\nimport lightning as L\n"
IGNITE = "import ignite.distributed as idist\n"


def rules(program: str, path: tuple[str, ...] = (), **situation: object) -> list[tuple[str, int | None]]:
    known = {"build": BUILDS.get} | situation
    return [(found.rule.name, found.line) for found in check(program, Situation(**known), path)]


@pytest.mark.parametrize(
    ("program", "situation"),
    [
        pytest.param(
            SPAWN + PARSER + "args = p.parse_args()\nif args.nprocs > 1 and args.device == 'gpu':\n"
            "    mp.spawn(print, nprocs=args.nprocs)",
            {},
            id="more processes by an option, and one more condition",
        ),
        pytest.param(
            SPAWN + "def test(n):\n    mp.spawn(print, nprocs=n)\n"
            "n = torch.cuda.device_count()\nif n > 1:\n    test(n)",
            {},
            id="a spawn in a function that is called where there are several GPUs, on the CPU",
        ),
        pytest.param(
            SPAWN + "if torch.cuda.device_count() <= 1 or __debug__:\n    print()\nelse:\n"
            "    mp.spawn(print, nprocs=2)",
            {},
            id="the other side of an or",
        ),
        pytest.param(
            SPAWN
            + "def many():\n    mp.spawn(print, nprocs=2)\ndef one():\n    print()\n"
            + MAIN
            + "    one()",
            {},
            id="a spawn in a function that nothing calls",
        ),
        pytest.param(
            "import torch.distributed as dist\ndef gather(t):\n    dist.all_reduce(t)\n"
            + MAIN
            + "    print()",
            {},
            id="a collective in a function that nothing calls",
        ),
        pytest.param(
            NCCL + "if 'SLURM_PROCID' in os.environ:\n    setup()", {}, id="nccl under another launcher"
        ),
        pytest.param(
            PORT + "if 'OMPI_COMM_WORLD_RANK' not in os.environ or __debug__:\n    print()\n"
            "else:\n    meet()",
            {},
            id="a port under another launcher",
        ),
        pytest.param(
            PARSER + "import torch\ndef work():\n    torch.cuda.set_device(0)\n"
            "p.add_argument('--worker', action='store_true')\nargs = p.parse_args()\n"
            "if args.worker:\n    work()",
            {},
            id="a GPU in a function that is only called with an option",
        ),
        pytest.param(
            "import torch\ndef load(path):\n    if path:\n"
            "        return torch.load(path, map_location=lambda storage, _: storage.cuda())",
            {},
            id="a lambda under a condition",
        ),
        pytest.param(
            "import torch\ndef prepare(cache):\n    if cache:\n        def features(x):\n"
            "            return x.to('cuda')\n        print(features)",
            {},
            id="a function that is made under a condition",
        ),
        pytest.param(
            "import torch\nimport speechbrain as sb\nsb.utils.distributed.ddp_init_group({})\n"
            "torch.ones(1).to('cuda')",
            GPUS,
            id="a library's function starts the ranks, by another name",
        ),
        pytest.param(
            LIBRARY + "class Model(L.LightningModule):\n    def training_step(self, batch):\n"
            "        return batch.cuda()",
            GPUS,
            id="a method that a library calls",
        ),
        pytest.param(
            IGNITE
            + "n = None\nwith idist.Parallel(backend='gloo', nproc_per_node=n) as p:\n    p.run(print)",
            {},
            id="no processes of ignite's own",
        ),
        pytest.param(
            IGNITE
            + "def run(n=None):\n    with idist.Parallel(nproc_per_node=n) as p:\n        p.run(print)",
            {},
            id="none by default",
        ),
        pytest.param(
            "import torch.distributed as dist\ndist.init_process_group('fake', rank=0, world_size=8)",
            {},
            id="a fake group",
        ),
        pytest.param(
            PARSER + "import ext_dist\np.add_argument('--local_rank', type=int, default=-1)\n"
            "args = p.parse_args()\next_dist.init_distributed(local_rank=args.local_rank)",
            {},
            id="a function that looks for the local rank elsewhere, too",
        ),
    ],
)
def test_what_this_run_does_not_reach_gets_no_word(program: str, situation: dict[str, object]) -> None:
    assert rules(program, **situation) == []


@pytest.mark.parametrize(
    ("program", "situation", "expected"),
    [
        pytest.param(
            SPAWN + "if torch.cuda.device_count() > 1 and print:\n    mp.spawn(print, nprocs=2)",
            GPUS,
            ("spawn-in-ranks", 4),
            id="several GPUs, and one more condition",
        ),
        pytest.param(
            SPAWN + "def test(n):\n    mp.spawn(print, nprocs=n)\n"
            "n = torch.cuda.device_count()\nif n > 1:\n    test(n)",
            GPUS,
            ("spawn-in-ranks", 4),
            id="a function that is called where there are several GPUs",
        ),
        pytest.param(
            SPAWN
            + "def main(h):\n    if torch.cuda.is_available():\n        h.n = torch.cuda.device_count()\n"
            "    if h.n > 1:\n        mp.spawn(print, nprocs=h.n)",
            GPUS,
            ("spawn-in-ranks", 7),
            id="the number of the GPUs, where there are any",
        ),
        pytest.param(
            SPAWN + "def many():\n    mp.spawn(print, nprocs=2)\n" + MAIN + "    globals()['many']()",
            {},
            ("spawn-in-ranks", 4),
            id="a function that is called by its name",
        ),
        pytest.param(
            SPAWN + "def many():\n    mp.spawn(print, nprocs=2)", {}, ("spawn-in-ranks", 4), id="no script"
        ),
        pytest.param(NCCL + MAIN + "    setup()", {}, ("nccl-on-cpu-ranks", 4), id="nccl"),
        pytest.param(
            NCCL + "if 'SLURM_PROCID' in os.environ:\n    setup()\nelse:\n    print(setup)",
            {},
            ("nccl-on-cpu-ranks", 4),
            id="a function that is passed on, too",
        ),
        pytest.param(
            NCCL + "if 'SLURM_PROCID' not in os.environ:\n    setup()",
            {},
            ("nccl-on-cpu-ranks", 4),
            id="without the other launcher",
        ),
        pytest.param(PORT + "if 'RANK' in os.environ:\n    meet()", {}, ("address-fixed", 3), id="a port"),
        pytest.param(
            LIBRARY + "class Model(L.LightningModule): ...\nModel().cuda()",
            GPUS,
            ("one-gpu-for-all", 4),
            id="outside of what a library calls",
        ),
        pytest.param(
            LIBRARY + "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x.cuda()",
            GPUS,
            ("one-gpu-for-all", 5),
            id="a method that torch calls",
        ),
        pytest.param(
            IGNITE + "n = 2\nwith idist.Parallel(nproc_per_node=n) as p:\n    p.run(print)",
            {},
            ("launches-in-ranks", 3),
            id="processes of ignite's own",
        ),
        pytest.param(
            PARSER + "import torch.distributed as dist\np.add_argument('--local_rank', type=int)\n"
            "args = p.parse_args()\ndist.init_process_group('gloo', rank=args.local_rank)",
            {},
            ("local-rank-argument", 4),
            id="torch takes the local rank as it is",
        ),
    ],
)
def test_the_same_is_said_where_it_is_reached(
    program: str, situation: dict[str, object], expected: tuple[str, int]
) -> None:
    assert rules(program, **situation) == [expected]


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
    [found] = check("warnings.warn('apex may not be installed')", Situation())

    assert found.rule.name == "name-not-imported"
    assert "import warnings" in found.text()
