"""Lines behind ``%%distributed``, and the messages for mistakes in them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import UsageMistake
from nbdist.options import (
    OPTIONS,
    Options,
    help_text,
    parse,
    parse_duration,
    parse_keywords,
    parse_words,
    split_program,
)


@pytest.mark.parametrize(
    ("line", "given"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("-n 2", {"nproc": 2}, id="ranks"),
        pytest.param("-n2", {"nproc": 2}, id="ranks without a space"),
        pytest.param("--nproc=4", {"nproc": 4}, id="ranks at length"),
        pytest.param("--gpus 0,1", {"gpus": (0, 1)}, id="GPUs"),
        pytest.param("--gpus 3", {"gpus": (3,)}, id="one GPU"),
        pytest.param('--gpus "0, 1"', {"gpus": (0, 1)}, id="GPUs with a space"),
        pytest.param("--gpus 1,0", {"gpus": (1, 0)}, id="GPUs in an order of one's own"),
        pytest.param("--gpus all", {"gpus": "all"}, id="all GPUs"),
        pytest.param("--gpus 0,1 -n 2", {"gpus": (0, 1), "nproc": 2}, id="GPUs and as many ranks"),
        pytest.param("--framework paddle", {"framework": "paddle"}, id="framework"),
        pytest.param("--backend gloo", {"backend": "gloo"}, id="backend"),
        pytest.param("--gpus 0 --backend nccl", {"gpus": (0,), "backend": "nccl"}, id="backend of GPUs"),
        pytest.param("--name lenet", {"name": "lenet"}, id="name"),
        pytest.param(
            "--sweep lr=0.1,0.01 --sweep seed=1",
            {"sweep": (({"lr": "0.1"}, {"lr": "0.01"}), ({"seed": "1"},))},
            id="values of a sweep",
        ),
        pytest.param(
            '--sweep "lr,width=0.1,64 0.01,128"',
            {"sweep": (({"lr": "0.1", "width": "64"}, {"lr": "0.01", "width": "128"}),)},
            id="points of a sweep",
        ),
        pytest.param("--memory 16G", {"memory": 16_000_000_000}, id="memory"),
        pytest.param("--memory 512mb", {"memory": 512_000_000}, id="memory in small letters"),
        pytest.param("--name sweep-0.02_b", {"name": "sweep-0.02_b"}, id="name with dots"),
        pytest.param('--name "My LeNet (v2)"', {"name": "my-lenet-v2"}, id="name made fit for a path"),
        pytest.param("-d", {"detach": True}, id="detached"),
        pytest.param("--detach", {"detach": True}, id="detached at length"),
        pytest.param("--timeout 1h30m", {"timeout": 5400.0}, id="time limit"),
        pytest.param("--env A=1 --env B=", {"env": (("A", "1"), ("B", ""))}, id="variables"),
        pytest.param('--env "A=b c=d"', {"env": (("A", "b c=d"),)}, id="variable with more in it"),
        pytest.param('--args "--lr 0.1 x"', {"args": ("--lr", "0.1", "x")}, id="arguments"),
        pytest.param('--args "--lr=0.1"', {"args": ("--lr=0.1",)}, id="arguments that look like an option"),
        pytest.param("--args --verbose", {"args": ("--verbose",)}, id="arguments without quotes"),
        pytest.param("--args=-v", {"args": ("-v",)}, id="arguments behind an equals sign"),
        pytest.param(
            """--args "--title 'two words'" """, {"args": ("--title", "two words")}, id="quoted arguments"
        ),
        pytest.param("--cwd /tmp", {"cwd": "/tmp"}, id="directory"),
        pytest.param("--no-panel", {"panel": False}, id="plain text"),
        pytest.param("--no-scrape", {"scrape": False}, id="no curves of what is printed"),
        pytest.param("--no-scrape --scrape", {"scrape": True}, id="curves of what is printed after all"),
        pytest.param("-n 2 -n 3", {"nproc": 3}, id="said twice, the last counts"),
        pytest.param(
            "-n 2 -d --name a --timeout 5m --no-panel",
            {"nproc": 2, "detach": True, "name": "a", "timeout": 300.0, "panel": False},
            id="many",
        ),
        pytest.param("--nproc_per_node 2", {"nproc": 2, "any_device": True}, id="torch.distributed.launch"),
        pytest.param("--nproc-per-node=2", {"nproc": 2, "any_device": True}, id="torchrun"),
        pytest.param("--selected_gpus 0,1", {"gpus": (0, 1)}, id="paddle.distributed.spawn"),
        pytest.param("--devices 0,1", {"gpus": (0, 1)}, id="paddle.distributed.launch"),
    ],
)
def test_a_line_is_understood(line: str, given: dict[str, Any]) -> None:
    assert parse(line) == Options(**given)


def test_words_are_taken_as_a_shell_hands_them_over() -> None:
    options = parse_words(["-n", "2", "--args", "--title 'two words'", "--env", "A=b c"])

    assert options == Options(nproc=2, args=("--title", "two words"), env=(("A", "b c"),))


@pytest.mark.parametrize(
    ("line", "given"),
    [
        pytest.param("-n 2 # two of them", {"nproc": 2}, id="a comment"),
        pytest.param("-n 2 # don't", {"nproc": 2}, id="a comment with an apostrophe"),
        pytest.param("# -n 3", {}, id="a comment alone"),
        pytest.param("-n 2 --name a#b", {"nproc": 2, "name": "a-b"}, id="inside a word"),
        pytest.param("--args '# x' -n 2", {"nproc": 2, "args": ("#", "x")}, id="in quotes"),
        pytest.param("--args \"'a b' # \" # x", {"args": ("a b", "#")}, id="in quotes and behind them"),
        pytest.param(r"--env A=\\# -n 2", {"nproc": 2, "env": (("A", "\\#"),)}, id="behind a backslash"),
    ],
)
def test_a_comment_may_end_the_line(line: str, given: dict[str, Any]) -> None:
    assert parse(line) == Options(**given)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("90", 90.0, id="bare seconds"),
        pytest.param("90s", 90.0, id="seconds"),
        pytest.param("5m", 300.0, id="minutes"),
        pytest.param("1.5h", 5400.0, id="part of an hour"),
        pytest.param("1h30m", 5400.0, id="hours and minutes"),
        pytest.param("1d2h3m4s", 93_784.0, id="everything"),
        pytest.param("0.5", 0.5, id="part of a second"),
    ],
)
def test_a_duration_is_understood(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("0", id="no time at all"),
        pytest.param("-5s", id="time that runs backwards"),
        pytest.param("5 m", id="a space before the unit"),
        pytest.param("5x", id="a unit that does not exist"),
        pytest.param("h", id="a unit alone"),
        pytest.param("m5", id="the unit first"),
        pytest.param("1h30m!", id="something behind it"),
        pytest.param("1e3", id="an exponent"),
        pytest.param("inf", id="for ever"),
        pytest.param("1.2.3", id="two points"),
    ],
)
def test_what_is_no_duration_is_told_what_is(text: str) -> None:
    with pytest.raises(UsageMistake, match="write a time such as  --timeout 90s, 5m  or  1h30m"):
        parse_duration(text)


MISTAKES = [
    line.split(" -> ")
    for line in Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8").splitlines()[1:]
]


@pytest.mark.parametrize(("line", "hint"), MISTAKES)
def test_a_mistake_gets_one_line_that_says_what_to_type(line: str, hint: str) -> None:
    with pytest.raises(UsageMistake) as raised:
        parse(line)

    message = str(raised.value)
    assert hint in message
    assert "\n" not in message
    # in words of this program: neither argparse's nor another launcher's
    assert "argument" not in message.replace("arguments of the program", "")
    assert not any(alias in message for option in OPTIONS for alias in option.aliases)


def test_a_call_may_list_the_points_of_a_sweep() -> None:
    chosen = parse_keywords({"sweep": [{"lr": 0.1, "name": "adam"}, {"lr": None, "decay": True}], "nproc": 1})

    assert chosen.sweep == (({"lr": "0.1", "name": "adam"}, {"lr": "None", "decay": "True"}),)


@pytest.mark.parametrize(
    ("points", "hint"),
    [
        pytest.param([], "write a list of points, each a dict", id="none"),
        pytest.param([{"lr": 0.1}, {}], "write a list of points, each a dict", id="an empty one"),
        pytest.param([{"lr": 0.1}, 0.2], "write a list of points, each a dict", id="a number"),
        pytest.param([{"size": (8, 8)}], "give a number, a text without commas", id="a pair"),
        pytest.param([{"my lr": 1}], "cannot be read as nbdist.params", id="a name with a space"),
        pytest.param([{"lr": n} for n in range(201)], "makes 201 points", id="too many"),
    ],
)
def test_a_list_of_points_that_makes_no_sweep_is_refused(points: list[Any], hint: str) -> None:
    with pytest.raises(UsageMistake, match=hint):
        parse_keywords({"sweep": points})


def test_a_beginning_of_an_option_is_not_taken_for_it() -> None:
    with pytest.raises(UsageMistake, match="no option --det: did you mean --detach"):
        parse("--det")


def test_every_option_fills_a_field_of_its_own() -> None:
    # what is no option of its own, and comes from the words of other launchers
    made = {"any_device", "without_gpus", "notes"}

    assert {option.field for option in OPTIONS} == {field.name for field in fields(Options)} - made
    assert len({option.field for option in OPTIONS}) == len(OPTIONS)


def test_no_spelling_means_two_options() -> None:
    spellings = [flag for option in OPTIONS for flag in option.spellings]

    assert len(spellings) == len(set(spellings))


def test_the_help_shows_every_option_once_with_what_it_does() -> None:
    lines = help_text().splitlines()

    assert lines[0] == "%%distributed [options]"
    shown = [line.strip().partition("  ") for line in lines[1:]]
    assert [(left, right.strip()) for left, _, right in shown] == [
        (f"{', '.join(option.flags)} {option.metavar}".strip(), option.help.en) for option in OPTIONS
    ]


@pytest.mark.parametrize(
    ("line", "options", "program"),
    [
        pytest.param("train.py", "", "train.py", id="a script alone"),
        pytest.param("-n 2 train.py -n 5", "-n 2", "train.py -n 5", id="its own options"),
        pytest.param("-n2 -d train.py", "-n2 -d", "train.py", id="a value in one word, and none"),
        pytest.param("--nproc=2 --env A=1 x", "--nproc=2 --env A=1", "x", id="an equals sign"),
        pytest.param("--nproc_per_node 2 x y", "--nproc_per_node 2", "x y", id="another launcher's option"),
        pytest.param("-n 2 -m job.train -d", "-n 2", "-m job.train -d", id="a module"),
        pytest.param("-m -n 2 job.train -d", "-n 2", "-m job.train -d", id="a module, said early"),
        pytest.param("--no-python -n 2 ./t.sh -x", "-n 2", "--no-python ./t.sh -x", id="a program"),
        pytest.param("-t 3 -r3 --standalone x -n 1", "-t 3 -r3 --standalone", "x -n 1", id="torchrun's own"),
        pytest.param(
            "torchrun --nnodes 1 x -n 1", "--nnodes 1 --nproc-per-node 1", "x -n 1", id="torchrun itself"
        ),
        pytest.param(
            "python3 -u -m paddle.distributed.launch --log_dir l x --log_dir m",
            "--log-dir l --nproc-per-node gpus-or-1",
            "x --log_dir m",
            id="paddle's launcher",
        ),
        pytest.param("A=1 /bin/fleetrun --gpus=0 x", "--env A=1 --gpus=0", "x", id="a variable before it"),
        pytest.param("python -m job.train x", "", "-m job.train x", id="no launcher"),
        pytest.param("-n 2 deepspeed.py x", "-n 2", "deepspeed.py x", id="a script named as a launcher"),
        pytest.param("-n 2 -- -odd.py -d", "-n 2", "-odd.py -d", id="behind two dashes"),
        pytest.param("train.py -- -d -- x", "", "train.py -d -- x", id="two dashes of the script"),
        pytest.param("--ranks 2 x", "--ranks", "2 x", id="an option that is none"),
        pytest.param("-d -n", "-d -n", "", id="no program"),
    ],
)
def test_a_program_and_what_follows_it_is_parted_from_the_options(
    line: str, options: str, program: str
) -> None:
    assert split_program(line.split()) == (options.split(), program.split())


def test_what_most_cells_need_is_offered_first() -> None:
    offered = [option.flags[0] for option in OPTIONS]

    assert offered[:4] == ["-n", "--gpus", "--push", "--pull"]
