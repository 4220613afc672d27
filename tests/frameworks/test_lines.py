"""Pasted lines against what each launcher's own parser makes of them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nbdist.devices.usage import cpu_count
from nbdist.options import parse_words, split_program

ROWS = [
    tuple(part.strip() for part in line.split(" | "))
    for line in Path(__file__).with_name("lines.txt").read_text().splitlines()
    if not line.startswith("#")
]
FILES = {
    "MULTI": "distributed_type: MULTI_GPU\nnum_processes: 2\nnum_machines: 1\nmixed_precision: bf16\n",
    "CPU": "distributed_type: MULTI_CPU\nnum_processes: 2\nuse_cpu: true\nmixed_precision: bf16\n",
    "TWO": "distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2\nmachine_rank: 1\n"
    "main_process_ip: 10.0.0.1\nmain_process_port: 29500\nmixed_precision: 'no'\n",
}


def torchrun(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    run = pytest.importorskip("torch.distributed.run")
    given = run.get_args_parser().parse_args(words)
    return _torch(given), _program(given)


def launch(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    module = pytest.importorskip("torch.distributed.launch")
    given = module.parse_args(words)
    if not given.use_env:
        given.training_script_args.insert(0, "--local-rank=${local_rank}")
    return _torch(given), _program(given)


def _torch(given: Any) -> dict[str, Any]:
    least = given.nnodes.partition(":")[0]
    count = {"gpu": {"gpus": "all"}, "cpu": {"nproc": cpu_count()}, "auto": {}}
    return {
        **count.get(given.nproc_per_node, {"nproc": _number(given.nproc_per_node)}),
        **({"nodes": int(least), "node_rank": given.node_rank} if int(least) > 1 else {}),
        "retries": given.max_restarts,
    }


def accelerate(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    module = pytest.importorskip("accelerate.commands.launch")
    given, _, _ = module._validate_launch_command(module.launch_command_parser().parse_args(words))
    nodes = int(given.num_machines or 1)
    count = (given.num_processes or 0) // nodes
    options: dict[str, Any] = {"nproc": count} if count else {"without_gpus": 1}
    if given.cpu or given.use_cpu:
        options = {"nproc": count or 1}
    elif given.gpu_ids not in (None, "all"):
        options = {"nproc": count, "gpus": tuple(map(int, given.gpu_ids.split(",")))}
    if nodes > 1:
        options |= {"nodes": nodes, "node_rank": int(given.machine_rank)}
        options["master"] = f"{given.main_process_ip}:{given.main_process_port}"
    if given.mixed_precision != "no":
        options["precision"] = given.mixed_precision
    return options, _program(given)


def fabric(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    cli = pytest.importorskip("lightning.fabric.cli")
    given = cli._main.commands["run"].make_context("run", list(words)).params
    devices = given["devices"]
    count = {"gpus": (0, 1)} if "," in devices else {"nproc": 1 if devices == "auto" else int(devices)}
    # fabric hands its program to torchrun
    _, program = torchrun([given["script"], *given["script_args"]])
    nodes = given["num_nodes"]
    return count | ({"nodes": nodes, "node_rank": given["node_rank"]} if nodes > 1 else {}), program


def paddle(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("paddle.distributed.launch.context.args_envs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["launch", *words])
        given, unknown = module.parse_args()
    assert not unknown
    options: dict[str, Any] = {"nproc": given.nproc_per_node} if given.nproc_per_node else {"without_gpus": 1}
    if given.devices:
        options = {"gpus": tuple(map(int, given.devices.split(",")))}
    if given.ips:
        options["ips"] = tuple(given.ips.split(","))
    elif given.nnodes != "1":
        options |= {"nodes": int(given.nnodes), "node_rank": given.rank, "master": given.master}
    return options, [given.training_script, *given.training_script_args]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _program(given: Any) -> list[str]:
    kind = ["-m"] * bool(given.module) + ["--no-python"] * bool(given.no_python)
    return [*kind, given.training_script, *given.training_script_args]


PARSERS: Mapping[str, Callable[[Sequence[str]], tuple[dict[str, Any], list[str]]]] = {
    parser.__name__: parser for parser in (torchrun, launch, accelerate, fabric, paddle)
}


@pytest.mark.parametrize("launcher", PARSERS)
def test_a_line_is_read_as_its_launcher_reads_it(
    launcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in os.environ.keys() & {"OMP_NUM_THREADS", "RANK", "WORLD_SIZE"}:
        monkeypatch.delenv(name)
    for name in ("prog.py", "configs/x.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    for name, text in FILES.items():
        Path(name).write_text(f"compute_environment: LOCAL_MACHINE\n{text}")
    wrong = {}
    for name, begin, behind in ROWS:
        if name == launcher:
            expected, program = PARSERS[launcher](behind.split())
            own, found = split_program([*begin.split(), *behind.split()])
            options = parse_words(own)
            given = {name: getattr(options, name, None) for name in expected}
            more = {"node_rank": options.node_rank or 0}
            more |= {"precision": dict(options.env).get("ACCELERATE_MIXED_PRECISION", "no")}
            read = given | {name: more[name] for name in more.keys() & expected.keys()}
            kind = ["-m" if word == "--module" else word.replace("_", "-") for word in found[:1]]
            if (read, [*kind, *found[1:]]) != (expected, program):
                wrong[f"{begin} | {behind}"] = (read, found, expected, program)
    assert not wrong
