"""The collective at which ranks parted, from their calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.divergence import (
    History,
    begun_at,
    last_calls,
    of_histories,
    of_sizes_at,
    parting_of,
)
from nbdist.diagnosis.positions import Side
from nbdist.programs.sources import CodeLocation, Sources
from nbdist.store.reports import Call, Collective, Issued, RankAnswer
from tests.diagnosis.hang_cells import a_program
from tests.fakes.runs import a_spec

CELL = """\
def average(meter):
    all_reduce(meter)

for step in range(9):
    if main and step == 1:
        print(average(meter))
    average(meter)
barrier()
if rank == 0:
    broadcast(model)
else:
    broadcast(model)
gather(scores)
"""
INSIDE_IF, IN_STEP, BARRIER = (6, 2), (7, 2), (8,)
SENDS, RECEIVES, GATHERS = (10,), (12,), (13,)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return a_program(tmp_path, CELL)


def history(*ways: tuple[int, ...], begin: int = 1, **given: str) -> History:
    """Return a rank's calls in one group by lines, outermost first; ``given`` is by collective."""
    names = {2: "all_reduce", 3: "all_reduce", 8: "barrier", 10: "broadcast", 12: "broadcast", 13: "gather"}
    functions = ("<module>", "average")
    return {
        "0": [
            Issued(
                number=number,
                name=f"gloo:{names[lines[-1]]}",
                given=given.get(names[lines[-1]], "float32 (4,)"),
                way=tuple(
                    Call(file=a_spec().program, line=line, function=functions[at])
                    for at, line in enumerate(lines)
                ),
            )
            for number, lines in enumerate(ways, start=begin)
        ]
    }


def signature_of(sources: Sources, *histories: History) -> str:
    hint = of_histories(dict(enumerate(histories)), sources)
    return hint.cause.en if hint is not None else ""


def test_a_call_that_one_rank_has_made_more_is_found_long_after(sources: Sources) -> None:
    more = history(IN_STEP, INSIDE_IF, *[IN_STEP] * 8)
    less = history(*[IN_STEP] * 9, BARRIER)

    assert "rank 0 went into  if main and step == 1:  (line 5)" in signature_of(sources, more, less)
    assert "rank 1 went into  if main and step == 1:  (line 5)" in signature_of(sources, less, more)


def test_what_happened_before_a_rank_remembers_is_not_compared(sources: Sources) -> None:
    more = history(*[IN_STEP] * 8, begin=3)
    less = history(*[IN_STEP] * 7, BARRIER, begin=3)

    parting = parting_of({0: more, 1: less}, sources)

    assert (parting.number, parting.latest) == (10, True)


def test_ranks_that_come_to_one_collective_by_two_ways_have_not_parted_there(sources: Sources) -> None:
    mine = history(SENDS, IN_STEP, SENDS, IN_STEP, IN_STEP, IN_STEP)
    theirs = history(RECEIVES, IN_STEP, RECEIVES, IN_STEP, IN_STEP, BARRIER)

    parting = parting_of({0: mine, 1: theirs}, sources)

    assert parting.number == 6


def test_ranks_that_have_called_the_same_have_not_parted(sources: Sources) -> None:
    alike = history(IN_STEP, BARRIER), history(IN_STEP, BARRIER, IN_STEP)

    assert signature_of(sources, *alike) == ""
    assert signature_of(sources, history(IN_STEP), {}) == ""


@pytest.mark.parametrize(
    ("mine", "theirs", "cause"),
    [
        pytest.param(
            "float32 (4,)",
            "float32 (9,)",
            "different sizes to collective number 2, all_reduce at line 2: "
            "rank 0: float32 (4,), rank 1: float32 (9,)",
            id="sizes",
        ),
        pytest.param(
            "float32 (4,)",
            "int64 (4,)",
            "different dtypes to collective number 2, all_reduce at line 2: "
            "rank 0: float32 (4,), rank 1: int64 (4,)",
            id="dtypes",
        ),
    ],
)
def test_what_the_ranks_gave_to_one_call_is_told(
    sources: Sources, mine: str, theirs: str, cause: str
) -> None:
    calls = history(BARRIER, IN_STEP, all_reduce=mine)
    other = history(BARRIER, IN_STEP, all_reduce=theirs)

    assert cause in signature_of(sources, calls, other)


def under_way(name: str, number: int) -> Collective:
    return Collective(name=name, number=number, over=False, begun=1.0, on_device=True)


def answer_of(collective: Collective, group: str = "0") -> RankAnswer:
    return RankAnswer(rank=0, collectives={group: collective})


def on_nccl(history: History) -> History:
    return {
        group: [replace(call, name=call.name.replace("gloo:", "nccl:")) for call in calls]
        for group, calls in history.items()
    }


@pytest.mark.parametrize(
    ("theirs", "line", "differs"),
    [
        pytest.param(BARRIER, None, False, id="the same sizes"),
        pytest.param(IN_STEP, "float32 (9,)", True, id="other sizes"),
        pytest.param(IN_STEP, "float32 (2, 2)", False, id="as many numbers in another shape"),
        pytest.param(GATHERS, "float32 (9,)", False, id="another collective"),
    ],
)
def test_a_rank_that_waits_in_nccl_may_have_given_another_size(
    sources: Sources, theirs: tuple[int, ...], line: str | None, *, differs: bool
) -> None:
    mine = on_nccl(history(BARRIER, IN_STEP))
    # the other one has gone on from there
    other = on_nccl(history(BARRIER, theirs, IN_STEP, begin=1, **({"all_reduce": line} if line else {})))

    collective = under_way("all_reduce", 2)
    hint = of_sizes_at(0, "0", collective, {0: mine, 1: other}, sources)

    assert (hint is not None and "rank 0: float32 (4,), rank 1: float32 (9,)" in hint.cause.en) == differs
    assert of_sizes_at(0, "0", collective, {0: history(BARRIER, IN_STEP), 1: other}, sources) is None
    # a message with its number, and a collective of another group
    message = under_way("recv 0<-1", 2)
    assert of_sizes_at(0, "0", message, {0: mine, 1: other}, sources) is None
    assert of_sizes_at(0, "1", collective, {0: mine, 1: other}, sources) is None


def waits_for_its_device(line: int, name: str, sources: Sources) -> Side:
    place = CodeLocation(line=line, what="loss.item", waits=True, on_device=True)
    way = (Call(file=a_spec().program, line=line, function="<module>"),)
    return Side(ranks=(0,), way=way, place=place, name=name)


def test_a_rank_that_waits_for_its_device_is_at_the_call_that_this_waits_in(sources: Sources) -> None:
    side = waits_for_its_device(9, "all_reduce", sources)

    collective, called = under_way("all_reduce", 2), history(BARRIER, IN_STEP)
    moved = begun_at(side, collective, answer_of(collective), called, sources)

    assert [call.line for call in moved.way] == [7, 2]
    assert (moved.place.line, moved.place.what, moved.place.on_device) == (2, "all_reduce", False)
    # of another group, or a message with its number: where that was called is not known
    assert begun_at(side, collective, answer_of(collective, "1"), called, sources) is side
    message = under_way("recv 0<-1", 2)
    assert begun_at(side, message, answer_of(message), called, sources) is side
    assert begun_at(side, collective, answer_of(collective), {}, sources) is side


@pytest.mark.parametrize(
    ("program", "name", "line"),
    [
        pytest.param("loss.backward()\nprint(loss)\n", "all_reduce", 1, id="backward"),
        pytest.param("a.backward()\nb.backward()\nprint(loss)\n", "all_reduce", 3, id="one of two"),
        pytest.param("loss.backward()\nprint(loss)\n", "broadcast", 2, id="another collective"),
        pytest.param(
            "def train():\n    loss.backward()\na.backward()\ntrain()\nprint(loss)\n",
            "all_reduce",
            5,
            id="elsewhere",
        ),
    ],
)
def test_what_a_model_has_called_without_a_line_is_in_the_only_backward(
    tmp_path: Path, program: str, name: str, line: int
) -> None:
    text = a_program(tmp_path, program)
    side = waits_for_its_device(len(program.splitlines()), name, text)

    collective = under_way(name, 2)
    called = {"0": [Issued(number=2, name=f"nccl:{name}", given="", way=())]}
    moved = begun_at(side, collective, answer_of(collective), called, text)
    of_none = begun_at(side, collective, answer_of(collective), {}, text)

    assert moved.way[-1].line == of_none.way[-1].line == line


def test_what_two_calls_of_a_library_were_given_says_nothing(sources: Sources) -> None:
    trainer = "/usr/lib/python3/site-packages/trainer.py"
    gathers, other = (
        [replace(call, way=(*call.way, Call(file=trainer, line=line, function="step")), given=given)]
        for line, given in ((3, "float32 (1,)"), (9, "float32 (610,)"))
        for call in history(IN_STEP)["0"]
    )

    assert signature_of(sources, {"0": gathers}, {"0": other}) == ""


def test_a_collective_to_which_each_gives_what_it_likes_parts_none(sources: Sources) -> None:
    mine, theirs = history(GATHERS, gather="float32 (4,)"), history(GATHERS, gather="")

    assert signature_of(sources, mine, theirs) == ""


def test_calls_without_an_if_or_a_loop_between_them_are_named(sources: Sources) -> None:
    mine = history(BARRIER, GATHERS, BARRIER)
    theirs = history(BARRIER, BARRIER, BARRIER)

    assert "collective number 2 was not the same call on all ranks" in signature_of(sources, mine, theirs)
    assert "rank 0: gather (line 13), rank 1: barrier (line 8)" in signature_of(sources, mine, theirs)


def test_the_last_calls_of_a_rank_come_latest_first(sources: Sources) -> None:
    sides = list(last_calls({1: history(*[IN_STEP] * 20, BARRIER)}, sources))

    assert [side.ranks for side in sides] == [(1,)] * 12
    assert [side.way[-1].line for side in sides[:2]] == [8, 2]
