"""Ranks that part inside a library, which calls the program back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.branches_taken import of_library, of_parting
from nbdist.diagnosis.hangs.leaving import is_in_loop_of_library
from nbdist.diagnosis.positions import Side
from nbdist.programs.sources import CodeLocation
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import a_program
from tests.fakes.runs import a_spec

EVALUATES = """\
class Shown(Callback):
    def on_epoch_end(self, epoch):
        if dist.get_rank() != 0:
            return
        self.model.evaluate(self.data)

model.fit(data)
model.evaluate(data)
"""
LIBRARY = "/usr/lib/python3/dist-packages/trainer/loops.py"


def inside(rank: int, line: int, *calls: tuple[str, int]) -> Side:
    """Return a rank that came from a line of the program into these functions of a library."""
    own = Call(file=a_spec().program, line=line, function="<module>")
    rest = (Call(file=LIBRARY, line=at, function=function) for function, at in calls)
    place = CodeLocation(line=line, what="barrier", waits=True)
    return Side(ranks=(rank,), way=(own,), calls=(own, *rest), place=place)


def test_where_a_library_parts_them_is_told_with_what_each_is_in(tmp_path: Path) -> None:
    sides = [
        inside(0, 1, ("train", 10), ("loop", 40), ("training_step", 71)),
        inside(1, 1, ("train", 10), ("loop", 55), ("finalize", 90)),
    ]

    hint = of_library(sides, a_program(tmp_path, "trainer.train()"))

    assert hint.cause.en.endswith("in trainer.train (line 1): rank 0: training_step, rank 1: finalize")


def test_ranks_that_part_in_the_program_are_no_matter_of_a_library(tmp_path: Path) -> None:
    sides = [inside(0, 1, ("barrier", 10)), inside(1, 2, ("all_reduce", 20))]

    assert of_library(sides, a_program(tmp_path, "barrier()\nall_reduce()\n")) is None


def test_ranks_that_are_in_one_function_have_gone_one_way(tmp_path: Path) -> None:
    sides = [inside(0, 1, ("train", 10), ("wait", 5)), inside(1, 1, ("train", 12), ("wait", 5))]

    assert of_library(sides, a_program(tmp_path, "train()\n")) is None


DECORATED = """\
class Histogram(Callback):
    @rank_zero_only
    def on_batch_end(self, trainer):
        torch.save(counts, trainer.log_dir)

trainer.fit(model)
"""


def test_what_a_library_calls_back_on_one_rank_alone_is_named_by_its_decorator(tmp_path: Path) -> None:
    sources, program = a_program(tmp_path, DECORATED), a_spec().program
    back = Call(file=program, line=4, function="on_batch_end")
    hook = inside(0, 6, ("fit", 10), ("call_hook", 40))
    alone = replace(hook, way=(*hook.way, back), calls=(*hook.calls, back))

    hint = of_parting([alone, inside(1, 6, ("fit", 10), ("run_batch", 55))], sources)

    assert hint.cause.en.startswith("rank 0 alone was in a function under  @rank_zero_only  (line 2)")
    assert "outside of that function" in hint.fix.en


def test_of_ranks_that_cannot_be_asked_nothing_is_said(tmp_path: Path) -> None:
    assert of_parting([], a_program(tmp_path, "trainer.fit()\n")) is None


ENGINE = """\
def step(engine, batch):
    loss.backward()

def validate(engine):
    if idist.get_rank() == 0:
        evaluator.run(loader)

trainer.run(loader)
"""


def test_what_one_rank_alone_does_is_named_where_others_are_called_back_too(tmp_path: Path) -> None:
    sources, program = a_program(tmp_path, ENGINE), a_spec().program
    sides = []
    for rank, line, function in ((0, 6, "validate"), (1, 2, "step")):
        back = Call(file=program, line=line, function=function)
        hook = inside(rank, 8, ("run", 10), ("fire", 40 + rank))
        sides.append(replace(hook, way=(*hook.way, back), calls=(*hook.calls, back)))

    hint = of_parting(sides, sources)

    assert hint.cause.en.startswith("rank 0 alone went into  if idist.get_rank() == 0:  (line 5)")


@pytest.mark.parametrize(
    ("function", "loops"), [("fit", True), ("train", True), ("backward", False), ("barrier", False)]
)
def test_ranks_that_a_library_trains_are_in_its_loop(tmp_path: Path, function: str, loops: bool) -> None:
    side = inside(0, 1, (function, 10), ("all_reduce", 40))

    assert is_in_loop_of_library(side, a_program(tmp_path, "trainer.fit()\n")) is loops


def test_the_loop_of_a_library_that_one_rank_has_come_past_is_named(tmp_path: Path) -> None:
    left, still = inside(0, 8, ("evaluate", 10)), inside(1, 7, ("fit", 10), ("run_epoch", 90))

    hint = of_parting([left, still], a_program(tmp_path, EVALUATES))

    assert hint.signature == "hang-in-library"
    assert hint.cause.en == "the ranks parted in model.fit (line 7): rank 1: fit, rank 0: barrier"
