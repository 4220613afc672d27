"""Why ranks have ended while another still waits for them in a collective."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.leaving import why_left
from nbdist.diagnosis.places import Sources, place_of
from nbdist.diagnosis.sides import Side
from nbdist.store.reports import Call
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

AUTOGRAD = "/v/site-packages/torch/autograd/graph.py"
TORCH = "/v/site-packages/torch/distributed/distributed_c10d.py"


def side_at(line: int, sources: Sources, *, on_device: bool = False) -> Side:
    """Rank 0 in the collective of a line."""
    backward = "backward()" in sources.line(a_spec().program, line)
    calls = (
        Call(file=AUTOGRAD, line=1, function="_engine_run_backward")
        if backward
        else Call(file=TORCH, line=1, function="all_reduce"),
        Call(file=a_spec().program, line=line, function="<module>"),
    )
    place = replace(place_of(calls, sources), on_device=on_device)
    return Side(ranks=(0,), way=calls[1:], calls=calls[::-1], place=place, name="all_reduce")


@pytest.mark.parametrize(
    ("program", "line", "signature"),
    [
        pytest.param("for k, v in losses.items():\n    all_reduce(v)\n", 2, "uneven-keys", id="a dict"),
        pytest.param("for k in sorted(losses):\n    all_reduce(losses[k])\n", 2, "uneven-keys", id="sorted"),
        pytest.param("for k in sorted(losses):\n    all_reduce(k)\n", 2, "uneven-steps", id="a list"),
        pytest.param(
            "for k, v in model.state_dict().items():\n    all_reduce(v)\n", 2, "uneven-steps", id="a model"
        ),
        pytest.param("if rank == 0:\n    all_reduce(x)\n", 2, "left-alone", id="alone"),
        pytest.param(
            "for x in data:\n    if not len(x):\n        loss = torch.tensor(0.0, requires_grad=True)\n"
            "    loss.backward()\n",
            4,
            "hang-constant-loss",
            id="a loss that is made up",
        ),
        pytest.param(
            "w = torch.tensor(0.0, requires_grad=True)\nfor x in data:\n    loss.backward()\n",
            3,
            "uneven-steps",
            id="a weight",
        ),
        pytest.param("all_reduce(x)\n", 1, "left-before-call", id="no loop"),
        pytest.param(
            "for x in data:\n    if stop(x):\n        break\n    all_reduce(x)\n",
            4,
            "uneven-steps-left",
            id="a break",
        ),
    ],
)
def test_ranks_end_before_the_others_are_done(
    tmp_path: Path, program: str, line: int, signature: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=program)
    sources = Sources.of(written.run, written.directory)

    found = why_left(side_at(line, sources), (1,), a_spec().program, sources)

    assert found.signature == signature


def test_an_if_around_a_wait_for_the_device_is_none_around_its_collective(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell="all_reduce(x)\nif rank == 0:\n    print(x.item())\n")
    sources = Sources.of(written.run, written.directory)

    found = why_left(side_at(3, sources, on_device=True), (1,), a_spec().program, sources)

    assert found.signature == "uneven-steps"


@pytest.mark.parametrize(
    ("head", "line", "told"),
    [
        pytest.param("", 2, False, id="once"),
        pytest.param("for batch in data:\n", 3, True, id="in each step"),
    ],
)
def test_other_keys_are_not_certain_where_a_rank_may_have_had_fewer_rounds(
    tmp_path: Path, head: str, line: int, *, told: bool
) -> None:
    indent = "    " if head else ""
    loop = f"{head}{indent}for k, v in losses.items():\n{indent}    all_reduce(v)\n"
    written = WrittenRun(tmp_path / "home", cell=loop)
    sources = Sources.of(written.run, written.directory)

    found = why_left(side_at(line, sources), (1,), a_spec().program, sources)

    assert found.signature == "uneven-keys"
    assert found.cause.en.endswith(", or it had fewer rounds of the loop of line 1") is told


def test_what_is_meant_for_a_part_of_the_ranks_they_have_not_entered_alone(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell="if rank == 0:\n    all_reduce(x, group=tensor_parallel)\n")
    sources = Sources.of(written.run, written.directory)

    found = why_left(side_at(2, sources), (1,), a_spec().program, sources, alone=False)

    assert found.signature == "uneven-steps"
