"""What is told of a DataLoader worker that goes round a loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.held import loop_of_reader
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import a_program, a_side, reason
from tests.fakes.runs import a_spec

ROUND = "a DataLoader worker of rank 0 goes round the loop of line 3 and does not leave it (now at line 4)"
HELD = "held by"
DATA = """\
class Rows(Dataset):
    def __getitem__(self, at):
        {0}
            row = {1}
        return row
    def __iter__(self):
        while True:
            yield decode(next(self.rows))
    def take(self, at):
        return resize(decode(at))
for batch in DataLoader(Rows(), num_workers=2):
    backward(batch)
barrier()
"""


@pytest.mark.parametrize(
    ("head", "call", "way", "said"),
    [
        pytest.param("while not fits(row):", "draw()", ((4, "__getitem__"),), ROUND, id="it computes"),
        pytest.param(
            "while True:",
            "self.take(at)",
            ((10, "take"), (4, "__getitem__")),
            ROUND.replace("line 4", "line 10"),
            id="in a function that it calls",
        ),
        pytest.param("while len(row) < most:", "source.get()", ((4, "__getitem__"),), HELD, id="it waits"),
        pytest.param("for part in parts:", "draw()", ((4, "__getitem__"),), HELD, id="a number of rounds"),
        pytest.param(
            "while at < most:", "draw(); at += 1", ((4, "__getitem__"),), HELD, id="it counts its rounds"
        ),
        pytest.param("if at:", "draw()", ((8, "__iter__"),), HELD, id="a stream that goes on"),
        pytest.param("while True:", "draw()", ((5, "__getitem__"),), HELD, id="behind the loop"),
    ],
)
def test_a_worker_that_goes_round_a_loop_is_told_with_it(
    head: str, call: str, way: tuple[tuple[int, str], ...], said: str, tmp_path: Path
) -> None:
    worker = tuple(Call(file=a_spec().program, line=line, function=name) for line, name in way)
    side = a_side((0,), "next", 11, waits=False)
    side = replace(side, place=replace(side.place, loads=True), workers=(worker,))

    cause = reason(a_program(tmp_path, DATA.format(head, call)), side, a_side((1,), "barrier", 13)).cause.en

    assert said in cause
    assert said == HELD or cause.endswith(head.removesuffix(":") + ":")


@pytest.mark.parametrize(
    ("head", "loads", "told"),
    [
        ("while not fits(row):", True, True),
        ("for part in parts:", True, False),
        ("while not fits(row):", False, False),
    ],
)
def test_the_loop_of_a_thread_that_reads_is_told_at_the_time_limit(
    head: str, loads: bool, told: bool, tmp_path: Path
) -> None:
    way = (Call(file=a_spec().program, line=4, function="__getitem__"),)
    side = a_side((0,), "next", 11, waits=False)
    side = replace(side, place=replace(side.place, loads=loads), beside=(way,))

    found = loop_of_reader(side, a_program(tmp_path, DATA.format(head, "draw()")))

    assert (found is not None) is told
    if found is not None:
        assert found.cause.en.startswith(
            "the dataset of rank 0 was in the loop of line 3 when the time was over"
        )
        assert found.cause.en.endswith(f"(then at line 4):  {head}")
