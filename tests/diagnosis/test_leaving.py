"""Ranks that ended while another still waits for them in a collective."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.leaving import why_left
from nbdist.diagnosis.positions import Side
from nbdist.programs.sources import Sources, place_of
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import a_program, at
from tests.fakes.runs import a_spec

AUTOGRAD = "/v/site-packages/torch/autograd/graph.py"
TORCH = "/v/site-packages/torch/distributed/distributed_c10d.py"


def side_at(line: int, sources: Sources, *, on_device: bool = False) -> Side:
    """Return rank 0 in the collective of a line."""
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
    ("program", "line", "signature", "text"),
    [
        pytest.param(
            "for k, v in losses.items():\n    all_reduce(v)\n",
            2,
            "uneven-steps",
            "(see line 1  for k, v in losses.items():)",
            id="a loop",
        ),
        pytest.param("if rank == 0:\n    all_reduce(x)\n", 2, "left-alone", "if rank == 0:", id="alone"),
        pytest.param("all_reduce(x)\n", 1, "left-before-call", "called it once less", id="no loop"),
        pytest.param("exit()\nall_reduce(x)\n", 2, "left-before-call", "(see line 1)", id="an end"),
        pytest.param(
            "for x in data:\n    if stop(x):\n        break\n    all_reduce(x)\n",
            4,
            "uneven-steps",
            "(see line 2  if stop(x):)",
            id="a break",
        ),
    ],
)
def test_ranks_end_before_the_others_are_done(
    tmp_path: Path, program: str, line: int, signature: str, text: str
) -> None:
    sources = a_program(tmp_path, program)

    hint = why_left(side_at(line, sources), (1,), a_spec().program, sources)

    assert hint.signature == signature
    assert text in hint.cause.en


LOADS = """\
def load(evaluate):
    if rank != 0:
        dist.barrier()
    x = read()
    if rank == 0:
        dist.barrier()
    return x

if rank == 0:
    score(load(True))
"""


def test_the_if_whose_other_half_is_in_the_function_is_not_the_one(tmp_path: Path) -> None:
    sources = a_program(tmp_path, LOADS)
    late = at((0,), "barrier", 10, (6, "load"))

    hint = why_left(late, (1,), a_spec().program, sources)

    assert hint.signature == "left-alone"
    assert "if rank == 0:  (line 9)" in hint.cause.en


def test_an_if_around_a_wait_for_the_device_is_none_around_its_collective(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "all_reduce(x)\nif rank == 0:\n    print(x.item())\n")

    hint = why_left(side_at(3, sources, on_device=True), (1,), a_spec().program, sources)

    assert hint.signature == "uneven-steps"


def test_what_is_meant_for_a_part_of_the_ranks_they_have_not_entered_alone(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "if rank == 0:\n    all_reduce(x, group=tensor_parallel)\n")

    hint = why_left(side_at(2, sources), (1,), a_spec().program, sources, alone=False)

    assert hint.signature == "uneven-steps"


def test_ranks_in_the_loop_of_a_library_may_have_had_fewer_batches(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "trainer.fit(model)\n")
    own = side_at(1, sources)
    fit = Call(file="/v/site-packages/lightning/trainer.py", line=9, function="fit")

    once = why_left(own, (1,), a_spec().program, sources)
    within = why_left(replace(own, calls=(*own.way, fit, own.calls[-1])), (1,), a_spec().program, sources)

    assert (once.signature, within.signature) == ("left-before-call", "uneven-steps")
