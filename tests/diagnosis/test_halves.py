"""A call in two ifs, of which the ranks do not all make theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.sides import Side
from tests.diagnosis.hang_cells import a_program, at, reason

LOADS = """\
if rank == 0 and {0}:
    {3}
    barrier()
prepare()
if rank != 0{1}:
    barrier()
model = {2}
"""


def load(more: str, own: str = "", then: str = "DDP(net)", first: str = "write(cache)") -> str:
    return LOADS.format(more, own, then, first)


WAITING, GONE = at((1,), "barrier", (6, "<module>")), at((0,), "DDP", (7, "<module>"))


@pytest.mark.parametrize(
    ("text", "more"),
    [
        pytest.param(load("not exists(cache)"), "not exists(cache)", id="a test"),
        pytest.param(load("args.save"), "args.save", id="a setting"),
        pytest.param(load("args.save and step > 3"), "args.save and step > 3", id="two tests"),
        pytest.param(load("args.save and late", " and late"), "args.save", id="one that the other has, too"),
    ],
)
def test_what_the_first_half_asks_for_beside_the_rank_is_told(text: str, more: str, tmp_path: Path) -> None:
    hint = reason(a_program(tmp_path, text), WAITING, GONE)

    assert hint.signature == "hang-half-condition"
    assert hint.cause.en == (
        "rank 1 waits in barrier (line 6) for its other half, line 3, and rank 0 left that out:"
        f" it also asks for  {more}"
    )
    assert hint.fix.en.startswith(f"one condition for both halves:  and {more}  in line 5, too")


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        pytest.param(load("args.save", " and args.save"), GONE, id="both ask for it"),
        pytest.param(load("rank < 8"), GONE, id="of the rank alone"),
        pytest.param(load("args.save").replace("rank == 0 and", "rank != 0 and"), GONE, id="the same ranks"),
        pytest.param(
            load("args.save").replace("rank == 0 and", "get_rank() > 0 and"), GONE, id="they, by a call"
        ),
        pytest.param(load("args.save").replace(" and ", " or "), GONE, id="one or the other"),
        pytest.param(load("args.save").replace("rank == 0 and ", ""), GONE, id="not by rank"),
        pytest.param(
            load("args.save").replace("    barrier()\nprep", "    gather()\nprep"), GONE, id="gather"
        ),
        pytest.param(
            load("args.save", first="all_reduce(sizes)"),
            at((0,), "all_reduce", (2, "<module>")),
            id="not there yet",
        ),
        pytest.param(
            "all_reduce(sizes)\n" + load("args.save").replace("DDP(net)", "0"),
            at((0,), "all_reduce", (1, "<module>")),
            id="above",
        ),
    ],
)
def test_the_first_half_was_not_left_out_by_what_both_ask_for(text: str, gone: Side, tmp_path: Path) -> None:
    line = next(at for at, one in enumerate(text.splitlines()) if one.startswith("prepare")) + 3
    waiting = at((1,), "barrier", (line, "<module>"))

    assert reason(a_program(tmp_path, text), waiting, gone).signature != "hang-half-condition"


ROUNDS = """\
for step in range(9):
    all_reduce(loss)
    if rank == 0 and step % 3 == 0:
        barrier()
    if rank != 0:
        barrier()
"""


def test_a_rank_of_the_next_round_has_left_it_out(tmp_path: Path) -> None:
    waiting, gone = at((1,), "barrier", (6, "<module>")), at((0,), "all_reduce", (2, "<module>"))

    hint = reason(a_program(tmp_path, ROUNDS), waiting, gone)

    assert hint.signature == "hang-half-condition"
    assert hint.cause.en.endswith("it also asks for  step % 3 == 0")
