"""Why messages from one rank to another, and tasks of pools and queues, do not come."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.positions import Side
from nbdist.programs.sources import CodeLocation, Sources
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import a_program, a_side, at, more, reason, sources
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

__all__ = ["more", "sources"]


def test_a_return_before_a_collective_may_have_left_it_out_of_one_that_receives(tmp_path: Path) -> None:
    cell = "def collect(values):\n    if not values:\n        return\n    all_gather(values)\nrecv(x)\n"
    cell += "collect(values)\n"
    written = WrittenRun(tmp_path / "home", cell=cell)
    text, program = Sources.of(written.run, written.directory), a_spec().program
    way = (Call(file=program, line=6, function="<module>"), Call(file=program, line=4, function="collect"))
    collects = Side(ranks=(0,), way=way, place=CodeLocation(line=4, what="all_gather", waits=True))
    receives = Side(
        ranks=(1,),
        way=(Call(file=program, line=5, function="<module>"),),
        place=CodeLocation(line=5, what="recv", waits=True),
    )

    found = why([collects, receives], text, {})

    assert found is not None
    assert found.signature == "hang-return"
    assert "it may have returned at  if not values:  (line 2)" in found.cause.en


@pytest.mark.parametrize(
    ("calls", "name"),
    [
        pytest.param(("recv", "recv"), "hang-receive", id="both receive"),
        pytest.param(("send", "send"), "hang-send", id="both send"),
        pytest.param(("recv", "barrier"), "hang-half", id="a message that is not sent"),
        pytest.param(("send", "recv"), "hang-unmet", id="halves that do not fit"),
    ],
)
def test_messages_without_their_other_half_are_told(
    sources: Sources, calls: tuple[str, str], name: str
) -> None:
    sides = [a_side((rank,), call, 14) for rank, call in enumerate(calls)]

    assert reason(sources, *sides).signature == name


def test_where_a_rank_waits_for_something_else_a_message_may_still_come(sources: Sources) -> None:
    sides = [a_side((0,), "send", 14), a_side((1,), "recv", 14), a_side((2,), "barrier", 20)]

    assert why(sides, sources, {}) is None


HALVES = """\
if rank == 0:
    {0}(data, 1)
item = source.get()
if rank == 1:
    {1}(item, 0)
barrier()
"""


@pytest.mark.parametrize(
    "halves",
    [pytest.param(("recv", "send"), id="a message"), pytest.param(("broadcast",) * 2, id="one call")],
)
def test_a_rank_that_is_on_its_way_to_the_other_half_is_told_by_what_holds_it(
    halves: tuple[str, str], tmp_path: Path
) -> None:
    held = a_side((1,), "source.get", 3, waits=False)

    found = reason(a_program(tmp_path, HALVES.format(*halves)), a_side((0,), halves[0], 2), held)

    assert found.signature == "hang-inside"


FIRST = """\
def main_first():
    if get_rank() != 0:
        barrier()
    yield
    if {test}:
        barrier()
def load():
    with main_first():
        write(cache)
try:
    load()
except OSError:
    print("no cache")
model = DDP(net)
"""


def test_ranks_that_an_error_took_past_the_other_half_of_a_call_are_told_so(tmp_path: Path) -> None:
    waiting = at((1,), "barrier", (11, "<module>"), (8, "load"), (3, "main_first"))
    gone = at((0,), "DDP", (14, "<module>"))
    sources = a_program(tmp_path / "halves", FIRST.format(test="get_rank() == 0"))

    hint = reason(sources, waiting, gone)

    assert hint.signature == "hang-caught"
    assert "line 12  except OSError:" in hint.cause.en
    # the same condition once more is no other half
    again = a_program(tmp_path / "again", FIRST.format(test="get_rank() != 0"))
    assert reason(again, waiting, gone).signature == "hang-rank-branch"


def test_a_call_of_which_the_others_make_the_other_half_is_not_made_alone(tmp_path: Path) -> None:
    text = """\
def load(rank):
    if rank > 0:
        barrier()
    if cached(data):
        return data
    if rank > 0:
        return read(data)
    if rank == 0:
        barrier()
load(rank)
all_gather(data)
"""
    waiting = at((1,), "barrier", (10, "<module>"), (3, "load"))

    hint = reason(a_program(tmp_path, text), waiting, at((0,), "all_gather", (11, "<module>")))

    assert hint.signature == "hang-apart"
