"""The checks of programs before they start: each rule where it applies, and silence elsewhere, also about
code that this run does not reach: uncalled functions, options that are off, other launchers' variables."""

from __future__ import annotations

import functools
import json
import string
import time
import timeit
from pathlib import Path

import pytest

from nbdist.preflight import Build, Holding, Situation, check
from nbdist.preflight.finding import rules as all_rules
from nbdist.tables import read_table
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


PROGRAMS = read_table(__file__, "checks")
WRONG = {
    title: {name: (row["program"], row["rule"], row.get("line")) for name, row in rows.items()}
    for title, rows in PROGRAMS["wrong"].items()
}
WRONG_ON_CPU, WRONG_ON_GPUS = WRONG["on_cpu"], WRONG["on_gpus"]
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


RIGHT_ON_CPU, RIGHT_ON_GPUS = PROGRAMS["right"]["on_cpu"], PROGRAMS["right"]["on_gpus"]
RIGHT_ON_CPU |= json.loads((Path(__file__).parent / "unseen_calls.json").read_text())
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
        work = functools.partial(check, cell, Situation())
        return min(timeit.repeat(work, timer=time.process_time, repeat=3, number=1))

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
