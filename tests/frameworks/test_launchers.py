"""Pasted lines of other launchers: each flag of the installed ones is an option here, or is refused
with what to use instead."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import UsageMistake
from nbdist.frameworks.launchers import FLEETRUN, PADDLE, TORCHRUN, Flag, flag_of, flags
from nbdist.options import (
    COMMAND_FLAGS,
    MODULE_FLAGS,
    OPTIONS,
    Options,
    check_shell,
    instead_of,
    parse,
    parse_words,
    split_program,
)
from nbdist.runner.scripts import find_script

SOURCES = {
    TORCHRUN: ("torch", "distributed/run.py"),
    PADDLE: ("paddle", "distributed/launch/context/args_envs.py"),
    FLEETRUN: ("paddle", "distributed/fleet/launch.py"),
}
SWITCHES = {"check_env", "store_true", "store_false"}


def real_flags(launcher: str) -> dict[str, bool]:
    """Return every spelling of the installed launcher's flags, and whether it takes a value: from the calls
    of ``add_argument`` in its source, since importing it takes seconds."""
    package, path = SOURCES[launcher]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    tree = ast.parse((Path(spec.origin).parent / path).read_text(encoding="utf-8"))
    flags: dict[str, bool] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
            spellings = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
            action = next((ast.unparse(k.value).strip("'\"") for k in call.keywords if k.arg == "action"), "")
            flags |= {str(flag): action not in SWITCHES for flag in spellings if str(flag).startswith("-")}
    assert len(flags) > 15, "this is not where the launcher's flags are"
    return flags


def known_here(flag: str) -> bool | None:
    """Return whether the flag takes a value here; None for an unknown flag."""
    if flag in (*MODULE_FLAGS, *COMMAND_FLAGS):
        return False
    if (foreign := flag_of(flag)) is not None:
        return not foreign.switch
    own = [option for option in OPTIONS if flag in (*option.flags, *option.aliases)]
    return bool(own[0].metavar) if own else None


@pytest.mark.parametrize("launcher", SOURCES)
def test_every_flag_of_the_installed_launcher_is_known_here(launcher: str) -> None:
    real = real_flags(launcher)

    assert {flag: known_here(flag) for flag in real} == real


@pytest.mark.parametrize("launcher", SOURCES)
def test_every_flag_that_is_known_here_is_one_of_the_installed_launcher(launcher: str) -> None:
    real = {name.replace("_", "-") for name in real_flags(launcher)}

    # torch.distributed.launch has this one besides
    assert not flags(launcher).keys() - real - {"--use-env"}


@pytest.mark.parametrize(
    ("line", "given"),
    [
        pytest.param("--nnodes=1:1", {"nodes": 1}, id="one at least and at most"),
        pytest.param("--nproc_per_node auto", {"any_device": True}, id="what there is"),
        pytest.param("--max_restart=3", {"retries": 3}, id="paddle's restarts"),
        pytest.param("--local-ranks-filter 0,2", {"show_ranks": (0, 2)}, id="lines of some ranks"),
        pytest.param("--log_dir=mylog", {"log_dir": "mylog"}, id="paddle's logs"),
        pytest.param("--log-dir mylog", {"log_dir": "mylog"}, id="torchrun's logs"),
        pytest.param("--job_id lenet", {"name": "lenet"}, id="a job"),
        pytest.param("--job_id default --run_mode collective", {}, id="what is so anyway"),
        pytest.param("--legacy false --sort_ip=0 --elastic_level -1", {}, id="what is off"),
        pytest.param("--gpus '0,1' --selected_gpus=0,1", {"gpus": (0, 1)}, id="paddle's GPUs"),
        pytest.param(
            "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint node0:29400 --rdzv-conf join_timeout=30",
            {"nodes": 2, "master": "node0:29400", "wait": 30.0},
            id="torchrun by c10d",
        ),
        pytest.param(
            "--nnodes 2 --rank 0 --master http://10.0.0.1:8090 --host 10.0.0.1",
            {"nodes": 2, "node_rank": 0, "master": "10.0.0.1:8090", "host": "10.0.0.1"},
            id="paddle on two machines",
        ),
        pytest.param(
            "--ips='10.0.0.1,10.0.0.2' --start_port 6170",
            {"ips": ("10.0.0.1", "10.0.0.2"), "master": ":6170"},
            id="fleetrun on two machines",
        ),
        pytest.param("torchrun --shutdown-timeout 9", {"grace": 9.0}, id="time to save"),
        pytest.param("torchrun --nnodes 1", {"nodes": 1}, id="with the launcher's name"),
    ],
)
def test_what_is_pasted_is_the_same_run(line: str, given: dict[str, Any]) -> None:
    assert parse(line) == Options(**given)


@pytest.mark.parametrize(
    "line",
    [
        "--tee 3 -r 3 -t3",
        "--monitor-interval 5 --start-method spawn",
        "--rdzv-id 7",
        "--signals-to-handle SIGTERM --event-log-handler null",
        "--log_level DEBUG --log_overwrite true --enable_gpu_log 1 --elastic_timeout 30",
        "--run-path --use_env",
    ],
)
def test_what_has_no_effect_is_said_with_the_reason(line: str) -> None:
    options = parse(line)

    names = {word.partition("=")[0] for word in line.split() if word.startswith("--")}
    assert options == Options(notes=options.notes)
    begins = {f"{name.replace('_', '-')} has no effect here: " for name in names}
    assert all(any(note.startswith(begin) for note in options.notes) for begin in begins)


@pytest.mark.parametrize(
    ("line", "given", "program"),
    [
        pytest.param(
            "deepspeed --num_gpus 2 t.py --deepspeed",
            {"nproc": 2, "any_device": True},
            ["t.py", "--local_rank=${local_rank}", "--deepspeed"],
            id="deepspeed",
        ),
        pytest.param(
            "deepspeed --include localhost:0,2 --no_local_rank t.py",
            {"gpus": (0, 2)},
            ["t.py"],
            id="its GPUs",
        ),
        pytest.param(
            "fabric run t.py --accelerator=cpu --devices=2 --strategy ddp",
            {
                "nproc": 2,
                "env": (
                    ("LT_STRATEGY", "ddp"),
                    ("LT_CLI_USED", "1"),
                    ("LT_ACCELERATOR", "cpu"),
                    ("LT_DEVICES", "2"),
                ),
            },
            ["t.py"],
            id="fabric",
        ),
        pytest.param("composer -n 2 t.py", {"nproc": 2, "any_device": True}, ["t.py"], id="composer"),
        pytest.param(
            "timeout 1h env A=b PET_NPROC_PER_NODE=2 python -Wignore -X dev /bin/torchrun --role x t.py",
            {
                "nproc": 2,
                "any_device": True,
                "timeout": 3600.0,
                "env": (("A", "b"), ("ROLE_NAME", "x")),
                "python_flags": ("-W", "ignore", "-X", "dev"),
            },
            ["t.py"],
            id="in front",
        ),
        pytest.param(
            "B=1 python -OO -m t x",
            {"env": (("B", "1"),), "python_flags": ("-O", "-O")},
            ["-m", "t", "x"],
            id="no launcher",
        ),
        pytest.param(
            "-n 3 torchrun --nproc_per_node 2 t.py",
            {"nproc": 3, "any_device": True},
            ["t.py"],
            id="nbdist's own count",
        ),
    ],
)
def test_a_line_of_another_launcher_is_the_same_run(
    line: str, given: dict[str, Any], program: list[str]
) -> None:
    own, behind = split_program(line.split())

    assert behind == program
    assert parse_words(own) == Options(**given)


REFUSED = [
    line.split(" | ")
    for line in Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").splitlines()[1:]
]


@pytest.mark.parametrize(("line", "instead"), REFUSED)
def test_what_nbdist_does_not_do_is_refused_with_what_to_type(
    line: str, instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dist.sh").write_text(
        "#!/bin/sh\n# sh dist.sh GPUS\nPORT=1 torchrun \\\n --nproc_per_node $1 t.py\n"
    )
    Path("fsdp.yaml").write_text("distributed_type: FSDP\n")

    def start() -> None:
        own, program = split_program(line.split())
        parse_words(own)
        find_script(program, cwd=tmp_path, folder=tmp_path)

    with pytest.raises(UsageMistake) as raised:
        start()

    assert instead in str(raised.value)
    assert "\n" not in str(raised.value)


VALUES = {"--nnodes": "2:4", "--rdzv-backend": "etcd", "--master": "etcd://x", "--nproc-per-node": "xpu"}


@pytest.mark.parametrize("flag", flags(*SOURCES).values(), ids=lambda flag: flag.name)
def test_what_is_refused_says_what_to_use_instead(flag: Flag) -> None:
    words = [flag.name, *([] if flag.switch else [VALUES.get(flag.name, "2")])]
    try:
        parse(" ".join(words))
    except UsageMistake as mistake:
        message = str(mistake)
        assert "\n" not in message
        words = r"write  |use  |use this|leave it out|filter |call  |%dist_|number |are in "
        assert re.search(words, message)


@pytest.mark.parametrize(
    "line", ["--servers a:1", "--trainers a:1", "--worker_num 2", "--server_num=2", "--run_mode ps"]
)
def test_parameter_servers_are_refused_with_the_reason(line: str) -> None:
    with pytest.raises(UsageMistake, match=r"every process is a rank; .*fleet\.init\(is_collective=True\)"):
        parse(line)


def test_a_command_line_with_a_script_above_a_cell_says_how_each_of_the_two_runs() -> None:
    with pytest.raises(UsageMistake) as raised:
        parse("torchrun --nproc_per_node 2 train.py --lr 0.1")

    assert "leave out  train.py --lr 0.1 " in str(raised.value)
    assert "%distributed torchrun --nproc_per_node 2 train.py --lr 0.1" in str(raised.value)


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        pytest.param("torchrun --nnodes 1 t.py", "%distributed torchrun --nnodes 1 t.py", id="torchrun"),
        pytest.param(
            "python -m paddle.distributed.launch t.py",
            "%distributed python -m paddle.distributed.launch t.py",
            id="paddle's launcher",
        ),
        pytest.param("pip install x", "", id="anything else"),
        pytest.param("echo 'half", "", id="no words"),
    ],
)
def test_a_pasted_command_is_told_what_to_type(command: str, instead: str) -> None:
    assert instead_of(command) == instead


def test_syntax_of_a_shell_is_refused_and_what_is_quoted_is_none() -> None:
    with pytest.raises(UsageMistake, match=r"is for a shell"):
        check_shell("torchrun t.py 2>&1 | tee log")
    check_shell("t.py --sep '|' --to \"a > b\" --or a\\|b --url=http://h?a=1 # | c")


def test_arguments_of_a_script_are_never_parsed() -> None:
    words = ["--nproc_per_node", "2", "train.py", "--nproc_per_node", "3", "--servers", "x", "--help", "-m"]

    assert split_program(words) == (words[:2], words[2:])
